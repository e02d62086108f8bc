"""Training completion time: one user's change under each scheme, and federated rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dealfl.pages import Plot
from dealfl_paper.drawing import (
    SCHEMES,
    Trace,
    bars,
    frequency_plot,
    line,
    log_axis,
    scheme_label,
)
from dealfl_paper.federated import run_panel
from dealfl_paper.figure import (
    Claim,
    Figure,
    Row,
    Setting,
    Verdict,
    at_least,
    describe_ratio,
    judge,
    median,
    quantile,
    select,
    show_number,
    values_of,
)
from dealfl_paper.one_user import CHANGES, LABELS, NEW, change_models, label_of, largest
from dealfl_paper.problems import SHAPES, count_examples, is_stand_in
from dealfl_paper.replica import time_rows

_SIZES = (300, 3_000, 30_000)
_ORDERS = {"personalized_pagerank": 2, "neighbors": 3, "naive_bayes": 2, "tikhonov": 2}


def _settings(quick: bool) -> list[Setting]:
    settings: list[Setting] = []
    for learner, dataset in CHANGES:
        whole = count_examples(dataset)
        sizes = [30_000] if quick else [size for size in _SIZES if size < whole] + [None]
        settings += [
            {
                "panel": "one user",
                "learner": learner,
                "dataset": dataset,
                "rows": rows,
                "users": 5 if quick else 20,
                "seed": 0,
            }
            for rows in sizes
        ]
    settings += [
        {
            "panel": "row at a time",
            "learner": learner,
            "dataset": dataset,
            "rows": 1_000 if quick else None,
            "users": 5 if quick else 20,
            "seed": 0,
        }
        for learner, dataset in CHANGES
    ]
    if not quick:
        settings += [
            {
                "panel": "size",
                "learner": "personalized_pagerank",
                "dataset": dataset,
                "rows": None,
                "users": 20,
                "seed": 0,
            }
            for dataset in SHAPES
        ]
    for learner, dataset in (("naive_bayes", "phishing"),) if quick else CHANGES:
        settings += [
            {
                "panel": "federated",
                "learner": learner,
                "dataset": dataset,
                "scheme": scheme,
                "rows": 1_000 if quick else 3_000,
                "rounds": 5 if quick else 20,
                "seed": 0,
            }
            for scheme in SCHEMES
        ]
    return settings


def _run(setting: Setting) -> Sequence[Row]:
    if setting["panel"] == "size":
        ways = {"fast": change_models, "row at a time": time_rows}
        return [{**row, "way": way} for way, run in ways.items() for row in run(setting)]
    return time_rows(setting) if setting["panel"] == "row at a time" else run_panel(setting)


def _cost_s(setting: Setting) -> float:
    if setting["panel"] == "federated":
        return 6.0
    if setting["panel"] == "size":
        return 2.0 + SHAPES[setting["dataset"]].ratings / 25_000
    if setting["panel"] == "row at a time":
        return 2.0 + (setting["rows"] or count_examples(setting["dataset"])) / 5_000
    size = setting["rows"] or count_examples(setting["dataset"])
    return 2.0 + size / (10_000 if setting["learner"] == "tikhonov" else 30_000)


# -- plots --------------------------------------------------------------------------------------


def _plot(rows: Sequence[Row]) -> list[Plot]:
    users, federated = select(rows, panel="one user"), select(rows, panel="federated")
    plots = [_host_plot(users)]
    plots += [
        frequency_plot(
            f"{label}: training time by CPU frequency on the Honor (modelled)",
            "Median over the users, from counted operations. The band is a factor of 3.",
            select(largest(users), learner=learner),
            "phone_ms",
            "ms",
        )
        for learner, label in LABELS.items()
        if select(users, learner=learner)
    ]
    return [*plots, _size_plot(users), *([_federated_plot(federated)] if federated else [])]


def _host_plot(users: Sequence[Row]) -> Plot:
    def host_ms(rows: Sequence[Row]) -> float:
        return median([row["host_ms"] for row in rows])

    return _scheme_plot(
        largest(users),
        host_ms,
        "Training time of one user's change on the host (measured)",
        "Median over the users. The model was trained on the whole dataset. * generated stand-in "
        "data.",
    )


def _scheme_plot(
    rows: Sequence[Row], time_ms: Callable[[Sequence[Row]], float], title: str, words: str
) -> Plot:
    """Return the times of the schemes side by side, for each learner and dataset."""
    pairs = list(dict.fromkeys((row["learner"], row["dataset"]) for row in rows))
    traces = []
    for scheme in SCHEMES:
        own = [
            select(rows, learner=learner, dataset=other, scheme=scheme) for learner, other in pairs
        ]
        names = [label_of(*pair) for pair in pairs]
        traces.append(bars(names, list(map(time_ms, own)), scheme_label(scheme), scheme))
    return Plot(
        title=title,
        words=words,
        traces=traces,
        layout={
            "barmode": "group",
            "yaxis": log_axis("ms", _heights(traces)),
            "xaxis": {"tickangle": -45},
        },
        height=460,
    )


def _heights(traces: Sequence[Trace]) -> list[float]:
    return [height for trace in traces for height in trace["y"]]


def _size_plot(users: Sequence[Row]) -> Plot:
    traces = []
    for shade, (learner, dataset) in enumerate(CHANGES):
        own = select(users, learner=learner, dataset=dataset)
        sizes = sorted(values_of(own, "of"))
        ratios = [median(_ratios(select(own, of=size), "original")) for size in sizes]
        if sizes:
            trace = line(sizes, ratios, label_of(learner, dataset), shade)
            trace["line"]["dash"] = "solid" if shade < 7 else "dash"
            traces.append(trace)
    return Plot(
        title="Original's time divided by DEAL's, by size of the dataset (measured)",
        words="Host time. DEAL's work depends on the user's change only; Original's grows with the "
        "dataset.",
        traces=traces,
        layout={
            "xaxis": log_axis("examples", values_of(users, "of")),
            "yaxis": log_axis("ratio", _heights(traces)),
        },
        height=460,
    )


def _federated_plot(rows: Sequence[Row]) -> Plot:
    def wake_up_ms(own: Sequence[Row]) -> float:
        return float(1e3 * own[0]["compute_s"] / max(own[0]["wake_ups"], 1))

    return _scheme_plot(
        rows,
        wake_up_ms,
        "Federated rounds: training time of a wake-up (modelled)",
        "20 phones of five kinds share a sample of the dataset; each round brings five examples to "
        "each. A phone holds little, so retraining on all of it costs little more.",
    )


# -- claims -------------------------------------------------------------------------------------


def _ratios(rows: Sequence[Row], scheme: str) -> list[float]:
    """Return a scheme's median time divided by the time of DEAL for each user."""
    other = median([row["host_ms"] for row in select(rows, scheme=scheme)])
    return [other / row["host_ms"] for row in select(rows, scheme="deal")]


