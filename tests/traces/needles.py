"""Looks for needles, what must be gone, in every byte of every file of a folder."""

import hashlib
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from dealfl.exact import Statistics
from dealfl.learners import Learner, statistics_of
from dealfl.worker import Record

Needles = dict[str, bytes]

_KINDS = ("<i2", "<i4", "<i8", ">i2", ">i4", ">i8")


def needles_of_values(*values: float) -> Needles:
    """Return numbers as text and as IEEE bytes, each of them and side by side."""
    found = {f"{value!r} as text": repr(value).encode() for value in values}
    for kind in ("<f4", ">f4", "<f8", ">f8"):
        found |= {f"{value} as {kind}": np.array([value], kind).tobytes() for value in values}
        found[f"the row as {kind}"] = np.array(values, kind).tobytes()
    return {what: needle for what, needle in found.items() if len(needle) >= 4}


def needles_of_points(*points: int) -> Needles:
    """Return integers side by side in all encodings that dealfl uses; one alone is too short."""
    kinds = [kind for kind in _KINDS if np.iinfo(kind).max >= max(map(abs, points))]
    found = {f"points as {kind}": np.array(points, kind).tobytes() for kind in kinds}
    found["points as msgpack"] = msgspec.msgpack.encode(list(points))[1:]
    found["points as text"] = ", ".join(map(str, points)).encode()
    return {what: needle for what, needle in found.items() if len(needle) >= 4}


def needles_of_statistics(statistics: Statistics) -> Needles:
    """Return the canonical bytes without the schema, and the non-zeros of each array."""
    nothing, whole = Statistics.zero(statistics.schema).to_bytes(), statistics.to_bytes()
    pairs = enumerate(zip(nothing, whole, strict=False))
    start = next((place for place, (a, b) in pairs if a != b), len(nothing))
    found = {"statistics": whole, "statistics without the schema": whole[start:]}
    for name in statistics:
        values = statistics[name].values.tolist()
        if len(values) > 1 and any(abs(value) > 255 for value in values):
            points = needles_of_points(*values) if max(map(abs, values)) < 2**63 else {}
            found |= {f"{name}: {what}": needle for what, needle in points.items()}
    return found


def needles_of_name(name: str) -> Needles:
    """Return a name and its hashes without a key."""
    return {name: name.encode(), **needles_of_hashes(name, name.encode())}


def needles_of_hashes(name: str, content: bytes) -> Needles:
    """Return the hashes of some bytes without a key."""
    kinds = ("sha256", "sha1", "md5", "blake2b")
    hashes = {f"{kind} of {name}": hashlib.new(kind, content) for kind in kinds}
    digests = {what: one.digest() for what, one in hashes.items()}
    texts = {f"{what} as text": one.hexdigest().encode() for what, one in hashes.items()}
    return digests | texts


def needles_of_records(make: Callable[[], Learner], bodies: Iterable[bytes]) -> Needles:
    """Return bodies, the delta that learns or forgets them, and hashes of these without a key."""
    records = [Record(number, b"owner", body) for number, body in enumerate(bodies)]
    delta = statistics_of(make, records)[0]
    found = {f"body {record.id}": record.body for record in records}
    stored = make().pack(records)
    found |= {f"stored body {n}": body for n, body in enumerate(stored) if len(body) >= 8}
    for record in records:
        found |= needles_of_hashes(f"body {record.id}", record.body)
    for sign, one in (("learned", delta), ("forgotten", -delta)):
        found |= {f"{sign} {what}": needle for what, needle in needles_of_statistics(one).items()}
        found |= needles_of_hashes(f"what is {sign}", one.to_bytes())
    return found


def find_needles(folder: Path, needles: Needles) -> list[str]:
    """Return where which needle is: in files, and in what they hold compressed."""
    found = []
    starts = {what: int.from_bytes(needle[:3], "little") for what, needle in needles.items()}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        for form in (content, *_unpacked(content)):
            occurs = _find_starts(form)
            likely = [what for what, start in starts.items() if occurs[start]]
            found += [f"{file.name}: {what}" for what in likely if needles[what] in form]
    return found


def _find_starts(content: bytes) -> NDArray[np.bool_]:
    """Return for all three bytes, as a number, whether they occur; most needles do not."""
    each = np.frombuffer(content, np.uint8).astype(np.uint32)
    occurs = np.zeros(2**24, np.bool_)
    occurs[each[:-2] | each[1:-1] << 8 | each[2:] << 16] = True
    return occurs


def _unpacked(content: bytes) -> Iterable[bytes]:
    for start in re.finditer(rb"\x78[\x01\x9c\xda]", content):
        try:
            yield zlib.decompressobj().decompress(content[start.start() :])
        except zlib.error:
            continue
