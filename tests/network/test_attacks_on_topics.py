"""The broker binds every topic to the user that it authenticated, and nobody gets around it.

What is asserted is what was delivered: mosquitto grants subscriptions and accepts wills that it
later ignores.
"""

from collections.abc import Iterator

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from dealfl.network import Credentials
from tests.network.brokers import JOB, RunningBroker, start_broker
from tests.network.strangers import Stranger

TOP = f"dealfl/v1/{JOB}"
AT = f"{TOP}/epoch"
BUILT_IN = "$SYS/broker/uptime"


class Scene:
    """A broker, its users, and the server's view: everything that was published."""

    def __init__(self, running: RunningBroker) -> None:
        self.running = running
        self.users: dict[str, Credentials] = {"server": running.server}
        for name in ("w1", "w2"):
            self.users[name] = running.enrol(name)
        self.users["hub"] = running.enrol("hub", workers=("w4", "w5"))
        self.users["ann"] = running.broker.enrol(["ann"], operator=True)[0]
        self.server = Stranger(self.users["server"]).connect()
        self.server.subscribe(f"{TOP}/#", "dealfl/v1/other/#")
        self._count = 0

    def arrives(self) -> list[tuple[str, bytes]]:
        """Return what has arrived at the server up to now, in order."""
        self._count += 1
        mark = (f"{TOP}/mark", str(self._count).encode())
        self.server.publish(*mark)
        assert self.server.wait(lambda: mark in self.server.received)
        arrived = [*self.server.received]
        self.server.received.clear()
        return [one for one in arrived if one != mark]


@pytest.fixture(scope="module", params=[False, True], ids=["passwords", "certificates"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    running = start_broker(tmp_path_factory.mktemp("scene") / "broker", tls=request.param)
    yield Scene(running)
    running.kill()


OWN = {
    "w1": f"{AT}/up/w1/w1", "hub": f"{AT}/up/hub/w4", "ann": f"{TOP}/control/ask/ann",
}  # fmt: skip
FORBIDDEN_WRITES = {
    "w1": [
        f"{AT}/up/w2/w2",  # another worker's update
        f"{AT}/up/w1/w2",  # as its gateway
        f"{AT}/up/w2/w1",
        f"{AT}/up/hub/w4",
        f"{AT}/up/w1",
        f"{AT}/up/w1/w1/more",
        f"{AT}/down/w2/w2",  # a forged assignment, welcome or erasure
        f"{AT}/down/w1/w1",
        f"{AT}/all",  # a forged erasure for all
        f"{AT}/model/0",  # a forged model
        f"{TOP}/state",  # a forged server
        f"{TOP}/left/w2",  # sends another to sleep
        f"{TOP}/control/ask/w1",
        f"{TOP}/control/ask/ann",
        f"{TOP}/control/answer/ann",
        "dealfl/v1/other/epoch/up/w1/w1",
        BUILT_IN,
    ],
    "hub": [
        f"{AT}/up/hub/w1",  # a worker that is not its own
        f"{AT}/up/hub/hub",
        f"{AT}/up/w4/w4",
        f"{AT}/up/w1/w1",
        f"{TOP}/left/w4",
    ],
    "ann": [
        f"{AT}/up/ann/ann",  # an operator as a worker
        f"{AT}/up/w1/w1",
        f"{AT}/all",
        f"{TOP}/state",
        f"{TOP}/left/ann",
        f"{TOP}/control/ask/bob",
        f"{TOP}/control/answer/ann",
    ],
}
READS = [
    "#", "$SYS/#", f"{TOP}/#", f"{AT}/up/+/+", f"{AT}/up/w2/w2", f"{AT}/down/w2/w2",
    f"{AT}/down/+/+", f"{TOP}/+/down/hub/w4", f"{TOP}/left/+", f"{TOP}/control/#",
    f"$share/all/{AT}/down/w2/w2",
]  # fmt: skip
SECRETS = [
    f"{AT}/down/w2/w2", f"{AT}/down/hub/w4", f"{TOP}/control/answer/ann", f"{AT}/up/w2/w2",
    f"{TOP}/left/w2", f"{TOP}/control/ask/ann", "dealfl/v1/other/state",
]  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN_WRITES)
def test_nobody_writes_to_topics_of_others(scene: Scene, name: str) -> None:
    attacker = Stranger(scene.users[name]).connect()
    for topic in FORBIDDEN_WRITES[name]:
        for retain in (False, True):
            assert attacker.publish(topic, b"forged", retain=retain) == "Not authorized", topic
    assert attacker.publish(OWN[name], b"own") == "Success"
    attacker.leave()
    assert scene.arrives() == [(OWN[name], b"own")]


def test_an_old_client_gets_no_error_and_nothing_is_delivered(scene: Scene) -> None:
    old = Stranger(scene.users["w1"], version=MQTTProtocolVersion.MQTTv311).connect()
    for topic in FORBIDDEN_WRITES["w1"]:
        old.publish(topic, b"forged")
    old.publish(OWN["w1"], b"own")
    old.leave()
    assert scene.arrives() == [(OWN["w1"], b"own")]


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("w1", [f"{AT}/down/w1/w1", f"{AT}/all", f"{AT}/model/0", f"{TOP}/state"]),
        ("hub", [f"{AT}/down/hub/w5", f"{AT}/all", f"{AT}/model/0", f"{TOP}/state"]),
        ("ann", [f"{TOP}/control/answer/ann"]),
    ],
)
def test_nobody_reads_topics_of_others(scene: Scene, name: str, readable: list[str]) -> None:
    spy = Stranger(scene.users[name]).connect()
    spy.subscribe(*(topic for topic in READS if name != "hub" or "hub" not in topic))
    everything = [*SECRETS, f"{AT}/down/w1/w1", f"{AT}/all", f"{AT}/model/0", f"{TOP}/state"]
    if name == "hub":
        everything[everything.index(f"{AT}/down/hub/w4")] = f"{AT}/down/hub/w9"
    for topic in [*everything, *readable[:1]]:
        scene.server.publish(topic, b"secret")
    assert spy.wait(lambda: readable[0] in {topic for topic, _ in spy.received})
    assert {topic for topic, _ in spy.received} <= set(readable)
    spy.leave()
    scene.arrives()


@pytest.mark.parametrize("name", FORBIDDEN_WRITES)
def test_a_will_reaches_no_topic_of_others(scene: Scene, name: str) -> None:
    for topic in FORBIDDEN_WRITES[name]:
        Stranger(scene.users[name], will=topic).connect().die()
    left = f"{TOP}/left/w1"
    Stranger(scene.users["w1"], will=left).connect().die()
    assert scene.server.wait(lambda: (left, b"will") in scene.server.received)
    assert scene.arrives() == [(left, b"will")]


@pytest.mark.parametrize("victim", ["w2", "server"])
def test_a_client_id_of_another_does_not_take_over_its_session(scene: Scene, victim: str) -> None:
    topic = {"w2": f"{AT}/down/w2/w2", "server": f"{AT}/up/w1/w1"}[victim]
    held = scene.server if victim == "server" else Stranger(scene.users["w2"]).connect()
    held.subscribe(topic)
    attacker = Stranger(scene.users["w1"], client_id=victim).connect()
    attacker.subscribe(topic)
    sender = attacker if victim == "server" else scene.server
    assert sender.publish(topic, b"still here") == "Success"
    assert held.wait(lambda: (topic, b"still here") in held.received)
    assert not attacker.received
    attacker.leave()
    if held is not scene.server:
        held.leave()
    scene.arrives()
