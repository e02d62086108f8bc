"""A small fleet whose data are in memory."""

import numpy as np

from dealfl import Fleet

_X = np.random.default_rng(0).uniform(0, 1, (80, 2))
FLEET = Fleet.from_arrays(_X, _X[:, 0] > _X[:, 1], workers=3).with_rounds(2)
