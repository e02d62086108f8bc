"""What coordinates: it wakes workers, collects what changed, and adds it up exactly once."""

from dealfl.server.ledger import Ledger
from dealfl.server.rewards import RewardWeights
from dealfl.server.server import Server
from dealfl.server.terms import Terms

__all__ = ["Ledger", "RewardWeights", "Server", "Terms"]
