"""A dataset: generated points around two hilltops."""

import numpy as np

from dealfl.plugins import Dataset, Domain, Table, Task

__all__ = ["TWO_HILLS"]


def _make(rows: int) -> Table:
    draw = np.random.Generator(np.random.PCG64(7))
    hills = draw.integers(0, 2, rows)
    points = draw.normal(0.0, 0.5, (rows, 2)) + np.where(hills[:, None] == 1, 1.5, -1.5)
    return Table(np.clip(points, -4.0, 4.0), hills)


TWO_HILLS = Dataset(
    name="two_hills",
    task=Task.CLASSIFICATION,
    description="points around two hilltops",
    rows=400,
    columns=2,
    licence="public domain",
    address="made by the package dealfl-example",
    make=_make,
    origin="generated",
    domain=Domain.alike(2, -4.0, 4.0),
    classes=(0, 1),
)
