"""Datasets for recommendation: owners and their items."""

import numpy as np

from dealfl.datasets.dataset import DataFile, Dataset, Task
from dealfl.datasets.readers import Columns, Content, Events, RatingMatrix, Ratings

__all__ = ["JESTER", "MOVIELENS", "RETAILROCKET", "RETAILROCKET_FULL"]

MOVIELENS = Dataset(
    name="movielens",
    task=Task.RECOMMENDATION,
    description="MovieLens 100K: 943 people rate films from 1 to 5; liked if 4 or 5",
    rows=100_000,
    columns=4,
    licence="GroupLens terms: research with citation, no commercial use, no redistribution",
    address="https://grouplens.org/datasets/movielens/100k/",
    read=Ratings(n_items=1682),
    files=(
        DataFile(
            path="movielens/u.data.gz",
            rows=100_000,
            sha256="d5cd19fba4562fe2867bf2964d99d97ec55bce45b150df3763dfa8668cf22f4f",
            content_sha256="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            member="ml-100k/u.data",
        ),
    ),
    n_items=1682,
    liked_from=4.0,
)


def _hundredths(content: Content) -> bytes:
    """Return the ratings of Jester in a form that does not change if a spreadsheet saves them."""
    table = Columns(width=101).read(content)
    return bytes(np.rint(table * 100).astype("<i2").tobytes())


JESTER = Dataset(
    name="jester",
    task=Task.RECOMMENDATION,
    description="Jester 1, part 1: 24,983 people rate 100 jokes from -10 to 10; liked above 0",
    rows=24_983,
    columns=101,
    licence="free for research with citation of Goldberg et al. 2001 (Eigentaste)",
    address="https://eigentaste.berkeley.edu/dataset/",
    read=RatingMatrix(n_items=100, limit=10.0),
    files=(
        DataFile(
            path="jester/jester-data-1.zip",
            rows=24_983,
            sha256="4adf783a1e03bd3be063315cb6e0a064fe63e983fd289d01b8e401a8e6c41e5f",
            content_sha256="4692895acc91263ec11592cb94687725e28afdd451845ab46c2ac6ba3ebc414e",
            unpacked="jester/jester-data-1.csv",
            canonical=_hundredths,
            canonical_sha256="3f2d15364acb4e25ae14ebeee07ebed5bc0e717c3d4cf10ad930b94feb747f11",
        ),
    ),
    how_to_get=(
        "get jester_dataset_1_1.zip from https://eigentaste.berkeley.edu/dataset/ and save the "
        "jester-data-1.xls in it"
    ),
    n_items=100,
    liked_from=0.01,  # ratings are hundredths, so this means > 0
)

RETAILROCKET = Dataset(
    name="retailrocket",
    task=Task.RECOMMENDATION,
    description=(
        "A sample of 9,385 of Retailrocket's 2,756,101 shop events by 5,000 visitors; every kind "
        "of event counts"
    ),
    rows=9_385,
    columns=6,
    licence="CC BY-NC-SA 4.0 (Kaggle page)",
    address="https://www.kaggle.com/datasets/retailrocket/ecommerce-dataset",
    read=Events(n_items=6_610),
    files=(
        DataFile(
            path="retailrocket/sample_events.csv.gz",
            rows=9_385,
            sha256="90677be105403417d3a97188c47935b3fe8684de4a8d618b1394fff1f2a034d7",
            content_sha256="e39974339b517848fc4ba8666836b5af261b62cb1d20dd42c74eac5d9dd5725c",
        ),
    ),
    complete=False,
    how_to_get=(
        "save data/sample_events.csv of https://github.com/sandydiamantino/retailrocket-topsis "
        "(or, for dataset retailrocket-full, log in at "
        "https://www.kaggle.com/datasets/retailrocket/ecommerce-dataset and save its events.csv)"
    ),
    n_items=6_610,
)

RETAILROCKET_FULL = Dataset(
    name="retailrocket-full",
    task=Task.RECOMMENDATION,
    description=(
        "All of Retailrocket's shop events; no checksum is known, so rows and items are counted"
    ),
    rows=2_756_101,
    columns=5,
    licence=RETAILROCKET.licence,
    address=RETAILROCKET.address,
    read=Events(n_items=235_061),
    files=(DataFile(path="retailrocket/events.csv", rows=2_756_101),),
    how_to_get=f"log in at {RETAILROCKET.address} and save its events.csv",
    n_items=235_061,
)
