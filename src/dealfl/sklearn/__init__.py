"""Estimators for scikit-learn and a recommender like those of `implicit`, which forget exactly."""

from dealfl.sklearn.counting import KNeighborsClassifier, MultinomialNB
from dealfl.sklearn.recommender import ItemRecommender
from dealfl.sklearn.ridge import Ridge, RidgeClassifier

__all__ = ["ItemRecommender", "KNeighborsClassifier", "MultinomialNB", "Ridge", "RidgeClassifier"]
