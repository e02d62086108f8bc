"""What a version of dealfl computes, written down so that a later one can be held against it.

`python -m tests.before.record FOLDER` writes statistics, saved models, the figures of short runs
(`--whole`: of whole example jobs), erasures and messages, through the public names and commands
alone. A case of a message is a command or a call in `results/messages.json`: to add one, write it
there and record again.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse

import dealfl
from dealfl import learners as all_learners
from dealfl import sklearn as adapters
from dealfl.cli import main
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)

RESULTS = Path(__file__).parent / "results"
EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = sorted((EXAMPLES / "jobs").glob("*.toml"))
FLEETS = {path.stem: path for path in sorted((EXAMPLES / "fleets").glob("*.toml"))}
SHORT = {
    "job.rounds": "4",
    "job.evaluate_every": "2",
    "arrival.initial_share": "0.5",
    "data.rows": "600",
    **{f"devices.{group}.count": "2" for group in range(1, 6)},
}
DIGITS = {"job.max_h": "3.0"}
SHORT_FLEET = {"job.rounds": "4", "job.evaluate_every": "4", "job.forget_fraction": "0.2"}
FEW_FRAMES = {"worker.memory.frames": "60"}  # of 1,384 pages
ROWS = {"data.rows": "600"}
PAGED = """
[job]
dataset = "digits"
rounds = 4
workers_per_round = 3
forget_fraction = "0.2"
[[devices]]
count = 3
phone = "honor"
[worker]
model = "resident"
[worker.memory]
frames = 4
[data]
rows = 150
[arrival]
pattern = "each_round"
initial_share = 0.3
examples_per_round = 5
"""
PAGED_CASES = {
    **{f"tikhonov_classifier, {policy}": ("tikhonov_classifier", policy)
       for policy in ("arc", "budgeted_theta_lru", "lru", "theta_lru")},
    "naive_bayes": ("naive_bayes", "theta_lru"),
    "neighbors": ("neighbors", "theta_lru"),
}  # fmt: skip
KINDS = ("tikhonov", "tikhonov_classifier", "naive_bayes", "neighbors", "personalized_pagerank")
ERASED = ("tikhonov", "neighbors", "personalized_pagerank")
HOUSES = """\
[job]
name = "houses"
learner = "tikhonov"
rounds = 4

[source]
file = "houses.csv"
target = "price"
target_bound = 1000.0
owner = "who"

[source.columns]
size = { low = 0.0, high = 300.0 }
town = { words = ["Bern", "Basel", "Chur"] }

[learner]
penalty = 0.25

[[devices]]
count = 3

