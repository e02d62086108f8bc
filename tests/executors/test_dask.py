"""A real Dask scheduler with two workers, one of which is killed; and loky."""

import time
from pathlib import Path
from typing import Any

import pytest

import dealfl
from dealfl.cli import main
from dealfl.errors import DealError
from dealfl.parallel import call_each, open_executor
from dealfl_paper.reproduction import reproduce
from tests.executors.clusters import cluster
from tests.executors.fleets import FLEET

pytest.importorskip("distributed")
pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("default")]


def _slow(n: int) -> int:
    time.sleep(0.2)
    return n


def test_a_killed_worker_costs_no_row(tmp_path: Path, capsys: Any) -> None:
    vary: dict[str, list[object]] = {"job.scheme": ["deal", "newfl"]}
    here = dealfl.sweep(FLEET, vary, seeds=4, verbose=False)
    job = FLEET.save(tmp_path / "job.toml")
    with cluster(tmp_path) as (address, workers):
        with open_executor(address) as executor:
            assert executor is not None
            found = []
            for _, n in call_each(executor, _slow, ((n, (n,)) for n in range(20))):
                found.append(n)
                if len(found) == 3:
                    workers[0].kill()
            assert sorted(found) == list(range(20))
            there = dealfl.sweep(FLEET, vary, seeds=4, verbose=False, executor=executor)
            assert there.equals(here)
            alone = reproduce(tmp_path / "one", ["devices"], quick=True)
            shared = reproduce(tmp_path / "two", ["devices"], quick=True, executor=executor)
            assert shared.figures[0].rows == alone.figures[0].rows
        words = ["simulate", str(job), "--seeds", "2", "--executor", address]
        assert main(words) == 0
        assert "mean over 2 seeds" in capsys.readouterr().out
    assert main(["simulate", str(job), "--executor", address]) == 1
    assert "no Dask scheduler answers" in capsys.readouterr().err


def test_a_scheduler_that_dies_is_reported_and_the_rows_are_kept(tmp_path: Path) -> None:
    with cluster(tmp_path) as (address, workers), open_executor(address) as executor:
        assert executor is not None
        dealfl.sweep(FLEET, seeds=2, verbose=False, executor=executor, out=tmp_path / "kept")
        for worker in workers:
            worker.kill()
        calls = call_each(executor, _slow, ((n, (n,)) for n in range(4)))
        executor._client.shutdown()  # type: ignore[attr-defined]
        with pytest.raises(DealError):
            dict(calls)
    rows = dealfl.sweep(FLEET, seeds=2, verbose=False, out=tmp_path / "kept", resume=True)
    assert rows.equals(dealfl.sweep(FLEET, seeds=2, verbose=False))


def test_loky_has_the_same_rows() -> None:
    loky = pytest.importorskip("joblib.externals.loky")
    here = dealfl.sweep(FLEET, seeds=2, verbose=False)
    there = dealfl.sweep(
        FLEET, seeds=2, verbose=False, executor=loky.get_reusable_executor(max_workers=2)
    )
    assert there.equals(here)
