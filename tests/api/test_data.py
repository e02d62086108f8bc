"""The front door takes files, frames, arrays and histories, and names what it cannot use."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dealfl
from dealfl.cli import main
from dealfl.jobs import Document, Plan
from dealfl.jobs.proposals import Start
from dealfl.learners import RowLearner
from dealfl.simulate import read_fleet
from tests.api.small_data import HISTORIES, LABELS, NUMBERS, X, frame_of, pd


def test_a_file_is_proposed_exactly_as_by_job_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame_of("naive_bayes").assign(city=["Ulm", "Bonn", "Jena"] * 20, same=1).to_csv(
        "houses.csv", index=False
    )
    words = ["--learner", "naive_bayes", "--workers", "4"]
    assert main(["job", "init", "houses.csv", *words]) == 0
    fleet = dealfl.Fleet.from_file("houses.csv", learner="naive_bayes", workers=4)
    assert fleet.job_text() == Path("houses.toml").read_text()
    assert "same: it is the same in every row" in repr(fleet)


def test_libsvm_and_ratings_files(tmp_path: Path) -> None:
    lines = [
        f"{int(y > 0)} 1:{a!r} 3:{b!r}" for y, (a, b, _) in zip(NUMBERS, X.tolist(), strict=True)
    ]
    (tmp_path / "rows.svm").write_text("\n".join(lines))
    fleet = dealfl.Fleet.from_file(tmp_path / "rows.svm", workers=2)
    assert dealfl.run(fleet, rounds=1, verbose=False).exact
    frame = frame_of("personalized_pagerank").assign(rating=5.0).rename(columns={"owner": "user"})
    frame.to_csv(tmp_path / "ratings.csv", index=False)
    fleet = dealfl.Fleet.from_file(tmp_path / "ratings.csv", workers=2)
    result = dealfl.run(fleet, rounds=1, verbose=False)
    assert result.model.name == "personalized_pagerank"
    assert list(result.recommend([1, 2], k=2).columns) == ["item", "score"]


def test_frames_may_hold_texts_dates_missing_values_and_pyarrow_columns() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        city=["Ulm", "Bonn", None] * 20,
        born=pd.date_range("2020-01-01", periods=60),
        sure=X[:, 0] > 0.5,
    )  # fmt: skip
    frame.loc[3, "b"] = None
    owners = pd.Series([f"p{n % 7}" for n in range(60)])
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    results = [
        dealfl.run(
            dealfl.Fleet.from_arrays(one, pd.Series(LABELS, name="a"), owners=owners, workers=3),
            rounds=1, verbose=False,
        )
        for one in (frame, arrow)
    ]  # fmt: skip
    assert results[0].digest == results[1].digest
    assert isinstance(results[0].model, RowLearner)
    assert "city=Ulm" in (results[0].model.feature_names or [])
    assert results[0].predict(frame).tolist() == results[1].predict(arrow).tolist()
    assert 0 <= results[0].score(arrow, LABELS) <= 1
    with pytest.raises(dealfl.BadInput, match="row 1, column 'city': 'Rome' is none of"):
        results[0].predict(frame.assign(city=["Ulm", *["Rome"] * 59]))
    with pytest.raises(dealfl.BadInput, match="no column 'city'"):
        results[0].predict(frame.drop(columns="city"))


def test_names_of_columns_are_those_of_the_frame() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    result = dealfl.run(
        dealfl.Fleet.from_arrays(frame, NUMBERS, workers=2), rounds=1, verbose=False
    )
    assert isinstance(result.model, RowLearner)
    with pytest.raises(dealfl.BadInput, match="another order"):
        result.model.predict(frame[["b", "a", "c"]])
    unnamed = dealfl.run(dealfl.Fleet.from_arrays(X, NUMBERS, workers=2), rounds=1, verbose=False)
    assert isinstance(unnamed.model, RowLearner)
    assert unnamed.model.predict(frame).tolist() == result.model.predict(frame).tolist()


def test_histories_of_every_kind() -> None:
    table = np.zeros((40, 8), dtype=int)
    for row, items in enumerate(HISTORIES):
        table[row, items] = 1
    digests = {
        dealfl.run(dealfl.Fleet.from_histories(one, workers=2), rounds=1, verbose=False).digest
        for one in (table, sparse.csr_array(table), sparse.coo_array(table))
    }
    assert len(digests) == 1
    words = [["tea", "cup"], ["tea", "milk"], ["cup", "tea", "milk"]] * 5
    result = dealfl.run(dealfl.Fleet.from_histories(words, workers=2), rounds=1, verbose=False)
    assert set(result.recommend(["tea"], k=2)["item"]) <= {"cup", "milk"}
    with pytest.raises(dealfl.BadInput, match="'rum' is not among the 3 items"):
        result.recommend(["rum"])
    with pytest.raises(dealfl.BadInput, match="does not predict rows; use recommend"):
        result.predict(X)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: dealfl.Fleet.from_arrays(X, LABELS, "bayes"), "no learner called 'bayes'"),
        (lambda: dealfl.Fleet.from_arrays(X, LABELS[:5]), "5 values for 60 rows"),
        (lambda: dealfl.Fleet.from_arrays(X[0], LABELS), "pass a table"),
        (lambda: dealfl.Fleet.from_arrays(X, LABELS, workers=0), "workers is 0"),
        (lambda: dealfl.Fleet.from_arrays(X, LABELS, "personalized_pagerank"), "from_histories"),
        (lambda: dealfl.Fleet.from_histories(HISTORIES, "naive_bayes"), "from_arrays"),
        (lambda: dealfl.Fleet.from_histories(5), "histories are a csr, lists of items"),
        (lambda: dealfl.Fleet.from_arrays(sparse.csr_array(X), LABELS, owners=X), "dense X"),
        (lambda: dealfl.Fleet.from_job("nowhere.toml"), "nowhere.toml"),
        (lambda: dealfl.run(dealfl.Fleet.from_job(), resume=True), "nothing to resume"),
    ],
)
def test_what_cannot_be_used_is_named(make: Any, problem: str) -> None:
    with pytest.raises(dealfl.BadInput, match=problem):
        make()


def test_arrays_become_a_job_without_a_detour_through_text(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def count(*given: object) -> Any:
        read.append(given)
        return read_fleet(*given)  # type: ignore[arg-type]

    def refuse(*_: object) -> Any:
        pytest.fail("the job was written or parsed")

    monkeypatch.setattr("dealfl.api.fleet.read_fleet", count)
    monkeypatch.setattr(Document, "parse", refuse)
    monkeypatch.setattr(Document, "text", refuse)
    monkeypatch.setattr(Start, "text", refuse)
    fleet = dealfl.Fleet.from_arrays(X, NUMBERS, workers=2, settings={"job.rounds": 1})
    assert dealfl.run(fleet, verbose=False).exact
    assert len(read) == 1


def test_all_schemes_of_a_run_share_examples_that_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = dealfl.Fleet.from_arrays(X, NUMBERS, workers=2)
    read: list[Plan] = []
    whole = Plan.read

    def count(plan: Plan) -> Any:
        read.append(plan)
        return whole(plan)

    monkeypatch.setattr(Plan, "read", count)
    assert len(dealfl.run(fleet, rounds=1, verbose=False, compare=True).outcomes.outcomes) == 4
    assert len(read) == 1
    dealfl.sweep(fleet, {"job.forget_fraction": ["0", "0.1"]}, 2, 1, verbose=False)
    assert len(read) == 2


def test_truths_are_predicted_as_truths_and_mixed_lists_as_frames() -> None:
    ages = np.arange(60)
    frame = pd.DataFrame(
        {"age": ages, "city": np.where(ages % 2, "Ulm", "Bonn"), "new": ages % 3 == 0}
    )
    fleet = dealfl.Fleet.from_arrays(frame, ages > 30, workers=2)
    result = dealfl.run(fleet, rounds=1, verbose=False)
    predicted = result.predict(frame)
    assert predicted.dtype == np.bool_
    mixed = [[int(age), city, bool(new)] for age, city, new in frame.to_numpy()]
    assert result.predict(mixed).tolist() == predicted.tolist()
    numbers = dealfl.run(
        dealfl.Fleet.from_arrays(frame, (ages > 30) * 1, workers=2), rounds=1, verbose=False
    )
    assert numbers.predict(frame).dtype == np.int64


def test_a_frame_gives_target_owner_and_time_by_name() -> None:
    frame = frame_of("naive_bayes").assign(
        who=[f"p{n % 7}" for n in range(60)], when=pd.date_range("2020-01-01", periods=60)
    )
    named = dealfl.Fleet.from_arrays(frame, "target", owners="who", times="when", workers=3)
    apart = dealfl.Fleet.from_arrays(
        frame[["a", "b", "c"]], LABELS, owners=frame["who"], times=frame["when"], workers=3
    )
    results = [dealfl.run(fleet, rounds=1, verbose=False) for fleet in (named, apart)]
    assert results[0].digest == results[1].digest
    with pytest.raises(dealfl.BadInput, match=r"target 'tarpet': X has no .* mean 'target'"):
        dealfl.Fleet.from_arrays(frame, "tarpet")


def test_a_column_of_targets_is_one_value_a_row() -> None:
    column = dealfl.Fleet.from_arrays(X, NUMBERS[:, None], workers=2)
    assert column.job_text() == dealfl.Fleet.from_arrays(X, NUMBERS, workers=2).job_text()


def test_histories_may_have_names_and_are_no_texts() -> None:
    fleet = dealfl.Fleet.from_histories({"ann": ["ham", "tea"], "bob": ["tea"], "cem": ["jam"]})
    assert fleet.data is not None
    assert "ann,ham,0" in fleet.data.text()
    with pytest.raises(dealfl.BadInput, match="the history 'ham' is a text; give a list of items"):
        dealfl.Fleet.from_histories(["ham", "jam"])
    empty: list[Any] = [[], [[]], {}]
    for nothing in empty:
        with pytest.raises(dealfl.BadInput, match="the histories have no item"):
            dealfl.Fleet.from_histories(nothing)


def test_arguments_of_a_wrong_kind_are_explained(tmp_path: Path) -> None:
    with pytest.raises(dealfl.BadInput, match=r"a DataFrame; pass data .* to Fleet\.from_arrays"):
        dealfl.Fleet.from_file(frame_of("tikhonov"))
    with pytest.raises(dealfl.BadInput, match="pass values by key"):
        dealfl.Fleet.from_arrays(X, NUMBERS, settings="job.rounds=3")  # type: ignore[arg-type]
    fleet = dealfl.Fleet.from_arrays(X, NUMBERS, workers=2)
    with pytest.raises(dealfl.BadInput, match="is varied over 'uniform'; give a list of values"):
        dealfl.sweep(fleet, {"job.selector": "uniform"}, verbose=False)
    with pytest.raises(dealfl.BadInput, match="is varied over 'deal'; give a list of values"):
        dealfl.compare(fleet, "deal", verbose=False)
    with pytest.raises(dealfl.BadInput, match="the parts come first"):
        dealfl.learn(dealfl.Tikhonov(3), [(X, NUMBERS)])  # type: ignore[arg-type, type-var]


def test_persons_are_erased_by_lists_and_by_numbers(tmp_path: Path) -> None:
    fleet = dealfl.Fleet.from_arrays(X, NUMBERS, owners=np.arange(60) % 7, workers=2)
    result = dealfl.run(fleet, out=tmp_path / "run", verbose=False)
    assert result.erase([1, 2], "3").erasure.persons == 3
    assert len(result.owners()) == 4
