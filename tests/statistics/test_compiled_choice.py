"""Which twin runs: numpy at first, the compiled loop when a process has worked long enough."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from dealfl.exact import compiled

pytest.importorskip("numba")

# The twins differ on purpose: `which` returns 1 in numpy and 2 as a loop.
PLAIN = """
    import time
    from dealfl.exact import twin

    @twin
    def which(values, busy_s):
        end_s = time.thread_time() + busy_s
        while time.thread_time() < end_s:
            pass
        return 1

    @twin
    def total(values):
        return int(values.sum())
"""
LOOPS = """
    from dealfl.exact import compile_loop

    @compile_loop
    def which(values, busy_s):
        return 2

    @compile_loop
    def total(values):
        result = 0
        for value in values:
            result += value
        return result
"""
START = """
    import os, sys, time
    import numpy as np
    from dealfl.exact import CHOICE, prefer_loops
    from pair.plain import total, which

    from dealfl.exact import compiled

    VALUES = np.arange(9)

    def failed():
        return any(pair.failed for pair in compiled._twins if pair.plain.__name__ == "which")

    def wait_for_loop(limit_s=100):
        end_s = time.monotonic() + limit_s
        while which(VALUES, 0.0) == 1:
            assert time.monotonic() < end_s, "the loop never took over"
            time.sleep(0.02)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with a package of two twins."""
    (tmp_path / "pair").mkdir()
    (tmp_path / "pair" / "__init__.py").touch()
    (tmp_path / "pair" / "plain.py").write_text(dedent(PLAIN))
    (tmp_path / "pair" / "loops.py").write_text(dedent(LOOPS))
    return tmp_path


def run(
    package: Path, code: str, mode: str = "auto", before: str = "", cache: Path | None = None
) -> str:
    """Return what a process prints that imports the twins and runs some code."""
    result = subprocess.run(
        [sys.executable, "-c", dedent(before) + dedent(START) + dedent(code)],
        env=os.environ
        | {
            "DEALFL_NUMBA": mode,
            "NUMBA_CACHE_DIR": str(cache or package / "cache"),
            "PYTHONPATH": ":".join([str(package), *sys.path]),
        },
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    errors = result.stderr.splitlines()
    assert len(errors) <= 1
    assert all("compil" in line and "(once on this machine; kept in" in line for line in errors)
    return result.stdout.strip()


def test_a_loop_takes_over_after_some_cpu_time_in_numpy(package: Path) -> None:
    code = """
        assert which(VALUES, 0.3) == 1 and "numba" not in sys.modules
        time.sleep(0.5)  # other work does not count
        assert which(VALUES, 0.0) == 1 and "numba" not in sys.modules
        assert which(VALUES, 0.2) == 1
        wait_for_loop()
        print("taken over")
    """
    assert run(package, code) == "taken over"


def test_a_loop_that_takes_over_was_compiled_by_another_process(package: Path) -> None:
    code = """
        which(VALUES, 0.5)
        wait_for_loop()
        (loop,) = [pair.loop for pair in compiled._twins if pair.plain.__name__ == "which"]
        print(sum(loop.stats.cache_hits.values()), sum(loop.stats.cache_misses.values()))
    """
    assert run(package, code) == "1 0"


@pytest.mark.parametrize(("mode", "answer"), [("always", "2 36 36.0"), ("never", "1 36 36.0")])
def test_the_environment_decides(package: Path, mode: str, answer: str) -> None:
    code = """
        before = which(VALUES, 0.5)
        assert before == which(VALUES, 0.0)
        print(before, total(VALUES), float(total(VALUES.astype(np.int32))))
    """
    assert run(package, code, mode) == answer


def test_a_process_with_much_to_do_uses_loops_at_once(package: Path) -> None:
    code = """
        prefer_loops()
        print(which(VALUES, 0.0))
    """
    assert run(package, code) == "2"
    assert run(package, code, "never") == "1"


def test_without_numba_there_is_only_numpy(package: Path) -> None:
    before = """
        import sys
        sys.modules["numba"] = None
    """
    code = """
        print(which(VALUES, 0.5), which(VALUES, 0.0), total(VALUES), CHOICE.mode)
    """
    assert run(package, code, "always", before) == "1 1 36 never"


_NO_FOLDER = "compiled._cache_folders = lambda loops: []"  # none can be written
_FULL_DISK = "caching.FunctionCache.save_overload = fail"


@pytest.mark.parametrize(
    ("failure", "mode"),
    [(_NO_FOLDER, "auto"), (_NO_FOLDER, "always"), (_FULL_DISK, "always")],
)
def test_a_cache_that_fails_leaves_the_work_to_numpy(
    package: Path, failure: str, mode: str
) -> None:
    before = f"""
        from numba.core import caching
        from dealfl.exact import compiled
        def fail(*_):
            raise OSError(28, "No space left on device")
        {failure}
    """
    code = """
        which(VALUES, 0.5)
        end_s = time.monotonic() + 100
        while CHOICE.mode == "auto" and not failed() and time.monotonic() < end_s:
            which(VALUES, 0.01)
        assert failed()
        print(which(VALUES, 0.0), which(VALUES, 0.0))
    """
    assert run(package, code, mode, before) == "1 1"


def test_arguments_of_types_that_cannot_be_compiled_are_left_to_numpy(package: Path) -> None:
    code = """
        assert total(VALUES) == 36
        from numba.core import caching
        def fail(*_):
            raise OSError(28, "No space left on device")
        caching.FunctionCache.save_overload = fail
        print(total(VALUES.astype(np.float32)), total(VALUES))
    """
    assert run(package, code, "always") == "36 36"


@pytest.fixture
def worked_enough(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process be one that has worked long enough for loops."""
    choice = compiled._Choice("auto", spent_s=9.0)
    monkeypatch.setattr(compiled, "CHOICE", choice)
    yield
    compiled._leave_compiler()


