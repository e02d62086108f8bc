"""What the tests of paged arrays share."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.exact.paging import PAGE_BYTES, PAYLOAD_BYTES, PagedArray
from dealfl.storage import Arc, BudgetedThetaLru, Frames, Lru, Policy, ThetaLru

POLICIES: dict[str, Callable[[int], Policy]] = {
    "LRU": Lru,
    "θ-LRU": partial(ThetaLru, theta=0.5),
    "budgeted": partial(BudgetedThetaLru, theta=0.5),
    "ARC": Arc,
}
WIDE_PAGE = PAYLOAD_BYTES // 8  # cells of 64 bits in a page


def no_sync(file: int) -> None:
    """What is only killed loses nothing that the kernel has: waiting for the disk is left out."""


def opened(
    path: Path, pages: int = 6, frames: int = 2, kind: str = "<i8", **other: Any
) -> PagedArray:
    """Return a small array of whole pages."""
    policy = other.pop("policy", Lru)(frames)
    size = pages * (PAYLOAD_BYTES // np.dtype(kind).itemsize)
    shared = other.pop("shared", None) or Frames(policy)
    return PagedArray(path, size, kind, shared, sync=other.pop("sync", no_sync))


def cells(*places: int) -> Any:
    return np.array(places, dtype=np.int64)


def on_a_disk(path: Path) -> bool:
    """Whether pages of files here can leave memory at all."""
    kinds = dict[str, str]()
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        kinds[place] = kind
    folders = [str(folder) for folder in (path, *path.parents)]
    kind = next(kinds[folder] for folder in folders if folder in kinds)
    return kind not in ("tmpfs", "ramfs", "overlay") and os.name == "posix"


__all__ = [
    "PAGE_BYTES", "POLICIES", "WIDE_PAGE", "cells", "no_sync", "on_a_disk",
    "opened",
]  # fmt: skip
