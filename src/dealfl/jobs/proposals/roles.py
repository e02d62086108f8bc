"""Which column is what: by what the user says, or by its name where that leaves no doubt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dealfl.errors import BadInput
from dealfl.jobs.proposals.survey import Found
from dealfl.jobs.settings import nearest

__all__ = ["Roles", "guessed", "looks_like_ratings", "require_known"]

_NAMES = {
    "target": "target label class y outcome response",
    "owner": "user username owner customer visitor person patient household member subject device",
    "item": "item movie film product song track book isbn article page",
    "rating": "rating score stars",
    "time": "time timestamp date datetime when ts",
}


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the columns with a part to play; '' for none."""

    target: str = ""
    owner: str = ""
    time: str = ""
    item: str = ""
    rating: str = ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _candidates(role: str, names: Iterable[str]) -> list[str]:
    known = _NAMES[role].split()
    wanted = {*known, *(f"{word}id" for word in known)} - {"yid", "classid"}
    return [name for name in names if _plain(name) in wanted]


def guessed(role: str, names: Sequence[str]) -> str:
    """Return the one column whose name says that it plays a role; '' if none or several do.

    >>> guessed("owner", ["Customer ID", "age"]), guessed("owner", ["user", "device"])
    ('Customer ID', '')
    """
    found = _candidates(role, names)
    return found[0] if len(found) == 1 else ""


def looks_like_ratings(names: Sequence[str]) -> bool:
    """Return whether the names speak of somebody who met something.

    >>> looks_like_ratings(["user", "item", "rating"]), looks_like_ratings(["user", "age"])
    (True, False)
    """
    return bool(guessed("owner", names) and guessed("item", names))


def require_known(roles: Roles, columns: Sequence[Found]) -> None:
    """Refuse roles for columns that the file lacks, and two roles for one column."""
    names = [column.name for column in columns]
    seen: dict[str, str] = {}
    for role in ("target", "owner", "time", "item", "rating"):
        name = getattr(roles, role)
        if name and name not in names:
            raise BadInput(f"--{role} {name}: no such column; {nearest(name, names)}")
        if name and name in seen:
            raise BadInput(f"--{role} {name}: it is the {seen[name]} already; choose another")
        seen[name] = role
