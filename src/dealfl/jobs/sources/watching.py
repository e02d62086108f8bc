"""Whoever waits for a long file is told how far it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dealfl.jobs.sources.tables import Chunk

__all__ = ["LOG", "watched"]

LOG = logging.getLogger("dealfl.jobs")  # without handlers, warnings go to the error output
_TOLD_AFTER_S = 2.0
_TOLD_EVERY_S = 5.0


def watched(
    chunks: Iterator[Chunk], path: Path, clock: Callable[[], float] = time.monotonic
) -> Iterator[Chunk]:
    """Yield the chunks; after two seconds, and then now and again, say how many rows were read."""
    rows, next_s = 0, clock() + _TOLD_AFTER_S
    for chunk in chunks:
        yield chunk
        rows += len(chunk.rows)
        if clock() >= next_s:
            LOG.warning("reading %s: %s rows so far", path.name, f"{rows:,}")
            next_s = clock() + _TOLD_EVERY_S
