"""The contract of learners, as checks that any learner can run.

The author of a learner describes it as a `Subject` (how to create one, a pool of examples, calls
that must fail, impossible statistics) and calls `check_learner`:

    check_learner(Subject.of_rows(make, X, y, ...), interleavings=1000)

Each check raises `AssertionError` and says what was expected.
"""

from dealfl.learners.checks.contract import check_interleaving, check_learner
from dealfl.learners.checks.subject import Operation, Subject, random_operations

__all__ = ["Operation", "Subject", "check_interleaving", "check_learner", "random_operations"]
