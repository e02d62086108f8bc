"""A person's rows leave a fitted scikit-learn estimator; the digest proves it.

Run it:    python examples/forget_a_person.py
"""

import time

import numpy as np
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import GridSearchCV  # type: ignore[import-untyped]

from dealfl.sklearn import RidgeClassifier


def main() -> None:
    """Choose a penalty, learn all rows, forget those of a person, and compare with a new fit."""
    X, y = load_digits(return_X_y=True)
    one = np.arange(len(X)) // 60 == 7  # these 60 rows stand for the digits of one person
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


if __name__ == "__main__":
    main()
