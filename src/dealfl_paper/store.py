"""Rows on disk: a file of JSON lines for each figure, one line for each setting that is done.

A line is written at once and synchronized. A line that a kill cut short is ignored, so its setting
runs again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dealfl.storage import make_folder
from dealfl_paper.figure import Row, Setting, key_of


class Store:
    """The rows in a folder, by figure and setting."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "rows"
        self._lines: dict[str, dict[str, dict[str, Any]]] = {}

    def rows(self, figure: str, setting: Setting) -> list[Row] | None:
        """Return the rows of a setting, each with the values of the setting; None if not run."""
        line = self._read(figure).get(key_of(setting))
        return None if line is None else [{**setting, **row} for row in line["rows"]]

    def elapsed_s(self, figure: str, setting: Setting) -> float:
        """Return how long a setting took."""
        return float(self._read(figure)[key_of(setting)]["elapsed_s"])

    def add(self, figure: str, setting: Setting, rows: Sequence[Row], elapsed_s: float) -> None:
        """Store the rows of a setting."""
        line = {"setting": setting, "elapsed_s": round(elapsed_s, 3), "rows": _rounded(list(rows))}
        text = json.dumps(line, ensure_ascii=False, allow_nan=False)
        stored = self._read(figure)
        make_folder(self._folder)
        with self._path(figure).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        stored[key_of(setting)] = json.loads(text)

    def discard(self, figure: str) -> None:
        """Delete the rows of a figure."""
        self._path(figure).unlink(missing_ok=True)
        self._lines.pop(figure, None)

    def _path(self, figure: str) -> Path:
        return self._folder / f"{figure}.jsonl"

    def _read(self, figure: str) -> dict[str, dict[str, Any]]:
        if figure not in self._lines:
            path = self._path(figure)
            text = path.read_text("utf-8") if path.exists() else ""
            whole, _, rest = text.rpartition("\n")
            if rest:  # a line that was cut short
                path.write_text(f"{whole}\n" if whole else "", "utf-8")
            lines = [json.loads(line) for line in whole.splitlines()]
            self._lines[figure] = {key_of(line["setting"]): line for line in lines}
        return self._lines[figure]


def _rounded(content: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the content with six digits of every float."""
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_rounded(value) for value in content]
    return float(f"{content:.6g}") if isinstance(content, float) else content
