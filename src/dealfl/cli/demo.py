"""`dealfl demo`: a federation of real processes on this machine, a kill, an erasure, a proof.

examples:
  dealfl demo              about half a minute; mosquitto is needed
  dealfl demo --private    the same with a keyholder: the server sees sums of workers only
  dealfl demo --json       print the two digests as one JSON object
"""

import argparse
import dataclasses
import sys

from dealfl.cli.printing import JSON, command, option, print_result, say


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.runs import run_demo

    proof = run_demo(lambda line: say(line, file=sys.stderr, flush=True), private=arguments.private)
    verdict = "equal: nothing of ann remains" if proof.holds else "DIFFERENT: this is a defect"
    text = (
        f"\nserver, after erasing ann ({proof.erased} rows)   {proof.federated}\n"
        f"training without ann ({proof.examples} rows)       {proof.central}\n"
        f"{verdict} ({proof.elapsed_s:.0f} s)"
    )
    print_result(arguments, dataclasses.asdict(proof) | {"holds": proof.holds}, text)
    return 0 if proof.holds else 1


COMMAND = command(
    "run broker, server and ten workers on this machine, and forget a person",
    option("--private", action="store_true", help="with a keyholder: the server sees sums only"),
    JSON,
    run=_run,
    description="Start a broker, a server and ten worker processes on this machine, let them "
    "learn, kill one, erase a person, and compare the server's digest with training without her. "
    "Nothing keeps running, and no file is left.",
    doc=__doc__,
)
