"""Feature maps: fixed, seeded, integer-valued maps from raw examples to features.

A feature map is a setting of a job, declared in a table. It is never fitted to data.
"""

from collections.abc import Mapping

from dealfl.errors import BadInput
from dealfl.features.base import FeatureMap, checked_csr
from dealfl.features.columns import Bins, Identity, Thermometer
from dealfl.features.patches import Patches
from dealfl.features.relu import Relu
from dealfl.settings import Document, read_variant

__all__ = [
    "MAPS",
    "Bins",
    "FeatureMap",
    "Identity",
    "Patches",
    "Relu",
    "Thermometer",
    "checked_csr",
    "feature_map",
]

MAPS: tuple[type[FeatureMap], ...] = (Bins, Identity, Patches, Relu, Thermometer)


def feature_map(settings: Mapping[str, object], n_inputs: int) -> FeatureMap:
    """Create the feature map that a table declares.

    Examples
    --------
    >>> feature_map({"map": "relu", "width": 256, "seed": 0}, n_inputs=64).n_features
    256
    """
    if not isinstance(settings, Mapping):
        raise BadInput(f"the feature map is {settings!r}; declare it with a table")
    document = Document({"features": settings}, "feature map")
    return read_variant(document, MAPS, "features", needs_tag=True, n_inputs=n_inputs)
