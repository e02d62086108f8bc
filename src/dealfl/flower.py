"""Flower carries the messages: a ServerApp and a ClientApp for a job of dealfl.

A bag is one Flower message with a packet of ours; at most one is under way to a node. A node cannot
speak first, so the server sends an empty bag when a worker wants to be called. What does not need
an answer, such as receipts, waits for the next bag. State is in the ledger and the journals: a
ServerApp that was killed continues with the next `flwr run`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from dealfl.errors import BadInput, DealError, needs_extra
from dealfl.jobs import Document, GrowingSource, plan_without_data, read_job, read_selection
from dealfl.network import Feed
from dealfl.protocol import Assignment, Erase, Message, Published, Update, Welcome, decode, encode
from dealfl.runs import RunFolder, RunProgress, certify, find_queued, list_erasures
from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector
from dealfl.settings import read_section
from dealfl.simulate import read_fleet, split_fleet
from dealfl.storage import make_folder, replace_file
from dealfl.worker import Journal, MeasuredMeter, Worker, WorkerKeys

__all__ = ["client_app", "server_app"]

_LOG = logging.getLogger("flwr")
_VERSION = "1.41."
_BAG = "dealfl"
_URGENT = (Assignment, Erase, Welcome)  # others wait for the next bag
_POLL_S = 0.1
_LOOK_S = 1.0  # for new nodes and for requests of erasure
_BAG_S = 600.0  # after which a bag counts as lost
_IDLE_S = 300.0  # without any update, before the last round
_DRAIN_S = 60.0  # without any answer, after the last round
_AGAIN_S = 5.0  # after an error of a node


def server_app() -> Any:  # noqa: ANN401 - flwr is optional
    """Return a ServerApp; its run configuration has absolute paths: `job` and the run `folder`.

    Returns
    -------
    ServerApp
        It ends after the last round, when all erasures are answered.

    Raises
    ------
    DealError
        If flwr is missing or has another version.
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

    Returns
    -------
    ClientApp
        It answers messages of the type "train".

    Raises
    ------
    DealError
        If flwr is missing or has another version.
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
        raise DealError(
            f"flwr {version} is installed, but dealfl.flower works with {_VERSION}x; "
            "pip install 'dealfl[flower]'"
        )
    return found


def _bag(content: Mapping[str, Any], **address: Any) -> Any:  # noqa: ANN401
    flower = _flower("flwr.app")
    return flower.Message(flower.RecordDict({_BAG: flower.ConfigRecord(dict(content))}), **address)


def _path(config: Mapping[str, Any], key: str) -> Path:
    path = Path(str(config.get(key, "")))
    if not path.is_absolute():  # Flower unpacks an app anywhere
        raise BadInput(
            f"{key} is {str(path)!r}; give an absolute path: --run-config '{key}=\"/…\"'"
        )
    return path


# -- the server -------------------------------------------------------------------------------


def _serve(config: Mapping[str, Any], grid: Any) -> None:  # noqa: ANN401
    """Serve a job until its last round is closed and all erasures are answered."""
    document, run = Document.read(_path(config, "job")), RunFolder(_path(config, "folder"))
    job = read_job(document)
    run.open_server(document)
    run.owners_key()
    selector = make_selector(job.selector, read_selection(document, job))
    plan = plan_without_data(document)
    with run.locked(), closing(Ledger(run.ledger)) as ledger:
        server = Server(job.name, plan.make, ledger, job.server_rules, selector)
        nodes = _Nodes(server, run, grid, float(config.get("idle-s", _IDLE_S)))
        try:
            while not nodes.is_done():
                nodes.turn(time.time())
                time.sleep(_POLL_S)
        finally:
            nodes.note_progress(stopped=True)
            nodes.certify()
        figures = server.reader.count_closed(), nodes.bags, time.time() - nodes.began_s
        _LOG.info("dealfl: %d rounds, %d bags, %.1f s", *figures)
        _LOG.info("dealfl: digest %s", server.model.digest())


