"""After any history, an erasure leaves the model of training without the person, and no trace."""

from pathlib import Path

import pytest

from tests.erasure.histories import History
from tests.erasure.run_histories import RunHistory


@pytest.mark.parametrize("first", range(0, 40, 5))
def test_the_digest_is_that_of_training_without_the_erased(first: int, tmp_path: Path) -> None:
    for number in range(first, first + 5):
        (tmp_path / f"{number}").mkdir()
        history = History(number, tmp_path / f"{number}")
        history.run()
        assert history.is_settled(), f"history {number}: a worker or a version is missing"
        digest, never_saw = history.digests()
        assert digest == never_saw, f"history {number}"
        assert history.needles(), f"history {number}: nobody was erased"
        assert history.find_traces() == [], f"history {number}"
        history.close()


@pytest.mark.parametrize("number", range(5))
def test_no_file_of_a_run_holds_anything_of_the_erased(number: int, tmp_path: Path) -> None:
    history = RunHistory(number, tmp_path)
    history.run()
    digest, never_saw, traces = history.erase()
    assert digest == never_saw
    assert history.found_before or history.learner == "personalized_pagerank"
    assert traces == []


def test_an_erasure_before_the_first_version_is_not_pending_for_ever(tmp_path: Path) -> None:
    history = History(1214, tmp_path)  # no round closes in it
    try:
        history.run()
        assert history.is_settled()
    finally:
        history.close()
