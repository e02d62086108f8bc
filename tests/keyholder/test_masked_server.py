"""A server under masks, step by step: what it stores, when updates count, who is suspected."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from dealfl.erasure import owner_hash
from dealfl.errors import BadBytes, BadInput
from dealfl.keyholder import KeyholderJournal, KeyholderRules
from dealfl.keyholder import keyholder as keyholder_module
from dealfl.learners import statistics_of
from dealfl.masks import SERVER, Asker, Masker, Ring, Total
from dealfl.protocol import MaskedUpdate, Update
from dealfl.protocol.messages import Header
from dealfl.server import Ledger, MaskState, Privacy, Server, masked, rebuild_total
from dealfl.server.ledger import Pending
from dealfl.server.ledger_reader import WorkerRow
from dealfl.server.selection import Everyone
from dealfl.simulate import Network
from dealfl.worker import Journal, State
from tests.federation.parts import KEY, FixedMeter
from tests.keyholder import chaos as chaos_module
from tests.keyholder.chaos import COHORT, MaskedChaos, SeenMasker, WatchedKeyholder, make


class Liar(SeenMasker):
    """Adds an impossible number under its mask, where nobody can see it."""

    def mask(self, update: MaskedUpdate, ring: Ring, schema: str, vector: bytes) -> MaskedUpdate:
        minus = b"\xff" * 8 + bytes(ring.size_bytes - 8)
        whole = Total(ring).add(vector)
        for _ in range(1000):
            whole.add(minus)
        return super().mask(update, ring, schema, whole.vector())


class Calm(MaskedChaos):
    """The same federation, in which nothing goes wrong by itself."""

    liar = ""

    def new_network(self) -> Network:
        return Network()

    def new_masker(self, name: str) -> Masker:
        if name == self.liar:
            return Liar(self.enrolments[name], self)
        return super().new_masker(name)

    def bring(self, *names: str) -> None:
        """Let workers bring one fresh example each, and wait."""
        for name in names or sorted(self.journals):
            self.arrive(name, most=1)
        self.simulation.run(self.simulation.now_s + 100.0)

    @property
    def digest(self) -> str:
        return self.simulation.server.model.digest()

    @property
    def masks(self) -> MaskState:
        return self.ledger.reader.masks()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_module, "StubMeter", lambda generator: FixedMeter())
    monkeypatch.setattr(chaos_module, "Uniform", lambda seed: Everyone())


def test_an_update_counts_when_it_is_opened() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    few = calm.ledger.updates.waiting()
    assert len(few) < COHORT
    before = calm.digest
    assert all(not journal.outgoing for journal in calm.journals.values()), "all are receipted"
    assert before != calm.central_digest() == calm.digest_with_waiting()
    counted = {name: row.counted for name, row in calm.simulation.server.workers.items()}
    calm.bring(*[name for name in sorted(calm.journals) if name not in few][: COHORT - len(few)])
    after = calm.simulation.server.workers
    assert all(after[name].counted == counted[name] + 1 for name in few)
    assert calm.digest == calm.central_digest() != before


def test_a_round_is_closed_with_what_it_has_opened() -> None:
    calm = Calm(0)
    calm.simulation.run(50.0)
    calm.bring()
    last = calm.ledger.reader.closed_rounds()[-1]
    assert (last.digest, last.reason) == (calm.digest, "majority")
    assert calm.ledger.reader.last_version().digest == calm.digest  # type: ignore[union-attr]


class Patient(Calm):
    """After a while without an opening, fewer workers will do."""

    keyholder_rules = KeyholderRules(COHORT, alone_after_s=1000.0)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_update_is_opened_alone_when_it_has_waited_long_enough(restarts: bool) -> None:
    calm = Patient(0)
    calm.simulation.run(100.0)
    while calm.ledger.updates.waiting():
        calm.bring("w0")
    opened_s = calm.masks.opened_s
    assert opened_s is not None
    calm.bring("w1")
    assert calm.ledger.updates.waiting() == ["w1"]
    calm.simulation.asleep.update(calm.journals)  # nobody else gives the server an occasion
    if restarts:
        calm.kill_server("")
        calm.simulation.wake("", calm.simulation.now_s)
    calm.simulation.run(opened_s + 999.0)
    assert calm.ledger.updates.waiting() == ["w1"]
    calm.simulation.run(opened_s + 1010.0)
    assert calm.digest == calm.central_digest()
    assert not calm.ledger.updates.waiting()
    asked = len(calm.opened)
    calm.simulation.run(opened_s + 9000.0)
    assert len(calm.opened) == asked, "nothing is left to be asked"


def test_without_a_keyholder_updates_wait_and_nothing_is_lost() -> None:
    calm = Calm(0)
    calm.simulation.asleep.add("keyholder")
    calm.simulation.run(200.0)
    calm.bring()
    assert calm.simulation.server.reader.count_closed() >= 1, "rounds do not wait for ever"
    assert calm.masks.request is not None
    assert calm.masks.asked_s is not None
    assert calm.simulation.server.model.statistics.is_zero
    calm.simulation.asleep.clear()
    calm.start_keyholder()
    calm.bring()
    assert calm.masks.request is None
    assert not calm.simulation.server.model.statistics.is_zero
    assert calm.digest_with_waiting() == calm.central_digest()


class Strict(Calm):
    keyholder_rules = KeyholderRules(COHORT + 9)


def test_updates_that_are_too_few_count_as_soon_as_the_keyholder_takes_fewer() -> None:
    calm = Strict(0)
    calm.bring()
    assert calm.simulation.server.model.statistics.is_zero
    assert "an opening needs" in calm.masks.problem
    calm.keyholder_rules = KeyholderRules(COHORT)
    calm.start_keyholder()
    calm.simulation.run(calm.simulation.now_s + 10.0)
    assert not calm.simulation.server.model.statistics.is_zero


@pytest.mark.parametrize(("workers", "are_few"), [(COHORT - 1, True), (COHORT, False)])
def test_a_keyholder_with_fewer_workers_than_a_cohort_is_reported(
    workers: int, are_few: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calm, "first_workers", workers)
        calm = Calm(0)
    calm.simulation.run(100.0)
    assert ("an opening needs" in calm.masks.problem) == are_few


@pytest.mark.parametrize("masks", [b"", b"short", bytes(1 << 20)])
def test_a_keyholder_that_answers_nonsense_stops_no_round_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, masks: bytes
) -> None:
    calm = Calm(0)
    with monkeypatch.context() as context:
        context.setattr(keyholder_module, "sum_masks", lambda *_: masks)
        calm.simulation.run(200.0)
        calm.bring()
        assert calm.opened, "it was asked"
        assert calm.simulation.server.model.statistics.is_zero
        assert calm.simulation.server.reader.count_closed() >= 1
        assert f"answered {len(masks):,} bytes of masks" in calm.masks.problem
    calm.start_keyholder()
    calm.bring()
    assert calm.digest_with_waiting() == calm.central_digest()


def test_an_erasure_is_fulfilled_when_its_sum_is_opened() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    owner = "person 3"
    step = calm.simulation.server.erase("r", [owner_hash(KEY, owner)], calm.simulation.now_s)
    calm.simulation.send("", step)
    calm.simulation.run(calm.simulation.now_s + 100.0)
    assert calm.ledger.reader.count_erasures() == (1, 0)
    for _ in range(3):
        calm.bring()
    assert calm.digest_with_waiting() == calm.central_digest()
    assert calm.ledger.reader.count_erasures() == (1, 1)
    after = calm.ledger.reader.versions_around("r")[1]
    assert after is not None


def test_a_lost_phone_leaves_with_the_next_opening() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    gone = calm.journals.pop("w0")
    held = statistics_of(make, gone.records(State.LEARNED))[0]
    del calm.simulation.workers["w0"]
    before = calm.simulation.server.model.statistics
    calm.simulation.send("", calm.simulation.server.remove("w0", calm.simulation.now_s))
    assert calm.simulation.server.model.statistics == before
    assert calm.simulation.server._members.fulfilled == 0
    calm.simulation.server.erase("r", [owner_hash(KEY, "x")], calm.simulation.now_s)
    since = len(calm.opened)
    calm.bring()
    assert {header.worker for header in calm.opened[since].minus} == {"w0"}
    assert not any(request.minus for request in calm.opened[since + 1 :])
    assert calm.digest_with_waiting() == calm.central_digest()
    assert not held.is_zero


@pytest.mark.parametrize(("many", "has_left"), [(4, True), (60_000, False)])
def test_an_incarnation_ends_before_one_request_cannot_take_its_sum_out(
    monkeypatch: pytest.MonkeyPatch, many: int, has_left: bool
) -> None:
    monkeypatch.setattr(masked, "MAX_HEADERS", 6)
    monkeypatch.setattr(masked, "_MANY_UPDATES", many)
    calm = Calm(0)
    for _ in range(9):
        calm.bring()
    assert (calm.simulation.server.workers["w0"].incarnation > 1) == has_left
    del calm.journals["w0"], calm.simulation.workers["w0"]
    calm.simulation.send("", calm.simulation.server.remove("w0", calm.simulation.now_s))
    for _ in range(2):
        calm.bring()
    left = calm.simulation.server._aggregation.find_leaving("w0") is None
    assert left == has_left, "the limit is what keeps it in"
    if has_left:
        assert calm.digest_with_waiting() == calm.central_digest()
        assert calm.find_isolated() is None


def test_an_erasure_waits_until_the_sum_of_a_lost_phone_has_left() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    for _ in range(2):
        calm.bring()
    calm.simulation.workers.pop("w0")
    del calm.journals["w0"]
    calm.simulation.send("", calm.simulation.server.remove("w0", calm.simulation.now_s))
    hashes = [owner_hash(KEY, "somebody only w0 knew")]
    step = calm.simulation.server.erase("r", hashes, calm.simulation.now_s)
    calm.simulation.send("", step)
    calm.simulation.run(calm.simulation.now_s + 200.0)
    assert calm.simulation.server._aggregation.forgotten_limit == 0, "her sum is in the total"
    calm.simulation.server._members._fulfilled.clear()  # as if all others had forgotten her
    assert calm.simulation.server._members.fulfilled == 0
    calm.simulation.server.reload()
    for _ in range(3):
        calm.bring()
    assert calm.ledger.reader.count_erasures() == (1, 1)


class Batched(Calm):
    """A version waits until two persons have left; nobody is evicted by a worker itself."""

    rules = msgspec.structs.replace(Calm.rules, release_batch=2, release_deadline_s=1e9)
    forget_fraction = "0"

    @property
    def version(self) -> int:
        last = self.ledger.reader.last_version()
        return last.number if last else 0


def test_an_eviction_of_a_lost_phone_counts_for_a_version_when_its_sum_has_left() -> None:
    """It is removed while a request is under way, whose opening it does not leave with."""
    calm = Batched(0)
    calm.simulation.run(100.0)
    calm.simulation.asleep.add("keyholder")
    calm.bring("w0", "w1", "w2")
    assert calm.masks.request is not None
    server, opened, version = calm.simulation.server, calm.masks.number, calm.version
    publication, (lost, other, _) = server._rounds.publication, sorted(calm.masks.counts)
    with calm.ledger.transaction():
        for name, later in ((lost, 1), (other, 0)):
            sequence = calm.masks.counts[name][1] + later
            publication.note_eviction(server.workers[name], sequence, server.rules)
    del calm.journals[lost], calm.simulation.workers[lost]
    calm.simulation.send("", server.remove(lost, calm.simulation.now_s))
    calm.simulation.asleep.clear()
    calm.start_keyholder()
    calm.simulation.run(calm.simulation.now_s + 100.0)
    assert calm.masks.number == opened + 1
    now_s = calm.simulation.now_s
    assert publication._release_at_s(server.rules, now_s) > now_s, "one person has left"
    calm.bring()
    assert calm.version > version


def test_the_total_is_that_of_masked_sums_and_opened_masks() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    digest = calm.digest
    assert rebuild_total(calm.ledger, make).digest() == digest
    store = calm.simulation.server._aggregation._masks  # type: ignore[attr-defined]
    calm.simulation.server = calm.new_server()
    with calm.ledger.transaction():
        vector = bytearray(store.vector("masks"))
        vector[0] ^= 1
        store.put_vector("masks", bytes(vector))
    with pytest.raises(BadBytes, match="the total is not the difference"):
        calm.new_server()


def test_a_ledger_never_changes_between_masks_and_none() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    with pytest.raises(BadInput, match="has sums under masks; the job needs its section"):
        Server("job", make, calm.ledger, calm.rules)


def test_an_update_without_a_mask_or_for_another_key_is_refused_and_named() -> None:
    calm = Calm(0)
    calm.simulation.run(100.0)
    row = calm.simulation.server.workers["w0"]
    update = Update(
        job="job", worker="w0", session=row.session, incarnation=row.incarnation,
        sequence=row.counted + 1, round=None, delta=statistics_of(make, [])[0].to_bytes(),
    )  # fmt: skip
    calm.simulation.server.handle([update], calm.simulation.now_s)
    assert calm.simulation.server.workers["w0"].flag.startswith("update is not masked")
    fields = {name: getattr(update, name) for name in Update.__struct_fields__}
    masked = MaskedUpdate(**fields, keyholder="0123", nonce=b"n" * 32, fresh=1, seal=b"s" * 32)
    calm.simulation.server.handle([masked], calm.simulation.now_s)
    flag = calm.simulation.server.workers["w0"].flag
    assert flag.startswith("update is masked for the keyholder's key 0123; this server has ")
    assert calm.masks.keyholder in flag


# -- liars -----------------------------------------------------------------------------------------


class WithLiar(Calm):
    liar = "w6"
    first_workers = 9


def test_a_liar_is_suspected_with_its_cohort_and_then_named() -> None:
    calm = WithLiar(0)
    calm.rules = replace(calm.rules, workers_per_round=5)
    names = [name for name in sorted(calm.journals) if name != "w6"]
    calm.simulation.workers["w6"].ingest([])
    calm.simulation.asleep.add("w6")
    calm.simulation.run(200.0)
    calm.bring(*names)
    good = calm.digest
    assert calm.masks.suspects == ()
    calm.simulation.asleep.clear()
    calm.bring("w5", "w6", "w7")
    suspects: set[str] = set(calm.masks.suspects)
    assert {"w5", "w6", "w7"} <= suspects
    assert calm.digest == good, "an impossible total is never shown"
    flags = {name: row.flag for name, row in calm.simulation.server.workers.items()}
    assert all(flags[name].startswith("suspect") for name in suspects)
    since = len(calm.opened)
    for _ in range(6):
        calm.bring()
    for request in calm.opened[since:]:
        within = {header.worker for header in request.plus} & suspects
        assert len(within) <= 1, "at most one suspect in an opening"
        suspects -= within
    assert calm.masks.barred == ("w6",)
    assert calm.simulation.server.workers["w6"].flag.startswith("barred")
    calm.bring(*names)
    honest = make()
    for name in names:
        honest.merge(statistics_of(make, calm.journals[name].records(State.LEARNED))[0])
    assert calm.digest == honest.digest()


def test_a_small_fleet_under_suspicion_finds_its_liar_by_groups() -> None:
    class Small(Calm):
        liar = "w1"
        first_workers = 6

    calm = Small(0)
    for _ in range(14):
        calm.bring()
    assert calm.masks.barred == ("w1",)
    assert len(calm.opened) > COHORT


# -- nothing seen ----------------------------------------------------------------------------------


def test_no_file_of_server_or_keyholder_contains_an_update(tmp_path: Path) -> None:
    """Needles: bodies of examples, their grid points, and unmasked deltas in both forms."""

    class Stored(Calm):
        def __init__(self) -> None:
            self.paths = tmp_path
            super().__init__(0)

        def new_keyholder(self) -> WatchedKeyholder:
            if self.vault.path == ":memory:":
                self.vault = KeyholderJournal(self.paths / "keyholder.db")
            return super().new_keyholder()

        def new_server(self) -> Server:
            if self.ledger.path == ":memory:":
                self.ledger = Ledger(self.paths / "ledger.db")
            return super().new_server()

    calm = Stored()
    calm.simulation.run(100.0)
    calm.bring("w0", "w1")
    assert calm.opened
    assert calm.ledger.updates.waiting()
    files = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert files.count(b"keyholder") > 0, "the files are read while they are in use"
    needles = []
    for name, journal in calm.journals.items():
        records = journal.records(State.LEARNED)
        needles += [record.body for record in records]
        delta = statistics_of(make, records)[0]
        needles += [delta.to_bytes(), Ring(make().schema).vector(delta)]
        assert name
    needles += list(calm.seen.values())
    assert not [needle for needle in needles if needle in files]
    own = Journal(tmp_path / "journal.db")
    own.replace_content(calm.journals["w0"].content())
    assert calm.journals["w0"].records(State.LEARNED)[0].body in calm.journals["w0"].content()


def test_the_enrolment_of_the_server_is_not_one_of_a_worker() -> None:
    calm = Calm(0)
    assert calm.enrolments[SERVER].role == "server"
    with pytest.raises(BadInput, match="sum of fewer than 2 workers hides nobody"):
        type(calm.simulation.keyholder.rules)(1)  # type: ignore[union-attr]


@pytest.mark.parametrize("lost", ["removed", "back"])
def test_more_workers_than_fit_the_integers_are_refused_until_there_is_room(lost: str) -> None:
    class Full(Calm):
        max_workers = 6

    calm = Full(0)
    calm.simulation.run(100.0)
    calm.join()
    calm.bring()
    rows = calm.simulation.server.workers
    assert not rows["w6"].fits
    assert "max_workers" in rows["w6"].flag
    assert calm.ledger.updates.count_stored(rows["w6"]) == 0
    assert [name for name in sorted(rows) if rows[name].fits] == [f"w{n}" for n in range(6)]
    if lost == "removed":
        calm.simulation.workers.pop("w0")
    calm.simulation.send("", calm.simulation.server.remove("w0", calm.simulation.now_s))
    for name in ("w6", *(["w0"] if lost == "back" else [])):
        calm.start_worker(name)
        calm.simulation.run(calm.simulation.now_s + 100.0)
    rows = calm.simulation.server.workers
    assert rows["w6"].fits
    assert not rows["w6"].flag
    if lost == "back":
        assert "max_workers" in rows["w0"].flag
        assert calm.ledger.updates.count_stored(rows["w0"]) == 0


def test_a_server_with_wider_integers_asks_for_all_sums_again_even_if_it_is_killed_first() -> None:
    calm = Calm(0)
    calm.bring()
    before = {name: row.incarnation for name, row in calm.simulation.server.workers.items()}
    privacy = Privacy(Asker(calm.enrolments[SERVER]), "job", cohort=COHORT, bits=128)
    for _ in range(2):
        one = Server("job", make, calm.ledger, calm.rules, Everyone(), privacy)
    after = {name: row.incarnation for name, row in one.workers.items()}
    assert after == {name: incarnation + 1 for name, incarnation in before.items()} != {}


def candidate(name: str, *fresh: int, clean_from: float = 0) -> masked._Candidate:
    """Return a worker whose updates bring this number of fresh examples each."""
    updates = [Pending(number, withdrawn=False) for number in range(1, len(fresh) + 1)]
    headers = [
        Header(name, 1, number, b"", count, b"", b"") for number, count in enumerate(fresh, 1)
    ]
    return masked._Candidate(WorkerRow(name), updates, headers, clean_from)


def taken(candidates: list[masked._Candidate], limit: int, cohort: int = 2) -> dict[str, int]:
    """Return how many updates of each worker a request contains."""
    return {one.row.name: len(one.updates) for one in masked._within(candidates, limit, cohort)}


def test_a_request_that_cannot_contain_all_contains_a_share_of_each() -> None:
    """Workers with many updates do not keep a cohort from being opened for ever."""
    long = [candidate("v", *[1] * 9), candidate("w", *[1] * 9)]
    assert taken(long, 18) == {"v": 9, "w": 9}
    assert taken(long, 17) == {"v": 8, "w": 8}
    assert taken([*long, candidate("x", 1)], 17) == {"v": 8, "w": 8, "x": 1}
    assert taken([*long, candidate("x", 0, 0)], 17) == {"v": 8, "w": 8}, "without fresh ones: later"
    assert taken([candidate("v", *[0] * 9, 1), long[1]], 17) == {}, "nobody is opened alone"
    assert taken([candidate("v", 1, 1, 0, 0, 0), long[1]], 6) == {"v": 2, "w": 3}


def test_a_part_of_the_updates_ends_where_it_may_be_counted() -> None:
    assert len(candidate("w", 1, 1, 0, 1, 0).up_to_fresh().updates) == 4
    assert len(candidate("w", 1, 1, 0, 1, 0).up_to_fresh(3).updates) == 2
    assert candidate("w", 1, 1, 0, 0, clean_from=3).up_to_fresh().updates == []
    assert len(candidate("w", 1, 1, 1, 0, clean_from=3).up_to_fresh().updates) == 3
    one = candidate("w", 1, 1, 1, 0)
    one.updates[1] = Pending(2, withdrawn=True, successor=4)
    del one.headers[1]
    assert len(one.up_to_fresh().updates) == 1, "the rest of the second is in the fourth"
