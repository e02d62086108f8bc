"""Which examples a worker keeps when new ones arrive."""

from dealfl.retention.base import Eviction, Retention
from dealfl.retention.keep_all import KeepAll
from dealfl.retention.newest import Newest
from dealfl.retention.theta import Theta

__all__ = ["Eviction", "KeepAll", "Newest", "Retention", "Theta"]
