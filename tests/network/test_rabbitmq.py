"""A cluster of RabbitMQ: exact whichever node is killed, and nobody gets at topics of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.network import write_credentials
from tests.network.federations import JOB as NUMBERS
from tests.network.federations import Federation
from tests.network.feeding import HEADER, row
from tests.network.forks import Forks, wait_for
from tests.network.rabbits import Rabbits, cluster, require_rabbitmq
from tests.network.strangers import Stranger
from tests.network.test_attacks_on_topics import AT, FORBIDDEN_WRITES, OWN, READS, SECRETS, TOP

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("default")]
WORKERS = tuple(f"w{number}" for number in range(1, 7))
PATIENT_S = 60.0


@pytest.fixture(scope="module")
def rabbits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbits]:
    require_rabbitmq()
    with cluster(tmp_path_factory.mktemp("rabbits"), "test") as made:
        for name in WORKERS:
            made.enrol(name)
        made.enrol("hub", workers=("s4", "s5"))
        made.users["ann"] = made.broker.enrol(["ann"], operator=True)[0]
        made.start()
        yield made


def _connect(rabbits: Rabbits, name: str, **more: Any) -> Stranger:
    return Stranger(rabbits.users[name], **more).connect()


@pytest.mark.parametrize("name", ["w1", "ann"])
def test_nobody_writes_to_topics_of_others(rabbits: Rabbits, name: str) -> None:
    server = _connect(rabbits, "server")
    server.subscribe(f"{TOP}/#")
    for topic in (one.replace("epoch", "e") for one in FORBIDDEN_WRITES[name]):
        for use in ("publish", "will"):
            attacker = _connect(rabbits, name, will=topic if use == "will" else None)
            if use == "publish":
                assert attacker.publish(topic, b"forged") != "Success", topic
            else:
                attacker.die()
    friend = _connect(rabbits, name)
    own = OWN[name].replace("epoch", "e")
    assert friend.publish(own, b"own") == "Success"
    assert server.wait(lambda: (own, b"own") in server.received)
    assert server.received == [(own, b"own")]
    friend.leave()
    server.leave()


def test_nobody_reads_topics_of_others(rabbits: Rabbits) -> None:
    server = _connect(rabbits, "server")
    readable = f"{AT}/down/w1/w1".replace("epoch", "e")
    for wanted in (one.replace("epoch", "e") for one in READS):
        spy = _connect(rabbits, "w1")
        spy.subscribe(readable)
        spy.subscribe(wanted)
        for topic in (one.replace("epoch", "e") for one in SECRETS):
            if "other" not in topic:
                server.publish(topic, b"secret")
        server.publish(readable, b"own")
        spy.wait(lambda: bool(spy.received), 1.0)  # noqa: B023 - RabbitMQ may have ended it
        assert {topic for topic, _ in spy.received} <= {readable}, wanted
    server.leave()


@pytest.mark.parametrize("victim", ["w2", "server"])
def test_nobody_takes_over_a_session(rabbits: Rabbits, victim: str) -> None:
    held = _connect(rabbits, victim)
    assert _connect(rabbits, "w1", client_id=victim).answer == "Client identifier not valid"
    guest = replace(rabbits.users["w1"], password="guest")
    assert Stranger(guest, user="guest").connect().answer == "Bad user name or password"
    assert Stranger(replace(guest, password=""), user=victim).connect().answer != "Success"
    held.wait(lambda: False, 0.2)
    assert held.client.is_connected()
    held.leave()


def test_a_revoked_device_is_locked_out_at_once(rabbits: Rabbits) -> None:
    lost = rabbits.enrol("lost")
    rabbits.import_users()
    device = Stranger(lost).connect()
    assert device.answer == "Success"
    assert not rabbits.broker.revoke("lost"), "dealfl does not run it"
    for command in rabbits.broker.list_commands(revoked=["lost"]):
        rabbits.control(rabbits.hosts[1], *command.split()[1:])
    device.wait(lambda: not device.client.is_connected())
    assert not device.client.is_connected()
    assert Stranger(lost).connect().answer == "Bad user name or password"


class Homes(Federation):
    """Workers on all nodes, whose files grow."""

    written = 0

    def append(self, count: int) -> None:
        self.of_w1 = {*getattr(self, "of_w1", ()), *range(self.written, self.written + count)}
        for name in WORKERS:
            with (self.folder / f"{name}.csv").open("a") as file:
                text = "".join(row(self.written + number) for number in range(count))
                file.write(HEADER * (file.tell() == 0) + text)
            self.written += count

    def learn(self) -> float:
        """Wait until all is counted and published, exactly; return how long that took."""
        start_s, digest = time.monotonic(), self.central_digest(range(self.written))
        wait_for(
            lambda: self._published() == digest, f"a version of {self.written} rows", PATIENT_S
        )
        assert self._learned() == self.written
        return time.monotonic() - start_s

    def _published(self) -> str:
        with suppress(Exception):  # there is no ledger yet
            return str(self.status["published_digest"])
        return ""


def test_any_node_is_killed_and_the_result_is_exact(rabbits: Rabbits, tmp_path: Path) -> None:
    forks = Forks()
    try:
        often = NUMBERS.replace("ttl_s", "publish_every_s = 0.2\nttl_s")
        fed = Homes(tmp_path, forks, rabbits, often)  # type: ignore[arg-type]
        rabbits.import_users()  # with the operator
        fed.append(3)
        socket = tmp_path / "predict.sock"
        for name in WORKERS:
            more = ("--predict-socket", socket) if name == "w1" else ()
            write_credentials(tmp_path / f"{name}.toml", rabbits.users[name])
            fed.work(name, "--data", tmp_path / f"{name}.csv", *more)
        took_s = [fed.learn()]
        (answer,) = fed.ask(socket, {"features": [[3.0]]})
        assert answer["predictions"], answer
        for with_server in (False, True):
            at = rabbits.find_node(fed.server)
            victim = at if with_server else next(h for h in rabbits.hosts if h != at)
            rabbits.kill(victim)
            fed.append(2)
            took_s.append(fed.learn())
            rabbits.start_node(victim)
        fed.erase("w1")
        wait_for(lambda: fed.status["erasures_pending"] == 0, "the erasure", PATIENT_S)
        rest: Any = [number for number in range(fed.written) if number not in fed.of_w1]
        assert fed.status["statistics_digest"] == fed.central_digest(rest)
        print(f"learned: {took_s[0]:.1f} s; after kills: {took_s[1]:.1f}, {took_s[2]:.1f} s")
    finally:
        forks.close()
