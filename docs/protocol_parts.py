"""The tables of messages in docs/protocol.md, made from the records themselves."""

from __future__ import annotations

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
    "Erase": "server → all, or one that has not answered",
    "Erased": "worker → server",
    "ErasedReceipt": "server → worker",
    "Withdraw": "worker → server",
    "Verdict": "server → worker",
}

_EVERYWHERE = ("job", "worker")

_MEANINGS = {
    "Announce.incarnation": "the worker's incarnation; 0 asks for one",
    "Announce.journal_id": "the random id of its journal, drawn when the journal was made",
    "Announce.receipted": "the sequence up to which its updates are settled with the server",
    "Announce.schema_digest": "hash of the schema; a worker with another one is never selected",
    "Announce.waiting": "examples that could be learned",
    "Announce.held": "examples that are learned",
    "Announce.device": "what it runs on, a name",
    "Announce.battery": "charge, as a fraction of the capacity",
    "Announce.charging": "whether it is charging; then the energy budget does not apply",
    "Announce.capacity_j": "battery capacity; 0 if unknown: the energy budget does not apply",
    "Announce.training": "whether an update is made and not sent yet",
    "Welcome.incarnation": "the incarnation from now on",
    "Welcome.journal_id": "which journal is meant; another one ignores the incarnation",
    "Welcome.erased": "keyed hashes of everybody erased so far",
    "Assignment.round": "the round; a number seen before is a repetition",
    "Assignment.deadline_s": "until when a reply is rewarded, by the server's clock",
    "Assignment.forget_fraction": "another θ for this training, an exact decimal",
    "Declined.round": "the round that it declines",
    "Declined.reason": "why, in words",
    "Update.incarnation": "the incarnation in which it was made",
    "Update.sequence": "its number in that incarnation: 1, 2, 3, …",
    "Update.round": "the round that it answers; none if it answers no assignment",
    "Update.delta": "what changed in the statistics, in their canonical bytes",
    "Update.learned": "examples learned",
    "Update.evicted": "examples forgotten by policy",
    "Update.operations": "the work, counted by formulas",
    "Update.elapsed_s": "how long the training took",
    "Update.energy_j": "the energy it took, measured or modelled by the worker's meter",
    "Receipt.incarnation": "of the update",
    "Receipt.sequence": "of the update",
    "Refusal.incarnation": "of the update",
    "Refusal.sequence": "of the update",
    "Refusal.reason": "why, in words",
    "Published.version": "1, 2, 3, …; a worker keeps the highest",
    "Published.digest": "of the statistics",
    "Published.statistics": "the model's statistics, in their canonical bytes",
    "Erase.request": "the name of the request",
    "Erase.owners": "keyed hashes of the owners",
    "Erased.incarnation": "the incarnation in which it was answered",
    "Erased.request": "the request that is answered",
    "Erased.examples": "how many examples were deleted, in whatever state; may be 0",
    "Erased.sequence": "the last update made by then: once it is counted, the model shows it",
    "ErasedReceipt.request": "the request whose answer is on record",
    "Withdraw.incarnation": "of the update",
    "Withdraw.sequence": "of the update",
    "Verdict.incarnation": "of the update",
    "Verdict.sequence": "of the update",
    "Verdict.withdrawn": "true: it never counts; false: it is on record and will count, or has",
}
_PROTOCOL = "the protocol's version"


def message_tables() -> str:
    """Return a section for each message, in the order of a round."""
    kinds: tuple[type[msgspec.Struct], ...] = typing.get_args(Message)
    fields = {
        f"{kind.__name__}.{field.name}"
        for kind in kinds
        for field in msgspec.structs.fields(kind)
        if field.name not in (*_EVERYWHERE, "protocol")
    }
    if fields != _MEANINGS.keys():
        raise ValueError(f"no field, or no meaning: {sorted(fields ^ _MEANINGS.keys())}")
    return "\n\n".join(_table(kind) for kind in kinds)


def _table(kind: type[msgspec.Struct]) -> str:
    name = kind.__name__
    says = (kind.__doc__ or "").strip().replace("\n\n    ", " ")
    rows = [
        f"| `{field.name}` | {_type(field.type)} | {_default(field)} | {_meaning(name, field)} |"
        for field in msgspec.structs.fields(kind)
        if field.name not in _EVERYWHERE
    ]
    head = [f"### {name}: {_WAYS[name]}", "", says, ""]
    return "\n".join([*head, "| field | type | default | meaning |", "|---|---|---|---|", *rows])


def _meaning(name: str, field: msgspec.structs.FieldInfo) -> str:
    return _PROTOCOL if field.name == "protocol" else _MEANINGS[f"{name}.{field.name}"]


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
