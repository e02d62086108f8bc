"""Data that comes inside another package."""

import numpy as np

from dealfl.datasets.formats import Table
from dealfl.errors import DatasetMissing

__all__ = ["digits"]


def digits(rows: int) -> Table:
    """Return the first of scikit-learn's 1,797 handwritten digits, 8×8 pixels from 0 to 16.

    >>> digits(rows=3).targets.tolist()
    [0, 1, 2]
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise DatasetMissing(
            'dataset digits comes with scikit-learn; run `pip install "dealfl[sklearn]"`'
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    return Table(pixels[:rows].astype(np.uint8), labels[:rows].astype(np.int64))
