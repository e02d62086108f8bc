"""A tree like /sys/class/net, whose counters a test sets."""

from pathlib import Path

LOOPBACK, ETHERNET, RAW = 772, 1, 519  # of lo, wlan0, and rmnet_data0 of a phone


class NetTree:
    """Interfaces with the bytes that they received and sent."""

    def __init__(self, sysfs: Path) -> None:
        self.sysfs = sysfs
        self._folder = sysfs / "class" / "net"
        self.add("lo", LOOPBACK, 10**9, 10**9)

    def add(self, name: str, kind: int = ETHERNET, received: int = 0, sent: int = 0) -> None:
        (self._folder / name / "statistics").mkdir(parents=True)
        (self._folder / name / "type").write_text(f"{kind}\n")
        self.show(name, received, sent)

    def show(self, name: str, received: int, sent: int) -> None:
        for file, count in (("rx_bytes", received), ("tx_bytes", sent)):
            (self._folder / name / "statistics" / file).write_text(f"{count}\n")

    def carry(self, name: str, received: int, sent: int) -> None:
        """Add to the counters, as traffic does."""
        before = [
            int((self._folder / name / "statistics" / file).read_text())
            for file in ("rx_bytes", "tx_bytes")
        ]
        self.show(name, before[0] + received, before[1] + sent)

    def remove(self, name: str) -> None:
        for file in ("statistics/rx_bytes", "statistics/tx_bytes", "type"):
            (self._folder / name / file).unlink()
        (self._folder / name / "statistics").rmdir()
        (self._folder / name).rmdir()
