"""Under masks, too, the server ends with the digest of central training, and isolates nobody."""

import pytest

from dealfl.server import masked
from tests.keyholder.chaos import MaskedChaos, check


def test_the_server_ends_with_the_digest_of_central_training_under_masks() -> None:
    openings = 0
    happened: set[str] = set()
    for seed in range(20):
        chaos = check(seed)
        openings += len(chaos.opened)
        happened |= set(chaos.done)
    assert openings > 60, "hardly anything was ever opened"
    assert happened == {event.__name__ for event, _ in MaskedChaos.EVENTS}


def test_incarnations_that_end_all_the_time_change_no_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masked, "_MANY_UPDATES", 4)
    for seed in range(500, 504):
        ends = check(seed, steps=40).simulation.server.workers.values()
        assert any(row.incarnation > 1 for row in ends)


@pytest.mark.soak
def test_hundreds_of_chaotic_runs_under_masks() -> None:
    for seed in range(1000, 1400):
        check(seed, steps=50)
