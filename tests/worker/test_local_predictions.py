"""Predictions on the device: with the last published model, and reading a history is using it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadBytes, BadInput, NotLearned
from dealfl.learners import Neighbors
from dealfl.protocol.messages import Erase, Published
from dealfl.worker import Journal, State, WorkerKeys
from tests.federation.parts import KEY, assignment, bayes, item, pagerank, row, welcomed, worker


def published(model: Any, version: int = 1) -> Published:
    statistics = model.statistics.to_bytes()
    return Published(
        job="job", worker="", version=version, digest=model.digest(), statistics=statistics
    )


def taught(*targets: str) -> Any:
    model = bayes()
    model.learn(np.eye(3)[: len(targets)], list(targets))
    return model


def taught_pagerank(*histories: list[int]) -> Any:
    model = pagerank()
    table = np.zeros((len(histories), 12), dtype=np.int64)
    for place, items in enumerate(histories):
        table[place, items] = 1
    model.learn(table)
    return model


def test_before_a_model_was_published_there_is_nothing_to_predict_with() -> None:
    with pytest.raises(NotLearned, match="no model is here yet"):
        welcomed().predict(np.eye(3))


def test_a_worker_predicts_what_the_server_s_model_predicts() -> None:
    one = welcomed()
    model = taught("a", "b", "b")
    one.handle([published(model)], 1.0)
    assert one.predict(np.eye(3)).tolist() == model.predict(np.eye(3)).tolist()
    assert one.model_version == 1


def test_a_newer_version_replaces_the_model_and_an_older_one_does_not() -> None:
    one = welcomed()
    one.handle([published(taught("a", "b", "b"), version=2)], 1.0)
    assert set(one.predict(np.eye(3))) == {"a", "b"}
    one.handle([published(taught("a", "a", "a"), version=3)], 2.0)
    assert set(one.predict(np.eye(3))) == {"a"}
    one.handle([published(taught("b", "b", "b"), version=1)], 3.0)
    assert set(one.predict(np.eye(3))) == {"a"}


def test_the_model_survives_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    one = welcomed(journal=journal)
    one.handle([published(taught("b", "b", "b"))], 1.0)
    journal.close()
    again = worker(journal=Journal(tmp_path / "j.db"))
    assert set(again.predict(np.eye(3))) == {"b"}


def test_neighbours_vote_for_the_server_holds_no_examples() -> None:
    def make() -> Neighbors:
        return Neighbors(2, ["a", "b"], tables=4, feature_bound=1.0, min_bucket=2)

    model = make()
    model.learn([[1.0, 1.0], [-1.0, -1.0]] * 2, ["a", "b"] * 2)
    one = welcomed(make)
    one.handle([published(model)], 1.0)
    assert one.predict([[1.0, 0.9]]).tolist() == model.predict_votes([[1.0, 0.9]]).tolist() == ["a"]


def near_and_far() -> Neighbors:
    return Neighbors(2, ["a", "b"], k=2, tables=4, feature_bound=1.0)


def survivors_after(ask: Any) -> list[list[float]]:
    """Return what stays of four examples of Ann's, two near (1, 1) and two near (−1, −1)."""
    journal = Journal()
    one = welcomed(near_and_far, journal, keys=WorkerKeys(model="resident"))
    one.ingest([("ann", row(0.9, 1.0, target="a")), ("ann", row(1.0, 0.9, target="a"))])
    one.handle([assignment(1, forget_fraction="0")], 1.0)
    one.ingest([("ann", row(-0.9, -1.0, target="b")), ("ann", row(-1.0, -0.9, target="b"))])
    one.handle([assignment(2, forget_fraction="0")], 2.0)
    model = near_and_far()
    model.learn([[1.0, 1.0]] * 5, ["a"] * 5)
    one.handle([published(model)], 3.0)
    ask(one)
    one.ingest([("bob", row(0.0, 0.0, target="a"))])
    one.handle([assignment(3, forget_fraction="0.5")], 4.0)
    held, _ = near_and_far().rows_of(journal.records(State.LEARNED))
    return [[round(float(value), 1) for value in one] for one in held]


