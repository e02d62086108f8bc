"""Whom to wake in a round."""

from dealfl.server.selection.base import Candidate, Selector
from dealfl.server.selection.everyone import Everyone
from dealfl.server.selection.uniform import Uniform

__all__ = ["Candidate", "Everyone", "Selector", "Uniform"]
