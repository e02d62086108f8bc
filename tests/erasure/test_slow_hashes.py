"""The key that every device holds makes each guess of a name slow; that of a run does not."""

import hashlib
import time
from pathlib import Path

from dealfl.erasure import draw_slow_key, owner_hash
from dealfl.network import BrokerSettings, create_broker
from dealfl.protocol.messages import Erase
from dealfl.worker import Journal, State
from tests.federation.parts import row, worker


def test_a_guess_with_the_key_of_devices_takes_a_thousand_times_as_long() -> None:
    slow, fast = draw_slow_key(), bytes(32)
    took = []
    for key, count in ((slow, 3), (fast, 1_000)):
        start_s = time.process_time()
        for number in range(count):
            owner_hash(key, f"person {number}")
        took.append((time.process_time() - start_s) / count)
    assert took[0] > 1_000 * took[1]


def test_a_slow_hash_is_scrypt_of_the_name_under_the_key() -> None:
    key = draw_slow_key()
    assert (len(key), key[0]) == (33, 13)
    made = hashlib.scrypt(b"ann", salt=key, n=2**13, r=8, p=1, maxmem=1 << 27, dklen=32)
    assert owner_hash(key, " ann ") == made
    assert owner_hash(draw_slow_key(), "ann") != made


def test_every_key_makes_hashes_in_bounded_time() -> None:
    keys = [bytes([cost]) + bytes(32) for cost in (0, 1, 16, 255)]
    hashes = [owner_hash(key, "ann") for key in keys]
    assert {len(hashed) for hashed in hashes} == {32}
    made = hashlib.scrypt(b"ann", salt=keys[3], n=2**16, r=8, p=1, maxmem=1 << 27, dklen=32)
    assert hashes[3] == made, "no key makes a hash take more than the highest cost"


def test_a_broker_gives_devices_a_slow_key(tmp_path: Path) -> None:
    settings = BrokerSettings(job="job", host="127.0.0.1", port=1, tls=False)
    broker = create_broker(tmp_path / "broker", settings)
    (phone,) = broker.enrol(["phone"])
    assert len(bytes.fromhex(phone.owners_key)) == 33


def test_a_worker_with_a_slow_key_forgets_a_person() -> None:
    key, journal = draw_slow_key(), Journal(journal_id="mark")
    one = worker(journal=journal, key=key)
    one.ingest([("ann", row(0.0, 0.5, 1.0)), ("bob", row(0.0, 0.5, 1.0))])
    order = Erase(job="job", worker="", request="r", owners=(owner_hash(key, "ann"),))
    one.handle([order], 1.0)
    assert [one.owner for one in journal.records(State.WAITING)] == [owner_hash(key, "bob")]
