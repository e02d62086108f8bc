"""RabbitMQ 4, a clustered broker: its configuration, and its users with their topics.

The nodes are started by their own service. What they need is in the folder `rabbitmq`, which is
copied to /etc/rabbitmq of each. Users are kept by the cluster itself: after a change, `dealfl
broker` names the commands that bring it there, and any node takes them for all.

A user is the name in its certificate, and so is the id of its client: nobody takes over the session
of another. RabbitMQ checks no list of revoked certificates here. A revoked user no longer exists,
so its name is not given again. The nodes retain nothing, because each would for itself only.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dealfl.errors import BadInput
from dealfl.network.authority import Authority
from dealfl.network.broker import Broker
from dealfl.network.credentials import SERVER, Credentials
from dealfl.network.topics import Topics
from dealfl.storage import replace_file

_AT = "/etc/rabbitmq"
_PLUGINS = "[rabbitmq_mqtt, rabbitmq_auth_mechanism_ssl].\n"

_CONFIGURATION = """\
# Written by `dealfl broker init --kind rabbitmq`. Belongs to {at} of every node.
listeners.tcp = none
mqtt.listeners.tcp = none
mqtt.listeners.ssl.1 = {port}
ssl_options.cacertfile = {at}/authority.pem
ssl_options.certfile = {at}/broker.pem
ssl_options.keyfile = {at}/broker.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.3
ssl_cert_login_from = common_name
anonymous_login_user = none
default_user = unused
default_pass = {password}
mqtt.allow_anonymous = false
mqtt.ssl_cert_login = true
mqtt.ssl_cert_client_id_from = subject_alternative_name
mqtt.ssl_cert_login_san_type = dns
mqtt.retained_message_store = rabbit_mqtt_retained_msg_store_noop
mqtt.max_session_expiry_interval_seconds = 0
mqtt.max_packet_size_authenticated = 131072
mqtt.prefetch = 500
cluster_partition_handling = {partitions}
cluster_formation.peer_discovery_backend = classic_config
"""


class RabbitMQ(Broker):
    """The nodes of one cluster; devices and the server use any of them."""

    def write(self) -> None:
        """Write the files of a new cluster."""
        settings = self.settings
        if not settings.tls:
            raise BadInput(
                "RabbitMQ binds no client to a password, so a device could take over the session "
                "of another; leave --passwords out"
            )
        (self.folder / "rabbitmq").mkdir(mode=0o700, exist_ok=True)
        # a minority of three stops; of two, neither would be one
        partitions = "pause_minority" if len(settings.hosts) > 2 else "autoheal"
        text = _CONFIGURATION.format(
            at=_AT, port=settings.port, partitions=partitions, password=secrets.token_urlsafe(24)
        )
        for number, host in enumerate(settings.hosts, 1):
            text += f"cluster_formation.classic_config.nodes.{number} = rabbit@{host}\n"
        self._put_file("rabbitmq.conf", text)
        self._put_file("enabled_plugins", _PLUGINS)
        Authority.create(self.folder, settings.job, settings.hosts)
        self._copy_certificates()

    def renew(self) -> Credentials:
        """Return new credentials of the server, and renew the nodes' certificate."""
        renewed = super().renew()
        self._copy_certificates()
        return renewed

    def _copy_certificates(self) -> None:
        """Give the nodes their certificate, and not the key of the authority."""
        for name in ("authority.pem", "broker.pem", "broker.key"):
            self._put_file(name, (self.folder / name).read_text())

    def _put_file(self, name: str, text: str) -> None:
        replace_file(self.folder / "rabbitmq" / name, text, 0o600)

    # -- users ----------------------------------------------------------------------------------

    def _refuse_conflicts(self, names: Sequence[str], new: Any) -> None:  # noqa: ANN401
        super()._refuse_conflicts(names, new)
        for name in set(names) & set(self.settings.revoked):
            raise BadInput(
                f"{name!r} was revoked, and RabbitMQ would accept its old certificate with the "
                "new one; choose another name"
            )

    def _write_rules(self) -> None:
        definitions = self._define()
        self._put_file("definitions.json", json.dumps(definitions, indent=1))

    def _define(self) -> dict[str, Any]:
        """Return users and what they may do, as `rabbitmqctl import_definitions` takes them."""
        everything = f"^{_escape(Topics(self.settings.job).job_part)}\\."
        topics = {SERVER: (everything, everything)}
        for rule in self._rules():
            topics[rule.user] = _pattern(rule.write), _pattern(rule.read)
        return {
            "vhosts": [{"name": "/"}],
            "users": [{"name": name, "password_hash": "", "tags": []} for name in topics],
            "permissions": [{"user": name, "vhost": "/", **_queues(name)} for name in topics],
            "topic_permissions": [
                {"user": name, "vhost": "/", "exchange": "amq.topic", "write": write, "read": read}
                for name, (write, read) in topics.items()
            ],
        }

    def _put(self, issued: Sequence[Credentials]) -> None:
        """Change nothing: the definitions have the names, and the cluster needs no certificates."""

    def _lock_out(self, name: str) -> bool:
        self.settings = msgspec.structs.replace(
            self.settings, revoked=(*self.settings.revoked, name)
        )
        self.save(self.settings.devices, self.settings.operators)
        Authority(self.folder).revoke(name)
        return False

    def list_commands(self, revoked: Sequence[str] = ()) -> list[str]:
        """Return what must be run on a node, after `definitions.json` was copied to it."""
        if not revoked:
            return [f"rabbitmqctl import_definitions {_AT}/definitions.json"]
        return [
            command
            for name in revoked
            for command in (
                f"rabbitmqctl delete_user {name}",
                f"rabbitmqctl close_all_user_connections {name} revoked",
            )
        ]

    def start(self) -> subprocess.Popen[bytes]:
        """Refuse: a node is a service of its machine."""
        raise BadInput(
            f"nodes of RabbitMQ are services: copy the files in {self.folder / 'rabbitmq'} to "
            f"{_AT} of each, and run there: systemctl restart rabbitmq-server"
        )


def _queues(user: str) -> dict[str, str]:
    """Return what a user may do beside topics: have its own queues, and use the exchange."""
    queues = f"mqtt-subscription-{re.escape(user)}qos[01]"
    both = f"^(amq\\.topic|{queues})$"
    return {"configure": f"^{queues}$", "write": both, "read": both}


def _pattern(topics: Iterable[str]) -> str:
    """Return the expression of some topics; a pattern with wildcards matches none of it."""
    return f"^({'|'.join(map(_escape, topics))})$"


def _escape(topic: str) -> str:
    """Return the expression of a topic as RabbitMQ writes it, with `.` and `/` exchanged."""
    levels = [_level(level) for level in topic.split("/")]
    return "\\.".join(levels)


def _level(level: str) -> str:
    wild = {"+": "[0-9a-f]+", "#": "(#|[0-9a-z]+)"}  # an epoch, and the pieces of a model
    return wild.get(level) or re.escape(level.replace(".", "/"))
