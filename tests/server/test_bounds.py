"""Every figure and text of a message is bounded on entry: who exceeds a bound is flagged."""

import math
from typing import Any, get_args

import msgspec
import pytest

from dealfl.errors import BadBytes, BadInput
from dealfl.protocol.bounds import check_id, problem_of
from dealfl.protocol.messages import (
    Declined,
    Erase,
    Erased,
    Message,
    Position,
    Published,
    Welcome,
    Withdraw,
)
from dealfl.protocol.transport import decode, encode
from dealfl.server import Server
from dealfl.worker import Journal, Worker
from tests.federation.parts import (
    KEY,
    FixedMeter,
    announce,
    assignment,
    bayes,
    examples,
    joined,
    kinds,
    update,
    welcomed,
)

OWN: dict[str, Any] = {"job": "job", "worker": "w"}
LONG = "x" * 20_000_000
TEXTS = [LONG, "x" * 129, "\x1b[2J", "a\nb", "\u202etxt", "\ud800", 7, None, b"w"]
COUNTS = [-1, -(2**62), -(10**15), 2**62, 2**70, 1.5, math.nan, "3", None]
OPTIONAL = [count for count in COUNTS if count is not None]
HASHES = [b"x" * 65, "x", 7, None]
PLACES = [Position(2**62), Position(1, b"x" * 65), 7, "x", None]
AMOUNTS = [-1.0, -0.5, 1e-308, 5e-324, 1e300, math.nan, math.inf, -math.inf, "3", None]

HOSTILE: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "announce": (
        announce,
        {
            "incarnation": COUNTS,
            "journal_id": TEXTS,
            "receipted": COUNTS,
            "terms": [*((text,) for text in TEXTS), ("x",) * 9, 7],
            "withdrawn": [*((count,) for count in COUNTS), (1,) * 65, 7],
            "epoch": TEXTS,
            "session": COUNTS,
            "sequence": COUNTS,
            "round": COUNTS,
            "version": COUNTS,
            "digest": TEXTS,
            "devices": OPTIONAL,
            "forgotten": OPTIONAL,
            "erased": [*((place,) for place in PLACES), (Position(),) * 65, 7],
            "schema_digest": TEXTS,
            "waiting": COUNTS,
            "per_hour": AMOUNTS,
            "sleeps": [7, "yes"],
            "held": COUNTS,
            "device": TEXTS,
            "battery": [*AMOUNTS, 1.5],
            "charging": [7, "yes"],
            "rides": [7, "yes"],
            "capacity_j": AMOUNTS,
            "training": [7],
            "protocol": COUNTS,
        },
    ),
    "update": (
        lambda **other: update(1, **({"round": 1} | other)),
        {
            "incarnation": COUNTS,
            "epoch": TEXTS,
            "session": COUNTS,
            "round": [-5, 2**62, "x"],
            "learned": COUNTS,
            "evicted": COUNTS,
            "operations": COUNTS,
            "elapsed_s": AMOUNTS,
            "energy_j": AMOUNTS,
            "rebuilt": [7, "yes"],
            "alarmed": [7, "yes"],
            "protocol": COUNTS,
        },
    ),
    "declined": (
        lambda **other: Declined(**({**OWN, "round": 1, "reason": ""} | other)),
        {"epoch": TEXTS, "round": COUNTS, "reason": TEXTS},
    ),
    "erased": (
        lambda **other: Erased(**({**OWN, "request": "r", "examples": 0} | other)),
        {
            "request": TEXTS,
            "hash": HASHES,
            "examples": COUNTS,
            "removed": OPTIONAL,
            "devices": OPTIONAL,
        },
    ),
    "withdraw": (
        lambda **other: Withdraw(**({**OWN, "incarnation": 1, "sequence": 1} | other)),
        {
            "session": COUNTS,
            "incarnation": COUNTS,
            "sequence": [*COUNTS, 0],
            "successor": COUNTS,
            "hash": HASHES,
        },
    ),
}
CASES = [
    pytest.param(make, field, values, id=f"{kind} {field}")
    for kind, (make, fields) in HOSTILE.items()
    for field, values in fields.items()
]


def served(*messages: Any) -> Server:
    """Return a server after hostile messages between those of an honest worker."""
    one = joined("w", "honest")
    one.handle([announce("honest"), *messages, update(1, 2, name="honest", round=1)], 1.0)
    one.handle([], 500.0)
    assert one.model.statistics == examples(2)
    assert one.workers["honest"].flag == ""
    assert "Assignment" in kinds(one.handle([announce("honest")], 501.0).messages)
    return one


@pytest.mark.parametrize(("make", "field", "values"), CASES)
def test_a_hostile_field_flags_its_worker_and_harms_nobody(
    make: Any, field: str, values: list[Any]
) -> None:
    hostile = [make(**{field: value}) for value in values]
    for message in hostile:
        assert str(problem_of(message)).endswith(f" message: {field} is out of bounds")
    assert served(*hostile).workers["w"].flag == problem_of(hostile[0])


