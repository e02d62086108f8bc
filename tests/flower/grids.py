"""A grid in this process: each node is a ClientApp that is called when a bag is pushed."""

import math
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dealfl.flower import client_app


class LocalGrid:
    """Nodes that answer at once; some bags and answers can be lost."""

    def __init__(self, config: dict[str, Any], nodes: int, lose: Iterable[int] = ()) -> None:
        identity: Any = import_module("flwr.supercore.task_identity").TaskIdentity
        identity.run_id = identity.node_id = identity.task_id = 1
        self._apps = {node: client_app() for node in range(1, nodes + 1)}
        self._config, self._lose, self._count = config, set(lose), nodes
        self.pushed = 0
        self._answers: dict[str, Any] = {}
        self._lost: dict[str, float] = {}  # until when an answer could come

    def get_node_ids(self) -> Iterable[int]:
        return list(self._apps)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        keys = []
        for message in messages:
            self.pushed += 1
            message.metadata.__dict__["_message_id"] = f"bag {self.pushed}"
            keys.append(f"bag {self.pushed}")
            if self.pushed in self._lose:
                self._lost[keys[-1]] = time.time() + message.metadata.ttl
            else:
                self._answers[keys[-1]] = self._call(message)
        return keys

    def _call(self, message: Any) -> Any:
        node = message.metadata.dst_node_id
        context = SimpleNamespace(
            run_config=self._config,
            node_config={"partition-id": node - 1, "num-partitions": self._count},
        )
        return self._apps[node](message, context)

    def pull_messages(self, keys: Iterable[str]) -> list[Any]:
        late = [key for key in keys if self._lost.get(key, math.inf) < time.time()]
        for key in late:  # as the SuperLink answers for a node
            error = SimpleNamespace(reason="the message has expired")
            metadata = SimpleNamespace(reply_to_message_id=key)
            self._answers[key] = SimpleNamespace(
                has_error=lambda: True, error=error, metadata=metadata
            )
            del self._lost[key]
        return [self._answers.pop(key) for key in keys if key in self._answers]


def people(folder: Path) -> Path:
    """Write a table of forty people on four devices, and a job for it."""
    rows = [
        f"p{n % 40},{(n * 7) % 10 / 10},{(n * 3) % 7 / 7},{(n * 5) % 11 / 22}" for n in range(200)
    ]
    (folder / "people.csv").write_text("\n".join(["who,a,b,y", *rows]) + "\n")
    job = folder / "job.toml"
    job.write_text(JOB)
    return job


JOB = """
[job]
name = "people"
learner = "tikhonov"
forget_fraction = "0"
rounds = 9
workers_per_round = 2
ttl_s = 2.0
publish_every_s = 1.0
selector = "fair_ucb"

[source]
file = "people.csv"
target = "y"
target_bound = 1.0
owner = "who"

[source.columns]
a = { low = 0, high = 1 }
b = { low = 0, high = 1 }

[[devices]]
count = 4
phone = "nexus"

[data]
partition = "by_owner"

[arrival]
pattern = "poisson"
initial_share = 1.0
examples_per_hour = 1.0
"""
