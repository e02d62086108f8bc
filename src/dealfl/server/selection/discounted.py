"""Upper confidence bounds for rewards that change: what was long ago counts less."""

from collections.abc import Mapping

from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.settings import number

__all__ = ["Discounted"]


class Discounted(Bandit):
    """As `FairUpperConfidence`, but a try is worth `discount` of itself one round later.

    A worker whose battery ran down is tried again when that is long ago. The bonus is
    `sqrt(exploration · 3 ln n / 2 tries)` with discounted tries and n discounted rounds.

    >>> Discounted(discount=1.5)
    Traceback (most recent call last):
    dealfl.errors.BadInput: discount=1.5: give a number from 0.5 to 0.999999
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        fairness: float | Mapping[str, float] = 0.0,
        eta: float = 10.0,
        weight_cap: float = 100.0,
        price: float = 0.0,
        discount: float = 0.99,
        exploration: float = 0.1,
    ) -> None:
        super().__init__(seed=seed, fairness=fairness, eta=eta, weight_cap=weight_cap, price=price)
        self._arm_settings["discount"] = number("discount", discount, 0.5, 0.999999)
        self._arm_settings["exploration"] = number("exploration", exploration, 0.0, 1e300)
        self.restore(b"")
