"""Kill −9 of root, regions, brokers and workers: the root's digest is that of central training.

Run as a program, it is a part of `make soak`: 100 storms. With `--large` it is one storm over three
regions with 50 worker processes each. It continues where it was stopped.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.network.brokers import require_mosquitto
from tests.network.forks import Forks
from tests.network.soaking import soak
from tests.network.tree_storms import TreeStorm

SEED = int(os.environ.get("SOAK_SEED", "0"))
STORMS = 100


def blow(
    forks: Forks, folder: Path, seed: int, strikes: int, *, regions: int = 2, workers: int = 2
) -> TreeStorm:
    storm = TreeStorm(seed, folder, forks, regions=regions, workers=workers)
    storm.run(strikes)
    return storm


def test_storms_over_a_tree_end_exact(tmp_path: Path) -> None:
    require_mosquitto()
    forks = Forks()
    try:
        with ThreadPoolExecutor(5) as many:
            storms = [many.submit(blow, forks, tmp_path / f"{n}", n, 6) for n in range(5)]
    finally:
        forks.close()
    for storm in storms:
        assert storm.result().restored == 1


def _soak() -> int:
    wanted = [word for word in sys.argv[1:] if word != "--large"]
    if "--large" in sys.argv:
        large = partial(blow, seed=SEED, strikes=12, regions=3, workers=50)
        return soak(f"large-tree-storms-{SEED}", {"large": large}, wanted)
    first = 1000 * SEED + 100
    storms = {f"{n}": partial(blow, seed=n, strikes=12) for n in range(first, first + STORMS)}
    return soak(f"tree-storms-{SEED}", storms, wanted)


if __name__ == "__main__":
    sys.exit(min(_soak(), 1))
