"""A fleet file is read strictly, and an error says where and what would do."""

from decimal import Decimal
from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.settings import Document
from dealfl.simulate import read_fleet
from tests.simulate.fleets import TEXT, document, fleet

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleets"


def refused(old: str, new: str) -> str:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    with pytest.raises(BadInput) as refusal:
        read_fleet(Document.parse(text, "fleet.toml"))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "meant"),
    [
        ("rounds = 8", "ronds = 8", 4, "ronds", "rounds"),
        ("[job]", "[jbo]", 1, "jbo", "job"),
        ("[[devices]]", "[[device]]", 8, "device", "devices"),
        ("count = 3", "cuont = 3", 14, "cuont", "count"),
        ("concentration = 0.5", "concentraton = 0.5", 20, "concentraton", "concentration"),
        ("initial_share", "intial_share", 25, "intial_share", "initial_share"),
        ("down_s", "dwon_s", 31, "dwon_s", "down_s"),
        ("loss = 0.1", "lose = 0.1", 36, "lose", "loss"),
        ("ttl_s", '"tl_s"', 6, "tl_s", "ttl_s"),
    ],
)
def test_a_misspelt_key_is_reported_with_its_line_and_the_one_that_was_meant(
    old: str, new: str, line: int, key: str, meant: str
) -> None:
    told = refused(old, new)
    assert told.startswith(f"fleet.toml, line {line}: ")
    assert key in told
    assert f"did you mean {meant!r}?" in told


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rounds = 8", 'rounds = "ten"', "line 4: job.rounds is 'ten'; it takes a whole number"),
        ("rounds = 8", "rounds = 0", "line 4: job.rounds is 0; it takes a whole number ≥ 1"),
        ("rounds = 8", "rounds = true", "line 4: job.rounds is True; it takes"),
        ("rounds = 8", "rounds = 8.5", "line 4: job.rounds is 8.5; it takes a whole number"),
        ("rounds = 8", "rounds = [8]", "line 4: job.rounds is [8]; it takes"),
        ("ttl_s = 30.0", "ttl_s = 0", "line 6: job.ttl_s is 0; it takes a number > 0"),
        ("ttl_s = 30.0", "ttl_s = inf", "line 6: job.ttl_s is Infinity; it takes a number"),
        ("ttl_s = 30.0", "ttl_s = nan", "line 6: job.ttl_s is NaN; it takes a number"),
        ("ttl_s = 30.0", "forget_fraction = 1.5", "line 6: job.forget_fraction is 1.5; it takes a"),
        ("ttl_s = 30.0", 'forget_fraction = "1/3"', "job.forget_fraction is '1/3'; it takes a"),
        ("ttl_s = 30.0", 'scheme = "dael"', "line 6: job.scheme is 'dael'; it takes one of"),
        ("ttl_s = 30.0", 'selector = "best"', 'is \'best\'; it takes one of "discounted"'),
        ("ttl_s = 30.0", "over_select = 0.5", "job.over_select is 0.5; it takes a number ≥ 1"),
        ("ttl_s = 30.0", "seed = -1", "line 6: job.seed is -1; it takes a whole number ≥ 0"),
        ('"digits"', '"mnist"', "line 2: job.dataset is 'mnist'; it takes one of"),
        ('"naive_bayes"', '"tikhonov"', "line 3: job.learner is 'tikhonov'; digits takes: "),
        ("count = 3", "count = 0", "line 14: devices.2.count is 0; it takes"),
        ("count = 3", "count = 100_000", "100012 workers are too many; the maximum is 100000"),
        ("concentration = 0.5", "concentration = 0", "line 20: data.concentration is 0; it takes"),
        ("concentration = 0.5\n", "", "line 18: the key 'concentration' is missing in data"),
        ('"label_skewed"', '"by_lable"', 'line 19: data.partition is \'by_lable\'; it takes one'),
        ('dataset = "digits"\n', "", "line 1: the key 'dataset' is missing in job"),
        ('kind = "markov"', 'kind = "markow"', "availability.kind is 'markow'; it takes one of"),
        ('kind = "markov"', 'kind = "always"', "line 30: no key 'up_s' in availability"),
        ('kind = "markov"', 'kind = "iid"', "availability.kind is 'iid'; it takes one of"),
        ('"each_round"', '"now_and_then"', "line 24: arrival.pattern is 'now_and_then'; it takes"),
        ("loss = 0.1", "loss = 1.1", "line 36: faults.loss is 1.1; it takes a number from 0 to 1"),
        ("loss = 0.1", "min_delay_s = 9", "line 36: faults.min_delay_s is 9; it must be ≤"),
        ("[faults]", "faults = 3\n[fautls]", "fautls"),
        ("rounds = 8", "rounds = ", "fleet.toml is not TOML: Invalid value (at line 4, column 10)"),
    ],
)  # fmt: skip
def test_a_bad_value_is_reported_with_key_line_value_and_what_would_do(
    old: str, new: str, told: str
) -> None:
    assert told in refused(old, new)


def test_a_section_that_is_no_section_is_refused() -> None:
    for text in ("job = 3", "[[job]]"):
        with pytest.raises(BadInput, match="it takes a section of keys and values"):
            read_fleet(Document.parse(f"{text}\n[[devices]]\ncount = 1", "fleet.toml"))
    with pytest.raises(BadInput, match=r"fleet\.toml: there are no"):
        read_fleet(Document.parse('[job]\ndataset = "digits"', "fleet.toml"))


def test_labels_are_wanted_only_where_there_are_some() -> None:
    with pytest.raises(BadInput, match="movielens has no labels"):
        fleet({"job.dataset": "movielens", "job.learner": "personalized_pagerank"})


def test_a_value_that_was_set_is_reported_as_such() -> None:
    with pytest.raises(BadInput, match=r"^the value set for devices\.1\.count: .* is 0; it takes"):
        fleet({"devices.1.count": 0})
    with pytest.raises(BadInput, match="'3' is not a number from 1 to 2"):
        document({"devices.3.count": 1})
    for key in ("rounds", "devices.count", "job."):
        with pytest.raises(BadInput, match="not a key of a section"):
            document({key: 1})
    assert fleet({"devices.1.count": 4}).workers == 7
    assert fleet().workers == 15, "the original was changed"


def test_the_fraction_to_forget_stays_an_exact_decimal() -> None:
    assert fleet({"job.forget_fraction": Decimal("0.1")}).job.forget_fraction == "0.1"
    parsed = Document.parse(TEXT.replace("rounds = 8", "forget_fraction = 0.020"), "fleet.toml")
    assert read_fleet(parsed).job.forget_fraction == "0.020"


def test_a_file_that_is_not_there_or_no_text_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_fleet(Document.read(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not UTF-8 text"):
        read_fleet(Document.read(tmp_path / "binary.toml"))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_can_be_read(path: Path) -> None:
    assert read_fleet(Document.read(path)).workers >= 6


@pytest.mark.parametrize(
    ("text", "timeout_s"),
    [
        ("", 180),
        ("[faults]\nannounce_every_s = 10", 30),
        ("[job]\npresence_timeout_s = 7\n[faults]\nannounce_every_s = 10", 7),
    ],
)
def test_a_worker_is_asleep_after_three_announcements_or_the_stated_time(
    text: str, timeout_s: float
) -> None:
    document = Document.parse(f"{text}\n[[devices]]\ncount = 2\n", "job.toml")
    fleet = read_fleet(document.replaced("job.dataset", "digits"))
    assert fleet.job.rules.presence_timeout_s == timeout_s
