"""The server: a deterministic state machine from messages to messages, stored in its ledger.

Every update counts exactly once, whenever it arrives. A receipt is sent after the update is
durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from dealfl.errors import BadInput
from dealfl.escaping import for_terminal
from dealfl.exact import Statistics
from dealfl.learners import Learner
from dealfl.protocol import MAX_NAME, MAX_OWNERS, Erase, Message, Step, problem_of
from dealfl.server.aggregation import Aggregation
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import LedgerReader
from dealfl.server.membership import Membership
from dealfl.server.predictions import Predictions
from dealfl.server.receiver import NOT_BY_A_MESSAGE, Receiver
from dealfl.server.rounds import Rounds
from dealfl.server.selection import OverPromise, Selector, Uniform
from dealfl.server.tables import WorkerRow
from dealfl.server.terms import Terms

__all__ = ["Server"]


class Server:
    """The coordinator of a job: it selects workers, assigns rounds, and aggregates updates.

    One call of `handle` is one transaction of the ledger. A message that fails is undone alone:
    its sender is flagged, and all others count.

    Parameters
    ----------
    job : str
        Name of the job. Messages of other jobs are ignored.
    make : callable
        Function without arguments that returns an empty learner of the job.
    ledger : Ledger
        Store of the server's state. The server resumes from its content.
    terms : Terms or None
        Limits of rounds and of the job; None uses the defaults.
    selector : Selector or None
        Policy that selects workers; None selects at random.

    Raises
    ------
    BadInput
        If another process serves this ledger, or its total is not the sum of all workers.
    """

    def __init__(
        self,
        job: str,
        make: Callable[[], Learner],
        ledger: Ledger,
        terms: Terms | None = None,
        selector: Selector | None = None,
    ) -> None:
        self.job = job
        self._ledger, self._term = ledger, ledger.claim()
        with ledger.transaction(self._term):
            ledger.begin_term()
        self._aggregation = Aggregation(ledger, make)
        self._aggregation.load()
        self._aggregation.verify()
        self._members = Membership(job, ledger, self._aggregation)
        self._rounds = Rounds(
            job, ledger, self._aggregation, self._members, terms or Terms(), selector or Uniform()
        )
        self._receiver = Receiver(job, ledger, self._aggregation, self._members, self._rounds)

    def reload(self) -> None:
        """Reload the state from the ledger, after a change by others or a failed transaction."""
        self._receiver.reload()

    # -- state ------------------------------------------------------------------------------

    @property
    def terms(self) -> Terms:
        """Terms of the job. New terms apply from the next call on."""
        return self._rounds.terms

    @terms.setter
    def terms(self, terms: Terms) -> None:
        self._rounds.terms = terms

    @property
    def epoch(self) -> str:
        """Epoch of the ledger."""
        return self._members.epoch

    @property
    def reader(self) -> LedgerReader:
        """Read access to the ledger."""
        return self._ledger.reader

    @property
    def model(self) -> Learner:
        """Model of all updates counted so far."""
        return self._aggregation.total

    @property
    def finished(self) -> bool:
        """Whether all rounds are closed, or the model has converged."""
        return self._rounds.finished

    @property
    def predictions(self) -> Predictions:
        """Predictions of the cost of a training."""
        return self._rounds.predictions

    @property
    def over_promised(self) -> OverPromise | None:
        """Workers whose fairness guarantees cannot be met; None if all can be met."""
        return self._rounds.over_promised

    @property
    def workers(self) -> dict[str, WorkerRow]:
        """All known workers by name."""
        return dict(self._members.rows)

    # -- messages -------------------------------------------------------------------------------

    def handle(self, messages: Iterable[Message], now_s: float) -> Step:
        """Receive messages, advance the round, and return the messages to send.

        Parameters
        ----------
        messages : iterable of Message
            Messages received since the last call, in order; may be empty.
        now_s : float
            Current time in seconds of the server's clock.

        Returns
        -------
        Step
            Messages to send, and the time of the next call.
        """
        received = list(messages)
        try:
            replies = self._process(received, now_s, self._receiver.receive)
        except NOT_BY_A_MESSAGE:
            raise
        except Exception:  # by a message that nobody has foreseen: once more, one by one
            replies = self._process(received, now_s, self._receiver.receive_alone)
        self._ledger.compact_if_due(now_s)
        return Step(tuple(replies), self._rounds.wake_at_s(now_s))

    def _process(
        self, messages: list[Message], now_s: float, receive: Callable[..., list[Message]]
    ) -> list[Message]:
        """Receive messages, and advance the round, in one transaction."""
        replies: list[Message] = []
        with self._transaction():
            for message in messages:
                replies += receive(message, now_s)
            replies += self._rounds.advance(now_s)
            if self._rounds.finished or self._rounds.draining:
                self._aggregation.save_total()
            self._rounds.publication.note_settled()
            if not self._rounds.draining:
                replies += self._rounds.publication.repeat(now_s)
        return replies

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Change ledger and memory together; after a failure, reload memory from the ledger."""
        try:
            with self._ledger.transaction(self._term):
                yield
                self._rounds.save()
        except BaseException:
            self.reload()
            raise
        finally:
            self._aggregation.snapshot = None

    def erase(
        self, request: str, owners: Sequence[bytes], now_s: float, requested_by: str = ""
    ) -> Step:
        """Request that all workers forget some owners or examples, or readmit owners.

        Parameters
        ----------
        request : str
            Name of the request.
        owners : sequence of bytes
            Keyed hashes of owners, or results of `example_hash` or `readmission_of`.
        now_s : float
            Current time in seconds of the server's clock.
        requested_by : str
            Who requests it, for the records.

        Returns
        -------
        Step
            The message to all workers.

        Raises
        ------
        BadInput
            If a request of this name with other owners exists, its name is too long or has
            unprintable characters, or there are too many owners.
        """
        order = Erase(job=self.job, worker="", request=request, owners=tuple(owners))
        if problem_of(order) is not None or not request or not owners:
            raise BadInput(
                f"erasure {for_terminal(request, MAX_NAME)!r} has {len(owners):,} owners; a name "
                f"has at most {MAX_NAME} printable characters, a request 1 to {MAX_OWNERS:,} owners"
            )
        with self._transaction():
            entries = tuple(sorted(set(owners)))
            listed = self._ledger.erasures.put(request, entries, now_s, requested_by[:MAX_NAME])
        return Step((self._members.erase(listed),), None)

    def confirm(self, version: int) -> None:
        """Note that the transport keeps a published version for all workers.

        Parameters
        ----------
        version : int
            Number of the version.
        """
        with self._transaction():
            self._rounds.publication.confirm(version)

    def flag(self, worker: str, problem: str) -> None:
        """Show people that something is wrong with a worker, such as packets that were refused.

        Parameters
        ----------
        worker : str
            Name of the worker; an unknown one is ignored.
        problem : str
            What is wrong.
        """
        with self._transaction():
            self._receiver.flag(worker, for_terminal(problem, MAX_NAME))

    def start_from(self, base: Statistics) -> None:
        """Add statistics that belong to no worker, such as those of an earlier model.

        Parameters
        ----------
        base : Statistics
            Statistics of the job's learner; they replace an earlier base.
        """
        with self._transaction():
            self._aggregation.put_base(base)

    def drain(self) -> None:
        """Stop opening rounds and publishing versions. Updates still count."""
        self._rounds.draining = True

    def remove(self, worker: str, now_s: float) -> Step:
        """Remove a lost worker's examples from the model.

        If the worker returns, it starts a new incarnation and sends all its examples again.

        Parameters
        ----------
        worker : str
            Name of the worker.
        now_s : float
            Current time in seconds of the server's clock.

        Returns
        -------
        Step
            Messages to send, and the time of the next call.

        Raises
        ------
        BadInput
            If the worker is unknown.
        """
        row = self._members.rows.get(worker)
        if row is None:
            raise BadInput(f"no worker called {worker!r}; `dealfl workers list` shows all")
        with self._transaction():
            removed = self._members.begin_incarnation(row, "removed")
            self._members.put(replace(removed, heard_s=None))
            self._rounds.forget(worker)
            self._ledger.note_deletion(compact=True)
        return self.handle((), now_s)
