"""Workers that close their connection until they have something worth a burst."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from dealfl.protocol.messages import Announce, Assignment, Erased, Message, Sleep
from dealfl.runs import default_job
from dealfl.settings import Document
from dealfl.simulate import FleetRun, finish, read_fleet, run_fleet, start_run
from tests.simulate.fleets import document
from tests.simulate.test_phone_fleets import phones

HOUR_S = 3600.0
COMING: dict[str, Any] = {"pattern": "poisson", "initial_share": 0.05, "examples_per_hour": 20}
MAX_WAIT_S = 2 * HOUR_S


def sleepers(keys: dict[str, Any] | None = None, **sections: Any) -> FleetRun:
    """Return phones that sleep until six examples wait, at the start of their run."""
    job = {
        "job.rounds": 60, "job.round_every_s": 600, "job.min_waiting": 6, "job.sleep": True,
        "job.max_wait_s": MAX_WAIT_S, "job.scheme": "deal", "job.workers_per_round": 15,
    }  # fmt: skip
    calm = {"availability": {"kind": "always"}, "faults": {"max_delay_s": 0.05}}
    made = read_fleet(
        document(job | (keys or {}), phones() | {"arrival": COMING} | calm | sections)
    )
    return start_run(made)


def overhear(run: FleetRun) -> list[tuple[float, str, Message]]:
    """Return a list that fills with what workers send and receive: when, who, what."""
    heard: list[tuple[float, str, Message]] = []
    traffic = run.simulation.traffic
    send, receive = traffic.send, traffic.receive

    def note_sent(name: str, messages: Iterable[Message], now_s: float) -> None:
        heard.extend((now_s, name, message) for message in messages)
        send(name, messages, now_s)

    def note_received(name: str, message: Message, now_s: float) -> None:
        heard.append((now_s, name, message))
        receive(name, message, now_s)

    traffic.send, traffic.receive = note_sent, note_received  # type: ignore[method-assign]
    return heard


def test_a_sleeping_worker_trains_in_the_burst_in_which_it_calls() -> None:
    run = sleepers({"data.rows": 1797})
    run.simulation.run(4 * HOUR_S)
    outcome = finish(run)
    run.close()
    assert outcome.exact
    assert outcome.learned > 300
    assert outcome.energy.own_bursts < 0.5, "15 of them are greetings"
    awake = run_fleet(read_fleet(document({"job.rounds": 30}, phones() | {"arrival": COMING})))
    assert outcome.energy_j / outcome.learned < 0.4 * awake.energy_j / awake.learned


def test_nobody_sleeps_longer_than_agreed() -> None:
    run = sleepers({"job.min_waiting": 1000})
    heard = overhear(run)
    run.simulation.run(10 * HOUR_S)
    run.close()
    for name in run.workers:
        said_s = [at_s for at_s, sender, one in heard if sender == name and type(one) is Announce]
        gaps_s = [after - before for before, after in pairwise(said_s)]
        assert max(gaps_s) <= MAX_WAIT_S + 1
        assert len(said_s) >= 5
    assert any(type(one) is Assignment for _, _, one in heard), "overdue examples are learned"


def test_no_example_waits_longer_than_agreed() -> None:
    run = sleepers({"job.min_waiting": 1000}, arrival=COMING | {"examples_per_hour": 3})
    run.simulation.run(10 * HOUR_S)
    delays = run.simulation.traffic.state.delays
    run.close()
    assert set(delays) == set(run.workers)
    waited_s = [delay_s for listed in delays.values() for delay_s, _ in listed]
    assert MAX_WAIT_S - 600 < max(waited_s) < MAX_WAIT_S + 600, "until the next selection"


def test_the_default_fleet_rides_along_and_follows_a_change() -> None:
    outcome = run_fleet(read_fleet(Document.parse(default_job(), "digits.toml")))
    bursts = outcome.energy.bursts
    own = sum(bursts.get(cause, 0) for cause in ("announcement", "receipt", "keep-alive"))
    assert own <= 0.3 * bursts["training"]
    assert outcome.energy.rides > 0.8 * sum(bursts.values())
    assert outcome.delays is not None
    assert outcome.delays.median_s < outcome.delays.mean_s < 3 * HOUR_S
    assert outcome.recovery_s is not None
    assert outcome.recovery_s < 24 * HOUR_S
    assert outcome.single_updates == 0
    assert outcome.exact


def test_a_sleeping_worker_hears_nothing_until_it_calls() -> None:
    run = sleepers()
    run.simulation.run(HOUR_S)
    asleep = [name for name, one in run.workers.items() if one.is_asleep]
    heard = overhear(run)
    run.simulation.send("", run.server.erase("request", [b"nobody" * 5], HOUR_S))
    run.simulation.run(HOUR_S + 1)
    answered = {sender for _, sender, one in heard if type(one) is Erased}
    assert len(asleep) > 5
    assert not answered & set(asleep)
    run.simulation.run(HOUR_S + MAX_WAIT_S + 1)
    answered = {sender for _, sender, one in heard if type(one) is Erased}
    assert answered == set(run.workers), "within max_wait_s"
    run.close()


def test_the_server_names_the_threshold() -> None:
    run = sleepers()
    heard = overhear(run)
    run.simulation.run(4 * HOUR_S)
    run.close()
    assert {one.waiting for _, _, one in heard if isinstance(one, Sleep)} == {6}


def test_a_model_that_is_used_rarely_is_fetched_rarely() -> None:
    fetched = {}
    for fetch in ("lazy", "eager"):
        keys = {"fetch": fetch, "uses_per_day": 1.0, "handshake_bytes": 0}
        run = sleepers({"job.rounds": 20}, radio=keys)
        run.pump()
        outcome = finish(run)
        run.close()
        assert outcome.exact
        assert outcome.quality is not None
        fetched[fetch] = (outcome.energy.down_bytes, outcome.quality)
    assert fetched["lazy"][0] < 0.7 * fetched["eager"][0], "most of it are headers"
    assert abs(fetched["lazy"][1] - fetched["eager"][1]) < 0.03


def test_a_phone_that_comes_back_waits_for_a_ride_instead_of_calling_at_once() -> None:
    away = {"kind": "markov", "up_s": 3600.0, "down_s": 3600.0}
    keys = {"job.ride_along": True, "job.ride_wait_s": 1800.0, "job.max_wait_s": 12 * HOUR_S}
    run = sleepers(
        keys, radio={"own_per_hour": 60.0}, availability=away,
        faults={"max_delay_s": 0.05, "dropout_share": 0.0},
    )  # fmt: skip
    run.simulation.run(8 * HOUR_S)
    bursts = [radio.traffic for radio in run.simulation.traffic._radios.values()]
    run.close()
    calls = sum(sum(traffic.bursts.values()) for traffic in bursts)
    assert calls > 40
    assert sum(traffic.rides for traffic in bursts) > 0.98 * calls
