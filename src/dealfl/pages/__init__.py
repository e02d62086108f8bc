"""Pages with plots in one HTML file that needs no network, for people with any browser."""

from dealfl.pages.markup import COLOURS, Cell, Plot, details, escaped, plot_section, table, told
from dealfl.pages.writing import page, write_html

__all__ = [
    "COLOURS",
    "Cell",
    "Plot",
    "details",
    "escaped",
    "page",
    "plot_section",
    "table",
    "told",
    "write_html",
]
