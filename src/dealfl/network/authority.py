"""The small certificate authority of a broker with TLS."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dealfl.errors import BadBytes, BadInput
from dealfl.network.credentials import now
from dealfl.storage import replace_file

Read = TypeVar("Read")

_YEARS_10 = datetime.timedelta(days=3652)
_YEARS_2 = datetime.timedelta(days=730)


class Authority:
    """The authority in a broker's folder: authority.pem, authority.key, revoked.pem, issued/."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issuer = _read(folder / "authority.pem", x509.load_pem_x509_certificate)
        self._pem = _pem(self._issuer)
        self._key = _read(folder / "authority.key", _load_key)

    @classmethod
    def create(cls, folder: Path, job: str, hosts: Sequence[str]) -> None:
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
        authority.renew_broker(hosts)

    def renew_broker(self, hosts: Sequence[str]) -> None:
        """Write a new certificate of the broker, valid for all its hosts."""
        issued = self.issue("broker", hosts)
        replace_file(self._folder / "broker.pem", issued["certificate"], 0o600)
        replace_file(self._folder / "broker.key", issued["key"], 0o600)

    def issue(self, name: str, hosts: Sequence[str] = ()) -> dict[str, str]:
        """Return the keys of new credentials of a name; its earlier ones are revoked."""
        record = self._folder / "issued" / f"{name}.pem"
        if record.exists():
            self.revoke(name)
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        names = [_host(host) for host in hosts] or [x509.DNSName(name)]
        builder = (
            _certificate(self._issuer.subject, _name(name), key, self._key, _YEARS_2)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        replace_file(record, certificate, 0o600)
        return {
            "authority": self._pem,
            "certificate": certificate,
            "key": _key_pem(key),
            "expires": find_end(record),
        }

    def revoke(self, name: str) -> None:
        """Add the certificate of a name to the revocation list."""
        record = self._folder / "issued" / f"{name}.pem"
        if not record.exists():
            raise BadInput(f"no certificate of {name!r} was issued here")
        serial = _read(record, x509.load_pem_x509_certificate).serial_number
        old = _read(self._folder / "revoked.pem", x509.load_pem_x509_crl)
        self._write_revoked([*(entry.serial_number for entry in old), serial])
        record.unlink()

    def _write_revoked(self, serials: list[int]) -> None:
        moment = now()
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._issuer.subject)
            .last_update(moment)
            .next_update(moment + _YEARS_10)
        )
        for serial in serials:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(moment)
            builder = builder.add_revoked_certificate(entry.build())
        revoked = builder.sign(self._key, hashes.SHA256())
        text = revoked.public_bytes(serialization.Encoding.PEM)
        replace_file(self._folder / "revoked.pem", text, 0o600)


def _read(path: Path, load: Callable[[bytes], Read]) -> Read:
    """Return what a PEM file contains."""
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadBytes(
            f"{path} is missing or damaged; restore a copy of the broker's folder, or write a new "
            "one and enrol all devices again"
        ) from error


def _load_key(content: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(content, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(type(key))
    return key


def find_end(path: Path) -> str:
    """Return when the certificate in a file expires."""
    return _read(path, x509.load_pem_x509_certificate).not_valid_after_utc.isoformat()


def _certificate(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    valid: datetime.timedelta,
) -> x509.CertificateBuilder:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    start = now() - datetime.timedelta(days=1)  # clocks of devices may be behind
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


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
