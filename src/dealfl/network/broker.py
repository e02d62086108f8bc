"""A mosquitto broker for one job: its configuration, who may connect, and who may say what.

Its folder contains configuration, access rules, and password hashes or a certificate authority.
`enrol` adds a user, `revoke` removes it. The rules bind topics to authenticated users.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.network.authority import Authority, require_valid
from dealfl.network.credentials import SERVER, Credentials
from dealfl.network.mosquitto import configure, hash_password, reload, start, take_over
from dealfl.network.topics import Topics
from dealfl.protocol import check_id
from dealfl.settings import Count, Document, Text, read_section, toml_document
from dealfl.storage import replace_file

__all__ = ["Broker", "BrokerSettings", "create_broker", "open_broker"]

_RESERVED = {SERVER, "broker"}  # both have certificates


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
        new = {} if operator else {name: workers or (name,) for name in names}
        self._refuse_conflicts(names, new)
        devices, operators = self._without(names)
        self._save(devices | new, (*operators, *(names if operator else ())))
        return self._admit(names, workers)

    def _refuse_conflicts(self, names: Sequence[str], new: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse names that somebody else answers to: a worker has one device."""
        devices, _ = self._without(names)
        taken = {worker: device for device, workers in devices.items() for worker in workers}
        for worker in (one for workers in new.values() for one in workers):
            if worker in taken:
                raise BadInput(f"{taken[worker]!r} carries the worker {worker!r}; revoke it first")
        others = {*self.settings.devices} if not new else {*self.settings.operators}
        for name in names:
            if name in _RESERVED or name in others:
                raise BadInput(f"the name {name!r} is used otherwise; choose another name")

    def revoke(self, name: str) -> bool:
        """Lock a user out, also one that is connected.

        Parameters
        ----------
        name : str
            Name of the user.

        Returns
        -------
        bool
            False if the broker does not run on this machine. It must be restarted, or get the
            signal SIGHUP.

        Raises
        ------
        BadInput
            If nobody with this name is enrolled.
        """
        enrolled = (*self.settings.devices, *self.settings.operators)
        if name not in enrolled:
            known = ", ".join(enrolled) or "nobody"
            raise BadInput(f"no user called {name!r} is enrolled; enrolled: {known}")
        self._save(*self._without([name]))
        if not self.settings.tls:
            self._set_passwords({name: None})
            return reload(self.folder)  # mosquitto disconnects users without a password
        authority = Authority(self.folder)
        authority.revoke(name)
        own = _with_certificate(self._unsigned(name), authority)
        running = reload(self.folder)
        if running:  # mosquitto refuses the revoked certificate, but keeps its connection
            take_over(own, (self.settings.listen, self.settings.port))
        authority.revoke(name)
        return reload(self.folder)

    def renew(self) -> Credentials:
        """Return new credentials of the server, and renew the broker's certificate."""
        if not self.settings.tls:
            raise BadInput(f"{self.folder} has no certificates; its users have passwords")
        Authority(self.folder).renew_broker(self.settings.host)
        return self.admit_server()

    def admit_server(self) -> Credentials:
        """Return new credentials of the server."""
        return self._admit([SERVER], ())[0]

    def _without(self, names: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the devices and operators but these."""
        devices = {one: own for one, own in self.settings.devices.items() if one not in names}
        return devices, tuple(one for one in self.settings.operators if one not in names)

    def _unsigned(self, name: str, workers: tuple[str, ...] = ()) -> Credentials:
        settings = self.settings
        return Credentials(
            host=settings.host, job=settings.job, port=settings.port, user=name, workers=workers,
            owners_key=settings.owners_key,
        )  # fmt: skip

    def _admit(self, names: Sequence[str], workers: tuple[str, ...]) -> list[Credentials]:
        made = [self._unsigned(name, workers) for name in names]
        if self.settings.tls:
            authority = Authority(self.folder)
            made = [_with_certificate(one, authority) for one in made]
        else:
            drawn = partial(secrets.token_urlsafe, 24)
            made = [msgspec.structs.replace(one, password=drawn()) for one in made]
            self._set_passwords({one.user: one.password for one in made})
        reload(self.folder)
        return made

    def _set_passwords(self, passwords: Mapping[str, str | None]) -> None:
        path = self.folder / "passwords"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if line.partition(":")[0] not in passwords]
        kept += [f"{name}:{hash_password(one)}" for name, one in passwords.items() if one]
        replace_file(path, "".join(f"{line}\n" for line in kept), 0o600)

    # -- files ----------------------------------------------------------------------------------

    def _save(self, devices: Mapping[str, tuple[str, ...]], operators: tuple[str, ...]) -> None:
        self.settings = msgspec.structs.replace(
            self.settings, devices=dict(devices), operators=operators
        )
        table = {key: one for key, one in msgspec.structs.asdict(self.settings).items() if one}
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
            write = [topics.left(name), *(topics.up(name, one) for one in workers)]
            read = [topics.state, topics.all, f"{topics.model}/#"]
            rules += _rule(name, write, [*read, *(topics.down(name, one) for one in workers)])
        return rules

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
            If mosquitto is not installed or does not start, or its certificate has expired.
        """
        if self.settings.tls:
            certificate = (self.folder / "broker.pem").read_text()
            require_valid(certificate, "the broker", f"dealfl broker renew {self.folder}")
        return start(self.folder, self.settings.listen, self.settings.port)


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
    broker = Broker(folder, msgspec.structs.replace(settings, owners_key=owners_key))
    broker._save({}, ())
    text = configure(folder, settings.listen, settings.port, tls=settings.tls)
    replace_file(folder / "mosquitto.conf", text, 0o600)
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


def _rule(user: str, write: Sequence[str], read: Sequence[str]) -> str:
    lines = [f"user {user}", *(f"topic write {one}" for one in write)]
    return "\n".join([*lines, *(f"topic read {one}" for one in read), ""])


def _with_certificate(credentials: Credentials, authority: Authority) -> Credentials:
    certificate, key = authority.issue(credentials.user)
    return msgspec.structs.replace(
        credentials, authority=authority.certificate, certificate=certificate, key=key
    )
