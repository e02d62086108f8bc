"""Rewards: no part is at its end on the phones and jobs there are, and better earns more."""

import pytest

from dealfl.errors import BadInput
from dealfl.jobs import Document, read_job
from dealfl.learners import cycles_of
from dealfl.power import PHONES, PhoneSpending, Training
from dealfl.server import RewardWeights, compute_reward, compute_reward_parts

TTL_S = 60.0
DELIVERY_S = 0.5  # an assignment and an update on their way
PLAIN = RewardWeights()

# operations for an example, bytes of a model and of an update, as the example fleets have them
JOBS = {
    "tikhonov_classifier": (35_778, 143_324, 107_546),  # digits, 256 ReLU features
    "personalized_pagerank": (38, 909_459, 42_231),  # movielens, an interaction of a history
    "naive_bayes": (113, 1_496, 1_176),  # mushrooms
    "neighbors": (51_857, 44_912, 6_432),  # covtype
}


def parts(phone: str, learner: str, examples: int) -> tuple[float, float, float]:
    operations, fetched, sent = JOBS[learner]
    training = Training(
        learned_operations=operations * examples,
        forgotten_operations=operations * max(1, examples // 4),
        fetched_bytes=fetched,
        sent_bytes=sent,
    )
    spent = PhoneSpending(PHONES[phone], cycles_of(learner).of_worker).of(training).whole
    elapsed_s = DELIVERY_S + spent.elapsed_s
    return compute_reward_parts(
        PLAIN, elapsed_s=elapsed_s, ttl_s=TTL_S, learned=examples, energy_j=spent.total_j
    )


@pytest.mark.parametrize("examples", [2, 20, 300])
@pytest.mark.parametrize("learner", JOBS)
@pytest.mark.parametrize("phone", PHONES)
def test_no_part_is_at_its_end(phone: str, learner: str, examples: int) -> None:
    for name, part in zip(
        ("speed", "volume", "thrift"), parts(phone, learner, examples), strict=True
    ):
        assert 0.05 < part < 0.95, name


@pytest.mark.parametrize("learner", JOBS)
def test_phones_differ_in_what_they_earn(learner: str) -> None:
    thrifts = [parts(phone, learner, 20)[2] for phone in PHONES]
    assert max(thrifts) - min(thrifts) > 0.05


def test_sooner_more_and_cheaper_earns_more() -> None:
    plain = {"elapsed_s": 5.0, "ttl_s": TTL_S, "learned": 20, "energy_j": 0.5}
    present = compute_reward(PLAIN, **plain)  # type: ignore[arg-type]
    for better in ({"elapsed_s": 4.0}, {"learned": 21}, {"energy_j": 0.4}):
        assert compute_reward(PLAIN, **(plain | better)) > present


def test_weights_are_read_from_a_job() -> None:
    text = "[rewards]\nspeed = 0.5\nenergy = 2\nhalf_energy_j = 100\n"
    read = read_job(Document.parse(text, "job.toml")).rules.rewards
    assert read == RewardWeights(speed=0.5, energy=2.0, half_energy_j=100.0)
    assert read_job(Document.parse("", "job.toml")).rules.rewards == PLAIN


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "half_energy_j = 0",
            "line 2: rewards.half_energy_j is 0; it takes a number > 0",
        ),
        ("half_data = 20", "job.toml, line 2: no key 'half_data' in rewards; did you mean 'half_"),
        ("speed = 0\nvolume = 0\nenergy = 0", "speed, volume and energy are all 0; at least one"),
    ],
)
def test_bad_weights_are_refused_with_their_line(text: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_job(Document.parse(f"[rewards]\n{text}\n", "job.toml"))
    assert told in str(refused.value)
