"""A first job for a user's file: its content, and the settings to fix before training."""

from dealfl.jobs.proposals.proposal import (
    Ask,
    Roles,
    Sizes,
    Start,
    Wishes,
    start,
    start_rows,
    start_table,
    take_guess,
)
from dealfl.jobs.proposals.survey import Found

__all__ = [
    "Ask",
    "Found",
    "Roles",
    "Sizes",
    "Start",
    "Wishes",
    "start",
    "start_rows",
    "start_table",
    "take_guess",
]
