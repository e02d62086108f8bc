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
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from dealfl import protocol
from dealfl.erasure import ErasureRequest
from dealfl.errors import BadInput, DealError, needs_extra
from dealfl.jobs import Document, plan_without_data, read_job, read_selection
from dealfl.network import Credentials, Orders, open_workers
from dealfl.protocol import Asleep, Assignment, Erase, Message, Published, Update, Welcome
from dealfl.runs import RunFolder, RunProgress, certify, find_queued, list_erasures
from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector
from dealfl.simulate import read_fleet, split_fleet

__all__ = ["client_app", "server_app"]

_LOG = logging.getLogger("flwr")
_VERSION = "1.41."
_BAG = "dealfl"
_URGENT = (Assignment, Erase, Welcome)  # others wait for the next bag
_TURN_S = 0.1
_LOOK_S = 1.0  # for new nodes and for requests of erasure
_CALL_S = 60.0  # between two calls of a node, which may have new rows
_BAG_S = 600.0  # after which a bag counts as lost
_IDLE_S = 300.0  # without any update, before the last round
_AGAIN_S = 5.0  # after an error of a node


def server_app() -> Any:  # noqa: ANN401 - flwr is optional
    """Return a ServerApp; its run configuration has absolute paths: `job` and the run `folder`.

    It ends after the last round, or `idle-s` seconds after the last update, and when all nodes have
    answered the requests of erasure. A node is called at least every `call-s` seconds.
    """
    app = _flower("flwr.serverapp").ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:  # noqa: ANN401
        _serve(context.run_config, grid)

    return app


def client_app() -> Any:  # noqa: ANN401 - flwr is optional
    """Return a ClientApp: a worker that lives for one message.

    A SuperNode is configured by `name`, `job`, `folder` (of its journal), `data` (what `dealfl work
    --data` takes) and `owners-key` (a copy of the file in the run folder). Simulated nodes need
    nothing more than the run configuration: each has the examples of one worker of `dealfl run`.
    """
    app = _flower("flwr.clientapp").ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:  # noqa: ANN401
        answer = _answer({**context.run_config, **context.node_config}, message.content[_BAG])
        return _bag(answer, reply_to=message)

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


def _unpack(reply: Any) -> tuple[str, float, list[Message]]:  # noqa: ANN401
    if reply.has_error():
        raise DealError(reply.error.reason)
    bag = reply.content[_BAG]
    return bag["worker"], bag["wake_at_s"], list(protocol.decode(bag["packet"]))


def _path(config: Mapping[str, Any], key: str) -> Path:
    path = Path(str(config.get(key, "")))
    if not path.is_absolute():  # Flower unpacks an app anywhere
        raise BadInput(f"{key} is {str(path)!r}; give an absolute path: '{key}=\"/…\"'")
    return path


def _serve(config: Mapping[str, Any], grid: Any) -> None:  # noqa: ANN401
    """Serve a job until its last round is closed and all erasures are answered."""
    document, run = Document.read(_path(config, "job")), RunFolder(_path(config, "folder"))
    job = read_job(document)
    run.open_server(document)
    run.owners_key()
    selector = make_selector(job.selector, read_selection(document, job))
    with run.locked(), closing(Ledger(run.ledger)) as ledger:
        make = plan_without_data(document).make
        server = Server(job.name, make, ledger, job.server_rules, selector)
        nodes = _Nodes(server, run, grid, config)
        try:
            while not nodes.is_done():
                nodes.turn(time.time())
                time.sleep(_TURN_S)
        finally:
            nodes.look(stopped=True)
            nodes.certify()
        figures = server.reader.count_closed(), nodes.updates, nodes.bags
        took_s = time.time() - nodes.began_s
        _LOG.info("dealfl: %d rounds, %d updates, %d bags, %.1f s", *figures, took_s)
        _LOG.info("dealfl: digest %s", server.model.digest())


