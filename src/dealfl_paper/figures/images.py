"""Images: CIFAR-10 under the schemes, with a frozen feature map and an exact classifier."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.pages import Plot
from dealfl_paper.drawing import SCHEMES, axis, line, scheme_label
from dealfl_paper.figure import (
    Claim,
    Figure,
    Row,
    Setting,
    judge,
    mean_with_interval,
    select,
    values_of,
)
from dealfl_paper.problems import Batch, Problem, load_examples, load_problem, map_features
from dealfl_paper.streams import play, split

_LEARNER = "tikhonov_classifier"
_THETA = "0.02"


def _settings(quick: bool) -> list[Setting]:
    return [
        {
            "dataset": "cifar10",
            "rows": 500 if quick else 10_000,
            "tested": 200 if quick else 2_000,
            "trainings": 10 if quick else 50,
            "theta": _THETA,
            "seed": seed,
        }
        for seed in range(2 if quick else 3)
    ]


def _run(setting: Setting) -> list[Row]:
    problem = load_problem(setting["dataset"], _LEARNER, setting["rows"])
    stream = split(problem, setting["trainings"], setting["seed"], _test_batch(problem, setting))
    every = max(setting["trainings"] // 10, 1)
    return [
        {"scheme": scheme, **row}
        for scheme in SCHEMES[:3]
        for row in play(stream, scheme, setting["theta"], every)
    ]


def _test_batch(problem: Problem, setting: Setting) -> Batch:
    test = load_examples(problem.dataset).test
    assert test is not None, "the publisher defines a test part"
    assert test.targets is not None, "images have classes"
    rows = test.features[: setting["tested"]]
    return map_features(problem.dataset, _LEARNER, rows), test.targets[: setting["tested"]]


def _last(rows: Sequence[Row], scheme: str) -> list[float]:
    final = max(values_of(rows, "training"))
    return [row["quality"] for row in select(rows, scheme=scheme, training=final)]


def _plot(rows: Sequence[Row]) -> list[Plot]:
    traces = []
    for scheme in values_of(rows, "scheme"):
        own = select(rows, scheme=scheme)
        numbers = values_of(own, "training")
        means = [
            sum(row["quality"] for row in group) / len(group)
            for group in (select(own, training=number) for number in numbers)
        ]
        traces.append(line(numbers, means, scheme_label(scheme), scheme))
    return [
        Plot(
            title="CIFAR-10: accuracy while images arrive (measured)",
            words="Mean over the seeds, on test images. Each training brings an equal part of the "
            "images.",
            traces=traces,
            layout={"xaxis": axis("training"), "yaxis": axis("accuracy", rangemode="tozero")},
            height=400,
        )
    ]


def _claims(rows: Sequence[Row]) -> list[Claim]:
    deal, original, newfl = (_last(rows, scheme) for scheme in SCHEMES[:3])
    lost = [100 * (before - other) for before, other in zip(original, newfl, strict=True)]
    kept = [100 * (before - other) for before, other in zip(original, deal, strict=True)]
    return [
        Claim(
            "CIFAR-10: training on new data only harms the model",
            "used to show the effect, without a number",
            f"NewFL loses {mean_with_interval(lost)} points, DEAL {mean_with_interval(kept)}",
            judge(min(lost) > 0 and sum(lost) > sum(kept)),
            "Measured: a frozen, seeded map of image patches and an exact Tikhonov classifier, so "
            "images are forgotten exactly. It is no deep network: its accuracy is lower.",
        )
    ]


FIGURE = Figure(
    name="images",
    title="Image classification (CIFAR-10)",
    paper="CIFAR-10 is used to understand the effect of training on new data only; no number is "
    "given.",
    method="64 seeded filters on patches, pooled (a setting, never fitted to data), then the exact "
    "Tikhonov classifier. Images arrive in equal batches; DEAL evicts θ = 2 % of what it holds. "
    "Tested on images of the published test part.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda setting: 5.0 + setting["rows"] / 60,
)
