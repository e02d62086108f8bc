"""Every record that travels between a worker, the server and a keyholder, in the order of a round.

Announce      worker → server   state of the worker and of its device
Asleep        worker → server   the worker closed or lost its connection
Welcome       server → worker   the ledger's epoch and the worker's incarnation
Assignment    server → worker   train now, before this deadline
Declined      worker → server   the worker does not train in this round
Update        worker → server   a delta of the statistics, and its cost
Receipt       server → worker   the update is durable and counts once
Refusal       server → worker   the update never counts
Sleep         server → worker   close the connection, and call when enough examples wait
Published     server → all      a new version of the model
Fetch         worker → server   the model is used: send what changed since the worker's version

Erase         server → all      forget these owners, or the next part of the list of the erased
Erased        worker → server   number of examples that were deleted
ErasedReceipt server → worker   the answer is durable
Withdraw      worker → server   do not count an update that holds erased examples
Verdict       server → worker   the update is withdrawn, or it was counted already

MaskedUpdate  worker → server   an update under a mask that the keyholder can compute
Ready         keyholder → server  the keyholder is there
Open          server → keyholder  compute the sum of the masks of these updates
Opened        keyholder → server  the sum of their masks, or why it is refused, encrypted
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from dealfl.protocol.bounds import (
    MAX_HEADERS,
    MAX_WITHDRAWN,
    Amount,
    Bytes,
    Count,
    Examples,
    Hash,
    Hashes,
    Name,
    Number,
    Operations,
    Ratio,
    Share,
    Time,
    WorkerId,
    WorkerOrAll,
)

PROTOCOL = 1


def _field(meaning: str) -> Meta:
    """Return the description of a field; docs/protocol.md shows it."""
    return Meta(description=meaning)


Protocol = Annotated[Number, _field("Version of the protocol.")]
Round = Annotated[Number, _field("Number of the round.")]
Reason = Annotated[Name, _field("Reason, as text for people.")]
Request = Annotated[Name, _field("Name of the erasure request.")]
Delta = Annotated[Bytes, _field("Difference of the statistics, in canonical bytes.")]
Epoch = Annotated[Name, _field("Epoch of the ledger; round and version are numbers in it.")]
Session = Annotated[Number, _field("Number of the worker's process; a later one has a higher.")]
Term = Annotated[Name, _field("Random id of the server's process that has answered.")]
RequestHash = Annotated[Hash, _field("Hash of the name of the request and of its owners.")]


class Position(NamedTuple):
    """A place in the server's list of erasures: a number, and a hash of all requests up to it."""

    number: Number = 0
    chain: Hash = b""


Complete = Annotated[
    Position, _field("End of the server's list of erasures. The worker must have reached it.")
]


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A message of a job, from or to a worker."""

    job: Annotated[Name, _field("Name of the job.")]
    worker: Annotated[WorkerId, _field("Name of the worker.")]


class _ToAll(Record, frozen=True, kw_only=True):
    """A message that can be for all workers."""

    worker: Annotated[WorkerOrAll, _field("Name of the worker; empty means all workers.")]


class _OfUpdate(Record, frozen=True, kw_only=True):
    """A message about one update of a worker."""

    session: Session = 0
    incarnation: Annotated[Number, _field("Incarnation of the update.")]
    sequence: Annotated[Count, _field("Number of the update in its incarnation: 1, 2, 3, …")]


class Announce(Record, frozen=True, kw_only=True):
    """A worker is awake and reports its state."""

    epoch: Epoch = ""
    session: Session = 0
    incarnation: Annotated[Number, _field("Incarnation of the worker; 0 requests one.")]
    journal_id: Annotated[Name, _field("Random id of the journal; another: new incarnation.")]
    receipted: Annotated[Number, _field("All updates up to this sequence are settled.")] = 0
    sequence: Annotated[Number, _field("Last update that the worker has made.")] = 0
    terms: Annotated[
        tuple[Term, ...],
        Meta(max_length=8),
        _field("Terms of the last answers that settled updates of this incarnation."),
    ] = ()
    withdrawn: Annotated[
        tuple[Number, ...],
        Meta(max_length=MAX_WITHDRAWN),
        _field("The last updates of this incarnation that were withdrawn."),
    ] = ()
    round: Annotated[Number, _field("Last round of the epoch that the worker knows.")] = 0
    version: Annotated[Number, _field("Version of the model that the worker holds.")] = 0
    digest: Annotated[Name, _field("Digest of that version.")] = ""
    erased: Annotated[
        tuple[Position, ...],
        Meta(max_length=64),
        _field("Places that the worker has reached in the list of erasures, latest first."),
    ] = ()
    schema_digest: Annotated[Name, _field("Hash of the schema; with another: never selected.")]
    waiting: Annotated[Examples, _field("Number of examples that are not learned yet.")]
    held: Annotated[Examples, _field("Number of examples that are learned.")]
    device: Annotated[Name, _field("Kind of device, such as the name of a phone.")] = ""
    battery: Annotated[Share, _field("Charge of the battery, as a share of its capacity.")] = 1.0
    charging: Annotated[bool, _field("Whether it is charging: no energy budget then.")] = False
    capacity_j: Annotated[Amount, _field("Its capacity in joules; 0: no energy budget.")] = 0.0
    sleeps: Annotated[bool, _field("Whether the worker follows a Sleep.")] = False
    per_hour: Annotated[Amount, _field("Examples that reach the worker in an hour.")] = 0.0
    rides: Annotated[bool, _field("Whether it calls while other traffic has the radio on.")] = False
    training: Annotated[bool, _field("Whether an update exists that was not sent yet.")] = False
    devices: Annotated[
        Number | None, _field("Number of devices behind a region; None for a worker.")
    ] = None
    forgotten: Annotated[
        Number | None,
        _field("Requests that all devices of a region have fulfilled; None: those reached."),
    ] = None
    protocol: Protocol = PROTOCOL


class Asleep(Record, frozen=True, kw_only=True):
    """A worker left. It is not selected until it announces itself; its gateway says so."""


class Welcome(Record, frozen=True, kw_only=True):
    """The server tells a worker its epoch and the worker's incarnation."""

    epoch: Epoch = ""
    journal_id: Annotated[Name, _field("Journal that the message is for.")]
    session: Session = 0
    incarnation: Annotated[Number, _field("Incarnation of the worker.")]
    erased: Complete = Position()
    shown: Annotated[
        Number, _field("For a region: erasure requests that a published version contains.")
    ] = 0


