"""`python -m dealfl` is the command `dealfl`."""

import sys

from dealfl.cli import main

if __name__ == "__main__":
    sys.exit(main())
