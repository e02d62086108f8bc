"""Who gets in: nobody without a secret that the broker issued, nobody whose secret was revoked."""

import datetime
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dealfl.errors import BadInput, DealError
from dealfl.network import Credentials, open_broker, read_credentials, write_credentials
from tests.network.brokers import JOB, RunningBroker, free_port, start_broker
from tests.network.strangers import Stranger

OWN = f"dealfl/v1/{JOB}/epoch/up/w1/w1"
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("plain") / "broker")
    yield running
    running.kill()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("secure") / "broker", tls=True)
    yield running
    running.kill()


def refused(connect: Callable[[], Stranger]) -> bool:
    """Return whether a client gets no connection that carries anything."""
    try:
        client = connect()
        accepted = ("Success", "No matching subscribers")
        return client.answer != "Success" or client.publish(OWN, b"x") not in accepted
    except OSError:
        return True


# -- passwords ----------------------------------------------------------------------------------


def test_without_the_right_password_nobody_gets_in(plain: RunningBroker) -> None:
    one, other = plain.enrol("w1"), plain.enrol("w2")
    for wrong in (
        replace(one, password=""), replace(one, password="guess"), replace(other, user="w1"),
        replace(one, user=""), replace(one, user="server"), replace(one, user="w9"),
        replace(one, user="W1"),
    ):  # fmt: skip
        assert refused(Stranger(wrong).connect), wrong.user
        assert refused(Stranger(wrong, client_id="w1").connect), wrong.user
    assert not refused(Stranger(one).connect)


def test_a_new_password_replaces_the_old_one(plain: RunningBroker) -> None:
    old = plain.enrol("w1")
    new = plain.enrol("w1")
    assert refused(Stranger(old).connect)
    assert not refused(Stranger(new).connect)


# -- certificates -------------------------------------------------------------------------------


