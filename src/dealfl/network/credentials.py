"""Credentials: the file by which a process reaches the broker.

`dealfl broker enrol` writes a file for each device: address, name, secret, key of the job. It
contains secrets: its mode is 0600.
"""

from __future__ import annotations

import datetime
import logging
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from dealfl.errors import BadInput
from dealfl.settings import Count, Document, Text, read_section, toml_document
from dealfl.storage import replace_file

SERVER = "server"
_MONTH = datetime.timedelta(days=30)
_LOG = logging.getLogger("dealfl.network")


class Credentials(Struct, frozen=True, kw_only=True):
    """The section [broker]: how one user reaches the broker of a job."""

    host: Annotated[Text, Meta(description="host name or address of the broker")]
    port: Annotated[Count, Meta(description="port of the broker")]
    job: Annotated[Text, Meta(description="name of the job")]
    others: Annotated[
        tuple[str, ...], Meta(description="other nodes of a clustered broker, each HOST:PORT")
    ] = ()
    user: Annotated[Text, Meta(description="name of the worker, gateway, server or operator")]
    password: Annotated[Text, Meta(description="password, if the broker uses passwords")] = ""
    authority: Annotated[
        Text, Meta(description="certificate of the broker's authority, as PEM text")
    ] = ""
    certificate: Annotated[Text, Meta(description="certificate of the user, as PEM text")] = ""
    key: Annotated[Text, Meta(description="private key of the user, as PEM text")] = ""
    expires: Annotated[Text, Meta(description="when the certificate expires, in UTC")] = ""
    owners_key: Annotated[
        Text, Meta(description="key for the hashes of owners, in hexadecimal digits")
    ] = ""
    workers: Annotated[
        tuple[str, ...], Meta(description="workers that a gateway carries; empty for a device")
    ] = ()

    def nodes(self) -> list[Credentials]:
        """Return credentials for each node of a clustered broker."""
        return [self, *map(self._at, self.others)]

    def _at(self, node: str) -> Credentials:
        host, _, port = node.rpartition(":")
        if not host or not port.isdigit():
            raise BadInput(f"others has {node!r}; a node of a cluster is HOST:PORT")
        return structs.replace(self, host=host, port=int(port), others=())

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings; None for a broker without TLS."""
        if not self.authority:
            return None
        context = ssl.create_default_context(cadata=self.authority)
        context.sslsocket_class = _ClosedSocket
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.certificate:
            action = "renew FOLDER" if self.user == SERVER else f"enrol FOLDER {self.user}"
            require_valid(self.expires, self.user, f"dealfl broker {action}")
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


def require_valid(expires: str, whose: str, remedy: str) -> None:
    """Refuse a certificate that has expired, and warn a month before; both name the remedy."""
    try:
        left = datetime.datetime.fromisoformat(expires) - now()
    except (TypeError, ValueError):
        raise BadInput(
            f"the credentials of {whose} do not say when they expire: {expires!r}; run: {remedy}"
        ) from None
    if left < datetime.timedelta(0):
        raise BadInput(f"the certificate of {whose} expired {-left.days} days ago; run: {remedy}")
    if left < _MONTH:
        _LOG.warning("the certificate of %s expires in %s days; run: %s", whose, left.days, remedy)


def now() -> datetime.datetime:
    """Return the time, in UTC."""
    return datetime.datetime.now(datetime.UTC)
