"""θ: quality, energy and level of forgetness for every model, with the knee of the trade-off."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.pages import Plot
from dealfl_paper.drawing import axis, line
from dealfl_paper.federated import run_fleet, summarize_outcome
from dealfl_paper.figure import (
    Claim,
    Figure,
    Row,
    Setting,
    Verdict,
    estimate,
    select,
    values_of,
)

_MODELS = {  # learner, dataset
    "PageRank, jester": ("personalized_pagerank", "jester"),
    "kNN, phishing": ("neighbors", "phishing"),
    "naive Bayes, covtype": ("naive_bayes", "covtype"),
    "Tikhonov, cadata": ("tikhonov", "cadata"),
    "Tikhonov, phishing": ("tikhonov_classifier", "phishing"),
}
_THETAS = ("0", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
_DEFAULT = "0.02"


def _settings(quick: bool) -> list[Setting]:
    models = ["Tikhonov, cadata", "Tikhonov, phishing"] if quick else list(_MODELS)
    return [
        {
            "model": model,
            "theta": theta,
            "rows": 1_000 if quick else 5_000,
            "rounds": 8 if quick else 30,
            "seed": seed,
        }
        for model in models
        for theta in (("0", "0.02", "1") if quick else _THETAS)
        for seed in range(1 if quick else 2)
    ]


def _run(setting: Setting) -> list[Row]:
    learner, dataset = _MODELS[setting["model"]]
    keys = {
        "job.forget_fraction": setting["theta"],
        "job.rounds": setting["rounds"],
        "job.evaluate_every": setting["rounds"],
        "data.rows": setting["rows"],
    }
    outcome = run_fleet(dataset, learner, setting["seed"], keys)
    row = summarize_outcome(outcome)
    return [{**row, "forgetness": outcome.evicted / outcome.learned}]


def _means(rows: Sequence[Row], key: str) -> list[float]:
    return [estimate(select(rows, theta=theta), key).mean for theta in values_of(rows, "theta")]


def find_knee(thetas: Sequence[str], forgotten: Sequence[float], quality: Sequence[float]) -> str:
    """Return the θ of the point that is farthest above the chord of the curve.

    >>> find_knee(["0", "0.1", "1"], [0.0, 0.5, 1.0], [0.9, 0.88, 0.5])
    '0.1'
    """
    across = max(forgotten[-1] - forgotten[0], 1e-12)
    down = max(max(quality) - min(quality), 1e-12)
    heights = [
        (value - quality[-1]) / down + (share - forgotten[0]) / across
        for share, value in zip(forgotten, quality, strict=True)
    ]
    return thetas[heights.index(max(heights))]


def _plot(rows: Sequence[Row]) -> list[Plot]:
    quality, energy = [], []
    for shade, model in enumerate(values_of(rows, "model")):
        own = select(rows, model=model)
        thetas = values_of(own, "theta")
        shares, heights = _means(own, "forgetness"), _means(own, "quality")
        labels = [f"θ = {theta}" for theta in thetas]
        trace = line(shares, heights, model, shade, text=labels, hovertemplate="%{text}: %{y:.3f}")
        knee = thetas.index(find_knee(thetas, shares, heights))
        sizes = [14 if index == knee else 6 for index in range(len(thetas))]
        quality.append(trace | {"marker": trace["marker"] | {"size": sizes}})
        spent = _means(own, "compute_j")
        shown = [energy / spent[0] for energy in spent]
        energy.append(
            line(shares, shown, model, shade, text=labels, hovertemplate="%{text}: %{y:.2f}")
        )
    forgotten = axis("level of forgetness: forgotten / learned")
    return [
        Plot(
            title="Quality by level of forgetness (measured)",
            words="One point for each θ from 0 to 1; the knee is larger. Accuracy, R² or hit rate "
            "at 10 in federated runs.",
            traces=quality,
            layout={"xaxis": forgotten, "yaxis": axis("quality", rangemode="tozero")},
            height=420,
        ),
        Plot(
            title="Energy of computing by level of forgetness (modelled)",
            words="As a multiple of the energy at θ = 0: forgetting is work.",
            traces=energy,
            layout={"xaxis": forgotten, "yaxis": axis("multiple", rangemode="tozero")},
            height=420,
        ),
    ]


def _claims(rows: Sequence[Row]) -> list[Claim]:
    losses, knees = {}, []
    for model in values_of(rows, "model"):
        own = select(rows, model=model)
        thetas, quality = values_of(own, "theta"), _means(own, "quality")
        losses[model] = 100 * (quality[0] - quality[thetas.index(_DEFAULT)])
        knees.append(f"{model} {find_knee(thetas, _means(own, 'forgetness'), quality)}")
    return [
        Claim(
            "Ours: what θ costs",
            "not in the paper",
            "; ".join(f"{model} {loss:+.2f} points" for model, loss in losses.items()),
            Verdict.NOT_COMPARABLE,
            f"Points of quality lost at θ = {_DEFAULT} against θ = 0, measured in federated runs. "
            f"Knee: {'; '.join(knees)}.",
        )
    ]


FIGURE = Figure(
    name="theta",
    title="θ: quality, energy and forgetness",
    paper="Not in the paper, which does not state its θ.",
    method="Federated runs of 20 phones with each learner, from θ = 0 (keep all) to θ = 1 (keep "
    "only the new). Quality is measured on a test share, forgetness is counted, energy is "
    "modelled.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda setting: setting["rounds"] / 4,
    datasets=lambda setting: _MODELS[setting["model"]][1:],
)
