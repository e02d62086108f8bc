"""Presentation of runs: summary, live view, HTML report, and number formats."""

from dealfl.report.certificate_page import write_certificate_page
from dealfl.report.live import LiveView, PlainView, ProgressLine, choose_line, choose_view
from dealfl.report.page import draw_plot, plot_names, write_page
from dealfl.report.summary import summarize, summarize_ablation, summarize_sweep
from dealfl.report.wording import (
    format_age,
    format_count,
    format_energy,
    format_number,
    format_quality,
)

__all__ = [
    "LiveView",
    "PlainView",
    "ProgressLine",
    "choose_line",
    "choose_view",
    "draw_plot",
    "format_age",
    "format_count",
    "format_energy",
    "format_number",
    "format_quality",
    "plot_names",
    "summarize",
    "summarize_ablation",
    "summarize_sweep",
    "write_certificate_page",
    "write_page",
]
