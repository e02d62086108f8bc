"""Phones: what the paper's table says of them, and what is refused in a user's file."""

import re
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import dealfl.power
from dealfl.errors import BadInput, OutOfBounds, UnknownName
from dealfl.power import PHONES, BaseLoad, Phone, load_phone, phone
from dealfl.power.profiles import Quality

SHIPPED = Path(dealfl.power.__file__).parent / "phones"

PLAIN = """\
name = "mine"
model = "A phone of my own"
cycle_factor = 2

[battery]
capacity_mah = 4000
voltage_v = 3.85

[awake]
current_ma = 12.5

[wifi]
active_ma = 90
tail_s = 0.2

[screen]
on_ma = 100

[storage]
active_ma = 50
page_read_s = 0.0002
page_write_s = 0.001

[[clusters]]
name = "all"
cores = 2
points = [
  { frequency_khz = 500000, core_ma = 20 },
  { frequency_khz = 1000000, core_ma = 50, shared_ma = 2 },
]
"""


def load(tmp_path: Path, text: str) -> Phone:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_phone(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(BadInput) as error:
        load(tmp_path, text)
    assert "mine.toml" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "android", "cores", "max_ghz"),
    [
        ("honor", "8.0", 8, 2.11),
        ("lenovo", "5.0.2", 4, 1.04),
        ("zte", "5.1.1", 4, 1.09),
        ("mi", "5.1.1", 6, 1.44),
        ("nexus", "6.0", 4, 2.65),
    ],
)
def test_the_phones_are_those_of_the_papers_table(
    name: str, android: str, cores: int, max_ghz: float
) -> None:
    one = phone(name)
    assert (one.android, one.cores) == (android, cores)
    # the paper's clock of the Mi is that of its first cluster
    assert one.clusters[0 if name == "mi" else -1].points[-1].frequency_hz / 1e9 == pytest.approx(
        max_ghz, abs=0.006
    )


@pytest.mark.parametrize("name", PHONES)
def test_every_value_of_a_shipped_phone_says_where_it_comes_from(name: str) -> None:
    evidence = phone(name).evidence
    keys = {
        "cycle_factor", "battery.capacity_mah", "battery.voltage_v", "awake.current_ma",
        "wifi.active_ma", "wifi.tail_s", "screen.on_ma", "storage.active_ma",
        "storage.page_read_s", "storage.page_write_s", "clusters[0].frequencies",
        "clusters[0].currents",
    }  # fmt: skip
    assert keys <= set(evidence)
    for one in evidence.values():
        assert one.quality is not Quality.UNSTATED
        assert len(one.source) > 10
    assert evidence["cycle_factor"].quality is Quality.DECLARED


def test_the_shipped_files_are_the_known_phones() -> None:
    assert {path.stem for path in SHIPPED.glob("*.toml")} == set(PHONES)
    assert all(one.name == name for name, one in PHONES.items())


def test_units_are_si_inside() -> None:
    nexus = phone("nexus")
    assert nexus.battery.capacity_c == pytest.approx(3220 * 3.6)
    assert nexus.awake_a == pytest.approx(0.008)
    assert nexus.fastest.frequency_hz == 2_649_600_000
    assert nexus.fastest.core_a == pytest.approx(0.414)


def test_four_busy_cores_of_the_nexus_cost_what_its_device_tree_says() -> None:
    nexus = phone("nexus")
    one, four = (nexus.current_a(nexus.fastest, cores) for cores in (1, 4))
    assert four / one == pytest.approx(2.99)
    with pytest.raises(OutOfBounds, match="busy_cores is 5; cluster 'all' takes 1 to 4"):
        nexus.current_a(nexus.fastest, 5)


def test_a_clusters_cache_is_paid_once() -> None:
    honor = phone("honor")
    point = honor.fastest
    assert honor.current_a(point, 4) == pytest.approx(4 * point.core_a + point.shared_a)


def test_base_loads_add_up() -> None:
    honor = phone("honor")
    base_ma = [round(honor.base_a(base) * 1e3, 6) for base in BaseLoad]
    assert base_ma == [43, 43 + 128, 43 + 114, 43 + 128 + 114]


def test_phones_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        phone("mi").awake_a = 0  # type: ignore[misc]
    with pytest.raises(TypeError):
        PHONES["mi"] = phone("zte")  # type: ignore[index]


def test_the_error_of_an_unknown_phone_lists_the_known_phones() -> None:
    with pytest.raises(UnknownName, match="no phone called 'pixel'; known: honor, lenovo, mi"):
        phone("pixel")


def test_a_phone_of_ones_own_needs_no_evidence(tmp_path: Path) -> None:
    mine = load(tmp_path, PLAIN)
    assert (mine.name, mine.cores, mine.cycle_factor) == ("mine", 2, 2.0)
    assert mine.fastest.shared_a == pytest.approx(0.002)
    assert {one.quality for one in mine.evidence.values()} == {Quality.UNSTATED}


