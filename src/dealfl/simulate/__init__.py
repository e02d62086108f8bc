"""Simulation of a whole federation in one process, under a virtual clock."""

from dealfl.simulate.crew import AWAKE
from dealfl.simulate.evaluation import METRICS, make_questions, standard_error
from dealfl.simulate.fleet import SECTIONS, FleetSpec, read_fleet
from dealfl.simulate.fleet_run import FleetRun, RunState, finish, run_fleet, split_fleet, start_run
from dealfl.simulate.key_reference import describe_keys, find_keys
from dealfl.simulate.outcome import FleetEnergy, Outcome, Participant, Progress, Round, Savings
from dealfl.simulate.processes import Processes, require_processes
from dealfl.simulate.schedules import Availability, Markov
from dealfl.simulate.simulation import AnyWorker, Network, Returns, Simulation
from dealfl.simulate.split import Split, split_examples
from dealfl.simulate.sweeps import Estimate, KeptOutcomes, Setting, SweepProgress, sweep

__all__ = [
    "AWAKE",
    "METRICS",
    "SECTIONS",
    "AnyWorker",
    "Availability",
    "Estimate",
    "FleetEnergy",
    "FleetRun",
    "FleetSpec",
    "KeptOutcomes",
    "Markov",
    "Network",
    "Outcome",
    "Participant",
    "Processes",
    "Progress",
    "Returns",
    "Round",
    "RunState",
    "Savings",
    "Setting",
    "Simulation",
    "Split",
    "SweepProgress",
    "describe_keys",
    "find_keys",
    "finish",
    "make_questions",
    "read_fleet",
    "require_processes",
    "run_fleet",
    "split_examples",
    "split_fleet",
    "standard_error",
    "start_run",
    "sweep",
]
