"""`dealfl broker`: the MQTT broker of a job: its files, its users, its process.

examples:
  dealfl broker init broker --job digits --host 192.168.1.7   write the files of a broker with TLS
  dealfl broker init second --like broker --host 192.168.1.8  write a second broker of the job
  dealfl broker init cluster --job digits --kind rabbitmq --host n1 --node n2 --node n3
  dealfl broker init north --parent north.toml                write the broker of a region
  dealfl broker run broker                                    start mosquitto with them
  dealfl broker enrol broker w1 w2 w3                         admit devices: one file for each
  dealfl broker enrol broker hub --workers w4,w5              admit a gateway for two workers
  dealfl broker enrol broker ann --operator                   admit a person who may ask the server
  dealfl broker list broker                                   list devices and operators
  dealfl broker revoke broker w2                              lock a device out at once
  dealfl broker renew broker                                  renew the broker's certificate

The folder contains secrets: its files can be read by their owner only. Copy devices/NAME.toml to
the device, and nothing else.
"""

import argparse
import shlex
import signal
import sys
import time
from pathlib import Path

from dealfl.cli.printing import JSON, command, format_table, option, port, print_result, say
from dealfl.errors import BadInput

_PAUSE_S = 1.0  # before a broker that crashed starts again


def _init(arguments: argparse.Namespace) -> int:
    from dealfl.network import (
        BrokerSettings,
        Credentials,
        create_broker,
        open_broker,
        read_credentials,
        write_credentials,
    )

    tls = not arguments.passwords
    if arguments.kind == "mosquitto" and arguments.nodes:
        raise BadInput("--node is for --kind rabbitmq; mosquitto has one node")
    like: BrokerSettings | Credentials | None = None
    if arguments.like:
        like = open_broker(arguments.like).settings
    elif arguments.parent:
        like = read_credentials(arguments.parent)
    settings = BrokerSettings(
        job=like.job if like else arguments.job,
        owners_key=like.owners_key if like else "",
        host=arguments.host,
        port=arguments.port or (8883 if tls else 1883),
        tls=tls,
        listen=arguments.listen or arguments.host,
        kind=arguments.kind,
        others=tuple(arguments.nodes),
    )
    broker = create_broker(arguments.folder, settings)
    server = arguments.folder / "server.toml"
    write_credentials(server, broker.admit_server())
    folder = shlex.quote(str(arguments.folder))
    start = f"dealfl broker run {folder}"
    if arguments.kind == "rabbitmq":
        start = f"copy {folder}/rabbitmq/* to /etc/rabbitmq of each node; restart rabbitmq-server"
    text = "\n".join([
        f"Wrote {arguments.folder}. The server's credentials are in {server}.",
        f"Start the broker: {start}",
        *_explain(broker.list_commands()),
        f"Admit a device:   dealfl broker enrol {folder} NAME",
    ])  # fmt: skip
    plain = {"folder": str(arguments.folder), "server": str(server)}
    return print_result(arguments, plain, text)


