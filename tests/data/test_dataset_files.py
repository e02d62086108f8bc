"""Finding files and trusting them: the order of directories, checksums, and what errors say."""

import gzip
import hashlib
import importlib.util
import lzma
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dealfl.data import CATALOG, Content, DataFile, Dataset, Directories, State, Task, check, load
from dealfl.data.data_files import load_entry, read_all, verify
from dealfl.data.readers import RatingMatrix, TargetColumn
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
def directories(tmp_path: Path) -> Directories:
    return Directories(cache=tmp_path / "cache", data=tmp_path / "data")


def put(directory: Path | None, name: str, data: bytes) -> Path:
    assert directory is not None
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read(directories: Directories, dataset: Dataset = TINY) -> bytes:
    (content,) = read_all(dataset, directories, download=False)
    return content.data


def test_the_cache_comes_before_the_data_directory(directories: Directories) -> None:
    there = put(directories.data, FILE.path, PACKED)
    found = directories.find(FILE)
    assert found is not None
    assert (found.path, found.directory) == (there, "DEALFL_DATA")
    here = put(directories.cache, FILE.path, PACKED)
    found = directories.find(FILE)
    assert found is not None
    assert (found.path, found.directory) == (here, "cache")


def test_places_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEALFL_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("DEALFL_DATA", "")
    assert Directories.from_environment() == Directories(tmp_path / "c", None)
    monkeypatch.delenv("DEALFL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    cache = Directories.from_environment().cache
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
def test_a_file_may_be_packed_in_any_way(directories: Directories, name: str, data: bytes) -> None:
    put(directories.data, name, data)
    assert read(directories) == TEXT


def test_the_published_archive_may_be_put_there_as_it_is(directories: Directories) -> None:
    file = replace(FILE, url="https://example.org/all.zip", member="in/t.csv")
    path = put(directories.data, "tiny/all.zip", b"")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("in/README", b"hello")
        archive.writestr("in/t.csv", TEXT)
    assert read(directories, replace(TINY, files=(file,))) == TEXT


@pytest.mark.parametrize("name", ["tiny/t.csv", "tiny/t.csv.gz"])
def test_a_wrong_checksum_names_file_expected_found_and_remedy(
    directories: Directories, name: str
) -> None:
    other = TEXT.replace(b"4", b"5")
    path = put(directories.cache, name, gzip.compress(other) if name.endswith("gz") else other)
    with pytest.raises(BadBytes) as error:
        read(directories)
    assert str(error.value) == (
        f"{path}: the checksum is sha256 {sha256(other)}, expected sha256 {sha256(TEXT)}; "
        f"delete {path} and ask a friend and save it"
    )


def test_the_remedy_for_a_public_file_is_to_fetch_it_again(directories: Directories) -> None:
    put(directories.cache, "tiny/t.csv", b"0")
    public = replace(TINY, files=(replace(FILE, url="https://example.org/t.csv"),))
    with pytest.raises(BadBytes, match=r"t\.csv and run `dealfl datasets fetch tiny`$"):
        read(directories, public)


def test_a_damaged_file_in_the_cache_is_not_passed_over(directories: Directories) -> None:
    put(directories.cache, FILE.path, PACKED[:-3])
    put(directories.data, FILE.path, PACKED)
    with pytest.raises(BadBytes, match="truncated or damaged"):
        read(directories)


def test_an_md5_serves_where_nothing_better_is_known(directories: Directories) -> None:
    md5 = hashlib.md5(TEXT).hexdigest()
    weak = replace(TINY, files=(DataFile("tiny/t.csv", rows=2, content_md5=md5),))
    path = put(directories.data, "tiny/t.csv", TEXT)
    assert read(directories, weak) == TEXT
    path.write_bytes(b"9")
    with pytest.raises(BadBytes, match=f"checksum is md5 .*, expected md5 {md5}"):
        read(directories, weak)


def test_without_a_checksum_rows_are_counted(directories: Directories) -> None:
    unknown = replace(TINY, files=(DataFile("tiny/t.csv", rows=2),))
    path = put(directories.data, "tiny/t.csv", TEXT)
    assert len(load_entry(unknown, None, directories, download=False)) == 2
    path.write_bytes(TEXT + b"5,6\n")
    with pytest.raises(BadBytes, match=r"dataset tiny has 3 rows, expected 2; .*example.org"):
        load_entry(unknown, None, directories, download=False)


def test_what_is_absent_and_not_public_says_what_to_get_and_where_to_put_it(
    directories: Directories,
) -> None:
    with pytest.raises(DatasetMissing) as error:
        load_entry(TINY, None, directories, download=True)
    assert str(error.value) == (
        "dataset tiny is missing (it cannot be downloaded automatically): ask a friend and save "
        f"it as t.csv into {directories.cache}/tiny or {directories.data}/tiny"
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("jester", ["jester_dataset_1_1.zip", "eigentaste.berkeley.edu", "jester-data-1.xls"]),
        ("retailrocket", ["sample_events.csv", "retailrocket-topsis", "kaggle.com"]),
        ("retailrocket-full", ["log in at https://www.kaggle.com", "events.csv"]),
    ],
)
def test_what_cannot_be_downloaded_says_so(
    directories: Directories, name: str, parts: list[str]
) -> None:
    with pytest.raises(DatasetMissing) as error:
        load(name, directories=directories)
    for part in (*parts, "cannot be downloaded automatically", str(directories.data)):
        assert part in str(error.value)


