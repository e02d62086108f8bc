"""Small fleets for the tests."""

import dataclasses
from typing import Any

from dealfl.settings import Document
from dealfl.simulate import FleetSpec, read_fleet

TEXT = """\
[job]
dataset = "digits"
learner = "naive_bayes"
rounds = 8
workers_per_round = 6
ttl_s = 30.0

[[devices]]
count = 12
operations_per_s = 1e6
wake_j = 0.5

[[devices]]
count = 3
device = "slow phone"
operations_per_s = 1e5

[data]
partition = "label_skewed"
concentration = 0.5
rows = 600

[arrival]
pattern = "each_round"
initial_share = 0.3
examples_per_round = 2

[availability]
kind = "markov"
up_s = 600.0
down_s = 60.0

[faults]
dropout_share = 0.1
straggler_share = 0.1
loss = 0.1
repetition = 0.2
max_delay_s = 4.0
"""


Changes = dict[str, Any]


def document(changes: Changes | None = None, sections: Changes | None = None) -> Document:
    """Return the fleet above with other values for some dotted keys, after other sections.

    Its model is tested at the end only, unless a test says otherwise.
    """
    made = Document.parse(TEXT, "fleet.toml").replaced("job.evaluate_every", 1000)
    made = dataclasses.replace(made, tables={**made.tables, **(sections or {})})
    for key, value in (changes or {}).items():
        made = made.replaced(key, value)
    return made


def fleet(changes: Changes | None = None, sections: Changes | None = None) -> FleetSpec:
    """Return it as it is simulated."""
    return read_fleet(document(changes, sections))


def calm_fleet(changes: Changes | None = None) -> FleetSpec:
    """Return it in a world where nothing goes wrong but what the changes say."""
    calm = {"availability": {"kind": "always"}, "faults": {"max_delay_s": 4}}
    return fleet(changes, calm)
