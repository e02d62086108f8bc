"""Real downloads, through pooch, from a web server on this machine."""

import hashlib
import io
import json
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import DEVNULL

import numpy as np
import pytest

from dealfl.cli import parser
from dealfl.data import DataFile, Dataset, Directories, Task, fetch
from dealfl.data.data_files import load_entry
from dealfl.data.readers import TargetColumn
from dealfl.errors import BadBytes, DatasetMissing

TEXT = b"".join(b"%d,%d\n" % (row, row * row) for row in range(20_000))


@dataclass
class WebServer:
    """Serves what is put on it; `cut` serves less than announced, `held` then does not hang up."""

    url: str
    pages: dict[str, bytes]
    cut: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    encodings: list[str | None] = field(default_factory=list)
    held: threading.Event | None = None


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    state = WebServer(f"http://127.0.0.1:{server.server_address[1]}", {})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            state.encodings.append(self.headers["Accept-Encoding"])
            page = state.pages.get(self.path)
            if page is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page[: state.cut.get(self.path)])
            if state.held:
                state.held.wait(timeout=60)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server.RequestHandlerClass = Handler
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/README", b"hello")
        archive.writestr("in/one.csv", data)
        archive.writestr("in/two.csv", data)
    return buffer.getvalue()


def part(web: WebServer, name: str) -> DataFile:
    return DataFile(
        f"tiny/{name}.csv.gz",
        rows=20_000,
        content_sha256=hashlib.sha256(TEXT).hexdigest(),
        url=f"{web.url}/all.zip",
        member=f"in/{name}.csv",
    )


@pytest.fixture
def tiny(web: WebServer) -> Dataset:
    return Dataset(
        name="tiny",
        task=Task.REGRESSION,
        description="squares",
        rows=20_000,
        columns=2,
        licence="none",
        address=web.url,
        read=TargetColumn(width=2, dtype=np.int64),
        files=(part(web, "one"),),
    )


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(cache=tmp_path / "cache")


def left_in(directories: Directories) -> list[str]:
    assert directories.cache is not None
    return sorted(
        p.relative_to(directories.cache).as_posix() for p in directories.cache.rglob("*.*")
    )


def test_a_missing_file_is_downloaded_once_and_then_read_from_the_cache(
    web: WebServer, tiny: Dataset, directories: Directories, capfd: pytest.CaptureFixture[str]
) -> None:
    web.pages["/all.zip"] = zipped(TEXT)
    for _ in range(2):
        examples = load_entry(tiny, None, directories, download=True)
        assert len(examples) == 20_000
    assert web.asked == ["/all.zip"]
    assert web.encodings == ["identity"]  # the bytes that were checksummed, as they are
    assert left_in(directories) == ["tiny/one.csv"]
    captured = capfd.readouterr()
    assert "100%" in captured.err  # the progress bar
    assert captured.out == ""


