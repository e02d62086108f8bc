"""SQL is written in the stores and nowhere else."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "dealfl"
STORES = {
    "keyholder/journal.py",
    "storage/database.py",
    "server/ledger.py",
    "server/ledger_reader.py",
    "server/mask_store.py",
    "server/sums.py",
    "worker/journal.py",
    "worker/outbox.py",
}
STATEMENT = re.compile(
    r"\bSELECT .* FROM\b|\bINSERT .*INTO\b|\bUPDATE \w+ SET\b|\bDELETE FROM\b|\bCREATE TABLE\b"
    r"|\bPRAGMA \w|\bimport sqlite3\b"
)


def test_nobody_writes_sql_but_the_stores() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if STATEMENT.search(path.read_text("utf-8"))
    }
    assert found == STORES


def test_values_are_bound_by_place_without_numbers() -> None:
    """Python 3.12 warns of numbers such as ?1 in a list of values, and Python 3.14 refuses them."""
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\?\d", line) and "://" not in line
    ]
    assert found == []
