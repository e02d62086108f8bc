"""The real data, where DEALFL_DATA names it."""

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from dealfl.datasets import CATALOG, Examples, Places, load

settings.register_profile("untimed", deadline=None)  # the first call may compile loops
settings.load_profile("untimed")
DATA = os.environ.get("DEALFL_DATA")  # read before any test changes it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell started the tests with `&`
    signal.signal(signal.SIGINT, signal.default_int_handler)

NOT_TO_BE_HAD = {"yearpredictionmsd", "cifar10-full", "retailrocket-full"}  # too large, or a login


@pytest.fixture(scope="session")
def real() -> Places:
    """The place of the real data; without a cache, DEALFL_DATA is sure to be what is read."""
    if not DATA:
        pytest.skip("DEALFL_DATA is not set: it names the directory with the real data files")
    return Places(cache=None, data=Path(DATA))


@pytest.fixture(scope="session")
def load_real(real: Places) -> Callable[[str], Examples]:
    """Loads a real dataset, each once a session."""

    @cache
    def loaded(name: str) -> Examples:
        if real.missing(CATALOG[name]):
            reason = f"DEALFL_DATA does not hold all files of {name}"
            if os.environ.get("CI") == "true" and name not in NOT_TO_BE_HAD:
                pytest.fail(reason)
            pytest.skip(reason)
        return load(name, places=real, download=False)

    return loaded
