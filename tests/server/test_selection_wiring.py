"""Selectors in the server: what they are told, what survives, and what is written when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dealfl.protocol.messages import Assignment, Message
from dealfl.server import Ledger, RewardWeights, Rules, Server
from dealfl.server.selection import (
    SELECTORS,
    Everyone,
    FairUpperConfidence,
    Selector,
    make_selector,
)
from tests.federation.parts import announce, bayes, update
from tests.server.test_server_rounds import Remembering

NAMES = [f"w{number}" for number in range(9)]
RULES = Rules(rounds=10**6, workers_per_round=3, ttl_s=60.0, presence_timeout_s=1e9)
SETTINGS: dict[str, dict[str, object]] = {
    name: {"fairness": {"w3": 0.2}, "eta": 3.0} for name in SELECTORS
} | {"uniform": {"seed": 4}, "everyone": {}}


def chooser(name: str) -> Selector:
    return make_selector(name, SETTINGS[name])


class Fleet:
    """Workers that answer promptly, late or never, as their name and the round say."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.ledger, self.name = ledger, name
        self.server = Server("job", bayes, ledger, RULES, chooser(name))
        self.now_s = 0.0
        self.sequences = dict.fromkeys(NAMES, 0)
        self.late: list[Message] = []
        self.opened = self.handled([announce(name, 0, waiting=50) for name in NAMES])

    def handled(self, messages: Sequence[Message]) -> list[Assignment]:
        step = self.server.handle(messages, self.now_s)
        return [message for message in step.messages if isinstance(message, Assignment)]

    def reopened(self) -> None:
        """Go on as a server that was started anew."""
        self.server = Server("job", bayes, self.ledger, RULES, chooser(self.name))

    def answer(self, one: Assignment) -> Message:
        place = NAMES.index(one.worker)
        self.sequences[one.worker] += 1
        return update(
            self.sequences[one.worker], 1 + place, name=one.worker, round=one.round,
            elapsed_s=1.0 + place, energy_j=0.1 * place,
        )  # fmt: skip

    def round(self) -> list[str]:
        """Let a round pass; return who was selected in it."""
        asked = self.opened
        fates = {one.worker: (NAMES.index(one.worker) + one.round) % 4 for one in asked}
        replies = [self.answer(one) for one in asked if fates[one.worker] > 1]
        self.now_s += 5.0
        opened = self.handled([*self.late, *replies])
        self.late = [self.answer(one) for one in asked if fates[one.worker] == 1]
        if not opened:
            self.now_s += RULES.ttl_s
            opened = self.handled([announce(name, waiting=50) for name in NAMES])
        self.opened = opened
        return [one.worker for one in asked]


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_a_server_restarted_in_every_round_selects_the_same(tmp_path: Path, name: str) -> None:
    whole = Fleet(Ledger(tmp_path / "whole.db"), name)
    expected = [whole.round() for _ in range(40)]
    assert sum(map(len, expected)) >= 80
    broken = Fleet(Ledger(tmp_path / "broken.db"), name)
    found = []
    for _ in range(40):
        found.append(broken.round())
        broken.reopened()
    assert found == expected


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_after_a_transaction_that_failed_it_selects_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = Fleet(Ledger(), name), Fleet(Ledger(), name)
    for number in range(30):
        with monkeypatch.context() as patch:
            # the selector has learned and chosen by then, and has to forget it again
            patch.setattr(broken.ledger.erasures, "put_version", None)
            replies = [update(9999, name=one.worker, round=one.round) for one in broken.opened]
            with pytest.raises(TypeError):
                broken.server.handle(replies, broken.now_s + 1.0)
        assert broken.round() == whole.round(), number


def mean_and_tries(one: FairUpperConfidence, name: str) -> tuple[float, float]:
    place = one.names.index(name)
    return float(one.arms.mean[place]), float(one.arms.count[place])


def fair_server(**rules: object) -> tuple[Server, FairUpperConfidence]:
    chosen = FairUpperConfidence()
    plain = {"rounds": 99, "ttl_s": 60.0, "presence_timeout_s": 1e9} | rules
    return Server("job", bayes, Ledger(), Rules(**plain), chosen), chosen  # type: ignore[arg-type]


def test_who_never_answers_has_earned_nothing() -> None:
    one, chosen = fair_server()
    one.handle([announce(name, 0) for name in "abc"], 0.0)
    one.handle([update(1, name=name, round=1) for name in "ab"], 5.0)
    one.handle([announce(name) for name in "ab"], 70.0)  # the next choice
    mean, tries = mean_and_tries(chosen, "c")
    assert (mean, tries) == (0.0, 1.0)
    assert mean_and_tries(chosen, "a")[0] > 0.1


