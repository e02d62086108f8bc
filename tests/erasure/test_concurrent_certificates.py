"""Certificates of many processes, and of processes that are killed: as many files as entries."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dealfl.erasure import (
    CertificateLog,
    Evidence,
    complete_certificates,
    load_keys,
    verify_certificate,
    write_certificate,
)
from dealfl.erasure import certificates as written
from dealfl.errors import BadBytes
from dealfl.storage import atomic_files
from tests.erasure.certified import ERASURE

PROCESSES = 12


class Killed(BaseException):
    """The process ends here."""


def certify(folder: Path, request: str) -> Path:
    return write_certificate(folder, msgspec.structs.replace(ERASURE, request=request))


def read_requests(folder: Path) -> list[str]:
    """Return the requests of all certificates in the order of the log; each has its own entry."""
    log, keys = CertificateLog(folder, "dealfl/erasures"), load_keys(folder)
    files = sorted(folder.glob("*.json"))
    for number, file in enumerate(files):
        entry, head = log.verify(file.read_bytes(), keys)
        assert (entry, head.size) == (number, len(files)), "as many files as entries"
        assert file.name == f"{number + 1:04}.json"
    return [verify_certificate(file, Evidence())[0].request for file in files]


def test_processes_that_certify_at_once_lose_no_certificate(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(PROCESSES)

    def work(number: int) -> None:
        barrier.wait()
        certify(tmp_path, f"r{number}")

    processes = [context.Process(target=work, args=(number,)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60.0)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert sorted(read_requests(tmp_path)) == sorted(f"r{number}" for number in range(PROCESSES))


def _dying(call: Callable[..., Any], deaths: list[int]) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        deaths[0] -= 1
        if deaths[0] == 0:
            raise Killed
        return call(*arguments, **options)

    return counted


def test_a_process_killed_at_any_write_certifies_once_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = set()
    for point in range(1, 100):
        folder = tmp_path / str(point)
        certify(folder, "first")
        deaths = [point]
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", _dying(os.fsync, deaths))
            patched.setattr(Path, "replace", _dying(Path.replace, deaths))
            patched.setattr(atomic_files, "_unlock", lambda *_: None)  # nobody tidies up
            try:
                certify(folder, "second")
            except Killed:
                pass
            else:
                break
        (folder / "lock").unlink()  # the kernel releases what a process held
        complete_certificates(folder)
        told = read_requests(folder)
        assert told in (["first"], ["first", "second"])
        assert not (folder / written._PENDING).exists()
        certify(folder, "third")
        assert read_requests(folder) == [*told, "third"]
        ends.add(len(told))
    assert ends == {1, 2}, "killed before and after the entry"


def test_an_entry_is_on_disk_before_the_head_that_covers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(tmp_path, "first")
    synchronized: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synchronized.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    certify(tmp_path, "second")
    heads = [number for number, name in enumerate(synchronized) if name.startswith("head")]
    assert "log" in synchronized[: heads[0]]


def test_a_log_that_was_cut_is_noticed(tmp_path: Path) -> None:
    for request in ("first", "second"):
        certify(tmp_path, request)
    log = tmp_path / "log"
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(BadBytes, match="not what its head says"):
        certify(tmp_path, "third")
