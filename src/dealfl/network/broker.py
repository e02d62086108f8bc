"""A mosquitto broker for one job: its configuration, who may connect, and who may say what.

The folder of a broker contains its configuration, the access rules, and either password hashes or
a certificate authority. `enrol` adds a user and returns its credentials; `revoke` removes it. The
rules bind every topic to the user that the broker authenticated.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dealfl.atomic_files import replace_file
from dealfl.errors import BadInput, DealError
from dealfl.network.authority import Authority
from dealfl.network.credentials import Credentials
from dealfl.network.topics import Topics, check_id
from dealfl.settings import Count, Document, Text, read_section, toml_document

__all__ = ["Broker", "BrokerSettings", "create_broker", "open_broker"]

SERVER = "server"
_ITERATIONS = 10_000
_STARTED_S = 10.0

_CONFIGURATION = """\
# Written by `dealfl broker init`. `dealfl broker run` starts mosquitto with it.
listener {port} {listen}
allow_anonymous false
acl_file {folder}/acl
use_username_as_clientid true
user {user}
pid_file {folder}/mosquitto.pid
log_dest file {folder}/mosquitto.log
log_type error
log_type warning
log_type notice
connection_messages false
persistence false
max_packet_size 9437184
max_queued_messages 20000
max_queued_bytes 1073741824
max_inflight_messages 500
max_keepalive 3600
memory_limit 4294967296
"""
_WITH_PASSWORDS = "password_file {folder}/passwords\n"
_WITH_CERTIFICATES = """\
cafile {folder}/authority.pem
certfile {folder}/broker.pem
keyfile {folder}/broker.key
crlfile {folder}/revoked.pem
require_certificate true
use_identity_as_username true
tls_version tlsv1.3
"""


class BrokerSettings(Struct, frozen=True, kw_only=True):
    """The section [broker] of broker.toml: what is served, where, and to whom."""

    job: Annotated[Text, Meta(description="name of the job")]
    host: Annotated[Text, Meta(description="host name or address by which devices reach it")]
    port: Annotated[Count, Meta(description="port")]
    tls: Annotated[bool, Meta(description="TLS with client certificates instead of passwords")]
    listen: Annotated[Text, Meta(description="address on which the broker listens")] = "127.0.0.1"
    owners_key: Annotated[Text, Meta(description="key for the hashes of owners")] = ""
    devices: Annotated[tuple[str, ...], Meta(description="workers and gateways")] = ()
    operators: Annotated[tuple[str, ...], Meta(description="users that may ask the server")] = ()
    gateways: Annotated[
        dict[str, tuple[str, ...]], Meta(description="workers that each gateway carries")
    ] = msgspec.field(default_factory=dict)


class Broker:
    """The folder of a broker: configuration, users, rules.

    Parameters
    ----------
    folder : Path
        The folder.
    settings : BrokerSettings
        Content of its broker.toml.
    """

    def __init__(self, folder: Path, settings: BrokerSettings) -> None:
        self.folder, self.settings = folder, settings

    # -- users ----------------------------------------------------------------------------------

    def enrol(
        self, names: Sequence[str], *, operator: bool = False, workers: tuple[str, ...] = ()
    ) -> list[Credentials]:
        """Admit devices, a gateway for some workers, or operators; replace earlier secrets.

        Parameters
        ----------
        names : sequence of str
            Names of the users.
        operator : bool
            Whether they are persons who may ask the server.
        workers : tuple of str
            Names of the workers that a gateway carries.

        Returns
        -------
        list of Credentials
            One for each name.

        Raises
        ------
        BadInput
            If a name cannot be part of a topic.
        """
        for name in (*names, *workers):
            check_id(name, "operator" if operator else "worker")
        if SERVER in names:
            raise BadInput(f"{SERVER!r} is the name of the server; use another name")
        old = self._without(names)
        self._save(
            msgspec.structs.replace(
                old,
                devices=old.devices if operator else (*old.devices, *names),
                operators=(*old.operators, *names) if operator else old.operators,
                gateways=old.gateways | (dict.fromkeys(names, workers) if workers else {}),
            )
        )
        return self._admit(names, workers)

    def revoke(self, name: str) -> None:
        """Lock a user out, also one that is connected.

        Parameters
        ----------
        name : str
            Name of the user.

        Raises
        ------
        BadInput
            If nobody with this name is enrolled.
        """
        if name not in (*self.settings.devices, *self.settings.operators):
            known = ", ".join((*self.settings.devices, *self.settings.operators)) or "nobody"
            raise BadInput(f"no user called {name!r} is enrolled; enrolled: {known}")
        self._save(self._without([name]))
        if self.settings.tls:
            Authority(self.folder).revoke(name)
        else:
            self._set_passwords({name: None})
        self.reload()

    def admit_server(self) -> Credentials:
        """Return new credentials of the server."""
        return self._admit([SERVER], ())[0]

    def _without(self, names: Sequence[str]) -> BrokerSettings:
        old, gone = self.settings, set(names)
        return msgspec.structs.replace(
            old,
            devices=tuple(one for one in old.devices if one not in gone),
            operators=tuple(one for one in old.operators if one not in gone),
            gateways={one: carried for one, carried in old.gateways.items() if one not in gone},
        )

    def _admit(self, names: Sequence[str], workers: tuple[str, ...]) -> list[Credentials]:
        settings = self.settings
        made = [
            Credentials(
                host=settings.host, port=settings.port, job=settings.job, user=name,
                workers=workers,
                owners_key=settings.owners_key,
            )
            for name in names
        ]  # fmt: skip
        if settings.tls:
            authority = Authority(self.folder)
            made = [_with_certificate(one, authority) for one in made]
        else:
            made = [
                msgspec.structs.replace(one, password=secrets.token_urlsafe(24)) for one in made
            ]
            self._set_passwords({one.user: one.password for one in made})
        self.reload()
        return made

    def _set_passwords(self, passwords: Mapping[str, str | None]) -> None:
        path = self.folder / "passwords"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if line.partition(":")[0] not in passwords]
        kept += [f"{name}:{_hashed(one)}" for name, one in passwords.items() if one is not None]
        replace_file(path, "".join(f"{line}\n" for line in kept), 0o600)

    # -- files ----------------------------------------------------------------------------------

    def _save(self, settings: BrokerSettings) -> None:
        self.settings = settings
        table = {key: value for key, value in msgspec.structs.asdict(settings).items() if value}
        table["tls"] = settings.tls
        replace_file(self.folder / "broker.toml", toml_document({"broker": table}), 0o600)
        replace_file(self.folder / "acl", self._rules(), 0o600)

    def _rules(self) -> str:
        topics = Topics(self.settings.job)
        lines = [f"user {SERVER}", f"topic readwrite {topics.job_part}/#"]
        for name in self.settings.operators:
            lines += [
                f"user {name}",
                f"topic write {topics.ask(name)}",
                f"topic read {topics.answer(name)}",
            ]
        for name, workers in self.settings.gateways.items():
            lines.append(f"user {name}")
            for worker in workers:
                lines += [
                    f"topic write {topics.up(name, worker)}",
                    f"topic read {topics.down(name, worker)}",
                ]
        lines += [
            f"pattern write {topics.up('%u', '%u')}",
            f"pattern write {topics.left('%u')}",
            f"pattern read {topics.down('%u', '%u')}",
            f"pattern read {topics.all}",
            f"pattern read {topics.model}/#",
            f"pattern read {topics.state}",
        ]
        return "".join(f"{line}\n" for line in lines)

    # -- the process ----------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[bytes]:
        """Start mosquitto, and wait until it accepts connections.

        Returns
        -------
        subprocess.Popen
            The process.

        Raises
        ------
        DealError
            If mosquitto is not installed or does not start.
        """
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise DealError("mosquitto is missing; install it, e.g.: apt-get install mosquitto")
        process = subprocess.Popen(  # noqa: S603 - a program of the system, with our own file
            [program, "-c", str(self.folder / "mosquitto.conf")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until_s = time.monotonic() + _STARTED_S
        while not self._accepts():
            if process.poll() is not None or time.monotonic() > until_s:
                process.kill()
                raise DealError(f"mosquitto does not start; see {self.folder}/mosquitto.log")
            time.sleep(0.02)
        return process

    def _accepts(self) -> bool:
        try:
            with socket.create_connection((self.settings.listen, self.settings.port), 1.0):
                return True
        except OSError:
            return False

    def reload(self) -> None:
        """Let a running broker read users and rules again."""
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "mosquitto.pid").read_text()), signal.SIGHUP)


def create_broker(folder: Path, settings: BrokerSettings) -> Broker:
    """Write the folder of a new broker.

    Parameters
    ----------
    folder : Path
        The folder; it gets the mode 0700.
    settings : BrokerSettings
        Job, address, and the kind of authentication.

    Returns
    -------
    Broker
        The broker, without users.

    Raises
    ------
    BadInput
        If the folder contains a broker already.
    """
    if (folder / "broker.toml").exists():
        raise BadInput(f"{folder} contains a broker already; remove the folder to start over")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    owners_key = settings.owners_key or secrets.token_hex(32)
    broker = Broker(folder, settings)
    broker._save(msgspec.structs.replace(settings, owners_key=owners_key))
    text = _CONFIGURATION + (_WITH_CERTIFICATES if settings.tls else _WITH_PASSWORDS)
    values = {
        "port": settings.port, "listen": settings.listen, "folder": folder.resolve(),
        "user": getpass.getuser(),
    }  # fmt: skip
    replace_file(folder / "mosquitto.conf", text.format(**values), 0o600)
    if settings.tls:
        Authority.create(folder, settings.job, settings.host)
    else:
        replace_file(folder / "passwords", "", 0o600)
    return broker


def open_broker(folder: Path) -> Broker:
    """Return the broker in a folder.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    Broker
        The broker.

    Raises
    ------
    BadInput
        If the folder contains no broker.
    """
    path = folder / "broker.toml"
    if not path.is_file():
        raise BadInput(f"{folder} contains no broker; write one with `dealfl broker init`")
    return Broker(folder, read_section(Document.read(path), BrokerSettings, "broker"))


def _with_certificate(credentials: Credentials, authority: Authority) -> Credentials:
    certificate, key = authority.issue(credentials.user)
    return msgspec.structs.replace(
        credentials, authority=authority.certificate, certificate=certificate, key=key
    )


def _hashed(password: str) -> str:
    """Return a password as mosquitto stores it: PBKDF2 with SHA-512 and a random salt."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
