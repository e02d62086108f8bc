"""Predictions for a user's file: a value for each row, or items for each owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.errors import BadInput
from dealfl.jobs import Document, Quarantined
from dealfl.jobs.sources.columns import Bounded, Cells, Vocabulary
from dealfl.jobs.sources.ratings_source import RatingsSource
from dealfl.jobs.sources.sifting import Reader, read_texts
from dealfl.jobs.sources.source import source_of
from dealfl.jobs.sources.tables import Chunk, Layout
from dealfl.learners import HistoryLearner, RowLearner
from dealfl.runs.inputs import inputs_of, placed
from dealfl.runs.models import Model

__all__ = ["Predicted", "Recommended", "predict", "recommend"]

_LARGEST = float(2**53)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction for the row that ends on a line; None where the row can not be used."""

    line: int
    value: Any
    problem: Quarantined | None = None


@dataclass(frozen=True, slots=True)
class Recommended:
    """An item for an owner, the best first."""

    owner: str
    rank: int
    item: Any
    score: float


def predict(model: Model, path: Path) -> Iterator[Predicted]:
    """Yield a prediction for each row of a table."""
    learner = model.learner
    if not isinstance(learner, RowLearner):
        raise BadInput(f"a {learner.name} does not predict rows; it recommends items to owners")
    answer = learner.predict_federated if learner.federated else learner.predict
    for block in inputs_of(learner, model.document).blocks(path):
        values = answer(block.features).tolist() if len(block.good) else []
        found = dict(zip(block.good.tolist(), values, strict=True))
        for row, line in enumerate(block.lines):
            yield Predicted(line, found.get(row), block.wrong.get(row))


# -- recommendations ----------------------------------------------------------------------------


def recommend(
    model: Model, path: Path, top: int
) -> tuple[list[Recommended], list[Quarantined], int]:
    """Return up to `top` items for each owner of a file of histories, bad rows, and all rows."""
    if not isinstance(model.learner, HistoryLearner):
        raise BadInput(f"a {model.learner.name} recommends nothing; --top is for histories")
    meetings = _Meetings.of(model.document, model.learner.n_items)
    histories, wrong, rows = meetings.histories(path)
    found = []
    for owner, history in histories.items():
        items, scores = model.learner.recommend(sorted(history), top)
        pairs = zip(items.tolist(), scores.tolist(), strict=True)
        for rank, (item, score) in enumerate(pairs, 1):
            found.append(Recommended(owner, rank, meetings.label(item), score))
    return found, wrong, rows


@dataclass(frozen=True, slots=True)
class _Meetings:
    """How a file says who met what: the columns of a job's [source], or owner and item."""

    source: RatingsSource
    named: bool

    @classmethod
    def of(cls, document: Document | None, n_items: int) -> _Meetings:
        if document is not None and "source" in document.tables:
            source = source_of(document)
            if isinstance(source, RatingsSource):
                items = len(source.items) or source.last_item - source.first_item + 1
                if items != n_items:
                    raise BadInput(
                        f"{document.name} has {items} items, and the model {n_items}; "
                        "give the job of this model"
                    )
                return cls(source, named=True)
        plain = RatingsSource(file="", owner="owner", item="item", last_item=n_items - 1)
        return cls(plain, named=False)

    def label(self, item: int) -> Any:  # noqa: ANN401
        """Return what a file calls an item."""
        return self.source.items[item] if self.source.items else item + self.source.first_item

    def histories(self, path: Path) -> tuple[dict[str, set[int]], list[Quarantined], int]:
        """Return the items of each owner, the rows that can not be used, and how many there are."""
        source = self.source
        layout = Layout(source.delimiter, source.header, source.skip_lines, source.encoding)
        readers = self._readers()
        found: dict[str, set[int]] = {}
        wrong: list[Quarantined] = []
        rows = 0
        for places, width, chunk in placed(path, layout, list(readers), self.named):
            rows += len(chunk.rows)
            wrong += self._take(found, chunk, dict(zip(readers, places, strict=True)), width)
        return found, wrong, rows

    def _readers(self) -> dict[str, Reader]:
        source, written = self.source, Cells(self.source.decimal_comma)
        last = float(source.last_item)
        items = (
            Vocabulary(source.items) if source.items else Bounded(low=source.first_item, high=last)
        )
        readers: dict[str, Reader] = {
            source.owner: read_texts,
            source.item: partial(items.read, written=written),
        }
        if source.rating:
            anything = Bounded(low=-_LARGEST, high=_LARGEST)
            readers[source.rating] = partial(anything.read, written=written)
        return readers

    def _take(
        self, found: dict[str, set[int]], chunk: Chunk, places: dict[str, int], width: int
    ) -> list[Quarantined]:
        wrong = {
            row: Quarantined(
                chunk.lines[row], "", f"{len(cells)} cells, where {width} are expected"
            )
            for row, cells in enumerate(chunk.rows)
            if len(cells) != width
        }
        rows = [[""] * width if row in wrong else cells for row, cells in enumerate(chunk.rows)]
        values = {}
        for name, reader in self._readers().items():
            values[name], bad = reader([row[places[name]] for row in rows])
            for row, reason in bad.items():
                wrong.setdefault(row, Quarantined(chunk.lines[row], name, reason))
        for row, owner in enumerate(values[self.source.owner].tolist()):
            item = float(values[self.source.item][row])
            if row not in wrong and item != np.floor(item):
                wrong[row] = Quarantined(chunk.lines[row], self.source.item, "no whole number")
            if row in wrong:
                continue
            history = found.setdefault(owner.strip(), set())
            if self._liked(values, row):
                history.add(int(item) - (0 if self.source.items else self.source.first_item))
        return [wrong[row] for row in sorted(wrong)]

    def _liked(self, values: dict[str, Any], row: int) -> bool:
        least = self.source.liked_from
        return least is None or float(values[self.source.rating][row]) >= least
