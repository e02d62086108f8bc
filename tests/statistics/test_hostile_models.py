"""Saved learners that are damaged or forged, with a right checksum, get a documented error."""

import hashlib
import json
import random
import resource
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import BadBytes, BadInput, DealError
from dealfl.exact import Entries, Statistics
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    RowLearner,
    Tikhonov,
    TikhonovClassifier,
    load,
)

PREFIX = struct.Struct("<8sHI")
ROWS = np.random.default_rng(0).uniform(0.0, 1.0, (12, 3))
LABELS = np.arange(12) % 3
HISTORIES = sparse.csr_array((ROWS @ ROWS.T > 0.7).astype(float))

HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 64, 1024, 1.5, -0.0, 2**15, 2**24, 2**31, 2**63, 2**70, 10**400),
    *("", "x", "é", "auto", "full", "qr", [], [0], [0, 1, 2], [1e308] * 3, [-1, 0, 1], [2, 2, 2]),
    *(["a", "b"], [True, 1], [1.5, 2], [0] * 100, 1e-300, 1e300, [2**70, 1, 2], [0.1, "x", 3]),
)


def learned() -> list[tuple[Learner, tuple[Any, ...]]]:
    pairs: list[tuple[Learner, tuple[Any, ...]]] = [
        (Tikhonov(3), (ROWS, ROWS[:, 0])),
        (TikhonovClassifier(3, ["a", "b", "c"]), (ROWS, np.array(["a", "b", "c"])[LABELS])),
        (NaiveBayes(3, [0, 1, 2]), (ROWS, LABELS)),
        (Neighbors(3, [0, 1, 2], tables=2, bits=8, min_bucket=1), (ROWS, LABELS)),
        (PersonalizedPageRank(12), (HISTORIES,)),
        (PersonalizedPageRank(12, range(12)[::-1], "full"), (HISTORIES,)),
    ]
    for model, examples in pairs:
        model.learn(*examples)
        if isinstance(model, RowLearner):
            model.name_features(["u", "v", "wé"])
    return pairs


class Forger:
    """Makes files of saved learners that differ from real ones and have a right checksum."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.path = folder / "learner"
        self.files = []
        for model, examples in learned():
            model.save(self.path)
            self.files.append((model, examples, *split(self.path.read_bytes())))

    def forge(self) -> tuple[Learner, tuple[Any, ...]]:
        """Write a file; return the model that it was made from, and its examples."""
        model, examples, header, sections = self.random.choice(self.files)
        header, sections = json.loads(json.dumps(header)), dict(sections)
        name = self.random.choice(list(sections))
        kind = self.random.randrange(5)
        if kind == 0:
            key = self.random.choice(list(header["settings"]))
            header["settings"][key] = self.random.choice(HOSTILE)
        elif kind == 1:
            sections["statistics"] = self._statistics(model)
        elif kind == 2:
            numbers = np.frombuffer(sections[name][: len(sections[name]) // 4 * 4], "<i4").copy()
            numbers[self.random.randrange(len(numbers))] = self.random.choice(
                (-1, 3, 99, 2**31 - 1)
            )
            sections[name] = numbers.tobytes()
        elif kind == 3:
            sections[name] = self.random.choice(
                (b"", b"[]", b"\xff", b"[" * 5000, sections[name] * 2)
            )
        else:
            sections[name] = self._damaged(sections[name])
        self.path.write_bytes(joined(header, sections))
        return model, examples

    def _damaged(self, data: bytes) -> bytes:
        damaged = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            place = self.random.randrange(len(damaged))
            damaged[place : place + self.random.choice((0, 1, 1, 1, 2))] = bytes(
                [self.random.choice((0, 1, 0x7F, 0x80, 0xFF, self.random.randrange(256)))]
            )
        return bytes(damaged)

    def _statistics(self, model: Learner) -> bytes:
        """Return statistics of the right schema with values that no examples have."""
        arrays = {}
        for spec in model.schema.arrays:
            indices = [self.random.randrange(min(spec.size, 9)), spec.size - 1]
            top = 1 << (spec.bits - 2)
            values = self.random.choices((1, -1, 3, top, -top), k=2)
            arrays[spec.name] = Entries.of(dict(zip(indices, values, strict=True)), spec.wide)
        return Statistics(model.schema, arrays).to_bytes()


def split(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    start = PREFIX.size + PREFIX.unpack_from(data)[2]
    header, sections = json.loads(data[PREFIX.size : start]), {}
    for name, size in header["sections"].items():
        sections[name] = data[start : start + size]
        start += size
    return header, sections


def joined(header: dict[str, Any], sections: dict[str, bytes]) -> bytes:
    sizes = {name: len(section) for name, section in sections.items()}
    text = json.dumps({**header, "sections": sizes}).encode()
    data = PREFIX.pack(b"DEALFILE", 1, len(text)) + text + b"".join(sections.values())
    return data + hashlib.sha256(data).digest()


def use(model: Any, examples: tuple[Any, ...]) -> None:
    """Call what reads or changes the integers of a learner."""
    answers = [model.digest, model.check, lambda: model.learn(*examples)]
    answers += [lambda: model.forget(*examples), lambda: model.update(examples, examples)]
    if isinstance(model, RowLearner):
        answers.append(lambda: model.predict(examples[0]))
    else:
        answers += [lambda: model.similar(1), lambda: model.recommend([0])]
    for answer in answers:
        try:
            answer()
        except DealError:
            continue


def check_files(seed: int, count: int, folder: Path) -> tuple[int, int]:
    """Load forged files and use those that are accepted; return how many are, and are not."""
    forger = Forger(seed, folder)
    accepted = refused = 0
    for _ in range(count):
        _, examples = forger.forge()
        try:
            model = load(forger.path)
        except BadInput:  # BadBytes and Incompatible are BadInput
            refused += 1
            continue
        accepted += 1
        use(model, examples)
    return accepted, refused


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # models of impossible statistics
def test_forged_models_are_refused_or_can_be_used(tmp_path: Path) -> None:
    accepted, refused = check_files(1, 250, tmp_path)
    assert accepted > 10
    assert refused > 100


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_forged_models_are_refused_or_can_be_used(seed: int, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_files(seed, 10_000, tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


@pytest.mark.parametrize("code", [-1, 3, 2**31 - 1])
def test_a_saved_class_beyond_the_classes_is_refused(code: int, tmp_path: Path) -> None:
    model, _ = learned()[3]
    path = tmp_path / "learner"
    model.save(path)
    header, sections = split(path.read_bytes())
    codes = np.frombuffer(sections["codes"], "<i4").copy()
    codes[2] = code
    path.write_bytes(joined(header, sections | {"codes": codes.tobytes()}))
    with pytest.raises(BadBytes, match="a saved example has a class beyond the 3 classes"):
        load(path)


def test_settings_that_need_much_more_memory_than_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "learner"
    for model, _ in learned()[2:4]:
        model.save(path)
        header, sections = split(path.read_bytes())
        huge = {"n_features": 2**15, "feature_bound": 1.0, "offset": 0.0, "tables": 1024}
        for name in header["settings"].keys() & huge.keys():
            header["settings"][name] = huge[name]
        path.write_bytes(joined(header, sections))
        with pytest.raises(BadBytes, match="do not have bounds of 32768 features"):
            load(path)
