"""The k nearest neighbours with locality-sensitive hashing that forgets exactly."""

from dealfl.learners.neighbors.model import Neighbors

__all__ = ["Neighbors"]