def test_a_prediction_of_neighbours_uses_those_found_and_no_others() -> None:
    near, far, new = [[0.9, 1.0], [1.0, 0.9]], [[-0.9, -1.0], [-1.0, -0.9]], [[0.0, 0.0]]
    assert survivors_after(lambda one: None) == far + new, "the oldest go"
    at = [[1.0, 1.0]]
    assert survivors_after(lambda one: one.predict(at, "ann", own=True)) == near + new
    assert survivors_after(lambda one: one.predict(at, "ann")) == near + new
    assert survivors_after(lambda one: one.note_use("ann")) == far + new, "Ann's newest asks"


def test_the_live_model_predicts_and_its_voters_are_known() -> None:
    one = welcomed(near_and_far, keys=WorkerKeys(model="resident"))
    one.ingest([("ann", row(0.5, 0.5, target=name)) for name in "aab"])
    one.handle([assignment(1)], 1.0)
    assert one.predict([[0.5, 0.4]], own=True).tolist() == ["a"]
    own = one.own_model
    assert isinstance(own, Neighbors)
    assert own.find_used([[0.5, 0.4]]) == [1, 2, 3], "examples at the same distance vote together"
    with pytest.raises(NotLearned, match="resident"):
        welcomed().predict(np.eye(3), own=True)


def history_holder(journal: Journal) -> Any:
    """Return a worker that holds two histories, Ann's older than Bob's."""
    one = welcomed(pagerank, journal)
    for round_number, (owner, items) in enumerate([("ann", [0, 1]), ("bob", [1, 2])], 1):
        one.ingest([(owner, item(number)) for number in items])
        one.handle([assignment(round_number, forget_fraction="0")], float(round_number))
    return one


def test_recommendations_come_from_the_published_model() -> None:
    one = history_holder(Journal())
    model = taught_pagerank([0, 1, 3], [0, 1, 3], [1, 2, 4])
    one.handle([published(model)], 3.0)
    items, scores = one.recommend("ann", 2)
    expected = model.recommend([0, 1], 2)
    assert items.tolist() == expected[0].tolist()
    assert scores.tolist() == expected[1].tolist()


def test_reading_a_history_saves_it_from_the_next_eviction() -> None:
    """Without a prediction Ann's interactions are the oldest; once read, Bob's are."""
    survivors = {}
    for reads in (False, True):
        journal = Journal()
        one = history_holder(journal)
        one.handle([published(taught_pagerank([0, 1], [1, 2]))], 3.0)
        if reads:
            one.recommend("ann")
        one.ingest([("eve", item(4))])
        one.handle([assignment(3, forget_fraction="0.5")], 4.0)
        owners = {record.owner for record in journal.records(State.LEARNED)}
        survivors[reads] = {name for name in ("ann", "bob") if owner_hash(KEY, name) in owners}
    assert survivors == {False: {"bob"}, True: {"ann"}}


def test_an_erased_owner_has_no_history_left_to_read() -> None:
    one = history_holder(Journal())
    one.handle([published(taught_pagerank([0, 1], [1, 2]))], 3.0)
    erase = Erase(job="job", worker="", request="r", owners=(owner_hash(KEY, "ann"),))
    one.handle([erase], 4.0)
    assert one.recommend("ann")[0].tolist() == []


def test_the_wrong_kind_of_question_is_answered_with_the_right_one() -> None:
    with pytest.raises(BadInput, match="recommend"):
        history_holder(Journal()).predict([[1.0]])
    with pytest.raises(BadInput, match="predict"):
        welcomed().recommend("ann")


def test_a_model_that_is_no_model_is_found_out() -> None:
    one = welcomed()
    one.handle([Published(job="job", worker="", version=1, digest="", statistics=b"nonsense")], 1.0)
    with pytest.raises(BadBytes, match="version 1 of the model is damaged"):
        one.predict([row(1.0)])
