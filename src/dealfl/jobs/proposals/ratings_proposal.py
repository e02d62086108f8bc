"""What a job file should fix of a file of ratings."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.errors import BadInput
from dealfl.jobs.proposals.roles import Roles
from dealfl.jobs.proposals.survey import Found
from dealfl.jobs.toml_text import toml_value

__all__ = ["ratings_lines"]

_LIKED_SHARE = 0.6
_SPARSE = 4
_FEW_ITEMS = 10_000


def ratings_lines(columns: Sequence[Found], roles: Roles) -> list[str]:
    """Return the lines of items and of what counts as liked; BadInput if there are none."""
    found = {column.name: column for column in columns}
    for role in ("owner", "item", "rating"):
        name = getattr(roles, role)
        if name and not found[name].values:
            raise BadInput(f"the {role} column {name!r} is empty; choose another --{role}")
    lines = []
    if roles.rating:
        rating = found[roles.rating]
        if rating.kind != "number":
            raise BadInput(
                f"the rating column {rating.name!r} holds {rating.kind}s; choose another --rating"
            )
        lines.append(f"liked_from = {_liked_from(rating)!r}   # from here on it was liked")
    return lines + _item_lines(found[roles.item])


def _liked_from(rating: Found) -> float:
    """Return a rating in the upper part of the range, one that was given."""
    mark = rating.low + _LIKED_SHARE * (rating.high - rating.low)
    given = [value for value in rating.sample if value >= mark]
    return min(given, default=mark)


def _item_lines(item: Found) -> list[str]:
    numbered = item.kind == "number" and item.whole and item.low >= 0 and not item.texts
    if numbered and item.high - item.low < max(_SPARSE * item.distinct, _FEW_ITEMS):
        return [
            "# all items there can be; rows with others are quarantined",
            f"first_item = {int(item.low)}",
            f"last_item = {int(item.high)}",
        ]
    if item.overflown:
        raise BadInput(
            f"the item column {item.name!r} has more than {item.distinct - 1:,} different texts; "
            "number the items from 0 on, and use the numbers"
        )
    words: Sequence[int | str] = sorted(item.words)
    if numbered:
        words = sorted({int(float(word)) for word in item.words})
    return [
        "# all items there can be; rows with others are quarantined",
        f"items = {toml_value(words)}",
    ]
