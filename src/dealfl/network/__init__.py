"""The real network: server and workers as processes that exchange messages over MQTT."""

from dealfl.network.broker import Broker, BrokerSettings, create_broker, open_broker
from dealfl.network.credentials import Credentials, read_credentials, write_credentials
from dealfl.network.processes import run_until_stopped, serve, work

__all__ = [
    "Broker", "BrokerSettings", "Credentials", "create_broker", "open_broker", "read_credentials",
    "run_until_stopped", "serve", "work", "write_credentials",
]  # fmt: skip
