"""After a round has closed, no file of the ledger holds the bytes of an update any more."""

from pathlib import Path

from dealfl.server import Ledger
from tests.federation.parts import delta_of, joined, update


def test_what_was_counted_is_in_no_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    one = joined("v", "w", "x", ledger=ledger)
    first = update(1, 7, name="v", round=1)
    one.handle([first], 1.0)
    needle = delta_of(first).to_bytes()
    assert any(needle in file.read_bytes() for file in tmp_path.iterdir()), "it waits there"
    one.handle([update(1, 5, name="w", round=1), update(1, 9, name="x", round=1)], 2.0)
    one.handle([update(2, 1, name="v"), update(2, 1, name="w")], 3.0)
    one.handle([], 500.0)  # v's sum is no longer its first update
    assert not any(needle in file.read_bytes() for file in tmp_path.iterdir())
