"""A mosquitto broker for one job: its process, who may connect, and who may say what.

Its folder contains configuration, access rules, and password hashes or a certificate authority.
`enrol` adds a user, `revoke` removes it. The rules bind topics to authenticated users.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import paho.mqtt.client as paho
from msgspec import Meta, Struct
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from dealfl.erasure import draw_slow_key
from dealfl.errors import BadInput, DealError
from dealfl.network.authority import Authority, find_end
from dealfl.network.credentials import SERVER, Credentials, require_valid
from dealfl.network.topics import Topics
from dealfl.protocol import check_id
from dealfl.settings import Count, Document, Text, read_section, toml_document
from dealfl.storage import replace_file

_RESERVED = {SERVER, "broker"}  # both have certificates
_ITERATIONS = 101  # passwords are random; the broker hashes at every connect and reload
_STARTED_S = 10.0
_RUNNING = b" running\n"  # in the log
_RELOADING = b"Reloading config."

# Packets are sent in pieces below max_packet_size. The queues hold what 20,000 workers send while
# the server commits. SIGHUP makes mosquitto read users, rules and revoked certificates again.
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
log_type information
connection_messages false
persistence false
max_packet_size 131072
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
    devices: Annotated[
        dict[str, tuple[str, ...]], Meta(description="devices, and the workers that each carries")
    ] = msgspec.field(default_factory=dict)
    operators: Annotated[tuple[str, ...], Meta(description="users that may ask the server")] = ()


class Broker:
    """The folder of a broker: configuration, users, rules."""

    def __init__(self, folder: Path, settings: BrokerSettings) -> None:
        self.folder = folder
        self.settings = settings

    # -- users ----------------------------------------------------------------------------------

    def enrol(
        self, names: Sequence[str], *, operator: bool = False, workers: tuple[str, ...] = ()
    ) -> list[Credentials]:
        """Admit devices, a gateway for some workers, or operators; replace earlier secrets."""
        for name in (*names, *workers):
            check_id(name, "operator" if operator else "worker")
        new = {} if operator else {name: workers or (name,) for name in names}
        self._refuse_conflicts(names, new)
        devices, operators = self._without(names)
        self._save(devices | new, (*operators, *(names if operator else ())))
        return self._admit(names, workers)

    def _refuse_conflicts(self, names: Sequence[str], new: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse names that somebody else answers to: a worker has one device."""
        devices, _ = self._without(names)
        taken = {worker: device for device, workers in devices.items() for worker in workers}
        for worker in (worker for workers in new.values() for worker in workers):
            if worker in taken:
                raise BadInput(f"{taken[worker]!r} carries the worker {worker!r}; revoke it first")
        others = self.settings.operators if new else self.settings.devices
        for name in names:
            if name in _RESERVED or name in others:
                raise BadInput(f"the name {name!r} is used otherwise; choose another name")

    def revoke(self, name: str) -> bool:
        """Lock a user out, also one that is connected; return whether the broker runs here.

        A broker on another machine must be restarted, or get the signal SIGHUP.
        """
        enrolled = (*self.settings.devices, *self.settings.operators)
        if name not in enrolled:
            users = ", ".join(enrolled) or "nobody"
            raise BadInput(f"no user called {name!r} is enrolled; enrolled: {users}")
        self._save(*self._without([name]))
        if not self.settings.tls:
            self._set_passwords({name: ""})
            return self._reload()  # mosquitto disconnects users without a password
        authority = Authority(self.folder)
        authority.revoke(name)
        own = self._issue(name)
        if self._reload():  # mosquitto refuses the revoked certificate, but keeps its connection
            self._take_over(own)
        authority.revoke(name)
        return self._reload()

    def renew(self) -> Credentials:
        """Return new credentials of the server, and renew the broker's certificate."""
        if not self.settings.tls:
            raise BadInput(f"{self.folder} has no certificates; its users have passwords")
        Authority(self.folder).renew_broker(self.settings.host)
        return self.admit_server()

    def admit_server(self) -> Credentials:
        """Return new credentials of the server."""
        return self._admit([SERVER])[0]

    def _without(self, names: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the devices and operators but these."""
        devices = self.settings.devices.items()
        operators = self.settings.operators
        return (
            {device: workers for device, workers in devices if device not in names},
            tuple(operator for operator in operators if operator not in names),
        )

    def _admit(self, names: Sequence[str], workers: tuple[str, ...] = ()) -> list[Credentials]:
        issued = [self._issue(name, workers) for name in names]
        if not self.settings.tls:
            self._set_passwords({each.user: each.password for each in issued})
        self._reload()
        return issued

    def _issue(self, name: str, workers: tuple[str, ...] = ()) -> Credentials:
        """Return credentials with a new certificate, or with a new password."""
        settings = self.settings
        secret = {"password": secrets.token_urlsafe(24)}
        if settings.tls:
            secret = Authority(self.folder).issue(name)
        return Credentials(
            host=settings.host,
            job=settings.job,
            port=settings.port,
            user=name,
            workers=workers,
            owners_key=settings.owners_key,
            **secret,
        )

    def _set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Set the passwords of users; an empty one locks its user out."""
        path = self.folder / "passwords"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if line.partition(":")[0] not in passwords]
        kept += [f"{name}:{_hash(password)}" for name, password in passwords.items() if password]
        replace_file(path, "".join(f"{line}\n" for line in kept), 0o600)

    # -- files ----------------------------------------------------------------------------------

    def _save(self, devices: Mapping[str, tuple[str, ...]], operators: tuple[str, ...]) -> None:
        self.settings = msgspec.structs.replace(
            self.settings, devices=dict(devices), operators=operators
        )
        keys = msgspec.structs.asdict(self.settings).items()
        table = {key: value for key, value in keys if value}
        table["tls"] = self.settings.tls
        replace_file(self.folder / "broker.toml", toml_document({"broker": table}), 0o600)
        replace_file(self.folder / "acl", self._rules(), 0o600)

    def _rules(self) -> str:
        """Return who may write and read what; everything else is denied."""
        topics = Topics(self.settings.job)
        rules = f"user {SERVER}\ntopic readwrite {topics.job_part}/#\n"
        for name in self.settings.operators:
            rules += _rule(name, [topics.ask(name)], [topics.answer(name)])
        for name, workers in self.settings.devices.items():
            write = [topics.left(name), *(topics.up(name, worker) for worker in workers)]
            read = [topics.state, topics.all, f"{topics.model}/#"]
            rules += _rule(name, write, [*read, *(topics.down(name, worker) for worker in workers)])
        return rules

    # -- the process ----------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[bytes]:
        """Start mosquitto, and wait until it accepts connections."""
        settings = self.settings
        if settings.tls:
            certificate = (self.folder / "broker.pem").read_text()
            require_valid(find_end(certificate), "the broker", f"dealfl broker renew {self.folder}")
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise DealError("mosquitto is missing; install it, e.g.: apt-get install mosquitto")
        try:
            socket.create_server((settings.listen, settings.port)).close()
        except OSError as error:
            raise DealError(
                f"mosquitto cannot listen on {settings.listen}, port {settings.port}: {error}"
            ) from None
        before = self._count(_RUNNING)
        process = subprocess.Popen(  # noqa: S603 - a program of the system, with our own file
            [program, "-c", str(self._configuration)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(lambda: self._count(_RUNNING) > before or process.poll() is not None)
        except KeyboardInterrupt:
            process.kill()
            raise
        if process.poll() is not None or self._count(_RUNNING) == before:
            process.kill()
            raise DealError(f"mosquitto does not start; see {self.folder}/mosquitto.log")
        return process

    def _reload(self) -> bool:
        """Let mosquitto read users and rules again; return whether it runs on this machine."""
        with suppress(OSError, ValueError):
            number = int((self.folder / "mosquitto.pid").read_text())
            command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            # after a crash, the number may belong to another process
            if os.fsencode(self._configuration) in command:
                before = self._count(_RELOADING)
                os.kill(number, signal.SIGHUP)
                _wait(lambda: self._count(_RELOADING) > before)
                return True
        return False

    def _take_over(self, credentials: Credentials) -> None:
        """Connect as a user and leave, which ends the connection of anybody else with its name."""
        client = paho.Client(
            CallbackAPIVersion.VERSION2, credentials.user, protocol=MQTTProtocolVersion.MQTTv5
        )
        context = credentials.tls_context()
        if context is not None:
            context.check_hostname = False  # the address is the one that the broker listens on
            client.tls_set_context(context)
        with suppress(OSError):
            client.connect(self.settings.listen, self.settings.port, clean_start=True)
            _wait(lambda: client.loop(0.1) != paho.MQTT_ERR_SUCCESS or client.is_connected())
            client.disconnect()

    @property
    def _configuration(self) -> Path:
        return self.folder.resolve() / "mosquitto.conf"

    def _count(self, words: bytes) -> int:
        """Return how often mosquitto has written some words into its log."""
        try:
            return (self.folder / "mosquitto.log").read_bytes().count(words)
        except FileNotFoundError:
            return 0


def create_broker(folder: Path, settings: BrokerSettings) -> Broker:
    """Write the folder of a new broker."""
    if (folder / "broker.toml").exists():
        raise BadInput(f"{folder} contains a broker already; remove the folder to start over")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    owners_key = settings.owners_key or draw_slow_key().hex()
    broker = Broker(folder, msgspec.structs.replace(settings, owners_key=owners_key))
    broker._save({}, ())
    text = _CONFIGURATION + (_WITH_CERTIFICATES if settings.tls else _WITH_PASSWORDS)
    text = text.format(
        port=settings.port, listen=settings.listen, folder=folder.resolve(), user=getpass.getuser()
    )
    replace_file(folder / "mosquitto.conf", text, 0o600)
    if settings.tls:
        Authority.create(folder, settings.job, settings.host)
    else:
        replace_file(folder / "passwords", "", 0o600)
    return broker


def open_broker(folder: Path) -> Broker:
    """Return the broker in a folder."""
    path = folder / "broker.toml"
    if not path.is_file():
        raise BadInput(f"{folder} contains no broker; write one with `dealfl broker init`")
    return Broker(folder, read_section(Document.read(path), BrokerSettings, "broker"))


def _rule(user: str, write: Sequence[str], read: Sequence[str]) -> str:
    lines = [f"user {user}"]
    lines += [f"topic write {topic}" for topic in write]
    lines += [f"topic read {topic}" for topic in read]
    return "\n".join([*lines, ""])


def _hash(password: str) -> str:
    """Return a password as mosquitto stores it: PBKDF2 with SHA-512 and a random salt."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _wait(until: Callable[[], bool]) -> None:
    """Wait until something holds, but not for ever."""
    end_s = time.monotonic() + _STARTED_S
    while not until() and time.monotonic() < end_s:
        time.sleep(0.005)
