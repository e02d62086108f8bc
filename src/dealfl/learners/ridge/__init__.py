"""Ridge (Tikhonov) regression and classification."""

from dealfl.learners.ridge.tikhonov import Tikhonov, TikhonovClassifier

__all__ = ["Tikhonov", "TikhonovClassifier"]
