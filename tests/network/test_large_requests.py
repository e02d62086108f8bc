"""A request of very many persons over a real broker: bounded packets, and one certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dealfl.network import BrokerSettings, create_broker, write_credentials
from dealfl.protocol.messages import Erase
from dealfl.protocol.transport import Assembly, decode
from dealfl.runs import RunningServer
from tests.network.brokers import JOB as NAME
from tests.network.brokers import RunningBroker, free_port, require_mosquitto
from tests.network.federations import JOB, Federation
from tests.network.forks import Forks, wait_for
from tests.network.strangers import Stranger

pytestmark = pytest.mark.soak
PERSONS = 12_001
MAX_BYTES = 200_000
OWNERS = JOB.replace('target = "y"', 'target = "y"\nowner = "who"').replace(
    "[source]", "publish_every_s = 0.2\n\n[source]"
)


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Federation]:
    require_mosquitto()
    settings = BrokerSettings(
        job=NAME, host="127.0.0.1", port=free_port(), tls=False, listen="127.0.0.1",
        owners_key=bytes(32).hex(),  # which is not slow: there are many names
    )  # fmt: skip
    broker, forks = RunningBroker(create_broker(tmp_path / "broker", settings)), Forks()
    try:
        yield Federation(tmp_path, forks, broker, OWNERS)
    finally:
        forks.close()
        broker.kill()


def learn(fed: Federation, worker: str, rows: dict[int, str]) -> None:
    """Start a worker with rows of persons."""
    file = fed.folder / f"{worker}.csv"
    lines = [f"{who},{number},{number}.5\n" for number, who in rows.items()]
    file.write_text("who,x,y\n" + "".join(lines))
    fed.enrol(worker)
    fed.work(worker, "--data", file)


def orders_to_all(ear: Stranger, count: int) -> list[tuple[int, Erase]]:
    """Return the orders to erase that all workers get, with the sizes of their packets."""
    orders: list[tuple[int, Erase]] = []

    def all_heard() -> bool:
        orders.clear()
        assembly = Assembly()
        for _, piece in ear.received:
            packet = assembly.add(piece)
            for message in decode(packet) if packet is not None else ():
                if isinstance(message, Erase):
                    orders.append((len(packet or b""), message))
        return len(orders) >= count

    assert ear.wait(all_heard), len(orders)
    return orders


def test_many_persons_are_one_request_one_row_and_one_certificate(fed: Federation) -> None:
    operator = fed.folder / "operator.toml"
    write_credentials(operator, fed.operator)
    ear = Stranger(fed.broker.enrol("ear")).connect()
    ear.subscribe(f"dealfl/v1/{NAME}/+/all")
    learn(fed, "w1", {number: f"person {number}" for number in range(10)})
    learn(fed, "w2", {number: f"kept {number}" for number in range(10, 20)})
    fed.wait_until_learned(20)
    running, mine = RunningServer(operator), fed.folder / "mine"
    names = [f"person {number}" for number in range(PERSONS)]
    result = running.erase(names, "dpo", mine)

    orders = orders_to_all(ear, 3)
    assert max(size for size, _ in orders) <= MAX_BYTES
    assert sum(len(order.owners) for _, order in orders) == PERSONS
    assert len({order.request for _, order in orders}) == 1
    (row,) = running.erasures()
    assert (row.persons, row.published, row.outstanding) == (PERSONS, True, [])
    assert row.examples == 10
    assert (result.erasure.persons, result.erasure.final) == (PERSONS, True)
    assert result.erasure.after is not None
    assert result.erasure.after.digest == fed.central_digest(range(10, 20))
    for folder in (mine, fed.folder / "run" / "certificates"):
        assert len([*folder.rglob("*.json")]) == 1, folder
    wait_for(lambda: not running.erasures()[0].outstanding, "the settled request")
