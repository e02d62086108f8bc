"""What came out of a run: quality, proof, energy, model, tables, plots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.api.fleet import Fleet, html_table
from dealfl.data.sources import item_names, owner_names
from dealfl.errors import BadInput
from dealfl.escaping import for_html
from dealfl.exact import Statistics
from dealfl.learners import HistoryLearner, Learner, RowLearner
from dealfl.report import (
    draw_plot,
    format_count,
    format_energy,
    format_quality,
    plot_names,
    summarize,
    write_page,
)
from dealfl.runs import (
    About,
    ErasureResult,
    Model,
    RunFolder,
    RunRecord,
    erase_owners,
    export_model,
    list_owners,
    open_model,
    require_known,
)
from dealfl.simulate import FleetEnergy, Outcome, Setting


class Records(list[dict[str, Any]]):
    """A table as a list of records; a notebook shows it as a table.

    Examples
    --------
    >>> Records([{"round": 1, "quality": 0.5}])[0]["quality"]
    0.5
    """

    def _repr_html_(self) -> str:
        head = list(self[0]) if self else []
        return html_table(head, [[_figure(record[name]) for name in head] for record in self])


def as_table(records: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - pandas is optional
    """Return a `pandas.DataFrame` if pandas is installed, else `Records`."""
    if find_spec("pandas") is None:
        return Records(dict(record) for record in records)
    return import_module("pandas").DataFrame(list(records))


def record_of(setting: Setting) -> dict[str, Any]:
    """Return a combination of values with the means of its measures."""
    first = setting.outcomes[0]
    record: dict[str, Any] = {
        **setting.plain_values,
        "seeds": len(setting.outcomes),
        "exact": all(outcome.exact for outcome in setting.outcomes),
        "metric": first.metric,
    }
    for name, estimate in setting.estimates().items():
        key = "quality" if name == first.metric else name.replace(" ", "_").replace("-", "_")
        record[key] = estimate.mean
        if estimate.half_width is not None:
            record[f"{key}_ci"] = estimate.half_width
    return record


def _figure(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


class Result:
    """The result of `dealfl.run`; a notebook shows it as a table.

    Parameters
    ----------
    fleet
        The fleet that ran.
    outcomes
        The outcome of the job's own scheme, and of those compared with it.
    statistics
        Statistics of the model that the server has in the end.
    page
        The report, or else the result, in the folder of the run; None if nothing was written.
    """

    def __init__(
        self, fleet: Fleet, outcomes: RunRecord, statistics: Statistics, page: Path | None = None
    ) -> None:
        self.fleet = fleet
        self.page = page
        self._outcomes = outcomes
        self._statistics = statistics

    @property
    def quality(self) -> float | None:
        """Score of the model on the test share, of 1: accuracy, R² or hit rate (see `metric`)."""
        return self.outcome.quality

    @property
    def metric(self) -> str:
        """What `quality` measures."""
        return self.outcome.metric

    @property
    def exact(self) -> bool:
        """Whether every digest is that of central training on what the workers still hold."""
        return self._outcomes.exact

    @property
    def digest(self) -> str:
        """Digest of the model's statistics."""
        return self.outcome.digest

    @property
    def energy(self) -> FleetEnergy:
        """Energy of all phones, modelled: in joules, by cause, with what was saved."""
        return self.outcome.energy

    @property
    def outcome(self) -> Outcome:
        """Everything that is known of the run under the job's own scheme."""
        return self._outcomes.main

    @property
    def outcomes(self) -> RunRecord:
        """The outcomes of all schemes that ran, and their comparisons."""
        return self._outcomes

    @property
    def rounds(self) -> Any:  # noqa: ANN401 - pandas is optional
        """One row for each round: a pandas data frame, or `Records` without pandas."""
        return as_table([dataclasses.asdict(row) for row in self.outcome.rounds])

    @property
    def workers(self) -> Any:  # noqa: ANN401 - pandas is optional
        """One row for each phone: a pandas data frame, or `Records` without pandas."""
        return as_table(
            [dataclasses.asdict(participant) for participant in self.outcome.participants]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return self._outcomes.as_dict()

    # -- the model ------------------------------------------------------------------------------

    @cached_property
    def model(self) -> Learner:
        """The model that the server has in the end; it is made when it is first used."""
        model, names = self.fleet.simulated.plan.make(), _name_features(self.fleet)
        model.merge(self._statistics)
        if isinstance(model, RowLearner) and names:
            model.name_features(names)
        return model

    def predict(self, X: object) -> NDArray[Any]:
        """Return what the model predicts for raw rows: the job's feature map is applied.

        Parameters
        ----------
        X
            Rows of the columns that the fleet was made from: an array, a frame, or a csr.

        Returns
        -------
        ndarray
            One class or number for each row.

        Raises
        ------
        BadInput
            If a row does not fit the job, or the model recommends items instead.
        """
        predicted = self._rows_model().predict_federated(self.fleet.simulated.plan.take(X))
        return predicted.astype(np.bool_) if self.fleet.predicts_truths else predicted

    def score(self, X: object, y: object) -> float:
        """Return how well the model predicts raw rows; 1.0 is perfect.

        Parameters
        ----------
        X
            Rows, as for `predict`.
        y
            The target of each row.

        Returns
        -------
        float
            Accuracy for classes, R² for numbers.

        Raises
        ------
        BadInput
            If a row does not fit the job.
        """
        return self._rows_model().score_federated(self.fleet.simulated.plan.take(X), y)

    def recommend(self, history: Iterable[Any], k: int = 10) -> Any:  # noqa: ANN401 - pandas is optional
        """Return up to k items that go with a history but are not in it.

        Parameters
        ----------
        history
            Items as the fleet's data name them.
        k
            Number of items.

        Returns
        -------
        DataFrame or Records
            Columns `item` and `score`, best first.

        Raises
        ------
        BadInput
            If an item is unknown, or the model predicts rows instead.
        """
        if not isinstance(self.model, HistoryLearner):
            raise BadInput(f"a {self.model.name} recommends nothing; use predict")
        source = item_names(self.fleet.simulated.plan.subject.source, self.model.n_items)
        items, scores = self.model.recommend([source.number(item) for item in history], k)
        pairs = zip(items.tolist(), scores.tolist(), strict=True)
        return as_table([{"item": source.label(item), "score": score} for item, score in pairs])

    def _rows_model(self) -> RowLearner:
        if not isinstance(self.model, RowLearner):
            raise BadInput(f"a {self.model.name} does not predict rows; use recommend")
        return self.model

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model and its job to a file for `dealfl.load` and `dealfl model`.

        Parameters
        ----------
        path
            The file.
        force
            Whether to replace a file that exists.

        Raises
        ------
        BadInput
            If the file exists, or its folder does not.
        """
        about, text = About(len(self.outcome.rounds)), self.fleet.job_text()
        model = Model(self.model, str(path), about, self.fleet.document, text)
        export_model(model, Path(path), force=force)

    # -- to look at -----------------------------------------------------------------------------

    def report(self, path: str | Path = "report.html") -> Path:
        """Write one HTML page with plots and tables; it needs no network.

        Parameters
        ----------
        path
            The file to write.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        DealError
            If plotly is not installed.
        """
        write_page(dataclasses.replace(self._outcomes, settings=self.fleet.job_text()), path)
        return Path(path)

    def plot(self, name: str = "quality") -> Any:  # noqa: ANN401 - plotly is optional
        """Return one plot of the report.

        Parameters
        ----------
        name
            One of `Result.plots()`, such as `"quality"`.

        Returns
        -------
        plotly.graph_objects.Figure
            The plot; a notebook shows it.

        Raises
        ------
        UnknownName
            If there is no such plot.
        DealError
            If plotly is not installed.
        """
        return draw_plot(self._outcomes, name)

    @staticmethod
    def plots() -> tuple[str, ...]:
        """Return the names of all plots."""
        return plot_names()

    def erase(
        self, *owners: object, requested_by: str = "", unknown_too: bool = False
    ) -> ErasureResult:
        """Erase persons from the run, and sign a certificate; `model` then never saw them.

        Parameters
        ----------
        owners
            Names of the persons, or lists of names.
        requested_by
            Who requests it; by default your account.
        unknown_too
            Whether to certify that nothing was held of names that the run does not know.

        Returns
        -------
        ErasureResult
            What was done, and where the certificate is.

        Raises
        ------
        BadInput
            If the run has no folder (`out=`), its data were not kept, or it does not know a name.
        """
        run = self._folder()
        names = [name or "" for owner in owners for name in owner_names(owner).flat]
        if not unknown_too:
            require_known(run, names)
        erased = erase_owners(run, names, requested_by=requested_by)
        self.model = open_model(run.path).learner
        return erased

    def owners(self) -> Any:  # noqa: ANN401 - pandas is optional
        """Return the persons of whom the run holds examples: those that `erase` can erase.

        Returns
        -------
        DataFrame or Records
            Columns `owner`, `examples` and `workers`, by name.

        Raises
        ------
        BadInput
            If the run has no folder (`out=`).
        """
        return as_table([dataclasses.asdict(owner) for owner in list_owners(self._folder())])

    def _folder(self) -> RunFolder:
        if self.page is None:
            raise BadInput("a run without a folder keeps no examples; give out= to dealfl.run")
        return RunFolder(self.page.parent)

    def __repr__(self) -> str:
        return summarize(self._outcomes)

    def _repr_html_(self) -> str:
        every, title = self._outcomes.outcomes, for_html(self._outcomes.job)
        rows = [[name, *map(form, every)] for name, form in self._figures()]
        table = html_table(["", *(outcome.scheme for outcome in every)], rows)
        return f"<b>{title}</b>, {format_count(self.outcome.workers, 'phone')}{table}"

    def _figures(self) -> list[tuple[str, Any]]:
        return [
            (self.metric, lambda outcome: format_quality(outcome.quality)),
            ("digest = central training", lambda outcome: "yes" if outcome.exact else "NO"),
            ("rounds", lambda outcome: f"{len(outcome.rounds):,}"),
            ("examples learned", lambda outcome: f"{outcome.learned:,}"),
            ("examples forgotten", lambda outcome: f"{outcome.evicted:,}"),
            ("wake-ups", lambda outcome: f"{outcome.energy.wake_ups:,}"),
            ("computing, modelled", lambda outcome: format_energy(outcome.energy.compute_j)),
            ("whole devices, modelled", lambda outcome: format_energy(outcome.energy.whole_j)),
        ]


# -- what a model takes -------------------------------------------------------------------------


def _name_features(fleet: Fleet) -> list[str]:
    """Return the names of a model's features; none with a feature map, or if nobody named them."""
    plan = fleet.simulated.plan
    source = plan.subject.source
    if plan.feature_map is not None or source is None or not source.has_header:
        return []
    names = source.feature_names
    unnamed = [f"x{n + 1}" for n in range(len(names))]
    return [] if fleet.data is not None and names == unnamed else names
