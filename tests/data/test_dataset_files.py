"""Finding files and trusting them: the order of places, checksums, and what errors say."""

import gzip
import hashlib
import lzma
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dealfl.data import CATALOG, Content, DataFile, Dataset, Places, State, Task, check, load
from dealfl.data.data_files import load_entry, read_all, verify
from dealfl.data.readers import TargetColumn
from dealfl.errors import BadBytes, BadInput, DatasetMissing, DealError

TEXT = b"1,2\n3,4\n"
PACKED = gzip.compress(TEXT, mtime=0)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


FILE = DataFile("tiny/t.csv.gz", rows=2, sha256=sha256(PACKED), content_sha256=sha256(TEXT))
TINY = Dataset(
    name="tiny",
    task=Task.REGRESSION,
    description="two rows",
    rows=2,
    columns=2,
    licence="none",
    address="https://example.org/tiny",
    read=TargetColumn(width=2, dtype=np.int16),
    files=(FILE,),
    how_to_get="ask a friend and save it",
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(cache=tmp_path / "cache", data=tmp_path / "data")


def put(directory: Path | None, name: str, data: bytes) -> Path:
    assert directory is not None
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read(places: Places, dataset: Dataset = TINY) -> bytes:
    (content,) = read_all(dataset, places, download=False)
    return content.data


def test_the_cache_comes_before_the_data_directory(places: Places) -> None:
    there = put(places.data, FILE.path, PACKED)
    found = places.find(FILE)
    assert found is not None
    assert (found.path, found.place) == (there, "DEALFL_DATA")
    here = put(places.cache, FILE.path, PACKED)
    found = places.find(FILE)
    assert found is not None
    assert (found.path, found.place) == (here, "cache")


def test_places_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEALFL_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("DEALFL_DATA", "")
    assert Places.from_environment() == Places(tmp_path / "c", None)
    monkeypatch.delenv("DEALFL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    cache = Places.from_environment().cache
    assert cache is not None
    assert cache.name == "dealfl"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("tiny/t.csv.gz", PACKED),
        ("tiny/t.csv.gz", gzip.compress(TEXT, 1, mtime=77)),  # packed by somebody else
        ("tiny/t.csv", TEXT),
        ("tiny/t.csv.xz", lzma.compress(TEXT)),
    ],
)
def test_a_file_may_be_packed_in_any_way(places: Places, name: str, data: bytes) -> None:
    put(places.data, name, data)
    assert read(places) == TEXT


def test_the_published_archive_may_be_put_there_as_it_is(places: Places) -> None:
    file = replace(FILE, url="https://example.org/all.zip", member="in/t.csv")
    path = put(places.data, "tiny/all.zip", b"")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("in/README", b"hello")
        archive.writestr("in/t.csv", TEXT)
    assert read(places, replace(TINY, files=(file,))) == TEXT


@pytest.mark.parametrize("name", ["tiny/t.csv", "tiny/t.csv.gz"])
def test_a_wrong_checksum_names_file_expected_found_and_remedy(places: Places, name: str) -> None:
    other = TEXT.replace(b"4", b"5")
    path = put(places.cache, name, gzip.compress(other) if name.endswith("gz") else other)
    with pytest.raises(BadBytes) as error:
        read(places)
    assert str(error.value) == (
        f"{path}: the checksum is sha256 {sha256(other)}, expected sha256 {sha256(TEXT)}; "
        f"delete {path} and ask a friend and save it"
    )


def test_the_remedy_for_a_public_file_is_to_fetch_it_again(places: Places) -> None:
    put(places.cache, "tiny/t.csv", b"0")
    public = replace(TINY, files=(replace(FILE, url="https://example.org/t.csv"),))
    with pytest.raises(BadBytes, match=r"t\.csv and run `dealfl datasets fetch tiny`$"):
        read(places, public)


def test_a_damaged_file_in_the_cache_is_not_passed_over(places: Places) -> None:
    put(places.cache, FILE.path, PACKED[:-3])
    put(places.data, FILE.path, PACKED)
    with pytest.raises(BadBytes, match="truncated or damaged"):
        read(places)