class Assignment(Record, frozen=True, kw_only=True):
    """The worker trains now. An update after the deadline counts, but earns no reward."""

    epoch: Epoch = ""
    round: Annotated[Number, _field("Number of the round; one seen in this epoch is ignored.")]
    deadline_s: Annotated[Time, _field("End of the round, in seconds of the server's clock.")]
    forget_fraction: Annotated[
        Ratio | None, _field('θ as a decimal, such as "0.02"; None uses the worker\'s own.')
    ] = None
    others_alarmed: Annotated[
        bool, _field("Whether many other workers have noticed a change of the world lately.")
    ] = False
    erased: Complete = Position()


class Declined(Record, frozen=True, kw_only=True):
    """The worker does not train in this round."""

    epoch: Epoch = ""
    round: Round
    reason: Reason


class Update(_OfUpdate, frozen=True, kw_only=True):
    """A worker sends the change of its statistics and the cost of the training."""

    epoch: Epoch = ""
    round: Annotated[Number | None, _field("Round of the assignment; None if there was none.")]
    delta: Delta
    learned: Annotated[Examples, _field("Number of examples learned.")] = 0
    evicted: Annotated[Examples, _field("Number of examples forgotten by policy.")] = 0
    alarmed: Annotated[
        bool, _field("Whether they are all from before a change that the worker has noticed.")
    ] = False
    operations: Annotated[Operations, _field("Multiply-adds by the learner's formulas.")] = 0
    elapsed_s: Annotated[Amount, _field("Duration of the training in seconds.")] = 0.0
    energy_j: Annotated[Amount, _field("Energy in joules, measured or modelled.")] = 0.0
    rebuilt: Annotated[
        bool, _field("Whether an erasure changed the update; it then claims its net examples only.")
    ] = False
    protocol: Protocol = PROTOCOL


class Receipt(_OfUpdate, frozen=True, kw_only=True):
    """An update is durable and counts exactly once."""

    term: Term = ""


class Refusal(_OfUpdate, frozen=True, kw_only=True):
    """An update never counts."""

    reason: Reason


class Sleep(Record, frozen=True, kw_only=True):
    """The worker closes its connection, and calls later. An assignment waits until then."""

    waiting: Annotated[Examples, _field("It calls when this number of examples wait, …")]
    within_s: Annotated[Amount, _field("… and after this time in seconds in any case.")]
    ride_s: Annotated[
        Amount, _field("When enough wait, it waits this long for other traffic to ride along with.")
    ] = 0.0
    ride_any_s: Annotated[
        Amount, _field("After this time it rides along with any number; 0: with enough only.")
    ] = 0.0


class Published(_ToAll, frozen=True, kw_only=True):
    """A new version of the model, for all workers."""

    epoch: Epoch = ""
    version: Annotated[Count, _field("Number of the version in its epoch: 1, 2, 3, …")]
    digest: Annotated[Name, _field("Digest of the statistics.")]
    statistics: Annotated[Bytes, _field("Statistics of the model, in canonical bytes.")]
    base: Annotated[Number, _field("Version to which they are added; 0: the whole model.")] = 0
    hash: Annotated[Hash, _field("SHA-256 of the whole model; another one is dropped.")] = b""
    erased: Annotated[Position, _field("The requests of erasure that it contains.")] = Position()


class Fetch(Record, frozen=True, kw_only=True):
    """A worker uses the model. The server answers with what changed, or with all of it."""

    epoch: Epoch = ""
    version: Annotated[Number, _field("Version that the worker holds; 0: none.")]


