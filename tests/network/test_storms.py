"""Kill −9 of broker, server and workers at random: nothing is lost, nothing counts twice.

Run as a program, it is a part of `make soak`: 200 storms on one machine, and 20 between hosts whose
network loses and delays packets and is cut; the same again with workers that sleep. It continues
where it was stopped. Words on the command line select storms by their names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.network.brokers import require_mosquitto
from tests.network.forks import Forks
from tests.network.hosts import Hosts, require_hosts
from tests.network.soaking import soak
from tests.network.storms import Storm

SEED = int(os.environ.get("SOAK_SEED", "0"))
NAIVE = ("receipts before commit", "positions after rows")
SEEDS = {"hurry": range(5), NAIVE[0]: (1,), NAIVE[1]: (2,)}
FOUND_OUT = "receipt that was not true|differs from the rows"


def blow(
    forks: Forks,
    folder: Path,
    seed: int,
    strikes: int,
    program: str = "hurry",
    sleeps: bool = False,
) -> Storm:
    storm = Storm(seed, folder, forks, program, sleeps=sleeps)
    storm.run(strikes)
    return storm


def blow_between_hosts(
    forks: Forks,
    folder: Path,
    seed: int,
    strikes: int,
    cuts_s: Sequence[float],
    sleeps: bool = False,
) -> Storm:
    """Blow where packets are lost and delayed and the network of a host can be cut."""
    hosts = Hosts(str(seed), loss=0.1, cuts_s=cuts_s)
    try:
        storm = Storm(seed, folder, forks, network=hosts, sleeps=sleeps)
        storm.run(strikes)
    finally:
        hosts.close()
    return storm


def test_storms_end_exact_and_find_out_a_careless_program(tmp_path: Path) -> None:
    """One test, because the storms blow at the same time."""
    require_mosquitto()
    forks = Forks()
    chosen = [(program, seed) for program in ("hurry", *NAIVE) for seed in SEEDS[program]]
    try:
        with ThreadPoolExecutor(8) as many:
            storms = {
                key: many.submit(blow, forks, tmp_path / f"{place}", key[1], 6, key[0])
                for place, key in enumerate(chosen)
            }
            asleep = many.submit(blow, forks, tmp_path / "asleep", 0, 6, sleeps=True)
    finally:
        forks.close()
    asleep.result()
    for seed in SEEDS["hurry"]:
        storms["hurry", seed].result()
    for program in NAIVE:
        errors = [str(storms[program, seed].exception()) for seed in SEEDS[program]]
        assert any(re.search(FOUND_OUT, error) for error in errors), (program, errors)


def test_a_storm_between_hosts_with_loss_delay_and_cuts_ends_exact(tmp_path: Path) -> None:
    require_mosquitto()
    require_hosts()
    forks = Forks()
    try:
        storm = blow_between_hosts(forks, tmp_path / "storm", 0, 3, (0.1, 0.8))
    finally:
        forks.close()
    assert storm.kills["network"]


def _soak() -> int:
    first = 1000 * SEED + 100
    cut = partial(blow_between_hosts, cuts_s=(0.1, 1.0, 12.0))
    storms = {
        f"{seed}{kind}{asleep}": partial(call, seed=seed, strikes=12, sleeps=bool(asleep))
        for asleep in ("", "-asleep")
        for kind, call, count in (("", blow, 200), ("-between-hosts", cut, 20))
        for seed in range(first, first + count)
    }
    return soak(f"storms-{SEED}", storms, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(min(_soak(), 1))
