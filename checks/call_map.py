"""A plug-in of pytest: writes which functions of the package each test calls, and its duration."""

import json
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest

_calls: dict[str, tuple[float, list[str]]] = {}
_fixtures: dict[object, set[CodeType]] = {}  # what was called for fixtures of several tests
_watched: list[set[CodeType]] = []  # a test, and the fixtures that are made for it
_failed: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--call-map", default="calls.json", help="file to write")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Record the calls of a test, of its fixtures and threads."""
    start = time.perf_counter()
    with _watching() as seen:
        result = yield
    elapsed_s = time.perf_counter() - start
    _calls[item.nodeid] = (elapsed_s, sorted(filter(None, map(_name, seen))))
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Add the calls of all fixtures that a test has used, whoever made them."""
    for fixture in getattr(item, "_request")._fixture_defs.values():  # noqa: B009 - no public name
        _watched[0].update(_fixtures.get(fixture, ()))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Record the calls of a fixture, which several tests may use, but the first one makes."""
    _fixtures[fixturedef] = seen = set[CodeType]()
    _watched.append(seen)
    if sys.version_info >= (3, 12):
        sys.monitoring.restart_events()
    try:
        return (yield)
    finally:
        _watched.remove(seen)


def _note(code: CodeType) -> None:
    for seen in _watched:
        seen.add(code)


@contextmanager
def _watching() -> Iterator[set[CodeType]]:
    """Yield a set which gets the code that runs in any thread."""
    seen: set[CodeType] = set()
    _watched[:] = [seen]
    if sys.version_info >= (3, 12):  # each code is reported once, so that tests are hardly slower
        monitor, tool = sys.monitoring, sys.monitoring.PROFILER_ID

        def note(code: CodeType, offset: int) -> object:  # noqa: ARG001
            _note(code)
            return monitor.DISABLE

        monitor.use_tool_id(tool, "calls")
        monitor.register_callback(tool, monitor.events.PY_START, note)
        monitor.restart_events()
        monitor.set_events(tool, monitor.events.PY_START)
        yield seen
        monitor.set_events(tool, monitor.events.NO_EVENTS)
        monitor.free_tool_id(tool)
    else:

        def trace(frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG001
            _note(frame.f_code)

        sys.settrace(trace)
        threading.settrace(trace)
        yield seen
        sys.settrace(None)
        threading.settrace(None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that fails: it would fail with every change."""
    if report.failed:
        _failed.add(report.nodeid)


def _name(code: CodeType) -> str:
    """Return the path and the function of a piece of code of the package; else ''."""
    _, package, path = code.co_filename.rpartition("/src/dealfl/")
    function = code.co_qualname.partition(".<locals>.<")[0]  # a lambda belongs to its function
    return f"src/dealfl/{path}:{function}" if package else ""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the file."""
    path = Path(session.config.getoption("--call-map"))
    passed = {test: called for test, called in _calls.items() if test not in _failed}
    path.write_text(json.dumps(passed), "utf-8")
