"""mosquitto, the default broker: its files, its process, and its users."""

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

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from dealfl.errors import DealError
from dealfl.network.authority import Authority, find_end
from dealfl.network.broker import Broker
from dealfl.network.credentials import SERVER, Credentials, require_valid
from dealfl.network.topics import Topics
from dealfl.storage import replace_file

_ITERATIONS = 101  # passwords are random; the broker hashes at every connect and reload
_STARTED_S = 10.0
_ANSWERED_S = 0.5
_RUNNING = b" running\n"  # in the log
_RELOADING = b"Reloading config."

# Packets are sent in pieces below max_packet_size. The queues hold what 20,000 workers send while
# the server commits. Without set_tcp_nodelay, a reply that follows an acknowledgement waits 40 ms
# for that of TCP. SIGHUP makes mosquitto read users, rules and revoked certificates again.
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
set_tcp_nodelay true
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


class Mosquitto(Broker):
    """One mosquitto process, with passwords or with certificates."""

    def write(self) -> None:
        """Write the files of a new broker."""
        settings = self.settings
        text = _CONFIGURATION + (_WITH_CERTIFICATES if settings.tls else _WITH_PASSWORDS)
        folder, user = self.folder.resolve(), getpass.getuser()
        text = text.format(port=settings.port, listen=settings.listen, folder=folder, user=user)
        replace_file(self._configuration, text, 0o600)
        if settings.tls:
            Authority.create(self.folder, settings.job, settings.hosts)
        else:
            replace_file(self.folder / "passwords", "", 0o600)

    def _write_rules(self) -> None:
        lines = [f"user {SERVER}", f"topic readwrite {Topics(self.settings.job).job_part}/#"]
        for rule in self._rules():
            lines.append(f"user {rule.user}")
            lines += [f"topic write {topic}" for topic in rule.write]
            lines += [f"topic read {topic}" for topic in rule.read]
        replace_file(self.folder / "acl", "\n".join([*lines, ""]), 0o600)

    def _put(self, issued: Sequence[Credentials]) -> None:
        if not self.settings.tls:
            self._set_passwords({each.user: each.password for each in issued})
        self._reload()

    def _lock_out(self, name: str) -> bool:
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

    def _set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Set the passwords of users; an empty one locks its user out."""
        path = self.folder / "passwords"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if line.partition(":")[0] not in passwords]
        kept += [f"{name}:{_hash(password)}" for name, password in passwords.items() if password]
        replace_file(path, "".join(f"{line}\n" for line in kept), 0o600)

    # -- the process ----------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[bytes]:
        """Start mosquitto, and wait until it accepts connections."""
        settings = self.settings
        if settings.tls:
            require_valid(
                find_end(self.folder / "broker.pem"),
                "the broker",
                f"dealfl broker renew {self.folder}",
            )
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise DealError("mosquitto is missing; install it, e.g.: apt-get install mosquitto")
        try:
            with socket.socket() as free:  # not listening: a process just forked may still have it
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                free.bind((settings.listen, settings.port))
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
                before, end_s = self._count(_RELOADING), time.monotonic() + _STARTED_S
                while self._count(_RELOADING) == before and time.monotonic() < end_s:
                    os.kill(number, signal.SIGHUP)  # lost if mosquitto is reading them just now
                    _wait(lambda: self._count(_RELOADING) > before, _ANSWERED_S)
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


def _hash(password: str) -> str:
    """Return a password as mosquitto stores it: PBKDF2 with SHA-512 and a random salt."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _wait(until: Callable[[], bool], most_s: float = _STARTED_S) -> None:
    """Wait until something holds, but not for ever."""
    end_s = time.monotonic() + most_s
    while not until() and time.monotonic() < end_s:
        time.sleep(0.005)
