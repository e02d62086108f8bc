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
from contextlib import suppress
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from dealfl.errors import DealError
from dealfl.network.credentials import Credentials

__all__ = ["configure", "hash_password", "reload", "start", "take_over"]

_ITERATIONS = 101  # passwords are random; the broker hashes at every connect and reload
_STARTED_S = 10.0

# The queues hold what 20,000 workers send while
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
    (folder / "mosquitto.log").unlink(missing_ok=True)
    process = subprocess.Popen(  # noqa: S603 - a program of the system, with our own file
        [program, "-c", str(_file(folder))],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until_s = time.monotonic() + _STARTED_S
    while not _accepts(listen, port) or b" running" not in _log(folder):
        if process.poll() is not None or time.monotonic() > until_s:
            process.kill()
            raise DealError(f"mosquitto does not start; see {folder}/mosquitto.log")
        time.sleep(0.02)
    return process


def reload(folder: Path) -> bool:
    """Let mosquitto read users and rules again; return whether it runs on this machine."""
    with suppress(OSError, ValueError):
        number = int((folder / "mosquitto.pid").read_text())
        # after a crash, the number may belong to another process
        if os.fsencode(_file(folder)) in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0"):
            os.kill(number, signal.SIGHUP)
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
    until_s = time.monotonic() + _STARTED_S
    with suppress(OSError):
        client.connect(*address, clean_start=True)
        while not client.is_connected() and time.monotonic() < until_s:
            client.loop(0.1)
        client.disconnect()


def _file(folder: Path) -> Path:
    return folder.resolve() / "mosquitto.conf"


def _log(folder: Path) -> bytes:
    """Return what mosquitto logged; a SIGHUP before it says that it is running would end it."""
    path = folder / "mosquitto.log"
    return path.read_bytes() if path.exists() else b""


def _accepts(listen: str, port: int) -> bool:
    try:
        with socket.create_connection((listen, port), 1.0):
            return True
    except OSError:
        return False
