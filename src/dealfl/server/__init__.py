"""The server: it selects workers, collects their updates and counts each exactly once."""

from dealfl.server.aggregation import rebuild_total
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import LedgerReader
from dealfl.server.publication import shorten
from dealfl.server.rewards import RewardWeights, compute_reward, compute_reward_parts
from dealfl.server.server import Server
from dealfl.server.tables import OpenRound, Selection, Version, WorkerFigures, WorkerRow
from dealfl.server.terms import Terms

__all__ = [
    "Ledger",
    "LedgerReader",
    "OpenRound",
    "RewardWeights",
    "Selection",
    "Server",
    "Terms",
    "Version",
    "WorkerFigures",
    "WorkerRow",
    "compute_reward",
    "compute_reward_parts",
    "rebuild_total",
    "shorten",
]
