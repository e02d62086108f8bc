"""A whole federation in one process, under a virtual clock."""

from dealfl.simulate.network import Network
from dealfl.simulate.simulation import Simulation

__all__ = ["Network", "Simulation"]