class _Nodes:
    """Carries messages between the server and the nodes of Flower."""

    def __init__(self, server: Server, run: RunFolder, grid: Any, idle_s: float) -> None:  # noqa: ANN401
        self._server, self._run, self._grid, self._idle_s = server, run, grid, idle_s
        self._names: dict[int, str] = {}  # by node; learned from its first answer
        self._held: dict[str, list[Message]] = {}  # by worker; for one that is not heard yet, too
        self._due_s: dict[int, float] = {}  # when a node is called at the latest
        self._flying: dict[str, tuple[int, float]] = {}  # node and time of a bag
        self._asked: dict[Path, str] = {}  # erasures, by file of the request
        self._wake_s = self._look_s = 0.0
        self.bags, self.began_s = 0, time.time()
        self._heard_s = self._learned_s = self.began_s

    def turn(self, now_s: float) -> None:
        """Take answers, let the server handle them, and send what is urgent or due."""
        messages = self._pull(now_s)
        if messages or now_s >= self._wake_s:
            step = self._server.handle(messages, now_s, decoded=True)
            self._wake_s = math.inf if step.wake_at_s is None else step.wake_at_s
            self._put(step.messages)
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            for node in self._grid.get_node_ids():
                self._due_s.setdefault(node, 0.0)
            for file, request in find_queued(self._run, skipped=self._asked).items():
                self._asked[file] = request.name
                step = self._server.erase(
                    request.name, request.entries, now_s, request.requested_by
                )
                self._put(step.messages)
            self.note_progress()
        self._push(now_s)

    def _put(self, messages: Iterable[Message]) -> None:
        """Hold messages until there is a bag for them."""
        for message in messages:
            if isinstance(message, Published) and not message.worker:
                self._server.confirm(message.version)  # the ledger keeps it for everyone
                continue
            for name in [message.worker] if message.worker else set(self._names.values()):
                self._held.setdefault(name, []).append(message)

    def _push(self, now_s: float) -> None:
        """Send a bag to each node that is free, and that is due or has something urgent."""
        busy = {node for node, _ in self._flying.values()}
        nodes = [node for node, due_s in self._due_s.items() if node not in busy]
        chosen = [node for node in nodes if self._is_due(node, now_s)]
        bags = [
            _bag(
                {"packet": encode(self._held.pop(self._names.get(node, ""), []))}
                | {"first": node not in self._names},
                dst_node_id=node,
                message_type="train",
                ttl=_BAG_S,
            )
            for node in chosen
        ]
        if bags:
            ids = self._grid.push_messages(bags)
            self._flying |= {key: (n, now_s) for key, n in zip(ids, chosen, strict=True) if key}
            self.bags += len(bags)

    def _is_due(self, node: int, now_s: float) -> bool:
        held = self._held.get(self._names.get(node, ""), ())
        urgent = any(isinstance(message, _URGENT) for message in held)
        return urgent or now_s >= self._due_s[node] or (self._server.finished and bool(held))

    def _pull(self, now_s: float) -> list[Message]:
        """Take the answers that have come; a bag that is lost is forgotten, and its node called."""
        messages: list[Message] = []
        for reply in self._grid.pull_messages(list(self._flying)) if self._flying else ():
            node, _ = self._flying.pop(reply.metadata.reply_to_message_id, (0, 0.0))
            if reply.has_error():
                _LOG.warning("dealfl: node %d: %s", node, reply.error.reason)
                self._due_s[node] = now_s + _AGAIN_S
                continue
            content, self._heard_s = reply.content[_BAG], now_s
            self._names[node], self._due_s[node] = content["worker"], content["wake_at_s"]
            messages += [m for m in decode(content["packet"]) if m.worker == self._names[node]]
        if any(isinstance(message, Update) for message in messages):
            self._learned_s = now_s
        for key, (node, sent_s) in list(self._flying.items()):
            if now_s > sent_s + _BAG_S:
                del self._flying[key]
                self._due_s[node] = now_s
        return messages

    def is_done(self) -> bool:
        """Return whether nothing is left to do, or nobody answers now."""
        if not self._server.finished:  # the last bag is answered, and all examples are learned
            idle_s = max(self._idle_s, 4 * self._server.rules.ttl_s)
            return not self._flying and time.time() > self._learned_s + idle_s
        open_erasures = self._asked and not all(e.published for e in list_erasures(self._run))
        left = self._flying or open_erasures or any(self._held.get(n) for n in self._names.values())
        return not left or time.time() > self._heard_s + _DRAIN_S

    def note_progress(self, *, stopped: bool = False) -> None:
        """Tell `dealfl erase` and `dealfl status` that requests of erasure are taken."""
        closed = self._server.reader.count_closed()
        where = f"round {closed} of {self._server.rules.rounds}"
        self._run.save_progress(RunProgress("flower", 1, 1, closed, where, time.time(), stopped))

    def certify(self) -> None:
        """Write the certificates of the erasures; those that are final leave the queue."""
        for file, name in self._asked.items():
            certify(self._run, name)
            if all(status.published for status in list_erasures(self._run, name)):
                file.unlink(missing_ok=True)


