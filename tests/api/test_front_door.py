"""The front door: a federation in five lines, from arrays, frames and files."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dealfl
from dealfl.cli import main
from dealfl.learners import RowLearner
from dealfl.runs import Run, Watcher
from dealfl.simulate import Progress
from tests.api.small_data import HISTORIES, LABELS, LEARNERS, NUMBERS, SMALL, X, frame_of, pd

UNCHANGED = Run.run


def fleet_of(learner: str, data: str, folder: Path) -> dealfl.Fleet:
    more: Any = {"learner": learner, "workers": 3, "settings": SMALL.get(learner)}
    frame = frame_of(learner)
    if data == "file":
        frame.to_csv(folder / "data.csv", index=False)
        return dealfl.Fleet.from_file(folder / "data.csv", **more)
    if learner == "personalized_pagerank":
        given = frame if data == "frame" else HISTORIES
        return dealfl.Fleet.from_histories(given, **more)
    if data == "frame":
        return dealfl.Fleet.from_arrays(frame[["a", "b", "c"]], frame["target"], **more)
    return dealfl.Fleet.from_arrays(X, LEARNERS[learner], **more)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_five_lines(learner: str, tmp_path: Path) -> None:
    digests = set()
    for data in ("arrays", "frame", "file"):
        fleet = fleet_of(learner, data, tmp_path)
        result = dealfl.run(fleet, rounds=2, seed=0, verbose=False)
        assert result.exact
        assert result.quality is not None
        assert (result.model.name, result.model.digest()) == (learner, result.digest)
        assert result.energy.whole_j > 0
        assert len(result.rounds) == 2
        assert isinstance(result.rounds, pd.DataFrame)
        digests.add(result.digest)
    if learner != "personalized_pagerank":  # lists and frames name owners in another way
        assert len(digests) == 1, "the same data have the same digest, wherever they are"
    assert result.plot("quality").data
    page = result.report(tmp_path / "report.html")
    assert page.stat().st_size > 10_000
    assert learner in repr(fleet)
    assert "<table>" in fleet._repr_html_()
    assert "<table>" in result._repr_html_()
    assert result.digest[:16] in repr(result)


def test_schemes_and_settings_are_compared_in_tables() -> None:
    fleet = dealfl.Fleet.from_arrays(X, LABELS, workers=3)
    table = dealfl.compare(fleet, ["deal", "newfl"], seeds=2, rounds=1, verbose=False)
    assert table["job.scheme"].tolist() == ["deal", "newfl"]
    assert table["exact"].all()
    assert {"quality", "quality_ci", "energy_j"} <= set(table.columns)
    table = dealfl.sweep(fleet, {"job.forget_fraction": [0, 0.5]}, rounds=9, verbose=False)
    assert table["examples_evicted"].tolist()[0] == 0 < table["examples_evicted"].tolist()[1]
    with pytest.raises(dealfl.BadInput, match=r"job\.forget_fraction is 2"):
        dealfl.sweep(fleet, {"job.forget_fraction": [0, 2]}, verbose=False)


def test_without_pandas_tables_are_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    fleet = dealfl.Fleet.from_arrays(X, LABELS, workers=3)
    rounds = dealfl.run(fleet, rounds=1, verbose=False).rounds
    assert rounds[0]["number"] == 1
    assert "<td>1</td>" in rounds._repr_html_()


@pytest.mark.parametrize("kind", ["table", "sparse", "histories"])
def test_python_and_the_command_line_have_the_same_digest(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "histories":
        fleet = dealfl.Fleet.from_histories(HISTORIES, workers=3)
    else:
        rows = sparse.csr_array(X) if kind == "sparse" else X / 3
        fleet = dealfl.Fleet.from_arrays(rows, LABELS, "naive_bayes", workers=3)
    fleet = fleet.with_rounds(2)
    job = fleet.save("job.toml")
    assert main(["run", str(job), "--no-compare", "--out", "there"]) == 0
    digest = dealfl.run(fleet, verbose=False).digest
    assert digest == dealfl.run(dealfl.Fleet.from_job(job), verbose=False, out="here").digest
    for folder in ("there", "here"):
        found = import_module("json").loads(Path(folder, "result.json").read_text())
        assert found["outcomes"]["deal"]["digest"] == digest


@pytest.mark.parametrize("kind", ["table", "sparse"])
def test_a_run_in_a_folder_holds_its_data_so_that_commands_can_use_them_later(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = sparse.csr_array(X) if kind == "sparse" else X
    fleet = dealfl.Fleet.from_arrays(rows, LABELS, "naive_bayes", workers=2).with_rounds(3)
    whole = dealfl.run(fleet, verbose=False).digest
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("dealfl.runs.Run.run", _stopped_run)
        with pytest.raises(dealfl.Interrupted, match="resume=True"):
            dealfl.run(fleet, out=out, verbose=False)
    data = out / ("data.svm" if kind == "sparse" else "data.csv")
    assert data.stat().st_mode & 0o777 == 0o600
    words = ["run", str(out / "job.toml"), "--out", str(out), "--resume", "--no-compare", "--json"]
    assert main(words) == 0
    assert (
        import_module("json").loads(capsys.readouterr().out)["outcomes"]["deal"]["digest"] == whole
    )
    assert main(["model", "score", str(out), str(data)]) == 0
    with pytest.raises(dealfl.BadInput, match="holds a finished run"):
        dealfl.run(fleet, out=out, verbose=False)
    assert dealfl.run(fleet, out=out, verbose=False, restart=True).digest == whole


def _stopped_run(run: Run, watcher: Watcher, **_: object) -> Any:
    """Run until the first round is closed, and stop as Ctrl-C does."""
    show = watcher.show_progress

    def show_and_stop(progress: Progress) -> None:
        show(progress)
        if progress.rounds:
            run.stop()

    watcher.show_progress = show_and_stop  # type: ignore[method-assign]
    return UNCHANGED(run, watcher)


def test_any_key_of_the_job_can_be_set_with_the_checks_of_a_job_file() -> None:
    fleet = dealfl.Fleet.from_arrays(
        X, LABELS, workers=4, test_share=0.5,
        settings={"job.forget_fraction": np.float64(0.05), "devices.1.phone": "honor"},
    )  # fmt: skip
    tables = tomllib.loads(fleet.job_text())
    assert tables["job"]["forget_fraction"] == 0.05
    assert tables["data"]["test_share"] == 0.5
    assert "4 × honor" in repr(fleet)
    with pytest.raises(dealfl.BadInput, match=r"job: no key 'ronds' in job; did you mean|ronds"):
        fleet.with_settings({"job.ronds": 3})
    with pytest.raises(dealfl.BadInput, match=r"job\.rounds is 0"):
        dealfl.run(fleet, rounds=0)
    with pytest.raises(dealfl.BadInput, match="cannot be removed"):
        fleet.with_settings({"faults.loss": None})


def test_a_feature_map_can_be_removed_and_then_the_model_takes_raw_rows() -> None:
    fleet = dealfl.Fleet.from_arrays(X * 4, LABELS, "naive_bayes", workers=3)
    assert "bins" in repr(fleet)
    mapped = dealfl.run(fleet, rounds=1, verbose=False)
    assert len(mapped.predict(X * 4)) == len(X)
    plain = dealfl.run(fleet.with_settings({"features": None}), rounds=1, verbose=False)
    assert isinstance(plain.model, RowLearner)
    assert plain.model.predict(X * 4).tolist() == plain.predict(X * 4).tolist()


def test_the_front_door_fits_an_intercept() -> None:
    for y in (NUMBERS, LABELS):
        result = dealfl.run(dealfl.Fleet.from_arrays(X, y, workers=2), rounds=1, verbose=False)
        assert result.model.settings["intercept"] is True


def test_a_model_is_saved_with_its_job(tmp_path: Path) -> None:
    frame = frame_of("naive_bayes")
    fleet = dealfl.Fleet.from_arrays(frame[["a", "b", "c"]], frame["target"], "naive_bayes")
    result = dealfl.run(fleet, rounds=1, verbose=False)
    result.save(tmp_path / "model.deal")
    assert dealfl.load(tmp_path / "model.deal").digest() == result.digest
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert main(["model", "predict", str(tmp_path / "model.deal"), str(tmp_path / "new.csv")]) == 0


def test_progress_is_shown_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = dealfl.Fleet.from_arrays(X, LABELS, workers=2)
    dealfl.run(fleet, rounds=1, verbose=False)
    dealfl.sweep(fleet, rounds=1, verbose=False)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_importing_loads_no_other_package() -> None:
    code = (
        "import sys; import dealfl; dir(dealfl)\n"
        "print([name for name in ('numpy', 'scipy', 'pandas', 'plotly', 'rich', 'msgspec', "
        "'sklearn', 'numba', 'tqdm', 'IPython') if name in sys.modules])\n"
        "dealfl.Fleet, dealfl.run, dealfl.NaiveBayes\n"
        "print([name for name in ('pandas', 'plotly', 'rich', 'sklearn', 'tqdm', 'IPython') "
        "if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    at_once, later = done.stdout.splitlines()
    assert at_once == later == "[]"


def test_another_learner_or_selector_takes_none_of_the_keys_of_the_job_s_own() -> None:
    own = dealfl.Fleet.from_job()
    assert "penalty" in own.document.tables["learner"]
    values = {"job.learner": "naive_bayes", "learner.smoothing": 2.0, "job.selector": "uniform"}
    other = dealfl.Fleet.from_job(settings=values)
    assert other.learner == "naive_bayes"
    assert set(other.document.tables["learner"]) == {"smoothing"}
    assert "selection" not in other.document.tables
    same = dealfl.Fleet.from_job(settings={"job.learner": "tikhonov_classifier"})
    assert "penalty" in same.document.tables["learner"]


def test_messages_name_arguments_in_python_and_options_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "same.csv"
    file.write_text("a,b\n1,5\n2,5\n3,5\n")
    with pytest.raises(dealfl.BadInput, match=r"choose another target=$") as refusal:
        dealfl.Fleet.from_file(file, target="b")
    assert "--" not in str(refusal.value)
    assert main(["job", "init", str(file), "--target", "b", "--yes"]) == 2
    assert capsys.readouterr().err.endswith("choose another --target\n")
    with pytest.raises(dealfl.BadInput, match=r"choose another target=$"):  # as before
        dealfl.Fleet.from_file(file, target="b")


@pytest.mark.parametrize("rounds", ["3", 1.5, [3]])
def test_rounds_that_are_no_number_are_refused(rounds: Any) -> None:
    fleet = dealfl.Fleet.from_arrays(X, NUMBERS, workers=3)
    with pytest.raises(dealfl.BadInput, match=r"job\.rounds.*it takes a whole number ≥ 1"):
        fleet.with_rounds(rounds)
    assert fleet.with_rounds(np.int64(3)).rounds == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", ["5", 2.5, True, 0])
def test_workers_that_are_no_number_are_refused(workers: Any) -> None:
    with pytest.raises(dealfl.BadInput, match=r"workers is .*; it must be a whole number ≥ 1"):
        dealfl.Fleet.from_arrays(X, NUMBERS, workers=workers)


def test_what_is_no_fleet_is_refused_with_what_makes_one(tmp_path: Path) -> None:
    call: Any
    for call in (dealfl.run, dealfl.sweep, dealfl.compare):
        with pytest.raises(dealfl.BadInput, match=r"pass Fleet\.from_file\('x\.csv'\)"):
            call("x.csv")
        with pytest.raises(dealfl.BadInput, match=r"pass Fleet\.from_job\('job\.toml'\)"):
            call(Path("job.toml"))
        with pytest.raises(dealfl.BadInput, match=r"not an object of type ndarray; make one by"):
            call(X)
    job = tmp_path / "job.toml"
    job.write_text("[job]\n")
    with pytest.raises(dealfl.BadInput, match=r"is a job file; use Fleet\.from_job\('"):
        dealfl.Fleet.from_file(job)