def test_every_field_that_a_worker_sends_is_attacked_here() -> None:
    for make, fields in HOSTILE.values():
        names = {field.name for field in msgspec.structs.fields(type(make()))}
        assert names - {"job", "worker", "delta", "sequence"} <= set(fields)


# a place in a list has bounds for its number and its hash
_WITHOUT_BOUNDS = (
    msgspec.inspect.BoolType,
    msgspec.inspect.NoneType,
    msgspec.inspect.NamedTupleType,
)


def test_every_field_of_every_message_has_bounds() -> None:
    free = []
    for kind in get_args(Message):
        for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
            kept = getattr(field.type, "type", field.type)  # without the description
            free += [
                f"{kind.__name__}.{field.name}"
                for one in getattr(kept, "types", (kept,))
                if not isinstance(one, _WITHOUT_BOUNDS)
                and getattr(one, "le", getattr(one, "max_length", None)) is None
            ]
    assert free == []


@pytest.mark.parametrize("name", ["", "a b", "a/b", "+", "#", "x" * 65, "w\n", "é", "\x1b", LONG])
def test_a_name_that_cannot_be_a_topic_names_no_worker(name: str) -> None:
    one = served(announce(name, 0))
    assert set(one.workers) == {"w", "honest"}
    with pytest.raises(BadInput, match="1 to 64 letters, digits") as refused:
        check_id(name)
    assert len(str(refused.value)) < 1000
    with pytest.raises(BadInput, match="1 to 64 letters, digits"):
        Worker("job", name, bayes, Journal(), FixedMeter(), key=KEY)


def test_what_is_no_message_is_skipped() -> None:
    for thing in (None, 7, "Update", object(), b"", examples(1)):
        served(thing)
        assert welcomed().handle([thing], 1.0)  # type: ignore[list-item]


@pytest.mark.parametrize(("make", "field", "values"), CASES)
def test_hostile_bytes_are_refused_by_decoding(make: Any, field: str, values: list[Any]) -> None:
    for value in values:
        try:
            packet = encode([make(**{field: value})])
        except (UnicodeEncodeError, OverflowError):
            continue
        with pytest.raises(BadBytes):
            decode(packet)


@pytest.mark.parametrize("peer", [joined, welcomed])
def test_a_message_that_was_decoded_is_not_checked_again(
    peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding, direct = peer(), peer()
    checked: list[Message] = []
    for module in ("dealfl.server.server", "dealfl.worker.worker"):
        monkeypatch.setattr(f"{module}.problem_of", checked.append)
    received = [*decode(encode([announce("honest")])), *decode(encode([assignment(1)]))]
    decoding.handle(received, 1.0, decoded=True)
    assert checked == []
    direct.handle(received, 1.0)
    assert len(checked) == 1


@pytest.mark.parametrize(
    "message",
    [
        assignment(-1),
        assignment(2**62),
        assignment(1, forget_fraction="1e999999999"),
        assignment(1, forget_fraction="9" * 10**7),
        Welcome(job="job", worker="w", incarnation=-1, journal_id="mark"),
        Welcome(
            job="job", worker="w", incarnation=2, journal_id="mark", erased=Position(1, b"x" * 65)
        ),
        Erase(job="job", worker="", request=LONG, owners=()),
        Erase(job="job", worker="", request="r", owners=(b"o",) * 16_385),
        Erase(job="job", worker="", request="r", owners=("name",)),  # type: ignore[arg-type]
        Published(job="job", worker="", version=0, digest="", statistics=b""),
        Published(job="job", worker="", version=1, digest=LONG, statistics=b""),
    ],
    ids=lambda message: repr(message)[:40],
)
def test_a_worker_skips_a_hostile_message_of_the_server(message: Any) -> None:
    journal = Journal(journal_id="mark")
    one = welcomed(journal=journal)
    before = journal.state.round
    sent = one.handle([message], 1.0).messages
    assert "out of bounds" in journal.state.refused
    assert not {"Declined", "Erased", "Update"} & set(kinds(sent))
    assert journal.state.round == before


def test_an_operator_cannot_request_an_erasure_that_workers_would_refuse() -> None:
    one = joined()
    for request, owners in ((LONG, (b"a",)), ("a\nb", (b"a",)), ("r", (b"a" * 65,))):
        with pytest.raises(BadInput, match="at most 128 printable characters"):
            one.erase(request, owners, 1.0)
    assert one.reader.erasures() == []


def test_a_refusal_with_a_long_reason_is_cut() -> None:
    body = b"\xff\x1b" * 1000 + LONG.encode()
    hostile = msgspec.structs.replace(update(1), delta=body)
    replies = joined().handle([hostile], 1.0).messages
    assert [problem_of(reply) for reply in replies] == [None] * len(replies)
    assert "Refusal" in kinds(replies)