def _claims(rows: Sequence[Row]) -> list[Claim]:
    users = largest(select(rows, panel="one user"))
    claims = []
    for learner, label in LABELS.items():
        own = select(users, learner=learner)
        if own:
            replica = select(rows, learner=learner, panel="row at a time")
            claims += [
                _original_claim(
                    label, _ORDERS[learner], own, select(rows, learner=learner), replica
                ),
                _newfl_claim(label, own, replica),
            ]
    if select(users, learner="personalized_pagerank"):
        claims.append(_size_claim(select(rows, panel="size")))
    phishing = select(users, learner="neighbors", dataset="phishing")
    return claims + ([_dvfs_claim(phishing)] if phishing else [])


def _listed(ratios: dict[str, list[float]]) -> str:
    return "; ".join(
        f"{name} {describe_ratio(median(values))} "
        f"({show_number(quantile(values, 0.025))} to {show_number(quantile(values, 0.975))})"
        for name, values in ratios.items()
    )


def _by_dataset(rows: Sequence[Row], scheme: str) -> dict[str, list[float]]:
    return {
        dataset: _ratios(select(rows, dataset=dataset), scheme)
        for dataset in values_of(rows, "dataset")
    }


def _reached(ratios: dict[str, list[float]], orders: int) -> bool:
    """Return whether a ratio is reached on every dataset of the paper that is here."""
    real = [values for name, values in ratios.items() if not is_stand_in(name)]
    return bool(real) and all(at_least(median(values), orders) for values in real)


def _original_claim(
    label: str, orders: int, own: Sequence[Row], sizes: Sequence[Row], replica: Sequence[Row]
) -> Claim:
    ratios = _by_dataset(own, "original")
    timed = _by_dataset(replica, "original")
    real = {name: values for name, values in ratios.items() if not is_stand_in(name)}
    return Claim(
        f"{label}: DEAL is {orders} orders of magnitude faster than Original",
        f"≥ {10**orders:,} times",
        _listed(ratios),
        judge(
            _reached(ratios, orders), comparable=bool(real), replica_holds=_reached(timed, orders)
        ),
        f"Host time, measured. {_reaching(orders, sizes)} Original's time grows with the dataset "
        "and DEAL's does not, so the ratio is a matter of size; a row at a time, it is at most the "
        f"number of examples divided by the {NEW + 1} that DEAL touches.",
        _listed(timed) or "–",
    )


