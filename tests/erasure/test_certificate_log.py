"""The log of certificates: entries, signed heads, damage, crashes between two writes."""

import random
import string
from pathlib import Path

import pytest

from dealfl.erasure import CertificateLog, check_proof, load_keys, open_signing_key, read_head
from dealfl.errors import BadBytes, BadInput

ENTRIES = [f"certificate {number}".encode() for number in range(9)]


@pytest.fixture
def log(tmp_path: Path) -> CertificateLog:
    """Return a log with some entries."""
    made, key = CertificateLog(tmp_path, "dealfl/test"), open_signing_key(tmp_path)
    assert [made.append(entry, key) for entry in ENTRIES] == list(range(len(ENTRIES)))
    return made


def test_every_entry_is_found_and_nothing_else(log: CertificateLog) -> None:
    keys = load_keys(log.folder)
    for number, entry in enumerate(ENTRIES):
        found, head = log.verify(entry, keys)
        assert (found, head.size, head.origin) == (number, len(ENTRIES), "dealfl/test")
    with pytest.raises(BadBytes, match="not in the log"):
        log.verify(b"another", keys)


def test_a_changed_log_or_head_is_found(log: CertificateLog) -> None:
    keys = load_keys(log.folder)
    for name in ("log", "head"):
        path = log.folder / name
        content = path.read_bytes()
        for place in range(0, len(content), 3):
            wrong = bytearray(content)
            wrong[place] ^= 1
            path.write_bytes(wrong)
            with pytest.raises(BadBytes):
                log.verify(ENTRIES[0], keys)
        for cut in (content[:-1], content + b"x", b""):
            path.write_bytes(cut)
            with pytest.raises(BadBytes):
                log.verify(ENTRIES[0], keys)
        path.write_bytes(content)
    log.verify(ENTRIES[0], keys)


def test_an_entry_without_a_head_is_overwritten(log: CertificateLog) -> None:
    before = {name: (log.folder / name).read_bytes() for name in ("peaks", "head")}
    key = open_signing_key(log.folder)
    log.append(b"lost in a crash", key)
    for name, content in before.items():
        (log.folder / name).write_bytes(content)
    assert log.append(b"after the crash", key) == len(ENTRIES)
    assert log.verify(b"after the crash", load_keys(log.folder))[0] == len(ENTRIES)
    assert log.verify(ENTRIES[-1], load_keys(log.folder))[0] == len(ENTRIES) - 1


def test_a_crash_before_the_new_head_leaves_the_old_one_valid(log: CertificateLog) -> None:
    head, key = (log.folder / "head").read_bytes(), open_signing_key(log.folder)
    log.append(b"lost in a crash", key)
    (log.folder / "head").write_bytes(head)
    keys = load_keys(log.folder)
    assert log.verify(ENTRIES[-1], keys)[0] == len(ENTRIES) - 1
    with pytest.raises(BadBytes, match="not in the log"):
        log.verify(b"lost in a crash", keys)
    assert log.append(b"the next", key) == len(ENTRIES), "what no head covers is overwritten"
    assert log.verify(b"the next", keys)[0] == len(ENTRIES)


def test_a_log_that_lost_entries_is_not_continued(log: CertificateLog) -> None:
    whole = (log.folder / "log").read_bytes()
    for left in (b"", whole[:-1], whole[:-1] + b"x"):
        (log.folder / "log").write_bytes(left)
        (log.folder / "peaks").unlink(missing_ok=True)
        with pytest.raises(BadBytes, match="log is not what its head says"):
            log.append(b"more", open_signing_key(log.folder))
    (log.folder / "log").write_bytes(whole)
    for head in (b"nonsense", b"\xff", None):
        (log.folder / "head").unlink()
        if head is not None:
            (log.folder / "head").write_bytes(head)
        with pytest.raises(BadBytes, match="head is damaged"):
            log.append(b"more", open_signing_key(log.folder))
        (log.folder / "head").touch()


@pytest.mark.parametrize("peaks", [b"nonsense", b'[1,[""]]', None])
def test_lost_peaks_are_computed_from_the_log(log: CertificateLog, peaks: bytes | None) -> None:
    (log.folder / "peaks").unlink()
    if peaks is not None:
        (log.folder / "peaks").write_bytes(peaks)
    assert log.append(b"more", open_signing_key(log.folder)) == len(ENTRIES)
    assert log.verify(b"more", load_keys(log.folder))[0] == len(ENTRIES)


def test_another_spelling_of_a_signature_is_refused(log: CertificateLog) -> None:
    """Bits behind the last byte that base64 encodes are not those of the signature."""
    note = (log.folder / "head").read_text("utf-8")
    body, pad = note.rstrip("=\n"), note[len(note.rstrip("=\n")) :]
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    changed = f"{body[:-1]}{letters[letters.index(body[-1]) ^ 1]}{pad}"
    with pytest.raises(BadBytes, match="the signature line of the log's head was changed"):
        read_head(changed, load_keys(log.folder))


def test_a_head_of_somebody_else_is_refused(log: CertificateLog, tmp_path: Path) -> None:
    note = (log.folder / "head").read_text("utf-8")
    open_signing_key(tmp_path / "other")
    with pytest.raises(BadBytes, match="no trusted key"):
        read_head(note, load_keys(tmp_path / "other"))
    with pytest.raises(BadInput, match="has no log"):
        CertificateLog(tmp_path / "other", "x").verify(b"", load_keys(log.folder))


def test_a_proof_replaces_the_log_and_shows_that_it_only_grew(log: CertificateLog) -> None:
    keys, key = load_keys(log.folder), open_signing_key(log.folder)
    earlier = read_head((log.folder / "head").read_text("utf-8"), keys)
    log.append(b"later", key)
    proof = log.prove(ENTRIES[2], keys, earlier)
    assert check_proof(proof, ENTRIES[2], keys, earlier)[0] == 2
    with pytest.raises(BadBytes, match="in the log"):
        check_proof(proof, ENTRIES[3], keys, earlier)
    with pytest.raises(BadBytes, match="only grew"):
        check_proof(log.prove(ENTRIES[2], keys), ENTRIES[2], keys, earlier)


def test_a_changed_proof_shows_nothing(log: CertificateLog) -> None:
    keys, draw = load_keys(log.folder), random.Random(0)
    earlier = read_head((log.folder / "head").read_text("utf-8"), keys)
    log.append(b"later", open_signing_key(log.folder))
    proof = log.prove(ENTRIES[2], keys, earlier)
    for _ in range(2_000):
        wrong = bytearray(proof)
        wrong[draw.randrange(len(wrong))] ^= 1 << draw.randrange(8)
        with pytest.raises(BadBytes):
            check_proof(bytes(wrong), ENTRIES[2], keys, earlier)
