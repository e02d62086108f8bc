"""The kinds of brokers, and the folders in which they are."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dealfl.erasure import draw_slow_key
from dealfl.errors import BadInput, unknown_name
from dealfl.network.broker import Broker, BrokerSettings
from dealfl.network.mosquitto import Mosquitto
from dealfl.network.rabbitmq import RabbitMQ
from dealfl.settings import Document, read_section

BROKER_KINDS: dict[str, type[Broker]] = {"mosquitto": Mosquitto, "rabbitmq": RabbitMQ}


def create_broker(folder: Path, settings: BrokerSettings) -> Broker:
    """Write the folder of a new broker."""
    if (folder / "broker.toml").exists():
        raise BadInput(f"{folder} contains a broker already; remove the folder to start over")
    owners_key = settings.owners_key or draw_slow_key().hex()
    broker = _make(folder, msgspec.structs.replace(settings, owners_key=owners_key))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    broker.write()
    broker.save({}, ())
    return broker


def open_broker(folder: Path) -> Broker:
    """Return the broker in a folder."""
    path = folder / "broker.toml"
    if not path.is_file():
        raise BadInput(f"{folder} contains no broker; write one with `dealfl broker init`")
    return _make(folder, read_section(Document.read(path), BrokerSettings, "broker"))


def _make(folder: Path, settings: BrokerSettings) -> Broker:
    if settings.kind not in BROKER_KINDS:
        raise unknown_name("kind of broker", settings.kind, BROKER_KINDS)
    return BROKER_KINDS[settings.kind](folder, settings)
