"""The broker of the tests: its rules bind users to their own names."""

from tests.network.brokers import RunningBroker


def test_a_broker_runs_and_users_are_admitted(broker: RunningBroker) -> None:
    one = broker.enrol("w1")
    assert one.password
    assert one.password != broker.enrol("w2").password