class Erase(_ToAll, frozen=True, kw_only=True):
    """A worker forgets these owners or examples, or readmits owners. Only keyed hashes are sent."""

    request: Annotated[
        Name, _field("Name of the erasure request; empty for a part of the list, without answer.")
    ] = ""
    owners: Annotated[Hashes, _field("Keyed hashes; `e` marks examples, `r` readmissions.")]
    before: Annotated[Position, _field("Place in the list before these owners.")] = Position()
    after: Annotated[
        Position, _field("Place after them; a worker that has reached `before` has now reached it.")
    ] = Position()


class Erased(Record, frozen=True, kw_only=True):
    """A worker has answered an erasure request, even if it held no such example."""

    request: Request
    hash: RequestHash = b""
    examples: Annotated[Examples, _field("Number of examples deleted, in any state; may be 0.")]
    removed: Annotated[
        Examples | None, _field("For a region: those that left the sums of its devices.")
    ] = None
    devices: Annotated[
        Number | None, _field("For a region: number of devices that have answered.")
    ] = None


class ErasedReceipt(Record, frozen=True, kw_only=True):
    """The answer to an erasure request is durable, or no longer needed."""

    request: Request
    hash: RequestHash = b""
    examples: Annotated[Examples | None, _field("For a region: as in its answer.")] = None
    removed: Annotated[Examples | None, _field("The same.")] = None
    devices: Annotated[Number | None, _field("The same.")] = None


class Withdraw(_OfUpdate, frozen=True, kw_only=True):
    """The server must not count an update that was sent before an erasure."""

    successor: Annotated[
        Number, _field("Sequence of the update that will contain the rest of a withdrawn one.")
    ] = 0
    hash: Annotated[Hash, _field("SHA-256 of the delta of the update.")] = b""


class Verdict(_OfUpdate, frozen=True, kw_only=True):
    """The server's answer to a withdrawal."""

    withdrawn: Annotated[
        bool, _field("True: the update never counts. False: it is durable and counts.")
    ]
    term: Term = ""


class MaskedUpdate(Update, frozen=True, kw_only=True):
    """An update under a mask: its delta is a dense vector, to which a keystream was added."""

    keyholder: Annotated[Name, _field("Name of the keyholder's public key.")]
    nonce: Annotated[Hash, _field("Random bytes from which the mask is derived.")]
    fresh: Annotated[Examples, _field("Number of examples that no update sent before contains.")]
    seal: Annotated[Hash, _field("Proves the header of the update to the keyholder.")] = b""


class Header(msgspec.Struct, frozen=True, array_like=True):
    """A masked update as the keyholder knows it; job, epoch and schema are in the request."""

    worker: WorkerId
    incarnation: Number
    sequence: Count
    nonce: Hash
    fresh: Examples
    hash: Hash  # SHA-256 of the masked bytes
    seal: Hash


Headers = Annotated[tuple[Header, ...], Meta(max_length=MAX_HEADERS)]


class _OfKeyholder(Record, frozen=True, kw_only=True):
    """A message between the server and the keyholder."""

    worker: Annotated[WorkerId, _field("Name of the keyholder.")]


class Ready(_OfKeyholder, frozen=True, kw_only=True):
    """A keyholder is there; the server repeats an open request."""

    keyholder: Annotated[Name, _field("Name of the keyholder's public key.")]
    cohort: Annotated[Count, _field("Minimum number of workers with fresh examples, t.")]
    enrolled: Annotated[Number, _field("Number of enrolled workers.")]
    alone_after_s: Annotated[
        Amount, _field("Time after which fewer workers will do, in seconds; 0: never.")
    ] = 0.0
    tag: Annotated[Hash, _field("Proves the message to the server.")] = b""
    protocol: Protocol = PROTOCOL


class Open(_OfKeyholder, frozen=True, kw_only=True):
    """The server asks for the sum of the masks of some updates."""

    epoch: Epoch
    number: Annotated[Count, _field("Number of the opening in the epoch: 1, 2, 3, …")]
    cohort: Annotated[Count, _field("Minimum number of workers that the job requires.")]
    schema: Annotated[Bytes, _field("Schema of the statistics, in canonical bytes.")]
    plus: Annotated[Headers, _field("Headers whose masks are added.")] = ()
    minus: Annotated[Headers, _field("Headers opened before, whose masks are subtracted.")] = ()
    tag: Annotated[Hash, _field("Proves the request to the keyholder.")] = b""
    protocol: Protocol = PROTOCOL


class Opened(_OfKeyholder, frozen=True, kw_only=True):
    """A keyholder's answer, encrypted for the server."""

    request: Annotated[Hash, _field("SHA-256 of the request.")]
    nonce: Annotated[Hash, _field("Nonce of the encryption.")]
    sealed: Annotated[Bytes, _field("Sum of the masks, or the reason of a refusal, encrypted.")]


Message = (
    Announce
    | Asleep
    | Welcome
    | Assignment
    | Declined
    | Update
    | Receipt
    | Refusal
    | Sleep
    | Published
    | Fetch
    | Erase
    | Erased
    | ErasedReceipt
    | Withdraw
    | Verdict
    | MaskedUpdate
    | Ready
    | Open
    | Opened
)


class Step(msgspec.Struct, frozen=True):
    """The result of one call of `handle`."""

    messages: tuple[Message, ...] = ()
    wake_at_s: float | None = None