def test_a_reply_after_the_time_to_live_earns_nothing_and_is_no_second_try() -> None:
    one, chosen = fair_server()
    one.handle([announce(name, 0) for name in "ab"], 0.0)
    one.handle([update(1, name="a", round=1), announce("a")], 5.0)
    one.handle([], 60.0)
    one.handle([update(1, name="b", round=1)], 61.0)
    one.handle([announce("b")], 130.0)
    assert mean_and_tries(chosen, "b") == (0.0, 1.0)


def test_a_prompt_reply_after_the_majority_counts_in_full() -> None:
    one, chosen = fair_server()
    one.handle([announce(name, 0) for name in "abc"], 0.0)
    one.handle([update(1, name=name, round=1) for name in "ab"], 5.0)
    one.handle([announce("a")], 6.0)  # the next round opens without a word of c
    assert mean_and_tries(chosen, "c") == (0.0, 1.0)
    one.handle([update(1, name="c", round=1)], 8.0)
    mean, tries = mean_and_tries(chosen, "c")
    assert tries == 1.0
    prompt = Remembering()
    other = Server("job", bayes, Ledger(), Rules(rounds=99, ttl_s=60.0), prompt)
    other.handle([announce("c", 0)], 0.0)
    other.handle([update(1, name="c", round=1)], 8.0)
    assert mean == pytest.approx(prompt.earnings[0][2])


def test_who_is_removed_is_gone_for_the_selector() -> None:
    ledger, chosen = Ledger(), FairUpperConfidence()
    one = Server("job", bayes, ledger, RULES, chosen)
    one.handle([announce(name, 0) for name in "ab"], 0.0)
    one.remove("a", 1.0)
    assert chosen.names == ["b"]
    again = FairUpperConfidence()
    again.restore(ledger.list_parts("selector"))
    assert again.names == ["b"], "also after a restart"


class Counting(Ledger):
    """Counts how often the state of each part of the server is written."""

    def __init__(self) -> None:
        self.written: list[str] = []
        super().__init__()

    def put_parts(self, owner: str, parts: Mapping[str, bytes]) -> None:
        self.written += [owner] if parts else []
        super().put_parts(owner, parts)


def test_the_selector_is_written_only_when_it_has_changed() -> None:
    ledger = Counting()
    one = Server("job", bayes, ledger, RULES, FairUpperConfidence())
    one.handle([announce(name, 0) for name in "abcd"], 0.0)
    assert ledger.written.count("selector") == 1
    for moment_s in range(1, 20):
        one.handle([announce("d", waiting=moment_s)], float(moment_s))
    assert ledger.written.count("selector") == 1, "nothing was chosen, nothing earned"
    worker = next(iter(ledger.rounds.selected(1)))
    one.handle([update(1, name=worker, round=1)], 20.0)
    assert ledger.written.count("selector") == 2
    plain = Counting()
    Server("job", bayes, plain, RULES, Everyone()).handle([announce("a", 0)], 0.0)
    assert "selector" not in plain.written


def test_promises_that_cannot_be_kept_are_reported_with_names_and_in_the_ledger() -> None:
    ledger = Ledger()
    greedy = FairUpperConfidence(fairness={"a": 0.9, "b": 0.9, "*": 0.1})
    rules = Rules(rounds=99, workers_per_round=1, ttl_s=60.0)
    one = Server("job", bayes, ledger, rules, greedy)
    assert one.over_promised is None
    one.handle([announce(name, 0) for name in "abc"], 0.0)
    found = one.over_promised
    assert found is not None
    assert found.workers == ("a", "b", "c")
    assert (round(found.promised, 6), found.possible) == (1.9, 1.0)
    assert ledger.reader.state().over_promised == found


def test_promises_that_can_be_kept_and_selectors_without_any_are_not_reported() -> None:
    for chosen in (FairUpperConfidence(fairness=0.2), Everyone()):
        ledger = Ledger()
        one = Server("job", bayes, ledger, Rules(workers_per_round=1), chosen)
        one.handle([announce(name, 0) for name in "abc"], 0.0)
        assert one.over_promised is None
        assert ledger.state.over_promised is None


def test_energy_by_the_example_reaches_the_selector() -> None:
    earnings = []
    for learned in (1, 10):
        told = Remembering()
        weights = RewardWeights(speed=0.0, volume=0.0, half_example_j=0.1)
        one = Server("job", bayes, Ledger(), Rules(rounds=9, rewards=weights), told)
        one.handle([announce("a", 0, waiting=10)], 0.0)
        one.handle([update(1, learned, name="a", round=1, energy_j=0.5)], 1.0)
        earnings.append(told.earnings[0][2])
    assert earnings == pytest.approx([1 / 6, 2 / 3])