[data]
partition = "by_owner"
test_share = 0.2
"""

_ROUND = [
    "number",
    "reason",
    "closed_at_s",
    "quality",
    "able",
    "selected",
    "replied",
    "learned",
    "evicted",
    "compute_j",
    "operating_j",
    "radio_j",
]
_PARTICIPANT = [
    "name",
    "device",
    "selected",
    "replied",
    "learned",
    "held",
    "compute_j",
    "radio_j",
    "battery",
]
_OUTCOME = [
    "learner",
    "metric",
    "quality",
    "learned",
    "evicted",
    "not_learned",
    "updates",
    "ended",
    "operations",
    "energy_j",
    "virtual_s",
    "digest",
    "central_digest",
]
_ENERGY = [
    "compute_s",
    "charge_uah",
    "cycles",
    "wake_ups",
    "pages_in",
    "pages_out",
    "refactorisations",
    "bursts",
    "up_bytes",
    "down_bytes",
    "band_j",
]
_PREDICATE = [
    "job",
    "requested_by",
    "persons",
    "examples",
    "workers",
    "outstanding",
    "before",
    "after",
    "final",
    "not_covered",
]


def learners() -> dict[str, Learner]:
    """Return one learner of each kind that has learned and forgotten."""
    generator = np.random.default_rng(20)
    X = generator.uniform(-3, 5, (60, 7))
    y, labels = X @ np.arange(7.0), generator.integers(0, 3, 60)
    classes = ["ham", "spam", "other"]
    named = np.array(classes)[labels]
    bounds = [8.0, 4.0, 5.0, 5.0, 100.0, 5.0, 16.0]
    X = np.clip(X, -np.array(bounds), bounds)
    made: dict[str, Any] = {
        "tikhonov": Tikhonov(7, 0.5, feature_bound=bounds, target_bound=128.0, intercept=True),
        "tikhonov_classifier": TikhonovClassifier(7, classes, feature_bound=bounds),
        "naive_bayes": NaiveBayes(7, classes, 0.5, feature_bound=8.0, offset=-3.0),
        "neighbors": Neighbors(7, classes, k=3, seed=5, feature_bound=8.0, offset=1.0),
    }
    targets = {"tikhonov": y}
    for name, learner in made.items():
        target = targets.get(name, named)
        learner.learn(X, target)
        learner.forget(X[10:20], target[10:20])
    histories = sparse.csr_array(generator.random((40, 30)) < 0.2).astype(np.int64)
    pagerank = PersonalizedPageRank(30)
    pagerank.learn(histories)
    pagerank.forget(histories[5:9])
    return made | {"personalized_pagerank": pagerank}


def run(job: Path | None, values: dict[str, str], *options: str) -> dict[str, Any]:
    """Return what came out of `dealfl run`, scheme by scheme, as far as it must not change."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", *([str(job)] if job else []), "--json", "--out", folder, *options]
        outcomes = _answer(*words, *_set(values))["outcomes"]
    return {scheme: _figures(outcome) for scheme, outcome in outcomes.items()}


