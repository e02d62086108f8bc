"""The real data, where DEALFL_DATA names it, for tests that request it; no test downloads."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# Compiling all loops takes longer than running the tests without; those of loops compile theirs.
os.environ.setdefault("DEALFL_NUMBA", "never")

from dealfl.data import CATALOG, Directories, Examples, find_dataset, load

settings.register_profile("untimed", deadline=None)  # the first call may compile loops
settings.load_profile("untimed")
collect_ignore = ["without_scipy.py"]  # a plug-in of some runs
DATA = os.environ.get("DEALFL_DATA")  # read before any test changes it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell started the tests with `&`
    signal.signal(signal.SIGINT, signal.default_int_handler)

NOT_TO_BE_HAD = {"yearpredictionmsd", "cifar10-full", "retailrocket-full"}  # too large, or a login


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what requests real data as `data`: `.ci/run` runs it also where there is none."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "real" in names or "require_data" in names or item.path.parent.name == "data":
            item.add_marker("data")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once for each reason how many tests were skipped, however quiet the rest is."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[-1]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(autouse=True)
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send what a test or one of its processes downloads to a proxy that does not exist."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture(autouse=True)
def hidden_data(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide real data from a test that does not request it, so that it passes without, too."""
    monkeypatch.setenv("DEALFL_CACHE", str(tmp_path_factory.getbasetemp() / "no-cache"))
    monkeypatch.delenv("DEALFL_DATA", raising=False)


@pytest.fixture(scope="session")
def real() -> Directories:
    """The place of the real data; without a cache, DEALFL_DATA is sure to be what is read."""
    if not DATA:
        pytest.skip("DEALFL_DATA is not set: it names the directory with the real data files")
    return Directories(cache=None, data=Path(DATA))


@pytest.fixture(scope="session")
def load_real(real: Directories) -> Callable[[str], Examples]:
    """Loads a real dataset, each once a session."""

    @cache
    def loaded(name: str) -> Examples:
        if real.missing(CATALOG[name]):
            reason = f"DEALFL_DATA does not hold all files of {name}"
            if os.environ.get("CI") == "true" and name not in NOT_TO_BE_HAD:
                pytest.fail(reason)
            pytest.skip(reason)
        return load(name, directories=real, download=False)

    return loaded


@pytest.fixture
def require_data(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Shows the real data to a test, and skips it if its dataset is not here."""
    if DATA:
        monkeypatch.setenv("DEALFL_DATA", DATA)

    def require(name: str) -> None:
        if Directories.from_environment().missing(find_dataset(name)):
            pytest.skip(f"NO DATA: {name} is not here; name its folder by DEALFL_DATA")

    return require
