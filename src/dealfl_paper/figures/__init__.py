"""The figures and tables of the paper, and a few of ours: one file each."""

from dealfl_paper.figure import Figure
from dealfl_paper.figures import (
    accuracy,
    convergence,
    devices,
    energy,
    energy_datasets,
    governors,
    images,
    leak,
    privacy,
    selection,
    swaps,
    system,
    theta,
    time,
)

__all__ = ["FIGURES"]

FIGURES: tuple[Figure, ...] = (
    devices.FIGURE,
    time.FIGURE,
    convergence.FIGURE,
    accuracy.FIGURE,
    energy.FIGURE,
    energy_datasets.FIGURE,
    privacy.FIGURE,
    leak.FIGURE,
    swaps.FIGURE,
    governors.FIGURE,
    images.FIGURE,
    theta.FIGURE,
    selection.FIGURE,
    system.FIGURE,
)
