"""The broker of one job: who may connect, and who may say what.

The folder of a broker contains configuration, access rules, and password hashes or a certificate
authority. `enrol` adds a user, `revoke` removes it. The rules bind topics to authenticated users.
"""

from __future__ import annotations

import secrets
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.network.authority import Authority
from dealfl.network.credentials import SERVER, Credentials
from dealfl.network.topics import Topics
from dealfl.protocol import check_id
from dealfl.settings import Count, Text, toml_document
from dealfl.storage import replace_file

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
    kind: Annotated[Text, Meta(description="mosquitto or rabbitmq")] = "mosquitto"
    others: Annotated[tuple[str, ...], Meta(description="other nodes of a cluster, by host")] = ()
    revoked: Annotated[
        tuple[str, ...], Meta(description="names that are not given again (rabbitmq)")
    ] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the broker."""
        return (self.host, *self.others)


@dataclass(frozen=True, slots=True)
class Rule:
    """The topics that a user may write and read."""

    user: str
    write: tuple[str, ...]
    read: tuple[str, ...]


class Broker(ABC):
    """The folder of a broker: its users, and what they may do."""

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
        self.save(devices | new, (*operators, *(names if operator else ())))
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
        """Lock a user out, also one that is connected; return whether that is in effect.

        It is not if the broker does not run here: it must be changed there.
        """
        enrolled = (*self.settings.devices, *self.settings.operators)
        if name not in enrolled:
            users = ", ".join(enrolled) or "nobody"
            raise BadInput(f"no user called {name!r} is enrolled; enrolled: {users}")
        self.save(*self._without([name]))
        return self._lock_out(name)

    def renew(self) -> Credentials:
        """Return new credentials of the server, and renew the broker's certificate."""
        if not self.settings.tls:
            raise BadInput(f"{self.folder} has no certificates; its users have passwords")
        Authority(self.folder).renew_broker(self.settings.hosts)
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
        self._put(issued)
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
            others=tuple(f"{host}:{settings.port}" for host in settings.others),
            user=name,
            workers=workers,
            owners_key=settings.owners_key,
            **secret,
        )

    # -- files ----------------------------------------------------------------------------------

    def save(self, devices: Mapping[str, tuple[str, ...]], operators: tuple[str, ...]) -> None:
        """Write the settings and the rules, with these users."""
        self.settings = msgspec.structs.replace(
            self.settings, devices=dict(devices), operators=operators
        )
        keys = msgspec.structs.asdict(self.settings).items()
        table = {key: value for key, value in keys if value}
        table["tls"] = self.settings.tls
        replace_file(self.folder / "broker.toml", toml_document({"broker": table}), 0o600)
        self._write_rules()

    def _rules(self) -> list[Rule]:
        """Return what operators and devices may write and read; everything else is denied.

        Topics have `+` in place of an epoch. The server may do everything.
        """
        topics = Topics(self.settings.job)
        rules = [
            Rule(name, (topics.ask(name),), (topics.answer(name),))
            for name in self.settings.operators
        ]
        for name, workers in self.settings.devices.items():
            write = (topics.left(name), *(topics.up(name, worker) for worker in workers))
            down = (topics.down(name, worker) for worker in workers)
            rules.append(Rule(name, write, (topics.state, topics.all, f"{topics.model}/#", *down)))
        return rules

    # -- what kinds of brokers do in their own ways ---------------------------------------------

    @abstractmethod
    def write(self) -> None:
        """Write the files of a new broker."""

    @abstractmethod
    def _write_rules(self) -> None:
        """Write who may write and read what."""

    @abstractmethod
    def _put(self, issued: Sequence[Credentials]) -> None:
        """Let users in with new credentials, at a broker that runs, too."""

    @abstractmethod
    def _lock_out(self, name: str) -> bool:
        """Let a user in no more; return whether it is not connected any longer."""

    def list_commands(self, revoked: Sequence[str] = ()) -> list[str]:
        """Return what must be run where the broker is, after users have changed."""
        del revoked
        return []

    @abstractmethod
    def start(self) -> subprocess.Popen[bytes]:
        """Start the broker, and wait until it accepts connections."""
