"""Privacy: the share of new objects among those held and among those touched."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dealfl.api import Fleet, run
from dealfl.pages import Plot
from dealfl_paper.drawing import SCHEMES, axis, line, scheme_label
from dealfl_paper.figure import Claim, Figure, Row, Setting, judge, select, values_of
from dealfl_paper.problems import load_problem

_NEW = 10  # objects a round and worker, as in the paper
_STREAM = {
    "arrival.pattern": "steady",
    "arrival.initial_share": 0.01,
    "arrival.examples_per_hour": _NEW,
    "arrival.batch": _NEW,
}


def _settings(quick: bool) -> list[Setting]:
    return [
        {
            "scheme": scheme,
            "rows": 1_000 if quick else None,
            "rounds": 25 if quick else 100,
            "seed": 0,
        }
        for scheme in SCHEMES
    ]


def _run(setting: Setting) -> list[Row]:
    problem = load_problem("mushrooms", "naive_bayes", setting["rows"])
    job = {
        "job.scheme": setting["scheme"],
        "job.rounds": setting["rounds"],
        "job.seed": setting["seed"],
        "job.round_every_s": 3600,
        "arrival": None,
    }
    fleet = Fleet.from_arrays(
        problem.features, problem.targets, problem.learner, workers=1, settings=job
    )
    outcome = run(fleet.with_settings(_STREAM), verbose=False).outcome
    rows: list[Row] = []
    examples = 0
    for row in outcome.rounds:
        examples += row.learned - row.evicted
        touched = {"deal": row.learned + row.evicted, "original": examples}
        if row.learned:
            rows.append(
                {
                    "round": row.number,
                    "held": row.learned / examples,
                    "touched": row.learned / touched.get(setting["scheme"], row.learned),
                }
            )
    return rows


def _plot(rows: Sequence[Row]) -> list[Plot]:
    plots = []
    for key, words in (
        ("held", "Share of the examples that the model holds after the round."),
        ("touched", "Share of the examples that the training learns, retrains on or forgets."),
    ):
        traces = [
            line(
                [row["round"] for row in own],
                [100 * row[key] for row in own],
                scheme_label(scheme),
                scheme,
            )
            for scheme in values_of(rows, "scheme")
            if (own := select(rows, scheme=scheme))
        ]
        for trace, dash in zip(traces, ("solid", "solid", "solid", "dash"), strict=False):
            trace["line"]["dash"] = dash
        plots.append(
            Plot(
                title=f"New objects among those {key} (counted)",
                words=f"{words} Ten new objects a round on one phone, mushrooms.",
                traces=traces,
                layout={"xaxis": axis("round"), "yaxis": axis("% new", rangemode="tozero")},
                height=400,
            )
        )
    return plots


def _reversals(shares: Sequence[float]) -> int:
    steps = [after - before for before, after in pairwise(shares)]
    moves = [step for step in steps if step]
    return sum(move * other < 0 for move, other in pairwise(moves))


def _claims(rows: Sequence[Row]) -> list[Claim]:
    def of(scheme: str, key: str) -> list[float]:
        return [row[key] for row in select(rows, scheme=scheme)][1:]  # the first brings the start

    newfl, original, deal = of("newfl", "held"), of("original", "touched"), of("deal", "touched")
    return [
        Claim(
            "NewFL: all objects are new",
            "always 100 %",
            f"{100 * min(newfl):.0f} to {100 * max(newfl):.0f} %",
            judge(min(newfl) == max(newfl) == 1.0),
            "Counted in a federated run.",
        ),
        Claim(
            "Original: the share of new objects falls from round to round",
            "falls",
            f"{100 * original[0]:.1f} % to {100 * original[-1]:.1f} %",
            judge(original == sorted(original, reverse=True) and original[-1] < original[0]),
            "Counted: ten new objects among all that are retrained on.",
        ),
        Claim(
            "DEAL: the share of new objects jitters",
            "jitters",
            f"{100 * min(deal):.1f} to {100 * max(deal):.1f} %, {_reversals(deal)} reversals in "
            f"{len(deal)} rounds",
            judge(_reversals(deal) >= len(deal) / 4),
            "Counted among the objects that are touched. θ·held is not a whole number, so its "
            "fraction is carried to the next round and the number of forgotten objects alternates.",
        ),
    ]


FIGURE = Figure(
    name="privacy",
    title="Privacy: the share of new objects",
    paper="Ten new objects in each round; the share of these among all objects trained on. NewFL "
    "is always at 100 %, Original falls, DEAL jitters.",
    method="A run with one phone: naive Bayes on mushrooms, θ = 2 %. Two shares are "
    "counted: among the objects held after the round, and among those the training touches. The "
    "share says how many old objects are exposed; it is no guarantee of privacy.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda setting: setting["rounds"] / 12,
    datasets=lambda _: ["mushrooms"],
)
