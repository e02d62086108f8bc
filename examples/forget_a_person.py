"""A person is forgotten: by a scikit-learn estimator, and by a run with a certificate.

Run it:    python examples/forget_a_person.py
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import GridSearchCV  # type: ignore[import-untyped]

import dealfl
from dealfl.erasure import Evidence, is_about, verify_certificate
from dealfl.runs import RunFolder, retrain
from dealfl.sklearn import RidgeClassifier

Rows = NDArray[Any]


def main() -> None:
    """Forget the rows of one person twice."""
    X, y = load_digits(return_X_y=True)
    people = [f"person {number // 60}" for number in range(len(X))]  # 60 rows for each of them
    forget_from_an_estimator(X, y, np.array(people) == "person 7")
    erase_from_a_run(X[:600], y[:600], people[:600])


def forget_from_an_estimator(X: Rows, y: Rows, one: Rows) -> None:
    """Choose a penalty, learn all rows, forget those of a person, and compare with a new fit."""
    # Pixels lie in [0, 16]: a fact about the scanner, not about any person.
    model = RidgeClassifier(feature_bound=16.0)
    search = GridSearchCV(model, {"alpha": [0.1, 1.0, 10.0, 100.0]}, cv=3).fit(X, y)
    model = search.best_estimator_
    print(f"alpha {model.alpha}, accuracy {search.best_score_:.3f} in cross-validation")

    start = time.perf_counter()
    model.forget(X[one], y[one])
    took_ms = 1e3 * (time.perf_counter() - start)
    print(f"forgot {one.sum()} rows in {took_ms:.1f} ms")

    never = RidgeClassifier(alpha=model.alpha, feature_bound=16.0).fit(X[~one], y[~one])
    print(f"digest      {model.digest()}")
    print(f"never seen  {never.digest()}")
    print("equal" if model.digest() == never.digest() else "DIFFERENT")


def erase_from_a_run(X: Rows, y: Rows, people: list[str]) -> None:
    """Let phones learn the rows, erase a person from the finished run, and check the evidence."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = dealfl.Fleet.from_arrays(X, y, owners=people, workers=4)
        result = dealfl.run(fleet, rounds=6, out=Path(folder) / "run", verbose=False)
        erased = result.erase("person 7", requested_by="the person")
        said, _ = verify_certificate(erased.certificate, Evidence())
        print(f"erased {said.examples} examples; {said.workers} phones answered")
        again = retrain(RunFolder.at(Path(folder) / "run"))
        print("equal" if said.after and said.after.digest == again else "DIFFERENT")
        print("about her" if is_about(said, "person 7", erased.salts["person 7"]) else "NOT HER")


if __name__ == "__main__":
    main()
