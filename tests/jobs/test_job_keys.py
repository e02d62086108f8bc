"""A key that is misspelt is told with its line and the one that was meant; the page lists all."""

import re
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.settings import toml_document
from dealfl.simulate import SECTIONS, describe_keys
from tests.jobs.foreign_files import houses, iris, ratings, write

ROOT = Path(__file__).parents[2]

FLEET = """
[[devices]]
count = 2
device = "phone"
capacity_j = 40_000.0
battery = 1.0
charging_share = 0.0
operations_per_s = 1e8
joules_per_operation = 1e-9
wake_j = 0.0

[data]
partition = "by_owner"
rows = 0
test_share = 0.2

[arrival]
pattern = "steady"
initial_share = 0.5
examples_per_hour = 1.0
batch = 1

[availability]
kind = "daynight"
from_h = 0
to_h = 24
spread_h = 0
start_h = 0

[faults]
dropout_share = 0
straggler_share = 0
straggler_factor = 1
loss = 0
repetition = 0
min_delay_s = 0
max_delay_s = 0

[rewards]
speed = 1.0
volume = 1.0
energy = 1.0
half_time = 0.05
half_energy_j = 0.3

[selection]
seed = 1
"""

TABLE = """\
[job]
name = "houses"
learner = "tikhonov"
scheme = "deal"
forget_fraction = "0.02"
rounds = 2
workers_per_round = 2
over_select = 1.0
ttl_s = 60
selector = "uniform"
presence_timeout_s = 180
retry_after_s = 30
battery_budget = 0.02
tolerance = 0
patience = 3
evaluate_every = 1
max_h = 168
seed = 0

[source]
file = "houses.csv"
format = "csv"
target = "price"
target_bound = 512
owner = "owner"
time = "sold"
delimiter = ","
decimal_comma = false
header = true
skip_lines = 0
encoding = "utf-8"

[source.columns]
rooms = { low = 0, high = 16, missing = 3 }
colour = { words = ["blue", "green", "red"], missing = "red" }

[features]
map = "thermometer"
low = 0
high = 16
levels = 4

[learner]
penalty = 0.5
feature_bound = 1
target_bound = 512
fraction_bits = 20
solver = "auto"
intercept = true
clip = false
"""

RATINGS = """\
[job]
learner = "personalized_pagerank"

[source]
file = "ratings.csv"
format = "ratings"
owner = "user"
item = "item"
rating = "rating"
liked_from = 4
time = "timestamp"
first_item = 1
last_item = 20
delimiter = ","
header = true
"""

LIBSVM = """\
[job]
learner = "neighbors"

[source]
file = "small.libsvm"
format = "libsvm"
n_features = 2
low = 0
high = 4
classes = [1, 2]
encoding = "utf-8"

[features]
map = "relu"
width = 16
seed = 1
low = 0
high = 4
steps = 4
connections = 2
bias = 2
clip = 255

[learner]
k = 3
tables = 4
bits = 20
vote_bits = 4
seed = 1
min_bucket = 3
digits = 1
direction_features = 0
enough = 8
"""

BINS = """\
[job]
[source]
file = "iris.csv"
target = "label"
classes = ["setosa", "virginica"]
[source.columns]
length = { low = 0, high = 8 }
width = { low = 0, high = 4 }
[features]
map = "bins"
low = 0
high = 8
bins = 4
columns = [0]
bound = 4
[learner]
penalty = 2
"""

FULL = {"table": TABLE, "ratings": RATINGS, "libsvm": LIBSVM, "bins": BINS}


def _files(folder: Path) -> None:
    write(folder, "houses.csv", houses())
    write(folder, "ratings.csv", ratings())
    write(folder, "iris.csv", iris())
    write(folder, "small.libsvm", "1 1:1 2:3\n2 1:4\n" * 20)


def _fleet(name: str) -> str:
    """Return an example; only owners and only tables are dealt out by owner."""
    text = FULL[name] + FLEET
    return text if name == "table" else text.replace('"by_owner"', '"uniform"')


def _keys() -> list[tuple[str, int, str]]:
    """Return the example, the line and the name of every key, those of inline tables as well."""
    found = []
    for name in FULL:
        for number, line in enumerate(_fleet(name).split("\n"), 1):
            if number > len(FULL[name].split("\n")) and name != "table":
                continue  # the fleet is the same in all
            found += [(name, number, key) for key in re.findall(r"([\w]+) = ", line)]
            found += [(name, number, key) for key in re.findall(r"^\[+([\w.]+)\]+$", line)]
    return found


