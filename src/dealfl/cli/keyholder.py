"""`dealfl keyholder`: the second party of a private job, run by somebody else than the server.

examples:
  dealfl keyholder init vault --cohort 5              create a keyholder: sums of at least 5 workers
  dealfl keyholder enrol vault w1 w2 w3               a file for each worker, to hand over in person
  dealfl keyholder enrol vault --server               a file for the server
  dealfl keyholder enrol vault w2 --again             a new file, if the first is lost
  dealfl keyholder run vault --broker keyholder.toml  answer the server's requests
  dealfl keyholder restore vault --from copies/vault/keyholder.db   after a loss: a new key for all

The keyholder never sees an update. It adds the masks of a cohort, each once, if at least --cohort
workers bring examples that were in no sum before. The job names it in its section [privacy].
`dealfl backup vault --to copies/vault` copies its journal while it runs.
"""

import argparse
from pathlib import Path

from dealfl.cli.printing import JSON, command, option, print_result, say_state


def _init(arguments: argparse.Namespace) -> int:
    from dealfl.keyholder import KeyholderFolder, KeyholderSettings

    folder = KeyholderFolder(arguments.folder)
    settings = KeyholderSettings(
        name=arguments.name, cohort=arguments.cohort, alone_after_s=arguments.alone_after
    )
    folder.create(settings)
    with folder.open() as keyholder:
        key = keyholder.key_name
    text = (
        f"Wrote {arguments.folder}: the keyholder {arguments.name!r} with the key {key}.\n"
        f"Enrol the server:  dealfl keyholder enrol {arguments.folder} --server\n"
        f"Enrol the workers: dealfl keyholder enrol {arguments.folder} NAME…"
    )
    plain = {"folder": str(arguments.folder), "key": key, "cohort": arguments.cohort}
    return print_result(arguments, plain, text)


def _enrol(arguments: argparse.Namespace) -> int:
    from dealfl.errors import BadInput
    from dealfl.keyholder import SERVER_NAME, KeyholderFolder

    if arguments.server == bool(arguments.names):
        raise BadInput("give the names of workers, or --server")
    names = [SERVER_NAME] if arguments.server else arguments.names
    folder = KeyholderFolder(arguments.folder)
    files = folder.enrol(names, server=arguments.server, again=arguments.again)
    return _print_files(arguments, files)


def _print_files(arguments: argparse.Namespace, files: list[Path]) -> int:
    lines = [
        f"Hand {path} to the operator of {path.stem}, not over the server or the broker."
        for path in files
    ]
    return print_result(arguments, {"files": [str(path) for path in files]}, "\n".join(lines))


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.keyholder import KeyholderFolder
    from dealfl.network import hold, read_credentials, run_until_stopped
    from dealfl.storage import log_to

    folder = KeyholderFolder(arguments.folder)
    brokers = [read_credentials(path) for path in arguments.brokers]

    with log_to(arguments.folder / "log.jsonl"):
        run_until_stopped(lambda stopped: hold(folder, brokers, stopped, say_state))
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    from dealfl.keyholder import KeyholderFolder

    files = KeyholderFolder(arguments.folder).restore(arguments.backup)
    return _print_files(arguments, files)


_FOLDER = option("folder", type=Path, help="folder of the keyholder")

COMMAND = command(
    "run the second party of a private job, which opens sums of cohorts only",
    description="Create the keyholder of a private job, enrol its members, run it.",
    doc=__doc__,
    actions={
        "init": command(
            "create a keyholder",
            _FOLDER,
            option("--name", default="keyholder", help="as in the job and at the broker"),
            option("--cohort", type=int, default=5, metavar="T", help="workers in a sum, at least"),
            option(
                "--alone-after",
                type=float,
                default=0.0,
                metavar="SECONDS",
                help="time after which fewer will do; 0 (default): never",
            ),
            JSON,
            run=_init,
        ),
        "enrol": command(
            "write the files that workers and the server need",
            _FOLDER,
            option("names", nargs="*", metavar="NAME", help="worker"),
            option("--server", action="store_true", help="the server of the job"),
            option("--again", action="store_true", help="replace an enrolment"),
            JSON,
            run=_enrol,
        ),
        "run": command(
            "answer the requests of the server, over MQTT",
            _FOLDER,
            option(
                "--broker",
                dest="brokers",
                action="append",
                required=True,
                type=Path,
                metavar="FILE",
                help="credentials of the keyholder, from `dealfl broker enrol`; can be repeated",
            ),
            run=_run,
        ),
        "restore": command(
            "draw a new key after a loss, and enrol everybody again",
            _FOLDER,
            option("--from", dest="backup", type=Path, metavar="FILE", help="copy of keyholder.db"),
            JSON,
            run=_restore,
        ),
    },
)
