"""The uses of a fleet: which owner asks a phone for a prediction, so that its examples stay."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping

from dealfl.jobs import Records
from dealfl.simulate.fleet import Fleet
from dealfl.simulate.fleet_simulation import FleetSimulation
from dealfl.simulate.simulation import Uses

__all__ = ["Askers", "follow_uses"]


class Askers:
    """The owners on one phone, a few of whom ask for most predictions (Zipf's law).

    Who is how popular depends only on the seed, not on the time of arrival.

    Parameters
    ----------
    owners : iterable of str
        The owners.
    exponent : float
        Exponent of Zipf's law; 0 if all owners ask equally often.
    seed : str
        Seed of the ranks and the draws.

    Examples
    --------
    >>> askers = Askers(["anna", "ben", "carl"], exponent=1.0, seed="0/w1")
    >>> sorted({askers.draw(float(moment)) for moment in range(50)})
    ['anna', 'ben', 'carl']
    """

    def __init__(self, owners: Iterable[str], exponent: float, seed: str) -> None:
        def draw_place(owner: str) -> bytes:
            return hashlib.blake2b(f"{seed}/{owner}".encode(), digest_size=8).digest()

        self._by_popularity = sorted(set(owners), key=draw_place)
        self._exponent, self._seed = exponent, seed

    def draw(self, moment_s: float) -> str:
        """Return who asks at a moment."""
        share = random.Random(f"{self._seed}/asks/{moment_s}").random()  # noqa: S311
        rank = int(_invert(share, len(self._by_popularity), self._exponent))
        return self._by_popularity[min(rank, len(self._by_popularity)) - 1]


def _invert(share: float, count: int, exponent: float) -> float:
    """Return the rank, ≥ 1 and ≤ count + 1, below which a share of all uses fall."""
    end = count + 1.0
    if exponent == 1.0:
        return float(end**share)
    power = 1.0 - exponent
    return float((share * (end**power - 1.0) + 1.0) ** (1.0 / power))


def follow_uses(simulation: FleetSimulation, fleet: Fleet, streams: Mapping[str, Records]) -> None:
    """Let owners ask at the uses of a simulation; their examples on the phone count as used.

    A phone needs no connection to answer. The energy of an answer is not modelled.
    """
    askers = {
        name: Askers(
            (owner for owner, _ in stream), fleet.radio.uses_zipf, f"{fleet.job.seed}/{name}"
        )
        for name, stream in streams.items()
        if len(stream) and fleet.radio.uses_per_day
    }

    def use(event: Uses) -> None:
        simulation.use_model(event)
        if event.name in askers and not simulation.healed:
            owner = askers[event.name].draw(simulation.now_s)
            simulation.workers[event.name].note_use(owner)

    simulation.set_action(Uses, use)
