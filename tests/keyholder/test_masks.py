"""Vectors, keystreams, nonces and the outbox: what leaves a worker is uniform, and comes back."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dealfl.errors import BadBytes, BadInput
from dealfl.exact import ArraySpec, Entries, Integers, Schema, Statistics
from dealfl.learners import NaiveBayes, PersonalizedPageRank, Tikhonov
from dealfl.masks import WORKER, Enrolment, Masker, Ring, Total, draw_private_key, public_key
from dealfl.protocol import MaskedUpdate, Rules
from dealfl.server import Ledger, Privacy
from dealfl.server.masked import aggregation_of
from dealfl.worker import Journal
from tests.federation.parts import assignment, bayes, row, updates, welcome, welcomed, worker
from tests.keyholder.parts import SCHEMA, Table

WIDE = Schema(
    "wide",
    {},
    (ArraySpec("a", 3, 96), ArraySpec("b", 2), ArraySpec("c", 3, 32), ArraySpec("d", 1, 96)),
)
NUMBERS = {"a": 2**94 - 1, "b": 2**62 - 1, "c": 2**30 - 1, "d": 2**94 - 1}  # sums of two fit


def statistics(values: dict[str, list[int]]) -> Statistics:
    arrays = {}
    for spec in WIDE.arrays:
        arrays[spec.name] = Entries.of_dense(Integers.of(values[spec.name], spec.wide))
    return Statistics(WIDE, arrays)


VALUES = st.fixed_dictionaries(
    {
        spec.name: st.lists(
            st.integers(-NUMBERS[spec.name], NUMBERS[spec.name]),
            min_size=spec.size,
            max_size=spec.size,
        )
        for spec in WIDE.arrays
    }
)


@settings(deadline=None, max_examples=60)
@given(VALUES, VALUES, st.binary(min_size=80, max_size=80))
def test_masks_cancel_in_arrays_of_every_width(
    first: dict[str, list[int]], second: dict[str, list[int]], mask: bytes
) -> None:
    ring = Ring(WIDE)
    assert ring.size_bytes == 4 * 12 + 2 * 8 + 3 * 4
    keystream = (mask * 2)[: ring.size_bytes]
    one, other = statistics(first), statistics(second)
    masked = ring.add(ring.vector(one), keystream)
    assert masked == Total(ring).add(ring.vector(one)).add(keystream).vector()
    total = Total(ring).add(masked).subtract(ring.vector(other)).subtract(keystream)
    exact = {
        name: [a - b for a, b in zip(first[name], second[name], strict=True)] for name in first
    }
    assert ring.statistics(total.vector()) == statistics(exact)


@settings(deadline=None, max_examples=40)
@given(st.integers(24, 96), st.data())
def test_only_the_bytes_that_a_sum_needs_are_sent(bits: int, data: st.DataObject) -> None:
    ring = Ring(WIDE, bits)
    assert ring.packed_bytes <= 4 * -(-max(bits, 33) // 8) + 2 * 8 + 3 * 4
    total, mask = Total(ring), data.draw(st.binary(min_size=76, max_size=76))
    exact: dict[str, list[int]] = {spec.name: [0] * spec.size for spec in WIDE.arrays}
    for _ in range(3):
        values = {
            spec.name: data.draw(
                st.lists(
                    st.integers(
                        -(2 ** (min(bits, spec.bits) - 3)), 2 ** (min(bits, spec.bits) - 3)
                    ),
                    min_size=spec.size,
                    max_size=spec.size,
                )
            )
            for spec in WIDE.arrays
        }
        packed = ring.pack(ring.add(ring.vector(statistics(values)), mask))
        assert len(packed) == ring.packed_bytes
        total.add(ring.unpack(packed)).subtract(mask)
        exact = {n: [a + b for a, b in zip(exact[n], values[n], strict=True)] for n in exact}
    assert ring.statistics(total.vector()) == statistics(exact)


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(BadBytes, match="a vector has 3 bytes; one of this job has 76"):
        Total(Ring(WIDE)).add(b"abc")


def enrolment(name: str = "w") -> Enrolment:
    keyholder = public_key(draw_private_key())
    return Enrolment(
        name=name, role=WORKER, keyholder=keyholder.hex(), private_key=draw_private_key().hex()
    )


def test_masked_updates_are_uniform() -> None:
    """Each byte value of a thousand masked zeros is as frequent as any other, within 5 sigma."""
    table = Table()
    content = b"".join(table.update("w0", number).delta for number in range(1, 1001))
    counts = np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=256)
    expected = len(content) / 256
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi2 - 255) < 5 * (2 * 255) ** 0.5
    bits = np.unpackbits(np.frombuffer(content, dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / len(bits) ** 0.5


def test_a_repetition_is_the_same_bytes_and_a_changed_update_has_another_nonce() -> None:
    journal = Journal(journal_id="mark")
    masker = Masker(enrolment())
    one = welcomed(journal=journal, masker=masker)
    one.ingest([("ann", row(0.0, 0.5, 1.0)), ("bob", row(1.0, 0.5, 0.0))])
    first = updates(one.handle([assignment(1)], 1.0).messages)
    buffer = masker._buffer
    again = updates(one.handle((), 100.0).messages)
    assert first == again
    assert masker._buffer is buffer  # as large as a model, so that it is used again
    assert isinstance(first[0], MaskedUpdate)
    assert (first[0].fresh, len(first[0].delta)) == (2, Ring(bayes().schema).size_bytes)
    stored = journal.read_update(1)
    assert isinstance(stored, MaskedUpdate)
    assert Statistics.from_bytes(stored.delta).count_nonzero()
    drawn = {masker.draw_nonce(stored.delta) for _ in range(100)}
    assert len(drawn) == 100


def test_the_same_random_bytes_give_other_deltas_other_nonces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.token_bytes", bytes)
    masker = Masker(enrolment())
    assert masker.draw_nonce(b"one") == masker.draw_nonce(b"one") != masker.draw_nonce(b"two")


def fresh_of(one: object, *numbers: int, now_s: float = 1.0) -> list[int]:
    found = []
    for number in numbers:
        sent = updates(one.handle([assignment(number)], now_s).messages)  # type: ignore[attr-defined]
        found += [update.fresh for update in sent if isinstance(update, MaskedUpdate)]
    return found


def test_what_an_earlier_history_may_have_sent_is_not_fresh() -> None:
    journal = Journal(journal_id="mark")
    one = welcomed(journal=journal, masker=Masker(enrolment()), forget_fraction="0")
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    assert fresh_of(one, 1) == [1]
    one.ingest([("bob", row(0.0, 0.5, 1.0))])  # waits, but a lost history may have sent it
    sent = updates(one.handle([welcome(journal, 2)], 2.0).messages)
    assert [(u.incarnation, u.sequence, u.fresh) for u in sent] == [(2, 1, 0)]  # type: ignore[attr-defined]
    assert fresh_of(one, 2, now_s=3.0) == [0]
    one.ingest([("eve", row(1.0, 0.5, 1.0)), ("joe", row(1.0, 0.0, 1.0))])
    assert fresh_of(one, 3, now_s=4.0) == [2]


def test_the_first_update_of_a_later_incarnation_is_not_fresh() -> None:
    journal = Journal(journal_id="mark")
    one = worker(journal=journal, masker=Masker(enrolment()))
    one.handle([welcome(journal, 2)], 0.0)
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    assert fresh_of(one, 1) == [0]
    one.ingest([("bob", row(0.0, 0.5, 1.0))])
    assert fresh_of(one, 2) == [1]


def test_a_worker_with_another_key_drops_what_was_masked_for_the_old_one() -> None:
    journal = Journal(journal_id="mark")
    one = welcomed(journal=journal, masker=Masker(enrolment()))
    one.ingest([("ann", row(0.0, 0.5, 1.0))])
    one.handle([assignment(1)], 1.0)
    assert journal.outgoing
    worker(journal=journal, masker=Masker(enrolment()))
    assert (dict(journal.outgoing), journal.state.incarnation) == ({}, 0)


# -- files, sizes, sums that would wrap ------------------------------------------------------------


def test_an_enrolment_is_a_private_file_that_is_written_once(tmp_path: Path) -> None:
    path, made = tmp_path / "w.enrolment", enrolment()
    made.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Enrolment.read(path, WORKER) == made
    with pytest.raises(BadInput, match="exists"):
        made.write(path)
    with pytest.raises(BadInput, match="is for the worker 'w'; a server needs its own"):
        Enrolment.read(path, "server")
    changed = tmp_path / "changed"
    changed.write_text(json.dumps(json.loads(path.read_text()) | {"keyholder": "12"}))
    with pytest.raises(BadInput, match="no enrolment"):
        Enrolment.read(changed, WORKER)
    with pytest.raises(BadInput, match="dealfl keyholder enrol"):
        Enrolment.read(tmp_path / "missing", WORKER)


def test_statistics_above_a_mebibyte_are_refused_with_their_size() -> None:
    privacy = Privacy(None, "job")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="5,661,612 bytes as a dense vector"):
        privacy.require_room(PersonalizedPageRank(1682), Rules())


def test_sums_that_could_wrap_around_are_refused() -> None:
    privacy = Privacy(None, "job", max_workers=100)  # type: ignore[arg-type]
    learner = wide_bayes()
    privacy.require_room(learner, Rules(max_examples=10**7))
    with pytest.raises(BadInput, match="do not fit the 64 bits of array 'counts'"):
        privacy.require_room(learner, Rules(max_examples=10**8))
    privacy.require_room(Tikhonov(3, fraction_bits=30), Rules(max_examples=10**8))


def wide_bayes() -> NaiveBayes:
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=30)


def test_a_server_under_masks_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    privacy = Privacy(None, "job", max_workers=100)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="masked sum would wrap around"):
        aggregation_of(Ledger(), wide_bayes, Rules(max_examples=10**8), privacy)
    ring = Ring(Tikhonov(3).schema)
    monkeypatch.setattr("dealfl.masks.ring.MAX_MASKED_BYTES", ring.size_bytes)
    ring.require_small()
    monkeypatch.setattr("dealfl.masks.ring.MAX_MASKED_BYTES", ring.size_bytes - 1)
    with pytest.raises(BadInput, match="as a dense vector"):
        ring.require_small()


@pytest.mark.parametrize("learner", [NaiveBayes(2, ["a", "b"], feature_bound=3.0), Tikhonov(2)])
def test_no_example_adds_more_than_the_largest_entry(learner: NaiveBayes | Tikhonov) -> None:
    most = learner.max_entry
    corner = np.array([[3.0, 3.0]]) if isinstance(learner, NaiveBayes) else np.array([[1.0, 1.0]])
    learner.learn(corner, ["a"] if isinstance(learner, NaiveBayes) else [1.0])
    values = [
        abs(value)
        for entries in learner.statistics.arrays.values()
        for value in entries.values.tolist()
    ]
    assert most / 4 <= max(values) <= most


def test_a_header_covers_the_schema_that_the_masks_belong_to() -> None:
    """Masks modulo other powers of two would show carries: another schema is not authentic."""
    table = Table()
    headers = [table.header(name, 1, {i: 1}) for i, name in enumerate(table.names[:3])]
    finer = Schema("counter", {}, (ArraySpec("counts", 131, 32),))
    answer = table.ask(headers, schema=finer.canonical())
    assert answer.code == "headers"
    assert replace(headers[0], seal=b"") != headers[0]
    assert SCHEMA.digest() != finer.digest()
