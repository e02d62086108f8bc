"""Fleets and results for people: a fleet in words, and tables, with pandas or without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dealfl.api.proposing import Proposal
from dealfl.escaping import for_html
from dealfl.simulate import FleetSpec, Setting

__all__ = ["Records", "as_table", "describe", "describe_html", "html_table", "record_of"]

_MOST = 8
_FIXED = ("classes", "feature_bound", "offset", "target_bound", "intercept", "n_items")


class Records(list[dict[str, Any]]):
    """A table as a list of records; a notebook shows it as a table.

    Parameters
    ----------
    iterable
        The records: dictionaries with the same keys.

    Examples
    --------
    >>> Records([{"round": 1, "quality": 0.5}])[0]["quality"]
    0.5
    """

    def _repr_html_(self) -> str:
        head = list(self[0]) if self else []
        return html_table(head, [[_figure(one[name]) for name in head] for one in self])


def as_table(records: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - pandas is optional
    """Return a `pandas.DataFrame` if pandas is installed, else `Records`."""
    if find_spec("pandas") is None:
        return Records(dict(one) for one in records)
    return import_module("pandas").DataFrame(list(records))


def record_of(setting: Setting) -> dict[str, Any]:
    """Return a combination of values with the means of its measures."""
    first = setting.outcomes[0]
    plain = int | float | str | bool
    record: dict[str, Any] = {
        **{k: v if isinstance(v, plain) else str(v) for k, v in setting.values.items()},
        "seeds": len(setting.outcomes),
        "exact": all(one.exact for one in setting.outcomes),
        "metric": first.metric,
    }
    for name, estimate in setting.estimates().items():
        key = "quality" if name == first.metric else name.replace(" ", "_").replace("-", "_")
        record[key] = estimate.mean
        if estimate.half_width is not None:
            record[f"{key}_ci"] = estimate.half_width
    return record


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plain HTML table; every text is escaped."""
    names = "".join(f"<th>{for_html(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{for_html(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _figure(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


# -- a fleet ------------------------------------------------------------------------------------


def describe(fleet: FleetSpec, proposal: Proposal | None) -> str:
    """Return a fleet as lines of text."""
    rows = _rows(fleet, proposal)
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name.ljust(width)}  {value}" for name, value in rows]
    return "\n".join([f"Fleet {fleet.job.name!r}", *lines])


def describe_html(fleet: FleetSpec, proposal: Proposal | None) -> str:
    """Return a fleet as a table."""
    return f"<b>Fleet {for_html(fleet.job.name)}</b>{html_table([], _rows(fleet, proposal))}"


def _rows(fleet: FleetSpec, proposal: Proposal | None) -> list[tuple[str, str]]:
    job, plan = fleet.job, fleet.plan
    phones = ", ".join(f"{group.count} × {group.device}" for group in fleet.devices)
    rows = [
        ("learns from", _data(fleet, proposal)),
        ("phones", phones),
        ("rounds", f"{job.rules.rounds}, {job.rules.workers_per_round} phones each"),
        ("scheme", f"{job.scheme}, forget_fraction {job.forget_fraction}"),
        ("learner", plan.learner),
    ]
    if plan.feature_map is not None:
        made, count = plan.feature_map.settings(), plan.settings.get("n_features")
        rows.append(("feature map", f"{made.get('map', '')}, {count} features"))
    rows += [("limits", text) for text in _limits(fleet)]
    rows += [(f"  {name}", _short(plan.settings[name])) for name in _FIXED if name in plan.settings]
    left_out: Mapping[str, str] = {} if proposal is None else proposal.start.left_out
    rows += [("left out", f"{name}: {reason}") for name, reason in left_out.items()]
    return rows


def _limits(fleet: FleetSpec) -> list[str]:
    """Return between which limits features lie, the commonest limits first."""
    domain = fleet.plan.subject.dataset.domain
    if domain is None:
        return []
    found = Counter(zip(domain.low, domain.high, strict=True)).most_common()
    shown = [f"{low:g} … {high:g} ({count} features)" for (low, high), count in found[:_MOST]]
    return shown + ([f"and {len(found) - _MOST} others"] if len(found) > _MOST else [])


def _data(fleet: FleetSpec, proposal: Proposal | None) -> str:
    if proposal is None:
        return fleet.plan.subject.name
    reading = proposal.reading
    what = "histories" if proposal.start.format == "ratings" else "examples"
    aside = f", {len(reading.quarantine):,} rows are quarantined" if len(reading.quarantine) else ""
    share = f"{fleet.data.test_share:.0%} kept for the test"
    domain = fleet.plan.subject.dataset.domain
    columns = "" if domain is None else f" of {domain.n_features} features"
    return f"{len(reading.examples):,} {what}{columns}, {share}{aside}"


def _short(value: object) -> str:
    """Return a value in a few words.

    >>> _short([0.0] * 9), _short(["a", "b"])
    ('0 … 0 (9 values)', 'a, b')
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        return _plain(value)
    if len(value) <= _MOST:
        return ", ".join(map(_plain, value))
    if all(isinstance(one, int | float) for one in value):
        return f"{_plain(min(value))} … {_plain(max(value))} ({len(value)} values)"
    return f"{', '.join(map(_plain, value[:_MOST]))}, … ({len(value)} values)"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
