"""Results to show: a real one, and what could come of odd jobs."""

from dataclasses import replace
from pathlib import Path

from dealfl.runs import RunRecord
from dealfl.settings import Document
from dealfl.simulate import Outcome, Participant, Savings, read_fleet, run_fleet

ROOT = Path(__file__).parents[2]
SCHEMES = ("deal", "original", "newfl", "incremental")

BY_HAND = """\
[job]
name = "by hand"
dataset = "digits"
learner = "naive_bayes"
rounds = 3
workers_per_round = 2

[[devices]]
count = 3
operations_per_s = 1e6
"""

EVIL = (
    "</script></title><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
    '"><a href="https://example.org/">link</a> &lt;b&gt; $x$ %{y} <b>bold</b> ' + "long" * 60
)


LINK = '<a href="//x">{}</a>'  # short enough to be in a plot as it is


def real_result() -> RunRecord:
    """Run phones of five kinds for a few rounds under each scheme."""
    path = ROOT / "examples/fleets/digits.toml"
    document = Document.read(path).replaced("job.rounds", 8)
    outcomes = [run_fleet(read_fleet(document.replaced("job.scheme", one))) for one in SCHEMES]
    return RunRecord(outcomes[0].job, tuple(outcomes), path.read_text(encoding="utf-8"))


def by_hand() -> RunRecord:
    """Run three devices without a radio."""
    return RunRecord("by hand", (run_fleet(read_fleet(Document.parse(BY_HAND, "fleet.toml"))),))


def nothing_happened(result: RunRecord) -> RunRecord:
    """Return one worker that was never woken, in no round at all, under one scheme."""
    nothing = replace(
        result.main.energy, by_cause_j={"cpu": 0.0}, compute_j=0.0, operating_j=0.0, radio_j=0.0,
        wake_ups=0, wake_ups_of_everyone=0, bursts={}, pages_in=0, pages_out=0,
        savings=Savings(0.0, 0.0, 0.0),
    )  # fmt: skip
    one = replace(
        result.main.participants[0], selected=0, replied=0, learned=0, held=0, compute_j=0.0,
        radio_j=0.0, by_cause_j={},
    )  # fmt: skip
    empty = replace(
        result.main, workers=1, rounds=(), participants=(one,), quality=None, learned=0, evicted=0,
        energy=nothing, virtual_s=0.0,
    )  # fmt: skip
    return RunRecord("nothing", (empty,))


def nobody_came(result: RunRecord) -> RunRecord:
    """Return the same without even a worker."""
    return RunRecord(
        "nobody", (replace(nothing_happened(result).main, workers=0, participants=()),)
    )


def of_kinds(result: RunRecord, count: int) -> RunRecord:
    """Return the same phones, of so many kinds, with batteries that are half empty."""

    def renamed(outcome: Outcome) -> Outcome:
        phones = enumerate(outcome.participants)
        kinds = [replace(one, device=f"phone {i % count}", battery=0.5) for i, one in phones]
        return replace(outcome, participants=tuple(kinds))

    return RunRecord("kinds", tuple(renamed(one) for one in result.outcomes))


def crowd(result: RunRecord) -> RunRecord:
    """Return a thousand and more workers of many kinds, and a thousand rounds; one quality."""

    def grown(outcome: Outcome) -> Outcome:
        few = outcome.participants
        many = [
            replace(few[place % len(few)], name=f"w{place}", device=f"phone {place % 37}")
            for place in range(1200)
        ]
        rounds = [
            replace(outcome.rounds[place % 8], number=place + 1, quality=None)
            for place in range(1000)
        ]
        rounds[499] = replace(rounds[499], quality=float("nan"))
        rounds[500] = replace(rounds[500], quality=0.5)
        return replace(outcome, workers=1200, participants=tuple(many), rounds=tuple(rounds))

    return RunRecord("crowd", tuple(grown(one) for one in result.outcomes))


def hostile(result: RunRecord) -> RunRecord:
    """Return names that want to be more than names, and a digest that is not that of training."""

    def renamed(one: Participant, place: int) -> Participant:
        return replace(one, name=f"{place}{EVIL}", device=LINK.format(place % 3))

    def evil(outcome: Outcome, place: int) -> Outcome:
        return replace(
            outcome, job=EVIL, scheme=f"{place}{EVIL}" if place else "<b>deal</b>", learner=EVIL,
            ended=EVIL, metric=EVIL,
            participants=tuple(renamed(one, i) for i, one in enumerate(outcome.participants)),
            rounds=tuple(replace(one, reason=EVIL) for one in outcome.rounds),
            digest=EVIL,
        )  # fmt: skip

    outcomes = tuple(evil(one, place) for place, one in enumerate(result.outcomes))
    return RunRecord(EVIL, outcomes, EVIL)
