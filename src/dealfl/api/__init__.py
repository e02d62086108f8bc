"""The front door: a fleet from data or from a job, runs, comparisons, results.

`import dealfl` offers what is here; the commands `run`, `simulate` and `job init` call it.
"""

from dealfl.api.describing import Records
from dealfl.api.fleet import Fleet
from dealfl.api.proposing import propose
from dealfl.api.result import Result
from dealfl.api.running import compare, run, sweep, sweep_settings
from dealfl.runs import Interrupted

__all__ = [
    "Fleet", "Interrupted", "Records", "Result", "compare", "propose", "run", "sweep",
    "sweep_settings",
]  # fmt: skip
