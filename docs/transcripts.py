"""The transcripts in docs/protocol.md: a real server and real workers, every message noted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dealfl.erasure import owner_hash
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules
from dealfl.learners import NaiveBayes, Rows
from dealfl.masks import SERVER, Asker, Masker, draw_private_key
from dealfl.power import Training
from dealfl.protocol.messages import Message
from dealfl.server import Ledger, Privacy, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.simulate import Network, Simulation
from dealfl.worker import Cost, Journal, Worker

__all__ = ["Recorder", "erasure_transcript", "masked_transcript", "round_transcript"]

_KEY = b"key of the job"
_DELAY_S = 0.25
_SHOWN = {
    "Announce": ("incarnation", "receipted", "waiting", "held"),
    "Welcome": ("incarnation",),
    "Assignment": ("round", "deadline_s"),
    "Update": ("sequence", "round", "delta", "learned"),
    "Receipt": ("sequence",),
    "Published": ("version", "digest", "statistics"),
    "Erase": ("request", "owners"),
    "Erased": ("request", "examples"),
    "ErasedReceipt": ("request",),
    "Withdraw": ("sequence",),
    "Verdict": ("sequence", "withdrawn"),
    "MaskedUpdate": ("sequence", "round", "delta", "fresh"),
    "Ready": ("cohort", "enrolled"),
    "Open": ("number", "plus", "minus"),
    "Opened": ("sealed",),
}
_SHORT = 8


class _SetMeter:
    """Every training takes the same, so that the transcript is the same everywhere."""

    def __init__(self, elapsed_s: float) -> None:
        self._elapsed_s = elapsed_s

    def start(self) -> None:
        """Take no note."""

    def cost(self, training: Training) -> Cost:  # noqa: ARG002
        """Return the same cost always."""
        return Cost(self._elapsed_s, 0.5)


class Recorder(Simulation):
    """A simulation that notes every message as it is sent, and loses the one it is told to."""

    def __init__(
        self,
        server: Server,
        workers: Iterable[Worker],
        network: Network,
        keyholder: Keyholder | None = None,
    ) -> None:
        super().__init__(server, workers, network, keyholder=keyholder)
        self.lines: list[str] = []
        self.lose: tuple[str, str] | None = None

    def carry(self, sender: str, messages: Sequence[Message]) -> None:
        """Note messages, and carry those that are not to be lost."""
        arriving = [one for one in messages if not self._noted_as_lost(sender, one)]
        super().carry(sender, arriving)

    def _noted_as_lost(self, sender: str, message: Message) -> bool:
        name, receiver = type(message).__name__, message.worker or "all"
        way = f"{sender} → server" if sender else f"server → {receiver}"
        lost = self.lose == (sender, name)
        if lost:
            self.lose = None
        line = f"{self.now_s:5.2f} s  {way:12}  {name:13}  {_told(message)}"
        self.lines.append(line + "  – and is lost" * lost)
        return lost


def _told(message: Message) -> str:
    shown = _SHOWN[type(message).__name__]
    return "  ".join(f"{name} {_value(getattr(message, name))}" for name in shown)


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, tuple):
        return f"({len(value)})"
    if isinstance(value, str) and len(value) == 64:
        return f"{value[:_SHORT]}…"
    return {"None": "none", "True": "true", "False": "false"}.get(str(value), str(value))


def _bayes() -> NaiveBayes:
    return NaiveBayes(3, ["no", "yes"], feature_bound=1.0, fraction_bits=8)


def _worker(
    name: str, elapsed_s: float, owners: Iterable[str], masker: Masker | None = None
) -> Worker:
    meter, journal = _SetMeter(elapsed_s), Journal(journal_id=f"journal of {name}")
    worker = Worker(
        "demo", name, _bayes, journal, meter, key=_KEY, announce_every_s=30.0, masker=masker
    )
    body = Rows.encode((0.0, 0.5, 1.0), "yes")
    worker.ingest([(owner, body) for owner in owners])
    return worker


def _recorder() -> Recorder:
    workers = [
        _worker("w1", 1.0, ["ann", "bob"]),
        _worker("w2", 2.0, ["cem"]),
        _worker("w3", 40.0, ["dee"]),
    ]
    rules = Rules(rounds=1, workers_per_round=3, min_workers=3, ttl_s=20.0, publish_every_s=40.0)
    server = Server("demo", _bayes, Ledger(), rules, Everyone())
    return Recorder(server, workers, Network(min_delay_s=_DELAY_S, max_delay_s=_DELAY_S))


def masked_transcript() -> str:
    """Return one round of three workers under masks, from the first update on."""
    private_key = draw_private_key()
    keyholder = Keyholder(
        "keyholder", KeyholderJournal(), private_key, KeyholderRules(cohort=3), jobs=["demo"]
    )
    asker = Asker(keyholder.enrol("server", SERVER))
    workers = [
        _worker(name, seconds, [f"owner of {name}"], Masker(keyholder.enrol(name)))
        for name, seconds in (("w1", 1.0), ("w2", 2.0), ("w3", 3.0))
    ]
    rules = Rules(rounds=1, workers_per_round=3, min_workers=3, ttl_s=20.0, publish_every_s=5.0)
    privacy = Privacy(asker, "demo", cohort=3, max_workers=10)
    server = Server("demo", _bayes, Ledger(), rules, Everyone(), privacy)
    network = Network(min_delay_s=_DELAY_S, max_delay_s=_DELAY_S)
    recorder = Recorder(server, workers, network, keyholder)
    recorder.run(10.0)
    names = ("Ready", "MaskedUpdate", "Receipt", "Open", "Published")
    return "\n".join(line for line in recorder.lines if any(f" {n}" in line for n in names))


def round_transcript() -> str:
    """Return one round of three workers, one of which is late; its update counts all the same."""
    recorder = _recorder()
    recorder.run(43.0)
    return "\n".join(recorder.lines)


def erasure_transcript() -> str:
    """Return an erasure that catches two updates on their way, one of which was lost."""
    recorder = _recorder()
    recorder.lose = ("w1", "Update")
    recorder.run(2.5)
    recorder.lines = [line for line in recorder.lines if "Update" in line]
    hashes = tuple(sorted(owner_hash(_KEY, owner) for owner in ("ann", "cem")))
    recorder.send("", recorder.server.erase("r1", hashes, recorder.now_s))
    recorder.run(21.0)
    return "\n".join(recorder.lines)
