"""Credentials: the file by which a process reaches the broker, and the authority behind it.

`dealfl broker enrol` writes a file for each device: address, name, secret, key of the job. It
contains secrets: its mode is 0600. A broker with TLS has a small certificate authority of its own.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Meta, Struct, structs

from dealfl.errors import BadInput
from dealfl.settings import Count, Document, Text, read_section, toml_document
from dealfl.storage import replace_file

SERVER = "server"
_YEARS_10 = datetime.timedelta(days=3652)
_YEARS_2 = datetime.timedelta(days=730)
_MONTH = datetime.timedelta(days=30)
_LOG = logging.getLogger("dealfl.network")


class Credentials(Struct, frozen=True, kw_only=True):
    """The section [broker]: how one user reaches the broker of a job."""

    host: Annotated[Text, Meta(description="host name or address of the broker")]
    port: Annotated[Count, Meta(description="port of the broker")]
    job: Annotated[Text, Meta(description="name of the job")]
    user: Annotated[Text, Meta(description="name of the worker, gateway, server or operator")]
    password: Annotated[Text, Meta(description="password, if the broker uses passwords")] = ""
    authority: Annotated[
        Text, Meta(description="certificate of the broker's authority, as PEM text")
    ] = ""
    certificate: Annotated[Text, Meta(description="certificate of the user, as PEM text")] = ""
    key: Annotated[Text, Meta(description="private key of the user, as PEM text")] = ""
    owners_key: Annotated[
        Text, Meta(description="key for the hashes of owners, in hexadecimal digits")
    ] = ""
    workers: Annotated[
        tuple[str, ...], Meta(description="workers that a gateway carries; empty for a device")
    ] = ()

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings; None for a broker without TLS."""
        if not self.authority:
            return None
        context = ssl.create_default_context(cadata=self.authority)
        context.sslsocket_class = _ClosedSocket
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.certificate:
            action = "renew FOLDER" if self.user == SERVER else f"enrol FOLDER {self.user}"
            require_valid(self.certificate, self.user, f"dealfl broker {action}")
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:  # mode 0600
                pair.write(self.certificate + self.key)
                pair.flush()
                context.load_cert_chain(pair.name)
        return context


def require_role(brokers: Sequence[Credentials], job: str, *, server: bool) -> None:
    """Refuse credentials of another job, of the server for a worker, or the other way round."""
    for broker in brokers:
        if broker.job != job:
            raise BadInput(
                f"the credentials of {broker.user!r} are for the job {broker.job!r}, and this job "
                f"is {job!r}; use its own broker: dealfl broker init FOLDER --job {job}"
            )
        if server != (broker.user == SERVER):
            remedy = "server.toml of the broker's folder" if server else "dealfl broker enrol"
            raise BadInput(
                f"these are the credentials of {broker.user!r}; "
                f"a {'server' if server else 'worker'} needs its own: {remedy}"
            )


class _ClosedSocket(ssl.SSLSocket):
    """A socket that is closed if its handshake fails; paho would leave it open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def read_credentials(path: Path) -> Credentials:
    """Return the credentials in a file."""
    if not path.is_file():
        raise BadInput(f"{path}: no such file; `dealfl broker enrol NAME` writes it")
    if path.stat().st_mode & 0o077:
        raise BadInput(f"{path} can be read by others; run: chmod 600 {path}")
    return read_section(Document.read(path), Credentials, "broker")


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Write credentials to a file that only its owner can read."""
    given = {key: value for key, value in structs.asdict(credentials).items() if value}
    replace_file(path, toml_document({"broker": given}), 0o600)


class Authority:
    """The authority in a broker's folder: authority.pem, authority.key, revoked.pem, issued/."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pem = (folder / "authority.pem").read_text()
        self._issuer = x509.load_pem_x509_certificate(self._pem.encode())
        key = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def create(cls, folder: Path, job: str, host: str) -> Authority:
        """Write a new authority, the broker's certificate, and an empty revocation list."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"dealfl {job}"[:64])
        certificate = (
            _certificate(name, name, key, key, _YEARS_10)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        replace_file(folder / "authority.pem", _pem(certificate), 0o600)
        replace_file(folder / "authority.key", _key_pem(key), 0o600)
        (folder / "issued").mkdir(mode=0o700, exist_ok=True)
        authority = cls(folder)
        authority._write_revoked([])
        authority.renew_broker(host)
        return authority

    def renew_broker(self, host: str) -> None:
        """Write a new certificate of the broker."""
        issued = self.issue("broker", host=host)
        replace_file(self._folder / "broker.pem", issued["certificate"], 0o600)
        replace_file(self._folder / "broker.key", issued["key"], 0o600)

    def issue(self, name: str, host: str = "") -> dict[str, str]:
        """Return the keys of new credentials of a name; its earlier ones are revoked."""
        record = self._folder / "issued" / f"{name}.pem"
        if record.exists():
            self.revoke(name)
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if host else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _certificate(self._issuer.subject, _name(name), key, self._key, _YEARS_2)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if host:
            names: list[x509.GeneralName] = [_host(host)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        replace_file(record, certificate, 0o600)
        return {"authority": self._pem, "certificate": certificate, "key": _key_pem(key)}

    def revoke(self, name: str) -> None:
        """Add the certificate of a name to the revocation list."""
        record = self._folder / "issued" / f"{name}.pem"
        if not record.exists():
            raise BadInput(f"no certificate of {name!r} was issued here")
        serial = x509.load_pem_x509_certificate(record.read_bytes()).serial_number
        old = x509.load_pem_x509_crl((self._folder / "revoked.pem").read_bytes())
        self._write_revoked([*(entry.serial_number for entry in old), serial])
        record.unlink()

    def _write_revoked(self, serials: list[int]) -> None:
        now = _now()
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._issuer.subject)
            .last_update(now)
            .next_update(now + _YEARS_10)
        )
        for serial in serials:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        revoked = builder.sign(self._key, hashes.SHA256())
        text = revoked.public_bytes(serialization.Encoding.PEM)
        replace_file(self._folder / "revoked.pem", text, 0o600)


def require_valid(certificate: str, whose: str, remedy: str) -> None:
    """Refuse a certificate that has expired, and warn a month before; both name the remedy."""
    left = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc - _now()
    if left < datetime.timedelta(0):
        raise BadInput(f"the certificate of {whose} expired {-left.days} days ago; run: {remedy}")
    if left < _MONTH:
        _LOG.warning("the certificate of %s expires in %s days; run: %s", whose, left.days, remedy)


def _certificate(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    valid: datetime.timedelta,
) -> x509.CertificateBuilder:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    start = _now() - datetime.timedelta(days=1)  # clocks of devices may be behind
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority, critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
