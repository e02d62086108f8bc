"""How a process ends: by a signal, or with an error that names its cause."""

import asyncio
import os
import signal
import time

import pytest

from dealfl.errors import BadInput, WriteFailed
from dealfl.network import run_until_stopped


@pytest.mark.parametrize("error", [BadInput("bad"), WriteFailed("disk full")])
@pytest.mark.parametrize("together", [False, True])
def test_an_error_of_a_part_is_raised_as_it_is(error: Exception, together: bool) -> None:
    async def fail() -> None:
        raise error

    async def main(_: asyncio.Event) -> None:
        if not together:
            await fail()
        async with asyncio.TaskGroup() as outer:
            outer.create_task(fail())
            outer.create_task(asyncio.sleep(60))

    with pytest.raises(type(error), match=str(error)):
        run_until_stopped(main)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    async def main(stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
        await asyncio.wait_for(stopped.wait(), 10)

    start_s = time.monotonic()
    run_until_stopped(main)
    assert time.monotonic() - start_s < 9