@pytest.mark.usefixtures("worked_enough")
@pytest.mark.parametrize("kind", [(1, 2), None, "text"])
def test_arguments_that_another_process_cannot_make_are_left_to_numpy(kind: object) -> None:
    pair = compiled._Twin(lambda given: given)
    assert pair.run_plain((kind,)) == kind
    assert pair.failed


@pytest.mark.parametrize(
    "given",
    [
        np.zeros((5, 6)),
        np.zeros((5, 6), np.int32, order="F"),
        np.zeros((5, 6), np.uint64)[::2, ::3],
        np.frombuffer(b"read-only", np.uint8),
        np.int64(3), np.float32(0.5), True, 7, 2.5,
    ],
)  # fmt: skip
def test_another_process_makes_arguments_of_the_same_kind(given: Any) -> None:
    kind = compiled._describe(given)
    made = compiled._make(*json.loads(json.dumps(kind)))
    assert type(made) is type(given)
    assert compiled._describe(made) == kind


@pytest.mark.usefixtures("worked_enough")
def test_a_compiler_that_was_killed_is_not_waited_for() -> None:
    pair = compiled._Twin(lambda given: given)
    pair.run_plain((1,))
    compiler = compiled.CHOICE.compiler
    assert compiler is not None
    assert not compiler.has_done(pair.module, "<lambda>")
    compiler._process.kill()
    compiler._process.wait()
    assert compiler.has_ended
    assert compiler.has_done(pair.module, "<lambda>")


