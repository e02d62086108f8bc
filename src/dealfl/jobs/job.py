"""The section [job]: what is learned, how, and by when it is enough."""

from __future__ import annotations

from dataclasses import dataclass

from dealfl.datasets import CATALOG
from dealfl.jobs.settings import decimal, number, one_of, setting, share, text, whole
from dealfl.server.selection import SELECTORS
from dealfl.worker import SCHEMES

__all__ = ["Job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is learned, how, and by when it is enough; no `learner` means the dataset's first."""

    dataset: str = setting(one_of(CATALOG), "")
    name: str = setting(text(), "simulated")
    learner: str = setting(text(), "")
    scheme: str = setting(one_of(SCHEMES), "deal")
    forget_fraction: str = setting(decimal(), "0.02")
    rounds: int = setting(whole(1), 20)
    workers_per_round: int = setting(whole(1), 10)
    least_workers: int = setting(whole(1), 1)
    least_waiting: int = setting(whole(1), 1)
    longest_wait_s: float = setting(number(0.0), 86_400.0)
    round_every_s: float = setting(number(0.0), 0.0)
    over_select: float = setting(number(1.0), 1.0)
    ttl_s: float = setting(number(0.0, above=True), 60.0)
    selector: str = setting(one_of(SELECTORS), "uniform")
    announce_every_s: float = setting(number(0.0, above=True), 60.0)
    send_again_after_s: float = setting(number(0.0, above=True), 30.0)
    battery_budget: float = setting(share(), 0.02)
    tolerance: float = setting(number(0.0), 0.0)
    patience: int = setting(whole(1), 3)
    evaluate_every: int = setting(whole(1), 1)
    longest_h: float = setting(number(0.0, above=True), 168.0)
    seed: int = setting(whole(0), 0)