# -- a node -----------------------------------------------------------------------------------


def _answer(config: Mapping[str, Any], bag: Any) -> dict[str, Any]:  # noqa: ANN401
    """Let the worker of a node handle a bag, and return its answer."""
    document, home = Document.read(_path(config, "job")), _path(config, "folder")
    job, plan = read_job(document), plan_without_data(document)
    key = bytes.fromhex(Path(config.get("owners-key", home / "owners.key")).read_text("ascii"))
    name, records = str(config.get("name", "")), None
    if "partition-id" in config:
        name, records = _partition(document, config)
        home = home / "nodes" / name
    make_folder(home)
    trace = home / "session"  # not in the journal, which may be restored
    with closing(Journal(home / "journal.db")) as journal:
        worker = Worker(
            job.name,
            name,
            plan.make,
            journal,
            MeasuredMeter(),
            key=key,
            scheme_name=job.scheme,
            forget_fraction=job.forget_fraction,
            announce_every_s=min(job.rules.presence_timeout_s / 3, 2 * job.rules.ttl_s),
            retry_after_s=job.retry_after_s,
            keys=read_section(document, WorkerKeys, "worker"),
            min_examples=job.rules.min_examples_per_update,
            enough=job.rules.min_waiting,
            continues=trace.read_text("utf-8") if trace.exists() else "",
        )
        replace_file(trace, worker.trace)
        if records is None:
            data, source = _path(config, "data"), GrowingSource(document, plan)
            sum(Feed(worker, journal, source, data, key=key).poll())
        elif not journal.positions():
            worker.ingest(list(records()), position=(0, b"all"))
        if bag["first"]:
            worker.reconnect()
        step = worker.handle(decode(bag["packet"]), time.time(), decoded=True)
    wake_at_s = math.inf if step.wake_at_s is None else step.wake_at_s
    return {"worker": name, "wake_at_s": wake_at_s, "packet": encode(step.messages)}


def _partition(
    document: Document, config: Mapping[str, Any]
) -> tuple[str, Callable[[], Iterable[tuple[str, bytes]]]]:
    """Return the name that the worker of a partition has in `dealfl run`, and its examples."""
    fleet, number = read_fleet(document), int(config["partition-id"])
    if int(config["num-partitions"]) != fleet.workers:
        raise BadInput(
            f"the job has {fleet.workers} workers, the simulation {config['num-partitions']} nodes"
        )
    name = f"w{number + 1:0{len(str(fleet.workers))}}"
    return name, lambda: split_fleet(fleet).streams[number]
