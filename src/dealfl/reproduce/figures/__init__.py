"""The figures and tables of the paper, and a few of ours: one file each."""

from dealfl.reproduce.figures import accuracy, devices, energy, energy_datasets, privacy, time

__all__ = ["FIGURES"]

FIGURES = tuple(
    module.FIGURE for module in (devices, time, accuracy, energy, energy_datasets, privacy)
)
