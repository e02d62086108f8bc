"""The evaluation of the paper: every figure and table, its claims beside what is measured here."""

from dealfl.reproduce.figures import FIGURES
from dealfl.reproduce.page import as_results, write_results
from dealfl.reproduce.running import Reproduction, Step, reproduce

__all__ = [
    "FIGURES", "Reproduction", "Step", "as_results", "reproduce", "write_results",
]  # fmt: skip
