"""Presentation of runs: summary, live view, HTML report, and number formats."""

from dealfl.report.formats import (
    format_age,
    format_count,
    format_duration,
    format_energy,
    format_number,
    format_quality,
    format_saving,
)
from dealfl.report.live import LiveView, view_for
from dealfl.report.notebook_view import NotebookView, SilentView, choose_line, choose_view
from dealfl.report.page import write_page
from dealfl.report.plots import draw_plot, plot_names
from dealfl.report.progress_lines import PlainView, ProgressLine
from dealfl.report.selection_page import write_selection_page
from dealfl.report.summary import summarize, summarize_setting

__all__ = [
    "LiveView", "NotebookView", "PlainView", "ProgressLine", "SilentView", "choose_line",
    "choose_view", "draw_plot", "format_age", "format_count", "format_duration", "format_energy",
    "format_number", "format_quality", "format_saving", "plot_names", "summarize",
    "summarize_setting", "view_for", "write_page", "write_selection_page",
]  # fmt: skip
