"""The real network: server and workers as processes that exchange messages over MQTT.

A name is loaded when it is first used: a worker loads nothing of the server.
"""

from typing import TYPE_CHECKING

from dealfl.loading import load_when_used

if TYPE_CHECKING:
    from dealfl.network.broker import Broker, BrokerSettings
    from dealfl.network.brokers import create_broker, open_broker
    from dealfl.network.control import Control, ask
    from dealfl.network.credentials import Credentials, read_credentials, write_credentials
    from dealfl.network.holding import hold
    from dealfl.network.processes import run_until_stopped
    from dealfl.network.server_end import ParentEnd, Quota, ServerEnd
    from dealfl.network.serving import serve
    from dealfl.network.topics import ServerState
    from dealfl.network.worker_end import WorkerEnd
    from dealfl.network.working import Orders, open_workers, work, work_once
else:
    __getattr__ = load_when_used(
        __name__,
        {
            "broker": ("Broker", "BrokerSettings"),
            "brokers": ("create_broker", "open_broker"),
            "control": ("Control", "ask"),
            "credentials": ("Credentials", "read_credentials", "write_credentials"),
            "holding": ("hold",),
            "processes": ("run_until_stopped",),
            "server_end": (
                "ParentEnd",
                "Quota",
                "ServerEnd",
            ),
            "serving": ("serve",),
            "topics": ("ServerState",),
            "worker_end": ("WorkerEnd",),
            "working": ("Orders", "open_workers", "work", "work_once"),
        },
    )

__all__ = [
    "Broker",
    "BrokerSettings",
    "Control",
    "Credentials",
    "Orders",
    "ParentEnd",
    "Quota",
    "ServerEnd",
    "ServerState",
    "WorkerEnd",
    "ask",
    "create_broker",
    "hold",
    "open_broker",
    "open_workers",
    "read_credentials",
    "run_until_stopped",
    "serve",
    "work",
    "work_once",
    "write_credentials",
]
