"""The real network: server and workers as processes that exchange messages over MQTT."""

from dealfl.network.broker import Broker, BrokerSettings, create_broker, open_broker
from dealfl.network.control import Control, ask
from dealfl.network.credentials import Credentials, read_credentials, write_credentials
from dealfl.network.processes import run_until_stopped, serve
from dealfl.network.server_end import Quota, ServerEnd
from dealfl.network.topics import ServerState
from dealfl.network.worker_end import WorkerEnd
from dealfl.network.working import work

__all__ = [
    "Broker",
    "BrokerSettings",
    "Control",
    "Credentials",
    "Quota",
    "ServerEnd",
    "ServerState",
    "WorkerEnd",
    "ask",
    "create_broker",
    "open_broker",
    "read_credentials",
    "run_until_stopped",
    "serve",
    "work",
    "write_credentials",
]
