"""A whole federation in one process, under a virtual clock."""

from dealfl.jobs import Document
from dealfl.simulate.config import Fleet, fleet_of, read_fleet
from dealfl.simulate.fleet import run_fleet
from dealfl.simulate.network import Network
from dealfl.simulate.outcome import Outcome, Progress, Round
from dealfl.simulate.simulation import Simulation
from dealfl.simulate.sweep import Estimate, Setting, SweepProgress, sweep

__all__ = [
    "Document",
    "Estimate",
    "Fleet",
    "Network",
    "Outcome",
    "Progress",
    "Round",
    "Setting",
    "Simulation",
    "SweepProgress",
    "fleet_of",
    "read_fleet",
    "run_fleet",
    "sweep",
]
