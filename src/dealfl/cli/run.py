"""`dealfl run`: learners learn handwritten digits, forget some of them, and prove it."""

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dealfl.report.forgetting import Outcome

__all__ = ["add_parser"]

_EPILOG = """\
examples:
  dealfl run                   forget 100 of 1,397 digits, one at a time
  dealfl run --forget 500      forget more of them
  dealfl run --json            the same as one JSON object
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `run`."""
    parser = subparsers.add_parser(
        "run",
        help="learn, forget and prove it, on handwritten digits",
        description=(
            "Let three learners learn handwritten digits, forget some one at a time, and compare "
            "their digests with those of training from scratch on what is left."
        ),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--forget", type=int, default=100, metavar="N", help="how many (100)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the split (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.report.forgetting import LEARNERS_SHOWN, run, split_digits

    digits = split_digits(arguments.seed, arguments.forget)
    if not arguments.json:
        print(
            f"{digits.learned:,} handwritten digits to learn, {digits.forgotten} of them to forget"
            f" again one at a time, {digits.tested} others to test with.\n"
        )
    outcomes = []
    for learner in LEARNERS_SHOWN:
        outcome = run(digits, learner)
        outcomes.append(outcome)
        if not arguments.json:
            print(_told(outcome), flush=True)
    if arguments.json:
        print(json.dumps({"outcomes": [outcome.as_dict() for outcome in outcomes]}, indent=2))
    else:
        print(_verdict(outcomes))
    return 0 if all(outcome.exact for outcome in outcomes) else 1


def _told(outcome: "Outcome") -> str:
    sign = "=" if outcome.forgotten_digest == outcome.scratch_digest else "≠"
    back = "=" if outcome.relearned_digest == outcome.learned_digest else "≠"
    speed = outcome.retrain_s / outcome.forget_one_s
    return f"""\
{outcome.learner}
  learned       {outcome.learned_digest[:16]}…  accuracy {outcome.accuracy:.4f}
  forgot        {outcome.forgotten_digest[:16]}…  accuracy {outcome.accuracy_after:.4f}, \
{outcome.forget_one_s * 1e3:.2f} ms each
  from scratch {sign}{outcome.scratch_digest[:16]}…  training anew takes \
{outcome.retrain_s * 1e3:.1f} ms, {speed:.0f}× as long as forgetting one
  learned back {back}{outcome.relearned_digest[:16]}…
"""


def _verdict(outcomes: "list[Outcome]") -> str:
    if all(outcome.exact for outcome in outcomes):
        return (
            "Every digest after forgetting is, bit for bit, that of a model which never saw the\n"
            "forgotten digits; learning them again gives the first digest back."
        )
    names = ", ".join(outcome.learner for outcome in outcomes if not outcome.exact)
    return f"NOT EXACT: {names}. This is a bug; please report it with the seed."
