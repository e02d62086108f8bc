"""The picture in the README and what stands below it are of the default run as it is now."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRINTED = (ROOT / "docs/images/report.txt").read_text("utf-8").replace("\u00a0", " ")


def test_the_picture_is_of_the_recorded_default_run() -> None:
    runs = json.loads((ROOT / "tests/before/results/whole_runs.json").read_text("utf-8"))
    deal = runs["digits"]["deal"]
    assert f"{deal['learned']:,} examples learned, {deal['evicted']:,} forgotten" in PRINTED
    assert f"digest {deal['digest'][:16]}…" in PRINTED, "run `make pictures`"


def test_the_readme_shows_what_that_run_printed() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"```text\n(digits: .*?)```", text, re.DOTALL)
    assert block
    lines = [line for line in block[1].splitlines() if line != "…"]
    assert len(lines) > 8
    assert [line for line in lines if line and line not in PRINTED.splitlines()] == []
