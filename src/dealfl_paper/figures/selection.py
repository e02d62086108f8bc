"""Selection: what it saves in federated runs, alone and with full wake-ups; regret and fairness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from dealfl.pages import Plot
from dealfl.server import Selection
from dealfl_paper.drawing import axis, bars
from dealfl_paper.federated import STAYS, play_fleet
from dealfl_paper.figure import (
    Claim,
    Figure,
    Row,
    Setting,
    Verdict,
    estimate,
    judge,
    mean_with_interval,
    select,
)
from dealfl_paper.laboratory import judge_wrong_choices, measure_wrong_choices

_TARGET = 0.92  # accuracy
_ERROR = 0.1  # of predicted times, to which the law of training times is held
_BASELINE = "uniform"
_UNIFORM: dict[str, object] = {"job.selector": "uniform"}
_FULL: dict[str, object] = {"job.min_waiting": 10}
WAYS: dict[str, dict[str, object]] = {
    "everyone": {"job.selector": "everyone", "job.workers_per_round": 20},
    "uniform": _UNIFORM,
    "selection": {},
    "fullness": {**_UNIFORM, **_FULL},
    "both": _FULL,
}


def _settings(quick: bool) -> list[Setting]:
    settings: list[Setting] = [
        {"panel": "wrong picks", "jobs": 100 if quick else 1_000},
        {"panel": "wrong picks", "jobs": 10 if quick else 100, "workers": 300, "per_round": 150},
    ]
    settings += [
        {"panel": "fleet", "rounds": 25 if quick else 120, "target": _TARGET, "seed": seed}
        for seed in range(1 if quick else 5)
    ]
    return settings


def _run(setting: Setting) -> list[Row]:
    if setting["panel"] == "wrong picks":
        sizes = {key: setting[key] for key in ("jobs", "workers", "per_round") if key in setting}
        measured = measure_wrong_choices(**sizes)
        verdict = judge_wrong_choices(measured)
        return [
            {**asdict(choices), "tail": choices.only_the_tail, "verdict": verdict}
            for choices in measured
        ]
    runs = {
        way: play_fleet(setting["target"], setting["rounds"], setting["seed"], keys)
        for way, keys in WAYS.items()
    }
    means = _mean_rewards(
        [selection for reached in runs.values() for selection in reached.selections]
    )
    return [
        {"way": way, **reached.as_row(), "regret": _regret(reached.selections, means)}
        for way, reached in runs.items()
    ]


def _mean_rewards(selections: Sequence[Selection]) -> dict[str, float]:
    rewards = defaultdict(list)
    for selection in selections:
        rewards[selection.worker].append(selection.reward)
    return {worker: sum(values) / len(values) for worker, values in rewards.items()}


def _regret(selections: Sequence[Selection], means: Mapping[str, float]) -> float:
    """Return the mean reward of the best fixed workers minus that of those selected."""
    best = sorted(means.values(), reverse=True)
    rounds = defaultdict(list)
    for selection in selections:
        rounds[selection.round].append(means[selection.worker])
    lost = [sum(best[: len(values)]) - sum(values) for values in rounds.values()]
    return sum(lost) / max(len(selections), 1)


# -- plots and claims ---------------------------------------------------------------------------


def _plot(rows: Sequence[Row]) -> list[Plot]:
    fleets, wrong = select(rows, panel="fleet"), select(rows, panel="wrong picks")
    plots = [_wrong_plot(wrong)] if wrong else []
    for key, title, unit in (
        ("energy_j", "Energy to reach the quality, whole devices (modelled)", "J"),
        ("regret", "Regret of a selection in federated runs (measured)", "reward"),
        ("min_share", "Rounds of the worker that is selected least", "share of rounds"),
    ):
        estimates = [estimate(select(fleets, way=way), key) for way in WAYS if fleets]
        heights, widths = (
            [estimate.mean for estimate in estimates],
            [estimate.half_width for estimate in estimates],
        )
        plots.append(
            Plot(
                title=title,
                words=f"Tikhonov classifier on phishing until accuracy {_TARGET:g} stays for "
                f"{STAYS} rounds; 95 % intervals over the seeds.",
                traces=[bars(list(WAYS), heights, key, 4, widths)] if estimates else [],
                layout={"yaxis": axis(unit), "xaxis": {"tickangle": -45}, "showlegend": False},
                height=400,
            )
        )
    return plots


def _wrong_plot(rows: Sequence[Row]) -> Plot:
    rows = [row for row in rows if "workers" not in row]
    names = [f"{_error(row)}, {row['ends_with']}" for row in rows]
    traces = [
        bars(names, [100 * (row[key] - 1) for row in rows], label, shade)
        for shade, (key, label) in enumerate(
            (("mean", "mean"), ("median", "median"), ("percentile_95", "95th percentile")), 4
        )
    ]
    return Plot(
        title="Longer rounds because of wrong selections (simulated)",
        words="By the error of predicted times, or with times learned from rounds, and by what "
        "ends a round: a majority or all replies.",
        traces=traces,
        layout={"barmode": "group", "yaxis": axis("% longer"), "xaxis": {"tickangle": -45}},
        height=420,
    )


def _claims(rows: Sequence[Row]) -> list[Claim]:
    fleets, wrong = select(rows, panel="fleet"), select(rows, panel="wrong picks")
    return [*(_wrong_claims(wrong) if wrong else []), *([_saving_claim(fleets)] if fleets else [])]


def _wrong_claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the claim by the times of rounds, and by those of single devices."""
    by_device = [row for row in rows if row["ends_with"] == "each device" and "workers" in row]
    by_round = [row for row in rows if row["ends_with"] != "each device" and "workers" not in row]
    claims = [_wrong_claim("Wrong selections affect only the 95th percentile", by_round)]
    if by_device:
        small = [row for row in by_device if row["prediction_error"] == _ERROR]
        title = (
            f"Device times, 150 of 300, predictions ± {_ERROR:.0%}: wrong selections affect only "
            "the 95th percentile"
        )
        claims.append(_wrong_claim(title, small))
    return claims