def test_no_download_is_tried_when_none_is_wanted(directories: Directories) -> None:
    with pytest.raises(DatasetMissing, match=r"downloading is turned off.*ml-100k.zip and put it"):
        load("movielens", directories=directories, download=False)


def test_without_any_place_the_error_still_says_where_to_put_it() -> None:
    with pytest.raises(DatasetMissing, match="covtype in a directory that DEALFL_DATA names"):
        load("covtype", directories=Directories(cache=None), download=False)


def test_check_distinguishes_ok_missing_and_damaged(directories: Directories) -> None:
    assert [finding.state for finding in check(TINY, directories)] == [State.MISSING]
    path = put(directories.data, FILE.path, PACKED)
    assert [(f.state, f.detail) for f in check(TINY, directories)] == [(State.OK, str(path))]
    path.write_bytes(PACKED[:-1])
    (finding,) = check(TINY, directories)
    assert finding.state is State.DAMAGED
    assert str(path) in finding.detail


def test_check_reads_every_row(directories: Directories) -> None:
    put(directories.data, "tiny/t.csv", b"1,2\n3,x\n")
    (finding,) = check(replace(TINY, files=(DataFile("tiny/t.csv", rows=2),)), directories)
    assert finding.state is State.DAMAGED
    assert "line 2: 'x' in column 2" in finding.detail


def test_a_jester_table_saved_by_another_program_is_known_by_its_values(real: Directories) -> None:
    dataset = CATALOG["jester"]
    (content,) = read_all(dataset, real, download=False)
    windows = content.data.replace(b",99", b",99.00").replace(b"\n", b"\r\n")
    tampered = windows.replace(b"-7.82", b"-7.81", 1)

    def read_as(data: bytes) -> Content:
        return verify(dataset.files[0], Content("saved.csv", data), "save it again")

    assert read_as(windows).data == windows
    with pytest.raises(BadBytes, match=r"saved\.csv: the checksum is .*; save it again"):
        read_as(tampered)


SHEET = Path(__file__).with_name("three-people.xls")
RATINGS = b"2,-7.82,99,8.79\n3,4.08,-0.29,6.36\n1,99,99,0.01\n"
HUNDREDTHS = 3  # the lowest bits of a number in a spreadsheet
PEOPLE = replace(
    TINY,
    task=Task.RECOMMENDATION,
    n_items=3,
    liked_from=0.01,
    read=RatingMatrix(n_items=3, limit=10.0),
    files=(
        DataFile(
            "people/people.csv",
            rows=3,
            content_sha256=sha256(RATINGS),
            published=("p.zip", "p.xls"),
        ),
    ),
)
needs_calamine = pytest.mark.skipif(
    importlib.util.find_spec("python_calamine") is None,
    reason="NO PYTHON-CALAMINE: dealfl[datasets] has it",
)


@needs_calamine
@pytest.mark.parametrize("name", ["p.xls", "p.zip"])
def test_ratings_in_an_old_spreadsheet_are_read_as_they_were_published(
    directories: Directories, name: str
) -> None:
    path = put(directories.data, f"people/{name}", SHEET.read_bytes())
    if name == "p.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(SHEET, "jester-data-1.xls")
    examples = load_entry(PEOPLE, None, directories, download=False)
    assert examples.histories.toarray().tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 1]]
    path.unlink()
    one, other = (struct.pack("<i", 4 * number + HUNDREDTHS) for number in (-782, -781))
    assert SHEET.read_bytes().count(one) == 1
    put(directories.data, "people/p.xls", SHEET.read_bytes().replace(one, other))
    with pytest.raises(BadBytes, match="the checksum is sha256"):
        read_all(PEOPLE, directories, download=False)


@needs_calamine
def test_a_damaged_spreadsheet_is_named(directories: Directories) -> None:
    put(directories.data, "people/p.xls", SHEET.read_bytes()[:700])
    with pytest.raises(BadBytes, match=r"p\.xls: truncated or damaged \(.*\); get the file again"):
        read_all(PEOPLE, directories, download=False)


def test_errors_of_this_package_are_bad_input_or_say_that_data_is_missing() -> None:
    assert issubclass(BadBytes, BadInput)
    assert issubclass(DatasetMissing, DealError)
