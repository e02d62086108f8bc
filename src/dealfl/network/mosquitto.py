"""The mosquitto process of a broker: its configuration, its start, and what reaches it later."""

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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from dealfl.errors import DealError
from dealfl.network.credentials import Credentials

__all__ = ["configure", "hash_password", "reload", "start", "take_over"]

_ITERATIONS = 101  # passwords are random; the broker hashes at every connect and reload
_STARTED_S = 10.0
_RUNNING, _RELOADING = b" running\n", b"Reloading config."  # in the log

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


def configure(folder: Path, listen: str, port: int, *, tls: bool) -> str:
    """Return the content of mosquitto.conf."""
    text = _CONFIGURATION + (_WITH_CERTIFICATES if tls else _WITH_PASSWORDS)
    return text.format(port=port, listen=listen, folder=folder.resolve(), user=getpass.getuser())


def hash_password(password: str) -> str:
    """Return a password as mosquitto stores it: PBKDF2 with SHA-512 and a random salt."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def start(folder: Path, listen: str, port: int) -> subprocess.Popen[bytes]:
    """Start mosquitto, and wait until it accepts connections."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise DealError("mosquitto is missing; install it, e.g.: apt-get install mosquitto")
    try:
        socket.create_server((listen, port)).close()
    except OSError as error:
        raise DealError(f"mosquitto cannot listen on {listen}, port {port}: {error}") from None
    before = _count(folder, _RUNNING)
    process = subprocess.Popen(  # noqa: S603 - a program of the system, with our own file
        [program, "-c", str(_file(folder))],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait(lambda: _count(folder, _RUNNING) > before or process.poll() is not None)
    except KeyboardInterrupt:
        process.kill()
        raise
    if process.poll() is not None or _count(folder, _RUNNING) == before:
        process.kill()
        raise DealError(f"mosquitto does not start; see {folder}/mosquitto.log")
    return process


def reload(folder: Path) -> bool:
    """Let mosquitto read users and rules again; return whether it runs on this machine."""
    with suppress(OSError, ValueError):
        number = int((folder / "mosquitto.pid").read_text())
        # after a crash, the number may belong to another process
        if os.fsencode(_file(folder)) in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0"):
            before = _count(folder, _RELOADING)
            os.kill(number, signal.SIGHUP)
            _wait(lambda: _count(folder, _RELOADING) > before)
            return True
    return False


def take_over(credentials: Credentials, address: tuple[str, int]) -> None:
    """Connect as a user and leave, which ends the connection of anybody else with its name."""
    client = paho.Client(
        CallbackAPIVersion.VERSION2, credentials.user, protocol=MQTTProtocolVersion.MQTTv5
    )
    context = credentials.tls_context()
    if context is not None:
        context.check_hostname = False  # the address is the one that the broker listens on
        client.tls_set_context(context)
    with suppress(OSError):
        client.connect(*address, clean_start=True)
        _wait(lambda: client.loop(0.1) != paho.MQTT_ERR_SUCCESS or client.is_connected())
        client.disconnect()


def _file(folder: Path) -> Path:
    return folder.resolve() / "mosquitto.conf"


def _wait(until: Callable[[], bool]) -> None:
    """Wait until something holds, but not for ever."""
    end_s = time.monotonic() + _STARTED_S
    while not until() and time.monotonic() < end_s:
        time.sleep(0.005)


def _count(folder: Path, words: bytes) -> int:
    """Return how often mosquitto has written some words into its log."""
    try:
        return (folder / "mosquitto.log").read_bytes().count(words)
    except FileNotFoundError:
        return 0
