"""Governors: energy and latency of a fleet under DEAL's control and the governors of Linux."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.pages import Plot
from dealfl_paper.drawing import axis, bars
from dealfl_paper.federated import run_fleet, summarize_outcome
from dealfl_paper.figure import (
    Claim,
    Figure,
    Row,
    Setting,
    estimate,
    judge,
    select,
    values_of,
)

_GOVERNORS = (
    "deal",
    "interactive",
    "ondemand",
    "conservative",
    "performance",
    "powersave",
    "schedutil",
)
_WORKLOADS = {  # dataset, learner, scheme: little and much work in a wake-up
    "naive Bayes, DEAL": ("phishing", "naive_bayes", "deal"),
    "PageRank, Original": ("jester", "personalized_pagerank", "original"),
}


def _settings(quick: bool) -> list[Setting]:
    return [
        {
            "workload": name,
            "governor": governor,
            "rows": 1_000 if quick else 5_000,
            "rounds": 4 if quick else 20,
            "seed": seed,
        }
        for name in _WORKLOADS
        if not quick or name.endswith("DEAL")
        for governor in _GOVERNORS
        for seed in range(1 if quick else 3)
    ]


def _run(setting: Setting) -> list[Row]:
    dataset, learner, scheme = _WORKLOADS[setting["workload"]]
    keys: dict[str, object] = {
        "job.scheme": scheme,
        "job.rounds": setting["rounds"],
        "job.evaluate_every": setting["rounds"],
        "data.rows": setting["rows"],
    }
    keys |= {f"devices.{device}.governor": setting["governor"] for device in range(1, 6)}
    return [summarize_outcome(run_fleet(dataset, learner, setting["seed"], keys))]


def _mean(rows: Sequence[Row], governor: str, key: str) -> float:
    return estimate(select(rows, governor=governor), key).mean


def _plot(rows: Sequence[Row]) -> list[Plot]:
    plots = []
    for key, title, words in (
        ("compute_j", "Energy of computing (modelled)", "As % of the performance governor."),
        ("compute_s", "Time of computing (modelled)", "As % of the performance governor."),
        ("whole_j", "Energy of whole devices (modelled)", "As above, with the radio."),
    ):
        traces = []
        for shade, workload in enumerate(values_of(rows, "workload"), 4):
            own = select(rows, workload=workload)
            base = _mean(own, "performance", key)
            heights = [100 * _mean(own, governor, key) / base for governor in _GOVERNORS]
            traces.append(bars(_GOVERNORS, heights, workload, shade))
        layout = {"barmode": "group", "yaxis": axis("%"), "xaxis": {"tickangle": -45}}
        plots.append(Plot(title=title, words=words, traces=traces, layout=layout, height=400))
    return plots


def _claims(rows: Sequence[Row]) -> list[Claim]:
    sentences, saved = [], []
    for workload in values_of(rows, "workload"):
        own = select(rows, workload=workload)
        charges = {name: _mean(own, name, "compute_j") for name in _GOVERNORS}
        others = {name: charge for name, charge in charges.items() if name != "deal"}
        best = min(others, key=lambda name: others[name])
        saving = 100 * (1 - charges["deal"] / charges["interactive"])
        latency = 100 * (
            _mean(own, "deal", "compute_s") / _mean(own, "interactive", "compute_s") - 1
        )
        whole = 100 * (1 - _mean(own, "deal", "whole_j") / _mean(own, "interactive", "whole_j"))
        saved.append(saving)
        sentences.append(
            f"{workload}: {saving:.1f} % less compute energy than interactive, {latency:+.0f} % "
            f"time, {whole:.1f} % of whole devices; best other: {best}"
        )
    return [
        Claim(
            "DEAL's control of the clock saves energy against the default governor",
            "adaptive power control saves energy; no number",
            "; ".join(sentences),
            judge(min(saved) > 0),
            "Modelled, five kinds of phones. A short training ends before the first step of a "
            "governor, at the slowest clock. DVFS alone cannot save 75 %: on the Honor one busy "
            "core costs at most 9.7 % less charge at the best clock.",
        )
    ]


FIGURE = Figure(
    name="governors",
    title="Governors",
    paper="Experiments under the interactive governor (the default) and fixed frequencies; DEAL "
    "steps the clock up when it learns and down when it forgets.",
    method="The same fleet of 20 phones under each governor, simulated tick by tick as in the "
    "kernel, and under DEAL's control along the efficient frontier. Energy and time are modelled.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda setting: setting["rounds"] / 4,
    datasets=lambda setting: _WORKLOADS[setting["workload"]][:1],
)
