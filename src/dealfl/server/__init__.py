"""The server: it selects workers, collects their updates and counts each exactly once."""

from dealfl.protocol import RewardWeights, Rules
from dealfl.server.aggregation import rebuild_total
from dealfl.server.ledger import Ledger
from dealfl.server.ledger_reader import (
    DURATIONS_S,
    LedgerReader,
    OpenRound,
    PastRounds,
    Selection,
    Version,
    WorkerFigures,
    WorkerRow,
)
from dealfl.server.publication import shorten
from dealfl.server.rewards import assign_fraction, compute_reward, compute_reward_parts
from dealfl.server.server import Server

__all__ = [
    "DURATIONS_S",
    "Ledger",
    "LedgerReader",
    "OpenRound",
    "PastRounds",
    "RewardWeights",
    "Rules",
    "Selection",
    "Server",
    "Version",
    "WorkerFigures",
    "WorkerRow",
    "assign_fraction",
    "compute_reward",
    "compute_reward_parts",
    "rebuild_total",
    "shorten",
]