def test_a_process_forked_while_a_loop_is_loaded_gets_it_too(package: Path) -> None:
    code = """
        which(VALUES, 0.5)  # another process begins to compile
        child = os.fork()
        wait_for_loop()
        if child == 0:
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(package, code) == "7"


def test_a_forked_process_asks_for_what_its_parent_waits_for(package: Path) -> None:
    """It has no word from the parent's compiler, and would compile the loop itself."""
    code = """
        which(VALUES, 0.5)
        child = os.fork()
        if child == 0:
            answer = which(VALUES, 0.0)
            os._exit(0 if answer == 1 and CHOICE.compiler else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(package, code) == "0"


def test_a_process_that_ends_while_a_loop_is_loaded_ends_without_an_error(package: Path) -> None:
    code = """
        which(VALUES, 0.5)
        total(VALUES)
        print("end")
    """
    assert run(package, code) == "end"


def test_a_compiler_that_is_left_or_has_ended_leaves_nothing_open(package: Path) -> None:
    code = """
        import gc, warnings
        warnings.simplefilter("error")
        sys.unraisablehook = lambda error: print(error)
        which(VALUES, 0.5)
        child = os.fork()
        if child == 0:
            gc.collect()
            os._exit(0 if CHOICE.compiler is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        wait_for_loop()
        while not CHOICE.compiler.has_ended:
            time.sleep(0.05)
        total(VALUES)  # a second compiler
        gc.collect()
        print("closed")
    """
    assert run(package, code) == "closed"


def test_many_threads_may_call_twins_while_loops_are_loaded(package: Path) -> None:
    code = """
        from concurrent.futures import ThreadPoolExecutor

        def work(number):
            which(VALUES, 0.02)
            return total(np.arange(number))

        with ThreadPoolExecutor(8) as pool:
            sums = list(pool.map(work, range(200)))
        assert sums == [number * (number - 1) // 2 for number in range(200)]
        wait_for_loop()
        print("same")
    """
    assert run(package, code) == "same"


_TAKE_OVER = """
    which(VALUES, 0.5)
    wait_for_loop()
    print("taken over")
"""
_AT_ONCE = """
    which(VALUES, 0.5)
    print(which(VALUES, 0.0), CHOICE.compiler)
"""


def test_a_compiled_loop_is_in_the_cache_for_the_next_process(package: Path) -> None:
    assert run(package, _TAKE_OVER) == "taken over"
    assert run(package, _AT_ONCE) == "2 None"


def test_another_installation_finds_compiled_loops_and_another_source_does_not(
    package: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    copytree(package / "pair", other / "pair", ignore=ignore_patterns("__pycache__"))
    cache = package / "cache"
    assert run(package, _TAKE_OVER) == "taken over"
    assert run(other, _AT_ONCE, cache=cache) == "2 None"
    loops = other / "pair" / "loops.py"
    loops.write_text(loops.read_text().replace("return 2", "return 3"))
    assert run(other, "print(which(VALUES, 0.0))", "always", cache=cache) == "3"


def test_a_cache_that_cannot_be_written_is_replaced_by_one_beside_the_source(
    package: Path,
) -> None:
    (package / "file").touch()
    assert run(package, "print(which(VALUES, 0.0))", "always", cache=package / "file") == "2"
    assert list((package / "pair" / "__pycache__").glob("pair-*/loops.which-*.nbi"))


def test_compiling_for_long_is_told_once(package: Path) -> None:
    code = """
        import logging
        told = []
        logging.getLogger("dealfl.exact").addFilter(lambda record: told.append(record.getMessage()))
        compiled._SILENT_S = 0.0
        CHOICE.mode = MODE
        which(VALUES, 0.5)
        CHOICE.mode == "auto" and wait_for_loop()
        total(VALUES), total(VALUES.astype(float))
        print(*told)
    """
    kept = f"(once on this machine; kept in {package / 'cache'})"
    assert run(package, code.replace("MODE", '"always"')) == f"compiling loops {kept}"
    rmtree(package / "cache")
    meanwhile = "another process compiles loops while this one works in numpy"
    assert run(package, code.replace("MODE", '"auto"')) == f"{meanwhile} {kept}"


def test_filters_of_warnings_are_left_alone_while_loops_are_compiled(package: Path) -> None:
    code = """
        import warnings
        for _ in range(60):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                before = list(warnings.filters)
                which(VALUES, 0.02)
                assert warnings.filters == before
                warnings.warn("seen")
            assert [str(one.message) for one in caught] == ["seen"]
        wait_for_loop()
        print("left alone")
    """
    assert run(package, code) == "left alone"
