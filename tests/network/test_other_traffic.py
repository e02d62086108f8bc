"""How a worker notices other traffic: by the counters of interfaces, and by a running command."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.network import machine
from dealfl.network.machine import DeviceCommand, InterfaceCounters
from tests.network.forks import wait_for
from tests.network.net_tree import RAW, NetTree


@pytest.fixture
def net(tmp_path: Path) -> NetTree:
    one = NetTree(tmp_path)
    one.add("wlan0", received=5_000, sent=4_000)
    one.add("rmnet_data0", RAW)
    return one


def looking(net: NetTree) -> InterfaceCounters:
    counters = InterfaceCounters(net.sysfs)
    assert counters.can_look
    assert not counters.look(), "what was carried before is over"
    return counters


@pytest.mark.parametrize(
    ("received", "sent", "is_active"),
    [(900, 100, True), (0, 1_000, True), (10**6, 1, True), (10**6, 0, False), (99, 900, False)],
)
@pytest.mark.parametrize("name", ["wlan0", "rmnet_data0"])
def test_an_interface_is_active_if_it_sends_and_carries_enough(
    net: NetTree,
    name: str,
    received: int,
    sent: int,
    is_active: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = looking(net)
    net.carry(name, received, sent)
    assert counters.look() == is_active
    assert not counters.look(), "nothing since"
    assert not caplog.text, "counters that stand still do not run backwards"


def test_loopback_does_not_count(net: NetTree) -> None:
    counters = looking(net)
    net.carry("lo", 10**6, 10**6)
    assert not counters.look()


def test_bytes_before_the_first_look_after_a_call_do_not_count(net: NetTree) -> None:
    counters = looking(net)
    net.carry("wlan0", 10**6, 10**6)  # the worker's own
    counters.forget()
    assert not counters.look()
    net.carry("wlan0", 900, 100)
    assert counters.look()


@pytest.mark.parametrize("after", [(0, 0), (2**32 - 10**6, 3)])
def test_counters_that_run_backwards_are_named_once_and_count_again(
    net: NetTree, after: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    net.show("wlan0", 2**32 - 10**6, 2**32 - 10)  # of 32 bits, almost full
    counters = looking(net)
    for _ in range(3):
        net.show("wlan0", *after)
        assert not counters.look()
        net.carry("wlan0", 5_000, 2_000)
        assert counters.look()
    assert caplog.text.count("the counters of wlan0 ran backwards") == 1


def test_an_interface_that_vanishes_is_named_once_and_others_count(
    net: NetTree, caplog: pytest.LogCaptureFixture
) -> None:
    counters = looking(net)
    for _ in range(2):
        net.remove("wlan0")
        net.carry("rmnet_data0", 900, 100)
        assert counters.look()
        net.add("wlan0", received=10**6, sent=10**6)
        assert not counters.look(), "nobody knows when it carried them"
        net.carry("wlan0", 900, 100)
        assert counters.look()
    assert caplog.text.count("wlan0 has vanished") == 1


def test_without_counters_there_is_no_look_and_a_line_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counters = InterfaceCounters(tmp_path)
    assert not counters.can_look
    assert not counters.look()
    NetTree(tmp_path)
    assert not counters.can_look, "loopback alone"
    (tmp_path / "class/net/lo/type").write_text("1\n")
    (tmp_path / "class/net/lo/statistics/rx_bytes").write_text("many\n")
    assert not counters.can_look
    assert caplog.text.count("workers call without rides") == 1


# -- the command ----------------------------------------------------------------------------------


class Telling:
    """A command that keeps running and prints what a test writes to its pipe."""

    def __init__(self, folder: Path) -> None:
        self.events = folder / "events"
        self.events.touch()
        words = ["tail", "-n", "+1", "-s", "0.01", "-f", str(self.events)]
        self.command = DeviceCommand(words)
        self.changes = list[object]()
        self.command.changed = lambda: self.changes.append(self.command.network_active)

    def tell(self, text: str) -> None:
        with self.events.open("a") as file:
            file.write(text)

    async def until(self, changes: int) -> None:
        end_s = time.monotonic() + 60.0
        while len(self.changes) < changes:
            assert time.monotonic() < end_s
            await asyncio.sleep(0.01)


@pytest.fixture
def telling(tmp_path: Path) -> Iterator[Telling]:
    one = Telling(tmp_path)
    yield one
    one.command.close()


def test_a_running_command_tells_of_every_change_and_garbage_is_named_once(
    telling: Telling, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow() -> None:
        telling.tell('{"network_active": false, "battery": 0.5}\n')
        assert telling.command.ask(0.0) == {"network_active": False, "battery": 0.5}
        assert telling.command.network_active is False
        telling.tell('{"network_active": true,\n "charging": true}\n')
        await telling.until(1)
        assert telling.command.ask(1.0) == {"network_active": True, "charging": True}
        telling.tell("Garbage!\nGarbage!\n" + '{"network_active": 3}\n' * 2)
        telling.tell('{"network_active": false}\n')
        await telling.until(2)
        telling.tell('{"network_active": true}\n')
        await telling.until(3)
        monkeypatch.setattr(machine, "_FRESH_S", 0.0)
        assert telling.command.network_active is False, "nobody has repeated it"

    asyncio.run(follow())
    assert telling.changes == [True, False, True]
    assert caplog.text.count("is ignored") == 2  # malformed, and of the wrong type


def test_a_command_that_ends_tells_nothing_of_traffic(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text('{\n  "network_active": true,\n  "busy": true\n}')
    command = DeviceCommand(["cat", str(tmp_path / "answer")])
    assert command.ask(0.0) == command.ask(1.0) == {"network_active": True, "busy": True}
    assert command.network_active is None


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("sleep 60", "it has printed no object of JSON for 0.2 s"),
        ("echo '{\"busy\": '; sleep 60", "it has printed no object of JSON for 0.2 s"),
        ("exit 3", "it ended with the code 3"),
        ("echo '{\"busy\": true}'; exit 4", "it ended with the code 4"),
        ("yes ha", "JSON is malformed: invalid character (byte 0)"),
        ("yes '[['", "Expected `object`, got `array`"),
    ],
)
def test_a_command_that_hangs_fails_or_prints_garbage_is_named_once_and_ignored(
    script: str,
    problem: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(machine, "_COMMAND_S", 0.2 if "sleep" in script else 60.0)
    starts = tmp_path / "starts"
    starts.touch()  # one that hangs may be ended before it has written
    command = DeviceCommand(["sh", "-c", f"echo >> {starts}; {script}"])
    wait_for(lambda: command.ask(0.0) == {}, "its end")
    assert [command.ask(now_s) for now_s in (1.0, 9.0, 9.9)] == [{}] * 3
    assert starts.read_text() in ("", "\n"), "it is not started again that soon"
    command.ask(25.0)
    wait_for(lambda: command.ask(26.0) == {}, "its end")
    assert caplog.text.count(problem) == 1
    command.close()


def test_a_command_that_hangs_is_started_ever_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_COMMAND_S", 0.02)
    command = DeviceCommand(["sh", "-c", f"echo >> {tmp_path / 'starts'}; sleep 60"])
    for now_s in range(0, 3600, 5):
        command.ask(float(now_s))
    assert (tmp_path / "starts").read_text().count("\n") <= 11, "5 s of each can be lost"


def test_a_command_that_does_not_exist_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert DeviceCommand(["no-such-command"]).ask(0.0) == {}
    assert "No such file or directory: 'no-such-command'" in caplog.text
