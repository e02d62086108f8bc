"""The arguments that several learners share, each with what it takes and what it means."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from numpy.typing import ArrayLike

from dealfl.learners.factors import SOLVERS
from dealfl.settings import Amount, As, Count, Numbers, OneOf, Whole

__all__ = [
    "CandidateCount", "Clip", "FeatureBound", "FractionBits", "Intercept", "NeighborCount",
    "Offset", "Penalty", "PlaneSeed", "SignatureBits", "Solver", "TableCount", "VoteBits",
]  # fmt: skip

Penalty = Annotated[
    Amount, Meta(description="cost of large weights, in the units of the original features")
]
FeatureBound = Annotated[
    float | ArrayLike,
    As(Numbers),
    Meta(description="largest magnitude of all features, or of each, after the offset"),
]
Offset = Annotated[
    float | ArrayLike, As(Numbers), Meta(description="number subtracted from all features, or each")
]
FractionBits = Annotated[
    int,
    Meta(ge=1, description="bits that features are rounded to; decides the size of a delta"),
]
Solver = Annotated[
    str, OneOf(SOLVERS), Meta(description="how weights are derived from the statistics")
]
Intercept = Annotated[bool, Meta(description="learn a constant beside the weights")]
Clip = Annotated[
    bool, Meta(description="move values beyond the bounds to the bounds, instead of refusing them")
]

NeighborCount = Annotated[Count, Meta(description="number of neighbours that vote")]
TableCount = Annotated[Count, Meta(description="number of hash tables")]
SignatureBits = Annotated[Count, Meta(description="length of a signature")]
VoteBits = Annotated[
    Count, Meta(description="leading bits of a signature that select a bucket of votes")
]
PlaneSeed = Annotated[Whole, Meta(description="seed of the hyperplanes, the same on every device")]
CandidateCount = Annotated[
    Count, Meta(description="number of candidates compared for each neighbour")
]