def _set(values: dict[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def _answer(*words: str) -> Any:
    """Return the JSON that a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        assert main(words) == 0, words
    return json.loads(printed.getvalue())


def _figures(outcome: dict[str, Any]) -> dict[str, Any]:
    figures = {name: outcome[name] for name in _OUTCOME}
    figures["by_cause_j"] = outcome["energy"]["by_cause_j"]
    figures["saved_j"] = outcome["energy"]["saved_j"]
    figures["rounds"] = [[one[name] for name in _ROUND] for one in outcome["rounds"]]
    figures["participants"] = [
        [one[name] for name in _PARTICIPANT] for one in outcome["participants"]
    ]
    return figures


def simulate(fleet: Path, values: dict[str, str]) -> dict[str, Any]:
    """Return what came out of `dealfl simulate`, with the pages that were swapped."""
    words = ["simulate", str(fleet), "--json", "--processes", "1", *_set(values)]
    (setting,) = _answer(*words)["settings"]
    (outcome,) = setting["outcomes"]
    means = {name: estimate["mean"] for name, estimate in setting["estimates"].items()}
    energy = {name: outcome["energy"][name] for name in _ENERGY}
    return _figures(outcome) | {"estimates": means, "energy": energy}


def short_fleet(name: str) -> dict[str, Any]:
    """Return a short simulation of an example fleet."""
    fleet = tomllib.loads(FLEETS[name].read_text("utf-8"))
    few = {f"devices.{number}.count": "4" for number, _ in enumerate(fleet["devices"], 1)}
    frames = FEW_FRAMES if "worker" in fleet else {}
    return simulate(FLEETS[name], SHORT_FLEET | ROWS | few | frames)


def paged_run(name: str) -> dict[str, Any]:
    """Return a short simulation of phones whose memory holds a part of their models."""
    learner, policy = PAGED_CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "paged.toml").write_text(PAGED)
        values = {"job.learner": learner, "worker.memory.policy": policy}
        return simulate(Path(folder) / "paged.toml", values)


def _table() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[str]]:
    """Return rows, a target for each, and their owners."""
    X = np.random.default_rng(7).uniform(0, 4, (90, 3))
    return X, 10 + X @ [1.0, 2.0, 3.0], [f"person {number % 9}" for number in range(90)]


def _fleet(kind: str) -> dealfl.Fleet:
    """Return three phones of nine people for a learner."""
    X, y, owners = _table()
    if kind == "personalized_pagerank":
        generator = np.random.default_rng(8)
        histories = [generator.choice(12, 5, replace=False).tolist() for _ in range(30)]
        return dealfl.Fleet.from_histories(histories, workers=3, n_items=12)
    target = y if kind == "tikhonov" else np.where(X[:, 0] > X[:, 1], "left", "right")
    return dealfl.Fleet.from_arrays(X, target, learner=kind, workers=3, owners=owners)


def api_run(kind: str) -> dict[str, Any]:
    """Return the result of `dealfl.run` for a learner, and what its model predicts."""
    fleet = _fleet(kind)
    result = dealfl.run(fleet, rounds=3, verbose=False)
    names = ("learner", "metric", "quality", "exact", "digest")
    found = {name: getattr(result, name, kind) for name in names} | {"job": fleet.job_text()}
    if kind == "personalized_pagerank":
        ranked = result.recommend([0, 1, 2], 5)
        columns = {name: [*map(float, ranked[name])] for name in ("item", "score")}
        return found | {"recommended": columns}
    X, y, _ = _table()
    target = y if kind == "tikhonov" else np.where(X[:, 0] > X[:, 1], "left", "right")
    return found | {"predicted": result.predict(X[:12]).tolist(), "score": result.score(X, target)}


def erasure(kind: str) -> dict[str, Any]:
    """Return what erasing a person does to a run, and what the certificate says of it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _fleet(kind).save("job.toml")
        ran = _answer("run", "job.toml", "--out", "ran", "--no-compare", "--json")
        person = _answer("show", "ran", "--owners", "--json")[3]
        held = _answer("show", "ran", person["owner"], "--json")
        words = ("erase", "ran", person["owner"], "--by", "tester", "--json")
        erased, again = _answer(*words), _answer(*words)
        certificate = json.loads(Path(erased["certificate"]).read_text("utf-8"))
        statement = json.loads(base64.b64decode(certificate.pop("payload")))
        verified = _answer("verify", "ran", erased["certificate"], "--retrain", "--json")
        model = _answer("model", "info", "ran", "--json")
    for one in held:
        one["ids"] = len(one["ids"])  # hashes with a random key
    statement["predicate"] = {name: statement["predicate"][name] for name in _PREDICATE}
    return {
        "digest": ran["outcomes"]["deal"]["digest"],
        "person": person,
        "held": held,
        "payload_type": certificate["payloadType"],
        "statement": statement,
        "again": {name: again[name] for name in (*_PREDICATE, "known_before")},
        "retrained": verified["retrained"],
        "model": {name: model[name] for name in ("learner", "settings", "examples", "digest")},
    }


def messages() -> dict[str, dict[str, Any]]:
    """Return every case of a message with the exit code or the error, and the text."""
    cases: dict[str, dict[str, Any]] = json.loads((RESULTS / "messages.json").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        hidden = {"DEALFL_CACHE": str(Path(folder) / "cache"), "COLUMNS": "100"}
        with mock.patch.dict(os.environ, hidden), warnings.catch_warnings():
            os.environ.pop("DEALFL_DATA", None)
            warnings.simplefilter("error")
            _write_files({"job": {}})
            _answer("run", "job.toml", "--out", "ran", "--no-compare", "--json")
            _answer("model", "export", "ran", "--out", "model.deal", "--json")
            names = _names()
            return {name: _message(case, names) for name, case in cases.items()}


def _write_files(case: dict[str, Any]) -> None:
    """Write a job, its data and the files of a case; remove the run of the case before."""
    shutil.rmtree("new", ignore_errors=True)
    towns = ("Bern", "Basel", "Chur")
    rows = [f"p{n % 7},{20 + 5 * n},{towns[n % 3]},{60 + 15 * n + n % 3}" for n in range(40)]
    job = HOUSES
    for old, new in case.get("job", {}).items():
        assert old in job, old
        job = job.replace(old, new, 1)
    files = {"houses.csv": "\n".join(["who,size,town,price", *rows, ""]), "job.toml": job}
    for name, text in (files | case.get("files", {})).items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, "utf-8")


def _names() -> dict[str, Any]:
    """Return what the calls of `messages.json` refer to."""
    fleet, made = _fleet("naive_bayes"), learners()
    X, _, _ = _table()
    saved = {kind: (RESULTS / f"{kind}.model").read_bytes() for kind in KINDS}
    Path("other.deal").write_bytes(saved["tikhonov"])
    return vars(all_learners) | made | {
        "dealfl": dealfl, "np": np, "sparse": sparse, "adapters": adapters, "Fleet": dealfl.Fleet,
        "fleet": fleet, "result": dealfl.run(fleet, rounds=1, verbose=False), "saved": saved,
        "file": _write_bytes, "table": X, "names": ["left", "right", "middle"] * 30,
        "rows": np.ones((4, 7)), "targets": np.arange(4.0), "classes": ["ham", "spam"] * 2,
        "sorts": ["a", "b"] * 2, "histories": sparse.csr_array(np.eye(4, 30, dtype=np.int64)),
    }  # fmt: skip


def _write_bytes(data: bytes) -> Path:
    Path("bytes.deal").write_bytes(data)
    return Path("bytes.deal")


def _message(case: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    given = {name: case[name] for name in ("command", "job", "files", "call") if name in case}
    _write_files(case)
    if "command" in case:
        code, text = _said(shlex.split(case["command"]))
        return given | {"exit": code, "message": _plain(text)}
    try:
        eval(case["call"], dict(names))
    except Exception as error:
        rule = {"rule": error.rule} if isinstance(error, dealfl.BadInput) and error.rule else {}
        return given | {"raises": type(error).__name__, "message": _plain(str(error)), **rule}
    return given | {"raises": None, "message": ""}


def _said(words: list[str]) -> tuple[Any, str]:
    """Return the exit code of a command and its errors, of the usage the last line."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        try:
            code: Any = main(words)
        except SystemExit as error:
            return error.code, printed.getvalue().strip().splitlines()[-1]
        except Exception as error:
            return type(error).__name__, str(error)
    return code, printed.getvalue().strip()


def _plain(text: str) -> str:
    """Return a text without the folder of the test, and without what versions of Python quote."""
    here = text.replace(os.path.realpath("."), "FOLDER").replace(str(Path.cwd()), "FOLDER")
    return re.sub(r"choose from .*\)", lambda found: found[0].replace("'", ""), here)


def short_run(name: str) -> dict[str, Any]:
    """Return a short run of an example job, or of the main job under all schemes."""
    if name == "digits":
        return run(None, DIGITS)
    return run(next(job for job in JOBS if job.stem == name), SHORT, "--no-compare")


def whole_runs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all example jobs as they are, and the main job."""
    yield "digits", run(None, {})
    for job in JOBS:
        yield job.stem, run(job, {}, "--no-compare")


def _record(folder: Path, *, whole: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not whole:
        for name, learner in learners().items():
            (folder / f"{name}.statistics").write_bytes(learner.statistics.to_bytes())
            learner.save(folder / f"{name}.model")
    names = ["digits", *(job.stem for job in JOBS)]
    runs = dict(whole_runs()) if whole else {name: short_run(name) for name in names}
    text = json.dumps(runs, indent=None, separators=(",", ":"), ensure_ascii=False)
    (folder / ("whole_runs.json" if whole else "short_runs.json")).write_text(text + "\n")
    if not whole:
        _record_readable(folder)


def _record_readable(folder: Path) -> None:
    _write(folder / "fleets.json", {name: short_fleet(name) for name in FLEETS})
    _write(folder / "paged.json", {name: paged_run(name) for name in PAGED_CASES})
    _write(folder / "api.json", {kind: api_run(kind) for kind in KINDS})
    _write(folder / "erasures.json", {kind: erasure(kind) for kind in ERASED})
    _write(folder / "messages.json", messages())


def _write(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    _record(given.folder, whole=given.whole)
