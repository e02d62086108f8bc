"""The server assigns θ to each worker, keeps to it, and holds claims against it."""

from pathlib import Path
from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.protocol.messages import Asleep, Assignment, Message
from dealfl.server import Ledger, Rules, Server, WorkerRow, assign_fraction
from dealfl.simulate import RunState, finish, read_fleet, run_fleet, start_run
from tests.federation.parts import announce, bayes, update
from tests.simulate.fleets import document
from tests.simulate.test_resumed_runs import stopped_after

LIMITS: dict[str, Any] = {"min_forget_fraction": "0.02", "max_forget_fraction": "0.5"}
BY_BATTERY = {f"job.{key}": value for key, value in LIMITS.items()} | {"job.forget_by": "battery"}


@pytest.mark.parametrize(
    ("by", "state", "fraction"),
    [
        ("battery", {"battery": 0.25}, "0.140000"),
        ("battery", {"battery": 0.25, "charging": True}, "0.500000"),
        ("memory", {"held": 0}, "0.020000"),
        ("memory", {"held": 500_000}, "0.260000"),
        ("memory", {"held": 10**9}, "0.500000"),
        ("forgetness", {}, "0.500000"),
        ("forgetness", {"learned": 100, "evicted": 50}, "0.260000"),
        ("forgetness", {"learned": 1, "evicted": 10**9}, "0.020000"),
    ],
)
def test_theta_follows_the_state_of_a_worker_within_its_limits(
    by: str, state: dict[str, Any], fraction: str
) -> None:
    assert assign_fraction(Rules(forget_by=by, **LIMITS), WorkerRow("w", **state)) == fraction
    assert assign_fraction(Rules(**LIMITS), WorkerRow("w", **state)) is None


def test_limits_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^min_forget_fraction is 0\.3; it must be ≤ max_forget"):
        Rules(min_forget_fraction="0.3")


def serve(ledger: Ledger) -> Server:
    return Server("job", bayes, ledger, Rules(rounds=9, forget_by="battery", **LIMITS))


def assigned(server: Server, *messages: Message, now_s: float) -> dict[str, str | None]:
    replies = server.handle(messages, now_s).messages
    return {one.worker: one.forget_fraction for one in replies if isinstance(one, Assignment)}


def test_a_repeated_assignment_has_the_first_theta_also_after_a_restart(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    both = announce("a", 0, battery=1.0), announce("b", 0, battery=0.0)
    assert assigned(serve(ledger), *both, now_s=0) == {"a": "0.500000", "b": "0.020000"}
    ledger.close()
    again = serve(Ledger(tmp_path / "ledger.db"))
    again.handle([Asleep(job="job", worker="a")], 1.0)
    late = announce("a", epoch=again.epoch, battery=0.5)
    assert assigned(again, late, now_s=2) == {"a": "0.500000"}


@pytest.mark.parametrize(("battery", "fits"), [(1.0, True), (0.0, False)])
def test_evictions_are_held_against_the_assigned_theta(battery: float, fits: bool) -> None:
    server = serve(Ledger())
    server.handle([announce("w", 0, battery=battery)], 0.0)
    server.handle([update(1, 40, name="w", round=1, learned=40)], 1.0)
    server.handle([announce("w", battery=battery)], 2.0)
    figures = {"learned": 25, "evicted": 20}
    server.handle([update(2, 5, name="w", round=2, **figures)], 3.0)
    flag = "" if fits else "update claims 20 evicted examples; at most 2 can be"
    assert server.workers["w"].flag == flag


def test_a_fleet_forgets_by_its_batteries_and_resumes_after_a_stop(tmp_path: Path) -> None:
    made = read_fleet(document(BY_BATTERY | {"devices.2.battery": 0.3, "job.rounds": 24}))
    whole = run_fleet(made)
    fractions = {one.device: one.forget_fraction for one in whole.participants if one.replied}
    assert whole.exact
    assert fractions["phone"] > 0.49
    assert 0.12 < fractions["slow phone"] < 0.17
    kept = {
        kind: sum(one.held for one in whole.participants if one.device == kind)
        / sum(one.learned for one in whole.participants if one.device == kind)
        for kind in fractions
    }
    assert kept["phone"] < 0.8 * kept["slow phone"]
    run = start_run(made)
    for stop in (30, 60):
        stopped_after(run, stop).state().write(tmp_path / "state")
        run = start_run(made, RunState.read(tmp_path / "state"))
    run.pump()
    assert finish(run).participants == whole.participants


@pytest.mark.parametrize("scheme", ["original", "newfl", "incremental"])
def test_a_scheme_without_theta_is_assigned_none(scheme: str) -> None:
    job = read_fleet(document(BY_BATTERY | {"job.scheme": scheme})).job
    assert job.server_rules.forget_by == "job"
