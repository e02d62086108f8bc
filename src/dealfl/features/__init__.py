"""Feature maps: fixed, seeded, integer-valued maps from raw examples to features.

A map is a setting of a job, declared in a table; it is never fitted to data.
"""

from collections.abc import Mapping

from dealfl.errors import BadInput, unknown_name
from dealfl.features.base import FeatureMap
from dealfl.features.bins import Bins
from dealfl.features.declared import check_keys
from dealfl.features.identity import Identity
from dealfl.features.patches import Patches
from dealfl.features.relu import Relu
from dealfl.features.thermometer import Thermometer

__all__ = [
    "Bins",
    "FeatureMap",
    "Identity",
    "Patches",
    "Relu",
    "Thermometer",
    "feature_map",
]

Kind = type[Bins | Identity | Patches | Relu | Thermometer]
MAPS: dict[str, Kind] = {kind.name: kind for kind in (Bins, Identity, Patches, Relu, Thermometer)}


def feature_map(settings: Mapping[str, object], n_inputs: int) -> FeatureMap:
    """Return the map that a table declares, for examples of `n_inputs` columns.

    >>> feature_map({"map": "relu", "width": 256, "seed": 0}, n_inputs=64).n_features
    256
    """
    if not isinstance(settings, Mapping):
        raise BadInput(f"a feature map is declared by a table, not by {settings!r}")
    given = dict(settings)
    if "map" not in given:
        raise BadInput(f"settings {given!r} lack the key 'map'; known maps: {', '.join(MAPS)}")
    name = given.pop("map")
    kind = MAPS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise unknown_name("feature map", name, MAPS)
    check_keys(kind, given)
    return kind(n_inputs=n_inputs, **given)  # type: ignore[arg-type]  # checked by the map itself
