"""Table 1 of the paper: the five phones, here with their operating points."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.pages import Plot
from dealfl.power import PHONES, BaseLoad, charge_per_cycle_c, efficient_frontier
from dealfl_paper.drawing import axis, line
from dealfl_paper.figure import Claim, Figure, Row, Setting, judge, select, values_of

_PAPER = {  # cores, and GHz of the fastest operating point
    "honor": (8, 2.11),
    "lenovo": (4, 1.04),
    "zte": (4, 1.09),
    "mi": (6, 1.44),
    "nexus": (4, 2.65),
}
_GIGA_UAH = 1e9 / 0.0036  # from coulombs per cycle to µAh per 10⁹ cycles


def _settings(quick: bool) -> list[Setting]:  # noqa: ARG001 - the table is the same
    return [{"phone": name} for name in _PAPER]


def _run(setting: Setting) -> list[Row]:
    device = PHONES[setting["phone"]]
    best = efficient_frontier(device)[0]
    return [
        {
            "cluster": device.clusters[point.cluster].name,
            "cores": device.cores,
            "mhz": point.frequency_hz / 1e6,
            "uah_per_gigacycle": charge_per_cycle_c(device, point, BaseLoad.AWAKE) * _GIGA_UAH,
            "cheapest": point == best,
        }
        for point in device.points
    ]


def _plot(rows: Sequence[Row]) -> list[Plot]:
    traces = []
    for shade, name in enumerate(values_of(rows, "phone")):
        clusters = values_of(select(rows, phone=name), "cluster")
        for cluster in clusters:
            own = sorted(select(rows, phone=name, cluster=cluster), key=lambda row: row["mhz"])
            x, y = [row["mhz"] for row in own], [row["uah_per_gigacycle"] for row in own]
            label = f"{name}, {cluster}" if len(clusters) > 1 else name
            trace = line(x, y, label, shade)
            trace["line"]["dash"] = ("solid", "dot")[clusters.index(cluster)]
            traces.append(trace)
    return [
        Plot(
            title="Charge of 10⁹ cycles by clock frequency (modelled)",
            words="One busy core, the phone awake, the screen and the radio off. The slowest clock "
            "is not the cheapest, because the phone stays awake longer.",
            traces=traces,
            layout={
                "xaxis": axis("clock frequency, MHz"),
                "yaxis": axis("µAh", rangemode="tozero"),
            },
            height=420,
        )
    ]


def _claims(rows: Sequence[Row]) -> list[Claim]:
    phones = {name: select(rows, phone=name) for name in values_of(rows, "phone")}
    tops = {name: (own[0]["cores"], _fastest_ghz(own)) for name, own in phones.items()}
    different = [
        name
        for name, (cores, ghz) in _PAPER.items()
        if name not in tops or tops[name][0] != cores or ghz not in tops[name][1]
    ]
    faster = [name for name, (_, ghz) in _PAPER.items() if max(tops[name][1], default=ghz) > ghz]
    why = "Each number of the paper is the fastest clock of a cluster of the identified chip."
    if faster:
        why += f" {', '.join(faster)}: another cluster of the chip is faster than the paper says."
    return [
        Claim(
            "Five phones with 4 to 8 cores and 1.04 to 2.65 GHz",
            "; ".join(f"{name} {cores} × {ghz} GHz" for name, (cores, ghz) in _PAPER.items()),
            "; ".join(
                f"{name} {cores} × {' and '.join(f'{clock:g}' for clock in ghz)} GHz"
                for name, (cores, ghz) in tops.items()
            ),
            judge(not different),
            why,
        )
    ]


def _fastest_ghz(rows: Sequence[Row]) -> list[float]:
    """Return the fastest clock of each cluster."""
    clusters = [select(rows, cluster=name) for name in values_of(rows, "cluster")]
    return [round(max(row["mhz"] for row in own) / 1e3, 2) for own in clusters]


FIGURE = Figure(
    name="devices",
    title="Table 1: the five phones",
    paper="Five phones, with Android version, number of cores and maximum clock frequency: Honor "
    "2.11 GHz, Lenovo 1.04, ZTE 1.09, Mi 1.44, Nexus 2.65.",
    method="Profiles of the chips whose kernels have these frequencies, from public device trees "
    "and power profiles. Charge per cycle is modelled.",
    settings=_settings,
    run=_run,
    plot=_plot,
    claims=_claims,
    cost_s=lambda _: 0.05,
)
