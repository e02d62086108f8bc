"""The tables of messages in docs/protocol.md, generated from the records."""

from __future__ import annotations

import inspect
import typing

import msgspec

from dealfl.messages import Message

__all__ = ["message_tables"]

_WAYS = {
    "Announce": "worker → server",
    "Welcome": "server → worker",
    "Assignment": "server → worker",
    "Declined": "worker → server",
    "Update": "worker → server",
    "Receipt": "server → worker",
    "Refusal": "server → worker",
    "Published": "server → all",
    "Erase": "server → all, or one worker that has not answered",
    "Erased": "worker → server",
    "ErasedReceipt": "server → worker",
    "Withdraw": "worker → server",
    "Verdict": "server → worker",
}

_EVERYWHERE = ("job", "worker")


def message_tables() -> str:
    """Return a section for each message, in the order of a round."""
    kinds: tuple[type[msgspec.Struct], ...] = typing.get_args(Message)
    return "\n\n".join(_table(kind) for kind in kinds)


def _table(kind: type[msgspec.Struct]) -> str:
    name, summary = kind.__name__, " ".join((inspect.getdoc(kind) or "").split())
    rows = [
        f"| `{field.name}` | {_type(_bare(field.type))} | {_default(field)} | {_meaning(field)} |"
        for field in msgspec.structs.fields(kind)
        if field.name not in _EVERYWHERE
    ]
    head = [f"### {name}: {_WAYS[name]}", "", summary, ""]
    return "\n".join([*head, "| field | type | default | meaning |", "|---|---|---|---|", *rows])


def _bare(kind: object) -> object:
    return typing.get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def _meaning(field: msgspec.structs.FieldInfo) -> str:
    return str(field.type.__metadata__[0].description)


def _type(kind: object) -> str:
    """Return a type as a table can say it.

    >>> _type(int | None), _type(tuple[bytes, ...])
    ('int or none', 'list of bytes')
    """
    parts = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return f"list of {_type(parts[0])}"
    if parts:
        return " or ".join(_type(part) for part in parts)
    return "none" if kind is type(None) else getattr(kind, "__name__", str(kind))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "–"
    words = {"None": "none", "True": "true", "False": "false", "": '""', "()": "empty"}
    return words.get(str(field.default), str(field.default))
