"""Flower carries the messages: a ServerApp and a ClientApp for a job of dealfl.

A bag is one Flower message with a packet of ours; at most one is under way to a node. A node cannot
speak first, so the server calls it when it wants to be called, and from time to time. What needs no
answer, such as receipts, waits for the next bag: an update takes one bag, and two more the first
time. State is in the ledger and the journals: after a kill, the next `flwr run` continues.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from dealfl import protocol
from dealfl.erasure import ErasureRequest
from dealfl.errors import BadInput, DealError, needs_extra
from dealfl.jobs import Document, plan_without_data, read_job, read_selector
from dealfl.network import Credentials, Orders, open_workers
from dealfl.protocol import Asleep, Assignment, Erase, Message, Published, Update, Welcome
from dealfl.runs import RunFolder, RunProgress, certify, find_queued, list_erasures
from dealfl.server import Ledger, Server
from dealfl.simulate import read_fleet, split_fleet

__all__ = ["client_app", "server_app"]

_LOG = logging.getLogger("flwr")
_VERSION = "1.41."
_BAG = "dealfl"
_URGENT = (Assignment, Erase, Welcome)  # others wait for the next bag
_TURN_S = 0.1
_LOOK_S = 1.0  # for new nodes and for requests of erasure
_BAG_S = 600.0  # after which a bag counts as lost
_AGAIN_S = 5.0  # after an error of a node


def server_app() -> Any:  # noqa: ANN401 - flwr is optional
    """Return a ServerApp; its run configuration has absolute paths: `job` and the run `folder`.

    It ends after the last round, when all nodes have answered the requests of erasure, or `idle-s`
    seconds (300) after the last update. A node, which may have new rows, is called at least every
    `call-s` seconds (60).
    """
    app = _flower("flwr.serverapp").ServerApp()
    app.main()(_serve)
    return app


def client_app() -> Any:  # noqa: ANN401 - flwr is optional
    """Return a ClientApp: a worker that lives for one message.

    A SuperNode is configured by `name`, `job`, `folder` (of its journal), `data` (what `dealfl work
    --data` takes) and `owners-key` (a copy of the file in the run folder). Simulated nodes need
    nothing more than the run configuration: each has the examples of one worker of `dealfl run`.
    """
    app = _flower("flwr.clientapp").ClientApp()
    app.train()(_answer)
    return app


def _flower(module: str) -> Any:  # noqa: ANN401
    """Import a module of flwr; refuse versions whose interface we do not know."""
    with needs_extra("flower", "dealfl.flower"):
        found = import_module(module)
    version = metadata.version("flwr")
    if not version.startswith(_VERSION):
        remedy = f"works with {_VERSION}x; pip install 'dealfl[flower]'"
        raise DealError(f"flwr {version} is installed, but dealfl.flower {remedy}")
    return found


def _bag(content: Mapping[str, Any], **address: Any) -> Any:  # noqa: ANN401
    flower = _flower("flwr.app")
    return flower.Message(flower.RecordDict({_BAG: flower.ConfigRecord(dict(content))}), **address)


def _path(config: Mapping[str, Any], key: str) -> Path:
    path = Path(str(config.get(key, "")))
    if not path.is_absolute():  # Flower unpacks an app anywhere
        raise BadInput(f"{key} is {str(path)!r}; give an absolute path: '{key}=\"/…\"'")
    return path


def _serve(grid: Any, context: Any) -> None:  # noqa: ANN401
    """Serve a job until its last round is closed and all erasures are answered."""
    config = context.run_config
    document, run = Document.read(_path(config, "job")), RunFolder(_path(config, "folder"))
    job = read_job(document)
    run.open_server(document)
    run.owners_key()
    with run.locked(), closing(Ledger(run.ledger)) as ledger:
        make = plan_without_data(document).make
        server = Server(job.name, make, ledger, job.server_rules, read_selector(document, job))
        nodes = _Nodes(server, run, grid, config)
        try:
            while not nodes.is_done():
                nodes.turn(time.time())
                time.sleep(_TURN_S)
        finally:
            nodes.look(stopped=True)
        figures = nodes.updates, nodes.bags, time.time() - nodes.began_s
        closed = server.reader.count_closed()
        _LOG.info("dealfl: %d rounds, %d updates, %d bags, %.1f s", closed, *figures)
        _LOG.info("dealfl: digest %s", server.model.digest())


@dataclass
class _Node:
    """A node of Flower, the bag that is on its way, and what the next one will carry."""

    key: int
    worker: str = ""  # learned from its first answer
    bag: str = ""
    due_s: float = 0.0  # when the next one is sent at the latest
    held: list[Message] = field(default_factory=list)


class _Nodes:
    """Carries messages between the server and the nodes of Flower."""

    def __init__(self, server: Server, run: RunFolder, grid: Any, config: Any) -> None:  # noqa: ANN401
        self._server, self._run, self._grid = server, run, grid
        self._idle_s = float(config.get("idle-s", 300.0))
        self._call_s = float(config.get("call-s", 60.0))
        self._nodes: dict[int, _Node] = {}
        self._asked: dict[Path, ErasureRequest] = {}  # by file
        self._gone = set(server.workers)  # their assignments are repeated when they answer
        self._wake_s = self._look_s = 0.0
        self.bags, self.updates, self.began_s = 0, 0, time.time()
        self._learned_s = self.began_s

    def turn(self, now_s: float) -> None:
        """Take answers, let the server handle them, and send what is urgent or due."""
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            former, keys = self._nodes, self._grid.get_node_ids()
            self._nodes = {key: former.pop(key, _Node(key)) for key in keys}
            self._gone |= {node.worker for node in former.values()}
            self.look()
        messages = self._pull(now_s)
        messages += [Asleep(job=self._server.job, worker=name) for name in self._gone]
        self._gone.clear()
        if messages or now_s >= self._wake_s:
            step = self._server.handle(messages, now_s, decoded=True)
            self._wake_s = math.inf if step.wake_at_s is None else step.wake_at_s
            self._hold(step.messages)
        self._push(now_s)

    def look(self, *, stopped: bool = False) -> None:
        """Take requests of erasure, certify those that are fulfilled, and show that it runs."""
        for file, request in find_queued(self._run, skipped=self._asked).items():
            self._asked[file] = request
            given = request.name, request.entries, time.time(), request.requested_by
            self._hold(self._server.erase(*given).messages)
        for file, request in list(self._asked.items()):
            if all(status.published for status in list_erasures(self._run, request.name)):
                if not request.is_readmission:
                    certify(self._run, request.name, "", request.commitments)
                file.unlink(missing_ok=True)
                del self._asked[file]
        closed = self._server.reader.count_closed()
        where = f"round {closed} of {self._server.rules.rounds}"
        self._run.save_progress(RunProgress("flower", 1, 1, closed, where, time.time(), stopped))

    def _hold(self, messages: Iterable[Message]) -> None:
        """Hold messages for the next bags; others are repeated when their worker is here."""
        for message in messages:
            if isinstance(message, Published) and not message.worker:
                self._server.confirm(message.version)  # the ledger keeps it for everyone
                continue
            for node in self._nodes.values():
                if node.worker and message.worker in ("", node.worker):
                    node.held.append(message)
                    node.due_s = 0.0 if isinstance(message, _URGENT) else node.due_s

    def _push(self, now_s: float) -> None:
        """Send a bag to each node that is due, with all that is held for it."""
        nodes = [node for node in self._nodes.values() if not node.bag and now_s >= node.due_s]
        address = {"message_type": "train", "ttl": _BAG_S}
        bags = [
            _bag({"packet": protocol.encode(node.held)}, dst_node_id=node.key, **address)
            for node in nodes
        ]
        for bag, node in zip(self._grid.push_messages(bags) if bags else (), nodes, strict=True):
            self.bags += 1
            node.bag, node.held = bag or "", []
            node.due_s = math.inf if bag else now_s + _AGAIN_S

    def _pull(self, now_s: float) -> list[Message]:
        """Take the answers that have come; Flower answers for a node that does not."""
        messages: list[Message] = []
        flying = {node.bag: node for node in self._nodes.values() if node.bag}
        for reply in self._grid.pull_messages(list(flying)) if flying else ():
            node = flying[reply.metadata.reply_to_message_id]
            node.bag = ""
            try:
                wake_at_s, packet = self._unpack(reply, node)
            except (DealError, KeyError) as error:  # of the node, or of another version of dealfl
                _LOG.warning("dealfl: node %d: %s", node.key, error)
                node.due_s = now_s + _AGAIN_S
                self._gone.add(node.worker)
                continue
            node.due_s = min(node.due_s, wake_at_s, now_s + self._call_s)
            messages += packet
        updates = sum(isinstance(message, Update) for message in messages)
        self.updates += updates
        self._learned_s = now_s if updates else self._learned_s
        return messages

    def _unpack(self, reply: Any, node: _Node) -> tuple[float, list[Message]]:  # noqa: ANN401
        """Return when a node wants to be called, and the messages of its own worker."""
        if reply.has_error():
            raise DealError(reply.error.reason)
        bag = reply.content[_BAG]
        packet, name = protocol.decode(bag["packet"]), bag["worker"]
        others = (other.worker for other in self._nodes.values() if other is not node)
        if name in others or node.worker not in ("", name):
            raise DealError(f"it calls itself {name!r}; give each node one name of its own")
        node.worker = name
        return bag["wake_at_s"], [message for message in packet if message.worker == name]

    def is_done(self) -> bool:
        """Return whether nothing is left to do, or no update has come for long."""
        flying = any(node.bag for node in self._nodes.values())
        idle = time.time() > self._learned_s + self._idle_s
        return not flying and (idle or (self._server.finished and not self._asked))


def _answer(message: Any, context: Any) -> Any:  # noqa: ANN401
    """Let the worker of a node handle a bag, and return its answer."""
    config = {**context.run_config, **context.node_config}
    document, home = Document.read(_path(config, "job")), _path(config, "folder")
    key = Path(config.get("owners-key", home / "owners.key")).read_text("ascii").strip()
    simulated = "partition-id" in config
    name = _find_name(document, config) if simulated else str(config.get("name", ""))
    home, data = (home / "nodes" / name, None) if simulated else (home, _path(config, "data"))
    own = Credentials(host=_BAG, port=1, job=read_job(document).name, user=name, owners_key=key)
    with ExitStack() as stack:
        process = open_workers(Orders(document, home, [own], data), stack, once=True)
        worker, journal = process.workers[name], process.journals[name]
        for feed in process.feeds:
            sum(feed.poll())
        if simulated and not journal.positions():
            rows = split_fleet(read_fleet(document)).streams[int(config["partition-id"])]
            worker.ingest(list(rows), position=(0, b"all"))
        worker.reconnect()  # an earlier answer may be lost
        packet = protocol.decode(message.content[_BAG]["packet"])
        step = worker.handle(packet, time.time(), decoded=True)
    wake_at_s = math.inf if step.wake_at_s is None else step.wake_at_s
    packed = protocol.encode(step.messages)
    return _bag({"worker": name, "wake_at_s": wake_at_s, "packet": packed}, reply_to=message)


def _find_name(document: Document, config: Mapping[str, Any]) -> str:
    """Return the name that the worker of a partition has in `dealfl run`."""
    workers, given = read_fleet(document).workers, int(config["num-partitions"])
    if given != workers:
        raise BadInput(f"the job has {workers} workers, the simulation {given} nodes")
    return f"w{int(config['partition-id']) + 1:0{len(str(workers))}}"
