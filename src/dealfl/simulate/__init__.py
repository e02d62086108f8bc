"""Simulation of a whole federation in one process, under a virtual clock."""

from dealfl.jobs import Document
from dealfl.simulate.energy import FleetEnergy, Savings
from dealfl.simulate.fleet import SECTIONS, Fleet, fleet_of, read_fleet
from dealfl.simulate.fleet_run import FleetRun
from dealfl.simulate.key_reference import describe_keys
from dealfl.simulate.outcome import Outcome, Participant, Progress, Round
from dealfl.simulate.run_state import RunState, read_state, write_state
from dealfl.simulate.running import finish, run_fleet, start_run
from dealfl.simulate.simulation import Network, Returns, Simulation
from dealfl.simulate.split import METRICS, Split, split_examples
from dealfl.simulate.sweeps import Estimate, Setting, SweepProgress, sweep

__all__ = [
    "METRICS", "SECTIONS", "Document", "Estimate", "Fleet", "FleetEnergy", "FleetRun", "Network",
    "Outcome", "Participant", "Progress", "Returns", "Round", "RunState", "Savings", "Setting",
    "Simulation", "Split", "SweepProgress", "describe_keys", "finish", "fleet_of", "read_fleet",
    "read_state", "run_fleet", "split_examples", "start_run", "sweep", "write_state",
]  # fmt: skip