def _misspelt(key: str) -> str:
    return key[:-1] + key[-1] * 2 if len(key) > 1 else key + "q"


@pytest.mark.parametrize("name", FULL)
def test_the_examples_run_as_they_are(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(tmp_path)
    job = write(tmp_path, "job.toml", _fleet(name))
    assert main(["simulate", str(job), "--set", "job.rounds=1"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(("name", "number", "key"), _keys())
def test_every_key_that_is_misspelt_is_reported_with_its_line_and_the_nearest_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, number: int, key: str
) -> None:
    _files(tmp_path)
    lines = _fleet(name).split("\n")
    wrong = _misspelt(key)
    lines[number - 1] = re.sub(rf"\b{re.escape(key)}\b", wrong, lines[number - 1], count=1)
    job = write(tmp_path, "job.toml", "\n".join(lines))
    assert main(["simulate", str(job)]) == 2
    told = capsys.readouterr().err
    shown, meant = wrong.rpartition(".")[2], key.rpartition(".")[2]
    assert f"job.toml, line {number}: " in told
    assert repr(shown) in told or f"[{shown}]" in told
    assert f"did you mean {meant!r}?" in told


def test_a_misspelt_key_that_chooses_is_reported_even_after_those_that_depend_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(tmp_path)
    wrong = '[availability]\nup_s = 1\ndown_s = 1\nkindd = "markov"\n'
    text = '[job]\ndataset = "digits"\n[[devices]]\ncount = 2\n' + wrong
    assert main(["simulate", str(write(tmp_path, "job.toml", text))]) == 2
    assert "line 8: no key 'kindd' in availability; did you mean 'kind'?" in capsys.readouterr().err


def test_a_column_whose_name_must_be_quoted_is_reported_with_its_own_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(tmp_path)
    text = _fleet("table").replace("rooms = {", '"rooms (in all)" = {')
    number = text[: text.index('"rooms (in all)"')].count("\n") + 1
    assert main(["simulate", str(write(tmp_path, "job.toml", text))]) == 2
    assert f"line {number}: houses.csv has no column 'rooms (in all)'" in capsys.readouterr().err


def test_the_page_lists_every_key_as_the_sections_have_them() -> None:
    page = (ROOT / "docs" / "jobs.md").read_text()
    marked = page.partition("<!-- below: dealfl job keys; made by `make docs` -->\n")[2]
    assert marked == describe_keys(), "write the output of `dealfl job keys` below the mark"


def test_every_key_has_a_description() -> None:
    rows = re.findall(r"^\| `([\w.]+)` .* \| (.*) \|$", describe_keys(), re.MULTILINE)
    assert len(rows) > 150
    assert [key for key, meaning in rows if not meaning.strip()] == []


def test_common_keys_are_listed_first_and_once() -> None:
    common, _, advanced = describe_keys().partition("### Advanced keys")
    keys = re.findall(r"^\| `(\w+)\.(\w+)` ", common, re.MULTILINE)
    assert 25 <= len(keys) == len(set(keys)) <= 35
    assert ("job", "rounds") in keys
    assert ("devices", "count") in keys
    job = advanced.partition("#### [job]")[2].partition("####")[0]
    assert "`min_workers`" in job
    assert "`rounds`" not in job


@pytest.mark.parametrize(
    ("section", "key"), [("job", "ronds"), ("learner", "penlty"), ("arrival", "patern")]
)
def test_a_misspelt_key_is_named_before_a_section_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], section: str, key: str
) -> None:
    tables: dict[str, dict[str, object]] = {"job": {"dataset": "digits"}}
    tables.setdefault(section, {})[key] = 3
    assert main(["simulate", str(write(tmp_path, "job.toml", toml_document(tables)))]) == 2
    assert f"no key '{key}' in {section}; did you mean" in capsys.readouterr().err


def test_the_page_has_every_section() -> None:
    page = describe_keys()
    for name in SECTIONS:
        assert f"[{name}]" in page, f"the section [{name}] is not listed"


def test_the_keys_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "keys"]) == 0
    assert capsys.readouterr().out == describe_keys()
