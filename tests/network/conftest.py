"""One broker for all tests that do not harm it."""

from collections.abc import Iterator

import pytest

from tests.network.brokers import RunningBroker, start_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with passwords, without TLS, for the job `test`."""
    running = start_broker(tmp_path_factory.mktemp("mosquitto") / "broker")
    yield running
    running.kill()
