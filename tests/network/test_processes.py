"""How a process ends: by a signal, or with an error that names its cause."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput, WriteFailed
from dealfl.network import Credentials, run_until_stopped, write_credentials
from tests.network.feeding import NUMBERS


@pytest.mark.parametrize("error", [BadInput("bad"), WriteFailed("disk full")])
@pytest.mark.parametrize("together", [False, True])
def test_an_error_of_a_part_is_raised_as_it_is(error: Exception, together: bool) -> None:
    async def fail() -> None:
        raise error

    async def fails(_: asyncio.Event) -> None:
        if not together:
            await fail()
        async with asyncio.TaskGroup() as outer:
            outer.create_task(fail())
            outer.create_task(asyncio.sleep(60))

    with pytest.raises(type(error), match=str(error)):
        run_until_stopped(fails)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    async def waits(stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
        await asyncio.wait_for(stopped.wait(), 60)

    run_until_stopped(waits)


@pytest.mark.parametrize(
    ("command", "user", "job", "problem"),
    [
        ("serve", "w1", "test", "credentials of 'w1'; a server needs its own: server.toml"),
        ("work", "server", "test", "credentials of 'server'; a worker needs its own: dealfl"),
        ("work", "w1", "other", "for the job 'other', and this job is 'test'"),
        ("serve", "server", "other", "for the job 'other', and this job is 'test'"),
    ],
)
def test_credentials_of_somebody_else_are_refused(
    command: str, user: str, job: str, problem: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "job.toml").write_text(NUMBERS)
    where = Credentials(host="127.0.0.1", port=1, job=job, user=user, owners_key="00")
    write_credentials(tmp_path / "own.toml", where)
    words = [tmp_path / "job.toml", "--broker", tmp_path / "own.toml", "--out", tmp_path / "out"]
    assert main([command, *map(str, words)]) == 2
    assert problem in capsys.readouterr().err