def test_the_error_of_an_unknown_key_has_the_nearest_key_and_the_line(tmp_path: Path) -> None:
    told = refused(tmp_path, PLAIN.replace("tail_s", "tails_s"))
    line = PLAIN.splitlines().index("tail_s = 0.2") + 1
    assert f"mine.toml, line {line}: no key 'tails_s' in wifi; did you mean 'tail_s'?" in told
    told = refused(tmp_path, PLAIN.replace("shared_ma", "shared_mA"))
    assert "no key 'shared_mA' in clusters.1.points.2" in told
    assert "'shared_ma'" in told


def test_the_line_of_a_second_cluster_is_its_own(tmp_path: Path) -> None:
    text = PLAIN + PLAIN[PLAIN.index("[[clusters]]") :].replace("cores = 2", "cores = 0")
    line = text.splitlines().index("cores = 0") + 1
    assert f"line {line}: clusters.2.cores is 0" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("current_ma = 12.5", 'current_ma = "12"', "awake.current_ma is '12'; it takes a number"),
        ("current_ma = 12.5", "current_ma = -1", "awake.current_ma is -1; it takes a number"),
        ("current_ma = 12.5", "current_ma = nan", "awake.current_ma is NaN"),
        ("current_ma = 12.5", "current_ma = true", "awake.current_ma is True"),
        ("current_ma = 12.5", "", "the key 'current_ma' is missing in awake; it takes a number"),
        ("cores = 2", "cores = true", "clusters.1.cores is True; it takes a whole number"),
        ("core_ma = 20", "core_ma = 0", "clusters.1.points.1.core_ma is 0"),
        ("500000", "2000000", "clusters.1: points has 1000000 kHz out of order"),
        ("500000", "500000.5", "frequency_khz is 500000.5; it takes a whole number"),
        ("cores = 2", "cores = 2\ncore_factors = [1.0]", "it must be a list of 2 numbers"),
        ("cores = 2", "cores = 2\ncore_factors = [1.0, -1]", "core_factors is [1.0, -1]"),
        ('name = "mine"', 'name = " "', "name is ' '; it takes a string"),
        ("[awake]\ncurrent_ma = 12.5", "awake = 3", "no key 'awake' in battery"),
        ("[screen]\non_ma = 100", "", "the key 'screen' is missing; it takes a table"),
        ("cycle_factor = 2", "cycle_factor = 0", "cycle_factor is 0; it takes a number"),
        ("tail_s = 0.2", "tail_s = { value = 0.2, quality = 'good', source = 'me' }",
         "wifi.tail_s.quality is 'good'; it takes one of \"exact\", \"derived\""),
        ("tail_s = 0.2", "tail_s = { value = 0.2, quality = 'exact', source = 'me' }",
         "wifi.tail_s.source is 'me'; it must be a key of [sources]: none is listed"),
        ("tail_s = 0.2", "tail_s = { quality = 'exact' }",
         "the key 'source' is missing in wifi.tail_s"),
    ],
)  # fmt: skip
def test_the_error_of_a_bad_value_has_key_value_and_remedy(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in PLAIN
    assert told in refused(tmp_path, PLAIN.replace(old, new, 1))


def test_a_cluster_without_a_table_of_clocks_is_named(tmp_path: Path) -> None:
    text = PLAIN[: PLAIN.index("points = [")] + "points = []\n"
    assert "there are no [[clusters.1.points]]; give at least one" in refused(tmp_path, text)


def test_clusters_must_be_a_list_of_tables(tmp_path: Path) -> None:
    head = PLAIN[: PLAIN.index("[[clusters]]")]
    assert "the key 'clusters' is missing" in refused(tmp_path, head)
    for wrong in ("clusters = []", "clusters = [1]", "clusters = 1"):
        text = head.replace('name = "mine"', f'name = "mine"\n{wrong}')
        assert "clusters" in refused(tmp_path, text)


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    assert "is not TOML" in refused(tmp_path, "name = ")
    with pytest.raises(BadInput, match=r"none\.toml cannot be read: No such file"):
        load_phone(tmp_path / "none.toml")
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        load_phone(tmp_path / "mine.toml")
    (tmp_path / "mine.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(BadInput, match="is larger than"):
        load_phone(tmp_path / "mine.toml")


@pytest.mark.parametrize("name", PHONES)
def test_a_shipped_file_can_be_copied_and_changed(tmp_path: Path, name: str) -> None:
    text = (SHIPPED / f"{name}.toml").read_text()
    changed = re.sub(r"cycle_factor = \{ value = [\d.]+", "cycle_factor = { value = 9", text)
    assert load(tmp_path, changed).cycle_factor == 9