def _wrong_claim(title: str, rows: Sequence[Row]) -> Claim:
    hurt = [row for row in rows if row["percentile_95"] > 1.02]
    tail = [row for row in hurt if row["tail"]]
    listed = "; ".join(
        f"{row['ends_with']} {_error(row)}: median {row['median'] - 1:+.1%}, 95th percentile "
        f"{row['percentile_95'] - 1:+.1%}"
        for row in rows
        if row["prediction_error"] == _ERROR
    )
    return Claim(
        title,
        "only the 95th percentile",
        f"{len(tail)} of {len(hurt)} cases with a 95th percentile more than 2 % worse leave mean "
        f"and median as they are. {listed}",
        judge(len(tail) == len(hurt), comparable=bool(hurt)),
        "Simulated without data: rounds that end with a majority or with all replies, predictions "
        "with errors up to 100 %.",
    )


def _error(row: Row) -> str:
    error = row["prediction_error"]
    return "learned" if error is None else f"± {error:.0%}"


def _saving_claim(fleets: Sequence[Row]) -> Claim:
    base = {row["seed"]: row["energy_j"] for row in select(fleets, way=_BASELINE)}
    listed = []
    for way in WAYS:
        saved = [100 * (1 - row["energy_j"] / base[row["seed"]]) for row in select(fleets, way=way)]
        if way != _BASELINE:
            listed.append(f"{way} {mean_with_interval(saved)} %")
    missed = sum(not row["reached"] for row in fleets)
    return Claim(
        "Ours: energy saved at equal quality by selection, by full wake-ups, by both",
        "not in the paper",
        f"saved against {_BASELINE}: {'; '.join(listed)}",
        Verdict.NOT_COMPARABLE,
        f"Modelled, whole devices with radio. {missed} of {len(fleets)} runs did not reach the "
        "quality; their whole energy counts.",
    )


FIGURE = Figure(
    name="selection",
    title="Selection",
    paper="The paper's bandit has regret and fairness results in theory, none measured in "
    "federated runs. Wrong selections may only affect the 95th percentile.",
    method="20 phones receive phishing rows at different rates. Workers are selected at random or "
    "by the fair bandit, with any number of waiting examples or with at least ten. Energy counts "
    "until the accuracy is reached and stays. Regret compares the mean rewards of the selected "
    "workers with those of the best fixed ones.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda setting: 2.0 if setting["panel"] == "wrong picks" else setting["rounds"] / 2,
)
