"""The section [rewards]: what a worker earns, by which the server learns whom to wake."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dealfl.errors import BadInput
from dealfl.jobs.settings import number, read_section, setting
from dealfl.server import RewardWeights
from dealfl.settings import Document

__all__ = ["Rewards", "rewards_of"]

_PLAIN = RewardWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """The weights of speed, data and saved energy, and what of each counts half."""

    speed: float = setting(number(0.0), _PLAIN.speed)
    volume: float = setting(number(0.0), _PLAIN.volume)
    energy: float = setting(number(0.0), _PLAIN.energy)
    half_time: float = setting(number(0.0), _PLAIN.half_time)
    half_data: float = setting(number(0.0, above=True), _PLAIN.half_data)
    half_energy_j: float = setting(number(0.0, above=True), _PLAIN.half_energy_j)
    half_example_j: float = setting(number(0.0), _PLAIN.half_example_j)


def rewards_of(document: Document) -> RewardWeights:
    """Return the weights that a document gives.

    >>> rewards_of(Document.parse("[rewards]\\nspeed = 2", "job.toml")).speed
    2.0
    """
    given = read_section(document, Rewards, "rewards", document.tables.get("rewards", {}))
    try:
        return RewardWeights(**asdict(given))
    except BadInput as error:
        raise document.error("rewards", str(error)) from None