def _start(arguments: argparse.Namespace) -> int:
    from dealfl.network import open_broker

    broker = open_broker(arguments.folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    where = f"{broker.settings.listen}:{broker.settings.port}"
    process = None
    try:
        while True:
            process = broker.start()
            say(f"dealfl: mosquitto listens on {where}; Ctrl-C stops it", file=sys.stderr)
            code = process.wait()
            say(f"dealfl: mosquitto ended with code {code}; it starts again", file=sys.stderr)
            time.sleep(_PAUSE_S)
    except KeyboardInterrupt:
        if process is not None:
            process.terminate()
            process.wait()
    return 0


def _enrol(arguments: argparse.Namespace) -> int:
    from dealfl.network import open_broker, write_credentials

    workers = tuple(name for name in arguments.workers.split(",") if name)
    if workers and (arguments.operator or len(arguments.names) > 1):
        raise BadInput("--workers is for one gateway; enrol operators and other devices separately")
    broker = open_broker(arguments.folder)
    devices = arguments.folder / "devices"
    devices.mkdir(mode=0o700, exist_ok=True)
    admitted = broker.enrol(arguments.names, operator=arguments.operator, workers=workers)
    files = {user.user: devices / f"{user.user}.toml" for user in admitted}
    for credentials in admitted:
        write_credentials(files[credentials.user], credentials)
    to = "operator" if arguments.operator else "device"
    lines = [f"Copy {path} to the {to}." for path in files.values()]
    text = "\n".join([*lines, *_explain(broker.list_commands())])
    plain = {"files": {name: str(path) for name, path in files.items()}}
    return print_result(arguments, plain, text)


def _explain(commands: list[str]) -> list[str]:
    return [f"Run on a node:    {command}" for command in commands]


def _revoke(arguments: argparse.Namespace) -> int:
    from dealfl.network import open_broker

    broker = open_broker(arguments.folder)
    lines = []
    for name in arguments.names:
        running = broker.revoke(name)
        (arguments.folder / "devices" / f"{name}.toml").unlink(missing_ok=True)
        lines.append(f"{name} can no longer connect." if running else f"{name} is revoked.")
    commands = broker.list_commands(revoked=arguments.names)
    if not running and not commands:
        lines.append("The broker does not run here: restart it, or send SIGHUP to mosquitto.")
    lines += _explain(commands)
    plain = {"revoked": arguments.names, "in_effect": running}
    return print_result(arguments, plain, "\n".join(lines))


def _renew(arguments: argparse.Namespace) -> int:
    from dealfl.network import open_broker, write_credentials

    server = arguments.folder / "server.toml"
    write_credentials(server, open_broker(arguments.folder).renew())
    text = (
        f"The broker has a new certificate, and the server new credentials in {server}.\n"
        "Restart both. Enrol devices and operators again before their certificates expire."
    )
    return print_result(arguments, {"server": str(server)}, text)


def _list(arguments: argparse.Namespace) -> int:
    from dealfl.network import open_broker

    settings = open_broker(arguments.folder).settings
    rows = [
        *((name, "operator", "") for name in settings.operators),
        *(
            (name, "device" if workers == (name,) else "gateway", ", ".join(workers))
            for name, workers in settings.devices.items()
        ),
    ]
    plain = [{"name": name, "kind": kind, "workers": workers} for name, kind, workers in rows]
    return print_result(arguments, plain, format_table([("NAME", "KIND", "WORKERS"), *rows]))


_FOLDER = option("folder", type=Path, help="folder of the broker")
_NAMES = option("names", nargs="+", metavar="NAME", help="name of a user")


def _add_job(parser: argparse._ActionsContainer) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--job", help="name of the job")
    which.add_argument(
        "--like", type=Path, metavar="FOLDER", help="another broker of the same job, for safety"
    )
    which.add_argument(
        "--parent", type=Path, metavar="FILE", help="credentials of a region: write its own broker"
    )


COMMAND = command(
    "write, run and manage the MQTT broker of a job",
    description="Write the files of an MQTT broker for a job, start it, admit devices.",
    doc=__doc__,
    actions={
        "init": command(
            "write the files of a new broker",
            _add_job,
            option("--host", default="127.0.0.1", help="address by which devices reach it"),
            option("--listen", default="", help="address to listen on (default: the host)"),
            port("port (default: 8883, or 1883)"),
            option(
                "--kind", default="mosquitto", help="mosquitto, or rabbitmq: a clustered broker"
            ),
            option(
                "--node",
                dest="nodes",
                action="append",
                default=[],
                metavar="HOST",
                help="another node of a cluster of RabbitMQ; can be repeated",
            ),
            option(
                "--passwords",
                action="store_true",
                help="passwords without TLS; for one machine only",
            ),
            _FOLDER,
            JSON,
            run=_init,
        ),
        "run": command("run mosquitto until Ctrl-C", _FOLDER, run=_start),
        "enrol": command(
            "admit devices, gateways or operators",
            _FOLDER,
            _NAMES,
            option("--operator", action="store_true", help="a person who may ask the server"),
            option("--workers", default="", help="names of a gateway's workers: w1,w2,…"),
            JSON,
            run=_enrol,
        ),
        "revoke": command("lock users out", _FOLDER, _NAMES, JSON, run=_revoke),
        "renew": command("renew the certificates of broker and server", _FOLDER, JSON, run=_renew),
        "list": command("list the users", _FOLDER, JSON, run=_list),
    },
)
