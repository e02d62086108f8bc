"""The figures and tables of the paper, and a few of ours: one file each."""

from dealfl.reproduce.figure import Figure
from dealfl.reproduce.figures import accuracy, devices, energy, energy_datasets, privacy, time

__all__ = ["FIGURES"]

FIGURES: tuple[Figure, ...] = (
    devices.FIGURE,
    time.FIGURE,
    accuracy.FIGURE,
    energy.FIGURE,
    energy_datasets.FIGURE,
    privacy.FIGURE,
)
