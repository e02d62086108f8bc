"""The real network: server and workers as processes that exchange messages over MQTT."""

from dealfl.network.broker import Broker, BrokerSettings, create_broker, open_broker
from dealfl.network.credentials import Credentials, read_credentials, write_credentials

__all__ = [
    "Broker", "BrokerSettings", "Credentials", "create_broker", "open_broker", "read_credentials",
    "write_credentials",
]  # fmt: skip
