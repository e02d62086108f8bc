"""Models of runs: what is told of them, exported and gone on from, for every learner."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.cli import main
from dealfl.errors import BadBytes, BadInput, Incompatible, NotLearned
from dealfl.exact import Entries
from dealfl.learners import LEARNERS, NaiveBayes, SavedLearner, Tikhonov, from_schema, load
from dealfl.runs import export_model, open_model
from dealfl.runs.models import model_arrays, read_statistics
from dealfl.server import Ledger
from tests.learners.subjects import SUBJECTS
from tests.runs.made_runs import digits, make_run

Captured = pytest.CaptureFixture[str]


def total_digest(folder: Path) -> str:
    ledger = Ledger(folder / "ledger.db")
    total = ledger.reader.total()
    ledger.close()
    assert total is not None
    return total.digest()


@pytest.fixture(scope="session")
def neighbors_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "neighbors"
    make_run(folder, digits("neighbors"))
    return folder


@pytest.fixture(scope="session")
def classifier_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "classifier"
    make_run(folder, digits("tikhonov_classifier"))
    return folder


@pytest.fixture(params=["digits", "houses", "films", "neighbors", "classifier"])
def any_run(request: pytest.FixtureRequest) -> Path:
    found = request.getfixturevalue(f"{request.param}_run")
    assert isinstance(found, Path)
    return found


def test_an_exported_model_is_the_run_s(any_run: Path, tmp_path: Path) -> None:
    model = open_model(any_run)
    out = tmp_path / "model.deal"
    export_model(model, out)
    plain = load(out)
    assert model.learner.digest() == total_digest(any_run)
    assert plain.digest() == model.learner.publish().digest()
    assert plain.settings == model.learner.settings
    again = open_model(out)
    exact = plain.digest() == model.learner.digest()
    assert exact == (model.learner.name != "neighbors")
    same = ("learner", "settings", "examples", "round", "version", "changed_since_version")
    names = model.info().keys() - {"origin", "job"} if exact else same
    assert [again.info()[name] for name in names] == [model.info()[name] for name in names]
    assert again.job_text == model.job_text
    assert list(tmp_path.iterdir()) == [out]


def test_the_settings_are_those_of_the_job(houses_run: Path) -> None:
    assert open_model(houses_run).learner.settings["penalty"] == 0.25


def test_the_data_of_the_job_is_not_needed(houses_run: Path, tmp_path: Path) -> None:
    shutil.copytree(houses_run, tmp_path / "moved")
    (tmp_path / "moved" / "houses.csv").unlink()
    model = open_model(tmp_path / "moved")
    assert model.learner.digest() == open_model(houses_run).learner.digest()
    assert model.learner.settings == open_model(houses_run).learner.settings
    assert model.learner.settings["intercept"] is True


def test_a_ledger_alone_is_enough(any_run: Path, tmp_path: Path) -> None:
    shutil.copy(any_run / "ledger.db", tmp_path / "alone.db")
    model = open_model(tmp_path / "alone.db")
    assert model.learner.digest() == total_digest(any_run)
    model.learner.check()


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_is_made_from_its_schema(name: str) -> None:
    schema = SUBJECTS[name].make().schema
    assert from_schema(schema).schema.same(schema)


def test_the_job_of_another_run_is_refused(digits_run: Path, houses_run: Path) -> None:
    with pytest.raises(Incompatible, match=r"job\.toml is not the job of this model: statistics"):
        open_model(digits_run, job=houses_run / "job.toml")


# -- going on -----------------------------------------------------------------------------------


def test_statistics_are_gone_on_from(any_run: Path, tmp_path: Path) -> None:
    model = open_model(any_run)
    export_model(model, tmp_path / "model.deal")
    for path in (any_run, any_run / "ledger.db", tmp_path / "model.deal"):
        found = read_statistics(path, from_schema(model.learner.schema))
        exported = path.suffix == ".deal"
        assert found == (model.learner.publish() if exported else model.learner.statistics)


def test_statistics_of_another_job_are_refused(digits_run: Path, houses_run: Path) -> None:
    other = NaiveBayes(64, range(10), feature_bound=64.0)
    with pytest.raises(Incompatible, match=r"cannot start from .*: the statistics have feature"):
        read_statistics(digits_run, other)
    with pytest.raises(Incompatible, match="learner tikhonov cannot be used by learner naive"):
        read_statistics(houses_run, other)


# -- arrays -------------------------------------------------------------------------------------


def saved_arrays(folder: Path, tmp_path: Path) -> dict[str, Any]:
    assert main(["model", "export", str(folder), "--arrays", str(tmp_path / "a.npz")]) == 0
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        return {name: found[name] for name in found}


def test_model_arrays_tikhonov_predict_like_it(houses_run: Path, tmp_path: Path) -> None:
    arrays, learner = saved_arrays(houses_run, tmp_path), open_model(houses_run).learner
    assert isinstance(learner, Tikhonov)
    X = np.array([[100.0, 0.0, 1.0, 0.0], [50.0, 1.0, 0.0, 0.0]])
    assert X @ arrays["weights"] + arrays["bias"] == pytest.approx(learner.predict(X))
    names = arrays["feature_names"].tolist()
    assert names == ["size", "town=Bern", "town=Basel", "town=Chur"]
    value, high = arrays["statistics_moments_value"], arrays["statistics_moments_high"]
    exact = [int(h) * 2**32 + int(v) for h, v in zip(high, value, strict=True)]
    known = learner.statistics["moments"].to_dict()
    assert dict(zip(arrays["statistics_moments_index"].tolist(), exact, strict=True)) == known


def test_model_arrays_naive_bayes_predict_like_it(digits_run: Path, tmp_path: Path) -> None:
    arrays, learner = saved_arrays(digits_run, tmp_path), open_model(digits_run).learner
    assert isinstance(learner, NaiveBayes)
    X = np.arange(64 * 5).reshape(5, 64) % 17
    scores = X @ arrays["log_probabilities"].T + arrays["log_priors"]
    assert arrays["classes"][scores.argmax(axis=1)].tolist() == learner.predict(X).tolist()
    assert arrays["class_counts"].sum() == open_model(digits_run).info()["examples"]


def test_model_arrays_pagerank_are_its_similarities(films_run: Path, tmp_path: Path) -> None:
    arrays, learner = saved_arrays(films_run, tmp_path), open_model(films_run).learner
    items, scores = learner.similar(0, 6)  # type: ignore[attr-defined]
    pairs = zip(arrays["pair_first"], arrays["pair_second"], strict=True)
    similar = {
        int(first) + int(second): score
        for (first, second), score in zip(pairs, arrays["pair_similarities"], strict=True)
        if 0 in (first, second)
    }
    assert {int(i): s for i, s in zip(items, scores, strict=True)} == pytest.approx(similar)
    assert len(arrays["item_counts"]) == 6


def test_model_arrays_neighbors_are_its_votes(tmp_path: Path) -> None:
    subject = SUBJECTS["neighbors"]
    learner: Any = subject.learned(range(subject.pool))
    learner.save(tmp_path / "model.deal")
    arrays = model_arrays(open_model(tmp_path / "model.deal"))
    assert arrays["class_counts"].sum() == subject.pool
    per_table = np.bincount(arrays["vote_table"], arrays["vote_count"])
    assert per_table.tolist() == [subject.pool] * learner.settings["tables"]
    assert arrays["vote_bucket"].max() < 2 ** learner.settings["vote_bits"]


def smallest_bucket(votes: Entries, classes: int) -> int:
    _, buckets = np.unique(votes.indices // classes, return_inverse=True)
    return int(np.bincount(buckets, votes.values.low).min())


def test_an_exported_model_of_neighbors_has_no_small_bucket(tmp_path: Path) -> None:
    subject = SUBJECTS["neighbors"]
    learner: Any = subject.learned(range(subject.pool))
    learner.save(tmp_path / "exact.deal")
    model = open_model(tmp_path / "exact.deal")
    export_model(model, tmp_path / "out.deal")
    exported: Any = load(tmp_path / "out.deal")
    votes, classes = exported.statistics["votes"], len(learner.settings["classes"])
    least = learner.settings["min_bucket"]
    assert smallest_bucket(learner.statistics["votes"], classes) < least
    assert smallest_bucket(votes, classes) >= least
    assert (learner.federated, exported.federated) == (False, True)  # no examples either
    rows = subject.examples[0]
    assert exported.predict_votes(rows).tolist() == learner.predict_votes(rows).tolist()
    assert model_arrays(model)["statistics_votes_value"].tolist() == votes.values.tolist()


# -- commands -----------------------------------------------------------------------------------


def test_info_informs_a_person_and_a_program(digits_run: Path, capsys: Captured) -> None:
    assert main(["model", "info", str(digits_run)]) == 0
    assert total_digest(digits_run) in capsys.readouterr().out
    assert main(["model", "info", str(digits_run), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["learner"], info["round"], info["version"]) == ("naive_bayes", 8, 8)
    assert info["examples"] > 0


def test_nothing_is_written_over_without_force(
    digits_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "model.deal"
    out.write_text("dear")
    words = ["model", "export", str(digits_run), "--out", str(out)]
    assert main(words) == 2
    assert "already exists; use --force" in capsys.readouterr().err
    assert out.read_text() == "dear"
    assert main([*words, "--force"]) == 0
    assert load(out).digest() == total_digest(digits_run)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["info", "nowhere"], "nowhere cannot be read: No such file"),
        (["export", "RUN"], "no output file; give --out"),
        (["export", "RUN", "--out", "no/where/m.deal"], "the folder no/where does not exist"),
        (["export", "RUN", "--out", "."], "is a folder; give the name of a file"),
        (["info", "JOB"], "not a saved learner"),
    ],
)
def test_what_cannot_be_done_is_reported(
    words: list[str], problem: str, digits_run: Path, capsys: Captured
) -> None:
    known = {"RUN": str(digits_run), "JOB": str(digits_run / "job.toml")}
    assert main(["model", *(known.get(word, word) for word in words)]) == 2
    assert problem in capsys.readouterr().err


def test_a_run_without_a_model_is_reported(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger.db").close()
    with pytest.raises(BadInput, match="has no model yet; wait until the first round"):
        open_model(tmp_path)


def test_a_damaged_total_is_reported(digits_run: Path, tmp_path: Path) -> None:
    shutil.copytree(digits_run, tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "ledger.db", isolation_level=None)) as db:
        db.execute("UPDATE pages SET sha256 = zeroblob(32) WHERE owner = '*'")
    with pytest.raises(BadBytes, match="the total is damaged; restore a backup"):
        open_model(tmp_path / "run")


def test_an_empty_model_has_no_arrays(tmp_path: Path, capsys: Captured) -> None:
    NaiveBayes(2, ["a", "b"]).save(tmp_path / "empty.deal")
    with pytest.raises(NotLearned, match="no example is learned"):
        model_arrays(open_model(tmp_path / "empty.deal"))
    words = ["export", str(tmp_path / "empty.deal"), "--arrays", str(tmp_path / "a.npz")]
    assert main(["model", *words]) == 1
    assert not (tmp_path / "a.npz").exists()
    assert "no example" in capsys.readouterr().err


def test_what_a_file_says_about_itself_is_not_trusted(tmp_path: Path) -> None:
    model = NaiveBayes(2, ["a", "b"])
    sections = {"statistics": model.statistics.to_bytes(), "about": b'{"round": "x"}'}
    SavedLearner(model.name, model.settings, sections).write(tmp_path / "m.deal")
    with pytest.raises(BadBytes, match="section 'about' cannot be read"):
        open_model(tmp_path / "m.deal")
