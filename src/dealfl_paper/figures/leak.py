"""Leak: what similar people and stale models tell of deleted data, before and after forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from dealfl.audit import Counts, find_touched_items, try_attacks
from dealfl.learners import PersonalizedPageRank
from dealfl.pages import Plot
from dealfl_paper.drawing import axis, bars
from dealfl_paper.figure import Claim, Figure, Row, Setting, Verdict, judge, select
from dealfl_paper.problems import load_examples

_PAPER_RULE, _REFINED = "stale model, as in the paper", "stale model, refined"
_FORGOTTEN = "after exact forgetting"
_SIMILAR = "similar users (Figure 1)"
_RIDGE = "two ridge models"


def _settings(quick: bool) -> list[Setting]:
    trials, sizes = (10, [1]) if quick else (40, [1, 2, 5, 10])
    return [
        {"attack": attack, "trials": trials, "sizes": sizes, "seed": 0}
        for attack in ("recommender", "regression", "forgotten")
    ]


def _run(setting: Setting) -> list[Row]:
    if setting["attack"] == "forgotten":
        return [_attack_forgotten(setting["trials"], setting["seed"])]
    load_examples("movielens")  # says that data is missing before the attacks download it
    points = try_attacks(setting["attack"], setting["trials"], setting["sizes"], setting["seed"])
    return [
        {**asdict(point), "name": point.attack, "attack": setting["attack"]} for point in points
    ]


def _attack_forgotten(trials: int, seed: int) -> Row:
    """Return what the paper's attack finds if the model has forgotten the person exactly."""
    histories = load_examples("movielens").histories
    model = PersonalizedPageRank(n_items=histories.shape[1])
    model.learn(histories)
    counts = []
    for user in np.random.default_rng(seed).permutation(histories.shape[0])[:trials].tolist():
        model.forget(histories[[user]])
        others = np.flatnonzero(np.arange(histories.shape[0]) != user)
        retrained = Counts.of(histories[others])
        counts.append(int(find_touched_items(_counts_of(model), retrained, refined=False).sum()))
        model.learn(histories[[user]])
    return {
        "name": _FORGOTTEN,
        "size": 1,
        "quality": float(np.mean(counts)),
        "floor": 0.0,
        "trials": trials,
        "measure": "items found",
    }


def _counts_of(model: PersonalizedPageRank) -> Counts:
    arrays = model.derived_arrays()
    pairs = np.zeros((model.n_items, model.n_items), dtype=np.int64)
    ends = arrays["pair_first"], arrays["pair_second"]
    pairs[ends] = pairs[ends[::-1]] = arrays["pair_counts"]
    return Counts(arrays["item_counts"].astype(np.int64), pairs)


def _point(rows: Sequence[Row], name: str, measure: str = "") -> Row | None:
    matches = [row for row in select(rows, name=name, size=1) if measure in row["measure"]]
    return matches[0] if matches else None


def _plot(rows: Sequence[Row]) -> list[Plot]:
    shown = [
        (f"{name}, {measure}".rstrip(", "), point)
        for name, measure in (
            (_SIMILAR, ""),
            (_PAPER_RULE, "recall"),
            (_PAPER_RULE, "precision"),
            (_REFINED, "recall"),
            (_REFINED, "precision"),
            (_FORGOTTEN, ""),
            (_RIDGE, ""),
        )
        if (point := _point(rows, name, measure))
    ]
    names = [
        name.replace(" (Figure 1)", "").replace("stale model, ", "stale, ") for name, _ in shown
    ]
    return [
        Plot(
            title="How well one person's deleted data is reconstructed (measured)",
            words="1 is a complete reconstruction; the floor is a guess without the model. After "
            "exact forgetting: items that the attack finds. Ridge: |cosine| to the deleted row, "
            "on generated rows.",
            traces=[
                bars(names, [point["quality"] for _, point in shown], "attack", 4),
                bars(names, [point["floor"] for _, point in shown], "floor", 6),
            ],
            layout={"barmode": "group", "yaxis": axis("quality"), "xaxis": {"tickangle": -45}},
            height=480,
        )
    ]


def _claims(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    if similar := _point(rows, _SIMILAR):
        claims.append(
            Claim(
                "Similar people reveal a deleted history (Figure 1)",
                "three films of one example",
                f"{similar['quality']:.0%} of the items guessed (median of {similar['trials']} "
                f"people), {similar['floor']:.0%} by popularity alone",
                judge(similar["quality"] > similar["floor"]),
                "Measured on movielens with the similarities of the model before the deletion.",
            )
        )
    if _point(rows, _PAPER_RULE):
        claims.append(_recovery_claim(rows))
    if ridge := _point(rows, _RIDGE):
        claims.append(
            Claim(
                "Tikhonov: recovery from a stale model is difficult",
                "difficult",
                f"|cosine| {ridge['quality']:.2f} to the deleted row, {ridge['floor']:.2f} to "
                "others, if one row is erased between two versions",
                Verdict.NOT_COMPARABLE,
                "Measured on generated rows in the shape of YearPredictionMSD. An attacker who "
                "knows the covariance of the features finds the direction of the row, so "
                "versions that differ by one person are not published.",
            )
        )
    return claims


def _recovery_claim(rows: Sequence[Row]) -> Claim:
    shares = {
        (name, measure): (_point(rows, name, measure) or {"quality": 0.0})["quality"]
        for name in (_PAPER_RULE, _REFINED)
        for measure in ("recall", "precision")
    }
    recall, precision = shares[_PAPER_RULE, "recall"], shares[_PAPER_RULE, "precision"]
    after = _point(rows, _FORGOTTEN)
    sentence = (
        "" if after is None else f" After exact forgetting it finds {after['quality']:g} items."
    )
    return Claim(
        "PageRank: deleted items are recovered exactly from a stale model",
        "exactly",
        f"recall {recall:.2f}, precision {precision:.2f} with the paper's rule; "
        f"{shares[_REFINED, 'recall']:.2f} and {shares[_REFINED, 'precision']:.2f} refined",
        judge(recall == precision == 1.0),
        "Measured on movielens, on people not used for choosing the rule. The paper's rule flags "
        "every item with a changed similarity; the refined one requires all co-occurring entries "
        f"of a row to have changed.{sentence}",
    )


FIGURE = Figure(
    name="leak",
    title="Leak and data recovery",
    paper="Figure 1: similar users reveal a deleted history. Data Recovery: deleted items of "
    "PageRank are recovered exactly from a stale model; for Tikhonov it is difficult.",
    method="The attacks of dealfl audit on movielens, and on ridge regression with generated "
    "rows. After exact forgetting the model equals one retrained without the person, and the same "
    "attack compares the two.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda setting: setting["trials"] / 4,
    datasets=lambda _: ["movielens"],
)
