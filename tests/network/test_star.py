"""Several brokers, one of which fails: the server waits for none of its workers."""

from pathlib import Path

from tests.network.brokers import start_broker
from tests.network.serving import Phone, serve


def test_workers_of_a_broker_that_fails_are_asleep_at_once(tmp_path: Path) -> None:
    first, second = (start_broker(tmp_path / name, job="job") for name in ("first", "second"))
    try:
        with serve(first.server, second.server) as served:
            enrolled = first.enrol("w8"), second.enrol("w9")
            phones = [Phone(where, served.epoch) for where in enrolled]
            for phone in phones:
                phone.join()
            first.kill()
            assert served.wait(lambda: served.server.workers["w8"].asleep)
            assert not served.do(lambda: served.server.workers["w9"].asleep)
    finally:
        first.kill()
        second.kill()
