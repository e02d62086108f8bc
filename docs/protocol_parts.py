"""The tables of messages in docs/protocol.md, generated from the records."""

from __future__ import annotations

import inspect
import math
import typing

import msgspec

from dealfl.protocol.messages import Message, Position

__all__ = ["message_tables"]

_WAYS = {
    "Announce": "worker → server",
    "Asleep": "worker → server",
    "Welcome": "server → worker",
    "Assignment": "server → worker",
    "Declined": "worker → server",
    "Update": "worker → server",
    "Receipt": "server → worker",
    "Refusal": "server → worker",
    "Sleep": "server → worker",
    "Published": "server → all, or one worker that fetches",
    "Fetch": "worker → server",
    "Erase": "server → all, or one worker that has not answered",
    "Erased": "worker → server",
    "ErasedReceipt": "server → worker",
    "Withdraw": "worker → server",
    "Verdict": "server → worker",
    "MaskedUpdate": "worker → server",
    "Ready": "keyholder → server",
    "Open": "server → keyholder",
    "Opened": "keyholder → server",
}

_EVERYWHERE = ("job", "worker")


def message_tables() -> str:
    """Return a section for each message, in the order of a round."""
    kinds: tuple[type[msgspec.Struct], ...] = typing.get_args(Message)
    return "\n\n".join(_table(kind) for kind in kinds)


def _table(kind: type[msgspec.Struct]) -> str:
    name, summary = kind.__name__, " ".join((inspect.getdoc(kind) or "").split())
    rows = [
        f"| `{field.name}` | {_type(field.type)} | {_bounds(field.type)} | {_default(field)} "
        f"| {_meaning(field)} |"
        for field in msgspec.structs.fields(kind)
        if field.name not in _EVERYWHERE
    ]
    head = [f"### {name}: {_WAYS[name]}", "", summary, ""]
    return "\n".join(
        [*head, "| field | type | bounds | default | meaning |", "|---|---|---|---|---|", *rows]
    )


def _meaning(field: msgspec.structs.FieldInfo) -> str:
    return next(str(note.description) for note in field.type.__metadata__ if note.description)


def _bounds(kind: object) -> str:
    """Return the bounds of a value as a table can say them.

    >>> from dealfl.bounds import Hashes, Name, Number, WorkerId
    >>> _bounds(Number | None), _bounds(Name)
    ('0 to 2⁵³', '≤ 128 printable characters')
    >>> _bounds(Hashes), _bounds(WorkerId)
    ('≤ 4,096, each ≤ 64 bytes', '`[A-Za-z0-9_-]{1,64}`')
    """
    limits = {
        name: getattr(note, name)
        for note in getattr(kind, "__metadata__", ())
        for name in ("le", "ge", "max_length", "pattern")
        if getattr(note, name) is not None
    }
    parts = typing.get_args(kind)
    if kind is Position:
        return "0 to 2⁵³, ≤ 64 bytes"
    if typing.get_origin(kind) is tuple:
        return f", each {_bounds(parts[0])}"
    if "le" in limits:
        return f"{_figure(limits['ge'])} to {_figure(limits['le'])}"
    inner = "".join(_bounds(part) for part in parts if part is not ...)
    return _lengths(limits, parts, inner) if limits else inner


def _lengths(limits: dict[str, typing.Any], parts: tuple[object, ...], inner: str) -> str:
    most = f"≤ {_figure(limits['max_length'])}"
    if bytes in parts:
        return f"{most} bytes"
    if str not in parts:
        return most + inner
    pattern = limits["pattern"].removeprefix("^").removesuffix(r"\Z")
    return f"{most} printable characters" if pattern.startswith("[^") else f"`{pattern}`"


def _figure(number: float) -> str:
    """Return a number as a table can say it.

    >>> _figure(2**53), _figure(1e9), _figure(0), _figure(4096)
    ('2⁵³', '10⁹', '0', '4,096')
    """
    exact = round(abs(number))
    sign = "−" if number < 0 else ""
    for base in (10, 2):
        power = round(math.log(exact, base)) if exact > 10**5 else 0
        if power and base**power == exact:
            return (
                sign + str(base) + str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
            )
    return f"{number:,g}" if isinstance(number, float) else f"{number:,}"


def _type(kind: object) -> str:
    """Return a type as a table can say it.

    >>> _type(int | None), _type(tuple[bytes, ...])
    ('int or none', 'list of bytes')
    """
    if kind is Position:
        return "place: number and hash"
    if hasattr(kind, "__metadata__"):
        return _type(typing.get_args(kind)[0])
    parts = typing.get_args(kind)
    if kind is Position:
        return "0 to 2⁵³, ≤ 64 bytes"
    if typing.get_origin(kind) is tuple:
        return f"list of {_type(parts[0])}"
    if parts:
        return " or ".join(_type(part) for part in parts)
    return "none" if kind is type(None) else getattr(kind, "__name__", str(kind))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "–"
    if field.default == Position():
        return "beginning" if isinstance(field.default, Position) else "empty"
    words = {"None": "none", "True": "true", "False": "false", "": '""', "()": "empty"}
    return words.get(str(field.default), str(field.default))
