"""The figures and tables of the paper, and a few of ours: one file each."""

from dealfl.reproduce.figures import devices, time

__all__ = ["FIGURES"]

FIGURES = (devices.FIGURE, time.FIGURE)
