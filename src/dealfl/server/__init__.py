"""The server: it selects workers, collects their updates and counts each exactly once."""

from dealfl.protocol import RewardWeights, Rules
from dealfl.server.ledger import ChangeLog, Ledger
from dealfl.server.ledger_reader import (
    DURATIONS_S,
    LedgerReader,
    MaskState,
    OpenRound,
    PastRounds,
    RoundHistory,
    Selection,
    Version,
    WorkerFigures,
    WorkerRow,
)
from dealfl.server.masked import Privacy, rebuild_total
from dealfl.server.publication import shorten
from dealfl.server.region import FromParent, Region
from dealfl.server.rewards import assign_fraction, compute_reward, compute_reward_parts
from dealfl.server.server import Server

__all__ = [
    "DURATIONS_S",
    "ChangeLog",
    "FromParent",
    "Ledger",
    "LedgerReader",
    "MaskState",
    "OpenRound",
    "PastRounds",
    "Privacy",
    "Region",
    "RewardWeights",
    "RoundHistory",
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