def test_files_of_one_archive_are_downloaded_together(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    web.pages["/all.zip"] = zipped(TEXT)
    both = replace(tiny, files=(part(web, "one"), part(web, "two")))
    assert [path.name for path in fetch(both, directories)] == ["one.csv", "two.csv"]
    assert web.asked == ["/all.zip"]
    assert fetch(both, directories) == []


def test_files_at_two_addresses_are_each_taken_from_their_own(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    web.pages.update({"/all.zip": zipped(TEXT), "/two.csv": TEXT})
    two = replace(part(web, "two"), url=f"{web.url}/two.csv", member=None)
    assert len(fetch(replace(tiny, files=(part(web, "one"), two)), directories)) == 2
    assert web.asked == ["/all.zip", "/two.csv"]


@pytest.mark.parametrize("sent", [0, 1000, -1])
def test_a_truncated_download_leaves_nothing_and_the_next_try_works(
    web: WebServer, tiny: Dataset, directories: Directories, sent: int
) -> None:
    web.pages["/all.zip"] = zipped(TEXT)
    web.cut["/all.zip"] = sent
    with pytest.raises(DatasetMissing, match="the download failed") as error:
        fetch(tiny, directories)
    assert f"download {web.url}/all.zip and put it, or one.csv from it" in str(error.value)
    assert left_in(directories) == []
    web.cut.clear()
    assert len(load_entry(tiny, None, directories, download=True)) == 20_000


def test_a_tampered_download_is_refused_and_not_kept(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    other = TEXT.replace(b"7,49\n", b"7,50\n", 1)
    web.pages["/all.zip"] = zipped(other)
    with pytest.raises(BadBytes) as error:
        fetch(tiny, directories)
    message = str(error.value)
    assert (
        f"{web.url}/all.zip: the checksum is sha256 {hashlib.sha256(other).hexdigest()}" in message
    )
    assert f"expected sha256 {tiny.files[0].content_sha256}" in message
    assert "elsewhere" in message
    assert left_in(directories) == []


def test_a_page_instead_of_the_archive_is_refused(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    web.pages["/all.zip"] = b"<html>please log in</html>"
    with pytest.raises(BadBytes, match=r"all\.zip: truncated or damaged"):
        fetch(tiny, directories)
    assert left_in(directories) == []


def test_an_address_that_is_gone_is_reported(tiny: Dataset, directories: Directories) -> None:
    with pytest.raises(DatasetMissing, match="the download failed: 404"):
        fetch(tiny, directories)


def test_offline_and_absent_says_where_to_put_which_file(
    tiny: Dataset, directories: Directories
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/one.csv"
        offline = replace(tiny, files=(replace(tiny.files[0], url=url),))
        with pytest.raises(DatasetMissing) as error:
            load_entry(offline, None, directories, download=True)
    message = str(error.value)
    failed = "dataset tiny is missing (the download failed: 127.0.0.1 cannot be reached): "
    assert message.startswith(failed)
    assert message.endswith(
        f"download {url} and put it, or one.csv from it, into {directories.cache}/tiny"
    )


def test_what_a_killed_download_leaves_behind_is_never_trusted(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    assert directories.cache is not None
    partial = directories.cache / ".partial-abc"
    partial.mkdir(parents=True)
    (partial / "download").write_bytes(TEXT[:100])
    (directories.cache / "tiny").mkdir()
    (directories.cache / "tiny" / ".partial-def").write_bytes(TEXT[:100])
    assert directories.missing(tiny) == list(tiny.files)
    web.pages["/all.zip"] = zipped(TEXT)
    assert len(load_entry(tiny, None, directories, download=True)) == 20_000


def test_a_download_that_is_killed_leaves_no_file_that_is_trusted_later(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    assert directories.cache is not None
    web.pages["/all.zip"] = zipped(TEXT)
    web.cut["/all.zip"], web.held = 100_000, threading.Event()
    code = "import sys; from pathlib import Path; from dealfl.data.data_files import download"
    call = f"download({tiny.files[0].url!r}, Path({str(directories.cache)!r}))"
    with subprocess.Popen([sys.executable, "-c", f"{code}; {call}"], stderr=DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not any(p.stat().st_size for p in directories.cache.rglob(".partial-*/download")):
            assert time.monotonic() < deadline, "nothing was ever written"
            time.sleep(0.02)
        process.kill()
    web.held.set()
    web.held = None
    web.cut.clear()
    assert directories.missing(tiny) == list(tiny.files)
    assert len(load_entry(tiny, None, directories, download=True)) == 20_000


def test_a_file_is_in_place_only_once_it_is_whole(
    web: WebServer, tiny: Dataset, directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    web.pages["/all.zip"] = zipped(TEXT)
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        fetch(tiny, directories)
    assert directories.missing(tiny) == list(tiny.files)
    assert left_in(directories) == []


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_half_done(
    web: WebServer, tiny: Dataset, directories: Directories
) -> None:
    web.pages["/all.zip"] = zipped(TEXT)
    assert directories.cache is not None
    (directories.cache / "tiny" / "one.csv").mkdir(parents=True)
    with pytest.raises(DatasetMissing, match=r"the download failed: .*directory"):
        fetch(tiny, directories)
    assert left_in(directories) == ["tiny/one.csv"]


def test_a_cache_that_cannot_be_made_is_reported(
    web: WebServer, tiny: Dataset, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DatasetMissing, match="the download failed"):
        fetch(tiny, Directories(cache=tmp_path / "file" / "cache"))
    assert web.asked == []


def test_the_command_fetches_into_the_cache(
    web: WebServer,
    tiny: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DEALFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DEALFL_DATA", raising=False)
    monkeypatch.setattr("dealfl.data.catalog.CATALOG", {"tiny": tiny})
    web.pages["/all.zip"] = zipped(TEXT)
    for state in ("fetched", "here"):
        arguments = parser().parse_args(["datasets", "fetch", "--json", "tiny"])
        assert arguments.run(arguments) == 0
        (row,) = json.loads(capsys.readouterr().out)["fetched"]
        assert row["state"] == state
    assert (tmp_path / "cache" / "tiny" / "one.csv").read_bytes() == TEXT
