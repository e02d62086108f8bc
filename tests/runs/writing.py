"""A server that writes to a ledger without a pause: `python -m tests.runs.writing LEDGER`."""

import sys

from dealfl.server import Ledger
from tests.federation.parts import announce, joined, update

NAMES = ("anna", "bob", "carl")


def main(path: str) -> None:
    server = joined(*NAMES, ledger=Ledger(path))
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    for number in range(1, 1_000_000):
        now_s = float(number)
        server.handle([update(number, name=name, round=number) for name in NAMES], now_s)
        server.handle([announce(name) for name in NAMES], now_s + 0.5)


if __name__ == "__main__":
    main(sys.argv[1])
