"""`python -m dealfl.cli`, where the command itself is not on the path."""

import sys

from dealfl.cli import main

sys.exit(main())