def test_an_md5_serves_where_nothing_better_is_known(places: Places) -> None:
    md5 = hashlib.md5(TEXT).hexdigest()
    weak = replace(TINY, files=(DataFile("tiny/t.csv", rows=2, content_md5=md5),))
    path = put(places.data, "tiny/t.csv", TEXT)
    assert read(places, weak) == TEXT
    path.write_bytes(b"9")
    with pytest.raises(BadBytes, match=f"checksum is md5 .*, expected md5 {md5}"):
        read(places, weak)


def test_without_a_checksum_rows_are_counted(places: Places) -> None:
    unknown = replace(TINY, files=(DataFile("tiny/t.csv", rows=2),))
    path = put(places.data, "tiny/t.csv", TEXT)
    assert len(load_entry(unknown, None, places, download=False)) == 2
    path.write_bytes(TEXT + b"5,6\n")
    with pytest.raises(BadBytes, match=r"dataset tiny has 3 rows, expected 2; .*example.org"):
        load_entry(unknown, None, places, download=False)


def test_what_is_absent_and_not_public_says_what_to_get_and_where_to_put_it(places: Places) -> None:
    with pytest.raises(DatasetMissing) as error:
        load_entry(TINY, None, places, download=True)
    assert str(error.value) == (
        "dataset tiny is missing (it cannot be downloaded automatically): ask a friend and save "
        f"it as t.csv into {places.cache}/tiny or {places.data}/tiny"
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("jester", ["jester_dataset_1_1.zip", "eigentaste.berkeley.edu", "jester-data-1.csv"]),
        ("retailrocket", ["sample_events.csv", "retailrocket-topsis", "kaggle.com"]),
        ("retailrocket-full", ["log in at https://www.kaggle.com", "events.csv"]),
    ],
)
def test_what_cannot_be_downloaded_says_so(places: Places, name: str, parts: list[str]) -> None:
    with pytest.raises(DatasetMissing) as error:
        load(name, places=places)
    for part in (*parts, "cannot be downloaded automatically", str(places.data)):
        assert part in str(error.value)


def test_no_download_is_tried_when_none_is_wanted(places: Places) -> None:
    with pytest.raises(DatasetMissing, match=r"downloading is turned off.*ml-100k.zip and put it"):
        load("movielens", places=places, download=False)


def test_without_any_place_the_error_still_says_where_to_put_it() -> None:
    with pytest.raises(DatasetMissing, match="covtype in a directory that DEALFL_DATA names"):
        load("covtype", places=Places(cache=None), download=False)


def test_check_distinguishes_ok_missing_and_damaged(places: Places) -> None:
    assert [finding.state for finding in check(TINY, places)] == [State.MISSING]
    path = put(places.data, FILE.path, PACKED)
    assert [(f.state, f.detail) for f in check(TINY, places)] == [(State.OK, str(path))]
    path.write_bytes(PACKED[:-1])
    (finding,) = check(TINY, places)
    assert finding.state is State.DAMAGED
    assert str(path) in finding.detail


def test_check_reads_every_row(places: Places) -> None:
    put(places.data, "tiny/t.csv", b"1,2\n3,x\n")
    (finding,) = check(replace(TINY, files=(DataFile("tiny/t.csv", rows=2),)), places)
    assert finding.state is State.DAMAGED
    assert "line 2: 'x' in column 2" in finding.detail


def test_a_jester_table_saved_by_another_program_is_known_by_its_values(real: Places) -> None:
    dataset = CATALOG["jester"]
    (content,) = read_all(dataset, real, download=False)
    windows = content.data.replace(b",99", b",99.00").replace(b"\n", b"\r\n")
    tampered = windows.replace(b"-7.82", b"-7.81", 1)

    def read_as(data: bytes) -> Content:
        return verify(dataset.files[0], Content("saved.csv", data), "save it again")

    assert read_as(windows).data == windows
    with pytest.raises(BadBytes, match=r"saved\.csv: the checksum is .*; save it again"):
        read_as(tampered)


def test_errors_of_this_package_are_bad_input_or_say_that_data_is_missing() -> None:
    assert issubclass(BadBytes, BadInput)
    assert issubclass(DatasetMissing, DealError)