class _Nodes:
    """Carries messages between the server and the nodes of Flower."""

    def __init__(self, server: Server, run: RunFolder, grid: Any, config: Any) -> None:  # noqa: ANN401
        self._server, self._run, self._grid = server, run, grid
        self._idle_s = float(config.get("idle-s", _IDLE_S))
        self._call_s = float(config.get("call-s", _CALL_S))
        self._names: dict[int, str] = {}  # by node; learned from its first answer
        self._heard: set[int] = set()  # nodes whose last answer could be read
        self._held: dict[str, list[Message]] = {}  # by worker; for one that is not heard yet, too
        self._due_s: dict[int, float] = {}  # when a node is called at the latest
        self._flying: dict[str, tuple[int, float]] = {}  # node and time of a bag
        self._asked: dict[Path, ErasureRequest] = {}  # by file
        self._gone = set(server.workers)  # their assignments are repeated when they answer
        self._wake_s = self._look_s = 0.0
        self.bags, self.updates, self.began_s = 0, 0, time.time()
        self._learned_s = self.began_s

    def turn(self, now_s: float) -> None:
        """Take answers, let the server handle them, and send what is urgent or due."""
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            self.look()
        messages = self._pull(now_s)
        messages += [Asleep(job=self._server.job, worker=name) for name in self._gone]
        self._gone.clear()
        if messages or now_s >= self._wake_s:
            step = self._server.handle(messages, now_s, decoded=True)
            self._wake_s = math.inf if step.wake_at_s is None else step.wake_at_s
            self._hold(step.messages)
        busy = {node for node, _ in self._flying.values()}
        self._push([node for node in self._due_s.keys() - busy if self._is_due(node, now_s)], now_s)

    def look(self, *, stopped: bool = False) -> None:
        """Find new nodes and requests of erasure; show that requests are taken."""
        if not stopped:
            self._due_s = {node: self._due_s.get(node, 0.0) for node in self._grid.get_node_ids()}
            self._names = {node: self._names[node] for node in self._names if node in self._due_s}
            self._heard &= self._names.keys()
        for file, request in find_queued(self._run, skipped=self._asked).items():
            self._asked[file] = request
            given = request.name, request.entries, time.time(), request.requested_by
            self._hold(self._server.erase(*given).messages)
        closed = self._server.reader.count_closed()
        where = f"round {closed} of {self._server.rules.rounds}"
        self._run.save_progress(RunProgress("flower", 1, 1, closed, where, time.time(), stopped))

    def _hold(self, messages: Iterable[Message]) -> None:
        """Hold messages until there is a bag for them."""
        for message in messages:
            if isinstance(message, Published) and not message.worker:
                self._server.confirm(message.version)  # the ledger keeps it for everyone
                continue
            for name in [message.worker] if message.worker else set(self._names.values()):
                self._held.setdefault(name, []).append(message)

    def _is_due(self, node: int, now_s: float) -> bool:
        held = self._held.get(self._name_of(node), ())
        return now_s >= self._due_s[node] or any(isinstance(one, _URGENT) for one in held)

    def _name_of(self, node: int) -> str:
        """Return the name of a node; empty if it must announce itself first."""
        return self._names[node] if node in self._heard else ""

    def _push(self, nodes: list[int], now_s: float) -> None:
        """Send a bag to each of some nodes, with all that is held for it."""
        address = {"message_type": "train", "ttl": _BAG_S}
        bags = [
            _bag({"packet": protocol.encode(self._held.pop(self._name_of(node), [])),
                  "first": node not in self._heard}, dst_node_id=node, **address)
            for node in nodes
        ]  # fmt: skip
        for key, node in zip(self._grid.push_messages(bags) if bags else (), nodes, strict=True):
            self.bags += 1
            self._flying[key or f"lost {self.bags}"] = node, now_s

    def _pull(self, now_s: float) -> list[Message]:
        """Take the answers that have come; a bag that is lost is forgotten, and its node called."""
        messages: list[Message] = []
        for reply in self._grid.pull_messages(list(self._flying)) if self._flying else ():
            node, _ = self._flying.pop(reply.metadata.reply_to_message_id, (0, 0.0))
            try:
                name, wake_at_s, packet = _unpack(reply)
                self._take_name(node, name)
            except (DealError, KeyError) as error:  # of the node, or of another version of dealfl
                _LOG.warning("dealfl: node %d: %s", node, error)
                self._due_s[node] = now_s + _AGAIN_S
                self._heard.discard(node)  # it announces itself, and sends its update again
                continue
            self._heard.add(node)
            self._due_s[node] = min(wake_at_s, now_s + self._call_s)
            messages += [message for message in packet if message.worker == self._names[node]]
        updates = sum(isinstance(message, Update) for message in messages)
        self.updates += updates
        self._learned_s = now_s if updates else self._learned_s
        for key in [key for key, (_, sent_s) in self._flying.items() if now_s > sent_s + _BAG_S]:
            node, _ = self._flying.pop(key)
            self._due_s[node] = now_s
            self._gone |= {self._names.get(node, "")} & self._server.workers.keys()
        return messages

    def _take_name(self, node: int, name: str) -> None:
        others = {other for other in self._names if other != node and self._names[other] == name}
        if others or self._names.setdefault(node, name) != name:
            raise DealError(f"it calls itself {name!r}; give each node one name of its own")

    def is_done(self) -> bool:
        """Return whether nothing is left to do, or no update has come for long."""
        erasing = self._asked and not all(one.published for one in list_erasures(self._run))
        idle = time.time() > self._learned_s + self._idle_s
        return not self._flying and (idle or (self._server.finished and not erasing))

    def certify(self) -> None:
        """Write the certificates of the erasures; those that are final leave the queue."""
        for file, request in self._asked.items():
            certify(self._run, request.name, "", request.commitments)
            if all(status.published for status in list_erasures(self._run, request.name)):
                file.unlink(missing_ok=True)


def _answer(config: Mapping[str, Any], bag: Any) -> dict[str, Any]:  # noqa: ANN401
    """Let the worker of a node handle a bag, and return its answer."""
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
        if bag["first"]:
            worker.reconnect()
        step = worker.handle(protocol.decode(bag["packet"]), time.time(), decoded=True)
    wake_at_s = math.inf if step.wake_at_s is None else step.wake_at_s
    return {"worker": name, "wake_at_s": wake_at_s, "packet": protocol.encode(step.messages)}


def _find_name(document: Document, config: Mapping[str, Any]) -> str:
    """Return the name that the worker of a partition has in `dealfl run`."""
    workers, given = read_fleet(document).workers, int(config["num-partitions"])
    if given != workers:
        raise BadInput(f"the job has {workers} workers, the simulation {given} nodes")
    return f"w{int(config['partition-id']) + 1:0{len(str(workers))}}"