def _reaching(orders: int, rows: Sequence[Row]) -> str:
    """Say from which size of each dataset on the ratio is reached."""
    reached = []
    for dataset in values_of(rows, "dataset"):
        own = select(rows, dataset=dataset, panel="one user")
        enough = [
            size
            for size in sorted(values_of(own, "of"))
            if at_least(median(_ratios(select(own, of=size), "original")), orders)
        ]
        size = f"from {enough[0]:,} examples on" if enough else "at no size"
        reached.append(f"{dataset} {size}")
    return f"Reached for {', '.join(reached)}."


def _newfl_claim(label: str, own: Sequence[Row], replica: Sequence[Row]) -> Claim:
    ratios = _by_dataset(own, "newfl")
    timed = _by_dataset(replica, "newfl")
    real = {name: values for name, values in ratios.items() if not is_stand_in(name)}
    return Claim(
        f"{label}: DEAL is one to two orders of magnitude faster than NewFL",
        "≥ 10 times",
        _listed(ratios),
        judge(_reached(ratios, 1), comparable=bool(real), replica_holds=_reached(timed, 1)),
        "Host time, measured. This cannot be true of the training: DEAL learns the same new "
        "objects as NewFL and forgets others besides, so it does more work in any implementation.",
        _listed(timed) or "–",
    )


def _size_claim(rows: Sequence[Row]) -> Claim:
    """Compare the ratio on stand-ins of two shapes; a quick run leaves them out."""

    def growth(way: str) -> str:
        ratios = _by_dataset(select(rows, way=way), "original")
        small, large = (median(found) for found in ratios.values())
        return f"{_listed(ratios)}: it grows {show_number(large / small)} times"

    whole = len(values_of(rows, "dataset")) == len(SHAPES)
    return Claim(
        "Ours: PageRank, how the ratio of Original to DEAL grows from MovieLens 100k's shape to "
        "1M's (stand-ins)",
        "– (the paper does not vary the size)",
        growth("fast") if whole else "left out",
        Verdict.NOT_COMPARABLE if whole else Verdict.TOO_SMALL,
        "Host time, measured, on histories that a seed draws with as many people, items and "
        "ratings as MovieLens has, and a similar skew. Ten times the ratings; DEAL's change is one "
        "person's history in both.",
        growth("row at a time") if whole else "–",
    )


def _dvfs_claim(rows: Sequence[Row]) -> Claim:
    def charted(scheme: str) -> list[dict[str, Any]]:
        return [row["phone_ms"] for row in select(rows, scheme=scheme)]

    slowest = median([max(times.values()) for times in charted("original")])
    fastest = median([min(times.values()) for times in charted("deal")])
    ratio = slowest / fastest
    return Claim(
        "kNN on phishing: DEAL with DVFS is four orders of magnitude faster than Original",
        "≥ 10,000 times",
        f"{describe_ratio(ratio)} (modelled, Original at the slowest clock, DEAL at the fastest; "
        f"{show_number(ratio / 3)} to {show_number(ratio * 3)} with the band)",
        judge(at_least(ratio * 3, 4)),
        "This cannot be true: the clocks of the Honor differ by a factor of 4.4, so DVFS adds less "
        "than an order of magnitude to the ratio of training times. This is the reading that "
        "favours the claim most.",
    )


FIGURE = Figure(
    name="time",
    title="Training completion time",
    paper="Four panels (PageRank, kNN, naive Bayes, Tikhonov) under different CPU frequencies on "
    "the Honor: a model is trained on the whole dataset and loaded into the phone, then twenty "
    "random users change it. DEAL is 2 to 4 orders of magnitude faster than Original and one to "
    "two orders faster than NewFL.",
    method="The same experiment with real learners: ten new objects of a user arrive. DEAL learns "
    "them and forgets θ = 2 % of the user's old ones in the trained model; NewFL trains on the new "
    "ones, Original on the whole dataset; incremental, which the paper lacks, only learns. Where a "
    "dataset has no users, a user has 100 random rows. Host time is measured, time on the phone is "
    "modelled from counted operations.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=_cost_s,
    measures=lambda setting: setting["panel"] != "federated",
)
