"""The front door: a fleet from data or from a job, runs, comparisons, results.

`import dealfl` offers what is here; the commands `run`, `simulate` and `job init` call it.
"""

from dealfl.api.fleet import Fleet, propose
from dealfl.api.result import Records, Result
from dealfl.api.running import compare, kept_in, run, sweep, sweep_settings
from dealfl.runs import Interrupted

__all__ = [
    "Fleet",
    "Interrupted",
    "Records",
    "Result",
    "compare",
    "kept_in",
    "propose",
    "run",
    "sweep",
    "sweep_settings",
]
