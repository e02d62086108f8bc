"""Multinomial naive Bayes."""

from dealfl.learners.naive_bayes.naive_bayes import NaiveBayes

__all__ = ["NaiveBayes"]
