"""Presentation of runs: summary, live view, HTML report, and number formats."""

from dealfl.report.certificate_page import explain_certificate, write_certificate_page
from dealfl.report.live import LiveView, PlainView, ProgressLine, choose_line, choose_view
from dealfl.report.page import draw_plot, plot_names, report_sections, write_page
from dealfl.report.plots import axis, bar, participation_plots, round_plots, thin
from dealfl.report.summary import summarize, summarize_ablation, summarize_sweep
from dealfl.report.wording import (
    energy_scale,
    format_age,
    format_count,
    format_duration,
    format_energy,
    format_number,
    format_quality,
)

__all__ = [
    "LiveView",
    "PlainView",
    "ProgressLine",
    "axis",
    "bar",
    "choose_line",
    "choose_view",
    "draw_plot",
    "energy_scale",
    "explain_certificate",
    "format_age",
    "format_count",
    "format_duration",
    "format_energy",
    "format_number",
    "format_quality",
    "participation_plots",
    "plot_names",
    "report_sections",
    "round_plots",
    "summarize",
    "summarize_ablation",
    "summarize_sweep",
    "thin",
    "write_certificate_page",
    "write_page",
]
