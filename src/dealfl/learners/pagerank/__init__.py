"""Personalized PageRank: item-to-item similarity that forgets exactly."""

from dealfl.learners.pagerank.model import PersonalizedPageRank

__all__ = ["PersonalizedPageRank"]