def forge(
    name: str, *, issuer: Path | None = None, subject: str | None = None, expired: bool = False
) -> tuple[str, str]:
    """Return a certificate and its key, signed by an authority's folder or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer, parent = key, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject or name)])
    if issuer is not None:
        loaded = serialization.load_pem_private_key((issuer / "authority.key").read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer = loaded
        parent = x509.load_pem_x509_certificate((issuer / "authority.pem").read_bytes()).subject
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .issuer_name(parent)
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * day)
        .not_valid_after(now - day if expired else now + day)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def context_of(where: Credentials, pair: tuple[str, str] | None, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=where.authority)
    if pair is not None:
        (folder / "pair.pem").write_text("".join(pair))
        context.load_cert_chain(folder / "pair.pem")
    return context


def test_without_a_certificate_of_the_authority_nobody_gets_in(
    secure: RunningBroker, tmp_path: Path
) -> None:
    where, folder = secure.enrol("w1"), secure.broker.folder
    authority = x509.load_pem_x509_certificate(where.authority.encode()).subject
    named = str(authority.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    pairs = {
        "no certificate": None,
        "self-signed": forge("w1"),
        "of another authority with the same name": forge("w1", subject=named),
        "expired": forge("w1", issuer=folder, expired=True),
    }
    for what, pair in pairs.items():
        context = context_of(where, pair, tmp_path)
        assert refused(Stranger(where, context=context).connect), what
    genuine = context_of(where, forge("w1", issuer=folder), tmp_path)
    assert not refused(Stranger(where, context=genuine).connect)  # the forger is not the reason


def test_without_tls_or_with_an_old_one_nobody_gets_in(secure: RunningBroker) -> None:
    where = secure.enrol("w1")
    assert refused(Stranger(replace(where, authority="")).connect)
    context = where.tls_context()
    assert context is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert refused(Stranger(where, context=context).connect)


def test_the_user_is_the_one_in_the_certificate_whatever_else_is_said(
    secure: RunningBroker,
) -> None:
    where = secure.enrol("w1")
    liar = Stranger(where, user="server", client_id="server").connect()
    assert liar.publish(f"dealfl/v1/{JOB}/state", b"forged") == "Not authorized"
    assert liar.publish(OWN, b"own") != "Not authorized"


def test_a_device_cannot_pretend_to_be_the_broker(secure: RunningBroker, tmp_path: Path) -> None:
    thief, victim = secure.enrol("w2"), secure.enrol("w1")
    pair = tmp_path / "thief.pem"
    pair.write_text(thief.certificate + thief.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with pytest.raises(OSError):  # the victim ends the handshake
                context.wrap_socket(connection, server_side=True).recv(1)

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(ssl.SSLCertVerificationError):
            Stranger(replace(victim, port=listener.getsockname()[1])).connect()
        thread.join()


def test_a_broker_under_another_name_is_refused(secure: RunningBroker) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Stranger(replace(secure.enrol("w1"), host="localhost")).connect()


# -- revoked ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "secure"])
def test_who_is_revoked_is_disconnected_and_kept_out(
    kind: str, request: pytest.FixtureRequest
) -> None:
    running: RunningBroker = request.getfixturevalue(kind)
    where, other = running.enrol("w1"), running.enrol("w2")
    device, bystander = Stranger(where).connect(), Stranger(other).connect()
    assert device.publish(OWN, b"x") != "Not authorized"
    assert running.broker.revoke("w1")
    assert device.wait(lambda: not device.client.is_connected()), "still connected"
    assert refused(Stranger(where).connect)
    topic = f"dealfl/v1/{JOB}/epoch/up/w2/w2"
    assert bystander.publish(topic, b"x") != "no answer", "others were disconnected, too"
    with pytest.raises(BadInput, match="no user called 'w1'"):
        running.broker.revoke("w1")
    again = running.enrol("w1")
    assert refused(Stranger(where).connect)
    assert not refused(Stranger(again).connect)


def test_the_certificate_that_ends_the_connection_of_a_revoked_device_is_revoked_too(
    secure: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, used = secure.broker, list[Credentials]()
    secure.enrol("w1")
    issue = broker._issue

    def note(name: str) -> Credentials:
        used.append(issue(name))
        return used[-1]

    monkeypatch.setattr(broker, "_issue", note)
    broker.revoke("w1")
    device = Stranger(used[-1])
    with suppress(OSError):
        device.connect()
    assert not device.answer


def test_a_session_of_tls_does_not_outlive_its_certificate(secure: RunningBroker) -> None:
    where = secure.enrol("w1")
    context = where.tls_context()
    assert context is not None

    def connect(session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None]:
        with (
            socket.create_connection((where.host, where.port)) as raw,
            context.wrap_socket(raw, server_hostname=where.host, session=session) as tls,
        ):
            tls.sendall(b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x02w1")
            tls.settimeout(2.0)
            return tls.recv(100), tls.session

    answer, session = connect(None)
    assert answer.startswith(b"\x20")
    secure.broker.revoke("w1")
    secure.enrol("w1")  # the rules have such a user again
    with pytest.raises(OSError):
        connect(session)


# -- names and files ----------------------------------------------------------------------------


def test_names_that_somebody_else_answers_to_are_refused(plain: RunningBroker) -> None:
    broker = plain.broker
    plain.enrol("w1")
    plain.enrol("hub", workers=("w4", "w5"))
    broker.enrol(["ann"], operator=True)
    for names, options, match in [
        (["server"], {}, "otherwise"),
        (["broker"], {}, "otherwise"),
        (["ann"], {}, "otherwise"),
        (["w1"], {"operator": True}, "otherwise"),
        (["w4"], {}, "'hub' carries the worker 'w4'"),
        (["hub2"], {"workers": ("w5",)}, "'hub' carries"),
        (["hub2"], {"workers": ("w1",)}, "'w1' carries"),
        (["a/b"], {}, "letters"),
        (["hub2"], {"workers": ("+",)}, "letters"),
        (["x\nuser server"], {}, "letters"),
    ]:
        with pytest.raises(BadInput, match=match):
            broker.enrol(names, **options)  # type: ignore[arg-type]
    assert open_broker(broker.folder).settings == broker.settings


@pytest.mark.parametrize("kind", ["plain", "secure"])
def test_secrets_are_readable_by_their_owner_only(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    running: RunningBroker = request.getfixturevalue(kind)
    own = {"mosquitto.log", "mosquitto.pid"}  # written by mosquitto; no secrets
    files = [one for one in running.broker.folder.rglob("*") if one.name not in own]
    assert len(files) > 3
    assert not [one for one in files if one.stat().st_mode & 0o077]
    path = tmp_path / "w1.toml"
    write_credentials(path, running.enrol("w1"))
    assert read_credentials(path).user == "w1"
    path.chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600"):
        read_credentials(path)


def test_a_port_in_use_is_reported(tmp_path: Path, plain: RunningBroker) -> None:
    with pytest.raises(DealError, match="cannot listen on"):
        plain.broker.start()


def test_a_broker_starts_while_another_process_still_has_the_socket_that_tried_its_port(
    plain: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that another thread has just forked, until its program begins."""
    copies: list[socket.socket] = []

    class Copied(socket.socket):
        def close(self) -> None:
            copies.append(self.dup())
            super().close()

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", Copied)
        plain.restart()
    assert copies
    assert not refused(Stranger(plain.enrol("w1")).connect)
    for copy in copies:
        socket.socket.close(copy)


def test_a_dead_broker_is_not_signalled(tmp_path: Path) -> None:
    """Its process number may belong to somebody else by now."""
    running = start_broker(tmp_path / "broker")
    where = running.enrol("w1")
    running.kill()
    (running.broker.folder / "mosquitto.pid").write_text("1")
    assert not running.broker.revoke("w1")
    running.restart()
    assert refused(Stranger(where).connect)
    running.kill()
    assert free_port()
