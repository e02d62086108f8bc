"""Certificates expire: a warning in time, an error afterwards, and a command that renews them."""

import datetime
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.network import Broker, BrokerSettings, create_broker, open_broker, read_credentials
from tests.network.brokers import RunningBroker, free_port, require_mosquitto
from tests.network.strangers import Stranger

Travel = Callable[[int], None]


@pytest.fixture
def travel(monkeypatch: pytest.MonkeyPatch) -> Travel:
    """Let the authority believe that some days have passed."""

    def to(days: int) -> None:
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        for module in ("authority", "credentials"):
            monkeypatch.setattr(f"dealfl.network.{module}.now", lambda: now)

    return to


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    require_mosquitto()
    settings = BrokerSettings(job="job", host="127.0.0.1", port=free_port(), tls=True)
    return create_broker(tmp_path / "broker", settings)


def test_the_authority_can_sign_devices_and_no_further_authority(broker: Broker) -> None:
    certificate = x509.load_pem_x509_certificate((broker.folder / "authority.pem").read_bytes())
    limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert limits.value == x509.BasicConstraints(ca=True, path_length=0)


def test_a_broker_is_warned_of_its_certificate_and_does_not_start_with_an_expired_one(
    broker: Broker, travel: Travel, caplog: pytest.LogCaptureFixture
) -> None:
    travel(650)
    RunningBroker(broker).kill()
    assert not caplog.records
    travel(710)
    RunningBroker(broker).kill()
    assert f"expires in 18 days; run: dealfl broker renew {broker.folder}" in caplog.text
    travel(800)
    with pytest.raises(BadInput, match="days ago; run: dealfl broker renew"):
        broker.start()


def test_devices_with_an_expired_certificate_are_asked_to_enrol_again(
    broker: Broker, travel: Travel, caplog: pytest.LogCaptureFixture
) -> None:
    device, server = broker.enrol(["w1"])[0], broker.admit_server()
    with caplog.at_level(logging.WARNING):
        travel(710)
        device.tls_context()
    assert "certificate of w1 expires in 18 days; run: dealfl broker enrol FOLDER w1" in caplog.text
    travel(800)
    with pytest.raises(BadInput, match="run: dealfl broker enrol FOLDER w1"):
        device.tls_context()
    with pytest.raises(BadInput, match="run: dealfl broker renew FOLDER"):
        server.tls_context()


def test_renewed_certificates_are_accepted_and_old_ones_of_the_server_are_not(
    broker: Broker,
) -> None:
    old, device = broker.admit_server(), broker.enrol(["w1"])[0]
    before = (broker.folder / "broker.pem").read_text()
    assert main(["broker", "renew", str(broker.folder)]) == 0
    assert (broker.folder / "broker.pem").read_text() != before
    running = RunningBroker(open_broker(broker.folder))
    try:
        for where in (read_credentials(broker.folder / "server.toml"), device):
            assert Stranger(where).connect().answer == "Success"
        with suppress(OSError):  # the broker ends the connection
            assert Stranger(old).connect().answer != "Success"
    finally:
        running.kill()


def test_a_broker_with_passwords_has_nothing_to_renew(tmp_path: Path) -> None:
    settings = BrokerSettings(job="job", host="127.0.0.1", port=1883, tls=False)
    with pytest.raises(BadInput, match="its users have passwords"):
        create_broker(tmp_path / "broker", settings).renew()


def test_a_handshake_that_fails_leaves_no_open_socket(broker: Broker) -> None:
    context = broker.enrol(["w1"])[0].tls_context()
    assert context is not None
    end, other = socket.socketpair()
    device = context.wrap_socket(end, server_hostname="a", do_handshake_on_connect=False)
    other.close()
    with pytest.raises(OSError):
        device.do_handshake()
    assert device.fileno() == -1
