"""Estimators for scikit-learn and a recommender like those of `implicit`, which forget exactly."""

try:
    from dealfl.sklearn.counting import KNeighborsClassifier, MultinomialNB
    from dealfl.sklearn.recommender import ItemRecommender
    from dealfl.sklearn.ridge import Ridge, RidgeClassifier
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    needed = 'dealfl.sklearn needs scikit-learn; run `pip install "dealfl[sklearn]"`'
    raise ModuleNotFoundError(needed, name="sklearn") from None

__all__ = ["ItemRecommender", "KNeighborsClassifier", "MultinomialNB", "Ridge", "RidgeClassifier"]
