"""Kill −9 of broker, server and workers at random: nothing is lost, nothing counts twice.

Run as a program, it is a part of `make soak`: 200 storms. It continues where it was stopped.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.network.brokers import require_mosquitto
from tests.network.forks import ROOT, Forks
from tests.network.storms import Storm

SEED = int(os.environ.get("SOAK_SEED", "0"))
DONE = ROOT / ".soak" / f"storms-{SEED}.txt"
NAIVE = ("receipts before commit", "positions after rows")
SEEDS = {"hurry": range(5), NAIVE[0]: (1,), NAIVE[1]: (2,)}
FOUND_OUT = "receipt that was not true|differs from the rows"


def blow(forks: Forks, folder: Path, seed: int, program: str, kills: int) -> Storm:
    storm = Storm(seed, folder, forks, program)
    storm.run(kills)
    return storm


def test_storms_end_exact_and_find_out_a_careless_program(tmp_path: Path) -> None:
    """One test, because the storms blow at the same time."""
    require_mosquitto()
    forks = Forks()
    chosen = [(program, seed) for program in ("hurry", *NAIVE) for seed in SEEDS[program]]
    try:
        with ThreadPoolExecutor(7) as many:
            storms = {
                key: many.submit(blow, forks, tmp_path / f"{place}", key[1], key[0], 6)
                for place, key in enumerate(chosen)
            }
    finally:
        forks.close()
    for seed in SEEDS["hurry"]:
        storms["hurry", seed].result()
    for program in NAIVE:
        errors = [str(storms[program, seed].exception()) for seed in SEEDS[program]]
        assert any(re.search(FOUND_OUT, error) for error in errors), (program, errors)


def _soak(count: int = 200) -> int:
    """Print a line for each storm; return the number of those that failed."""
    DONE.parent.mkdir(exist_ok=True)
    done = set(DONE.read_text().split()) if DONE.exists() else set()
    seeds = range(1000 * SEED + 100, 1000 * SEED + 100 + count)
    left = [seed for seed in seeds if str(seed) not in done]
    print(f"{count} storms, seeds {seeds[0]} to {seeds[-1]}; {len(seeds) - len(left)} done before")
    folder, forks = Path(tempfile.mkdtemp(prefix="storms-")), Forks()
    failed = 0

    def one(seed: int) -> str:
        start_s = time.monotonic()
        storm = blow(forks, folder / str(seed), seed, "hurry", 12)
        shutil.rmtree(folder / str(seed))
        return f"{storm}: exact after {time.monotonic() - start_s:.0f} s"

    with ThreadPoolExecutor(4) as many:
        for seed, storm in [(seed, many.submit(one, seed)) for seed in left]:
            error = storm.exception()
            print(error if error else storm.result(), flush=True)
            failed += error is not None
            if error is None:
                with DONE.open("a") as file:
                    file.write(f"{seed}\n")
    forks.close()
    if not failed:
        DONE.unlink()
        folder.rmdir()
    print(f"{count - failed} storms exact, {failed} failed" + f"; see {folder}" * (failed > 0))
    return failed


if __name__ == "__main__":
    sys.exit(min(_soak(), 1))
