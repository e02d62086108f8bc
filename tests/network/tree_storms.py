"""A storm over a tree: a root, regions with brokers of their own, and workers, all as processes.

They are killed −9 at random while they work, a region continues from a backup, a person is erased
from the root, and in the end a region is lost. Afterwards the root's digest must be that of central
training on the rows of all files, and the certificate must count what was ingested.
"""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from threading import Thread
from typing import Any

from dealfl.erasure import Evidence, verify_certificate
from dealfl.network import BrokerSettings, Credentials, create_broker, write_credentials
from dealfl.runs import RunningServer, back_up, restore
from dealfl.server import LedgerReader
from tests.network.brokers import RunningBroker, free_port, require_mosquitto
from tests.network.forks import CALM_S, Forks, wait_until_calm
from tests.network.growing import ERASED, OTHERS, REQUEST, SOURCE, Growing, erase

JOB = """\
[job]
name = "tree"
learner = "tikhonov"
scheme = "incremental"
rounds = 1000000
workers_per_round = {workers}
ttl_s = {ttl_s}
retry_after_s = {retry_s}
publish_every_s = 0.2
{regions}"""
ROOT = "root"


class TreeStorm:
    """One storm in a folder; all its decisions follow from its seed."""

    def __init__(
        self, seed: int, folder: Path, forks: Forks, *, regions: int = 2, workers: int = 2,
    ) -> None:  # fmt: skip
        require_mosquitto()
        self.seed, self._folder, self._forks = seed, folder, forks
        self._pace = max(workers / 10.0, 1.0)  # many processes share a machine
        self._program = "hurry" if workers < 10 else ""
        self._draw = random.Random(f"tree {seed}")
        self.regions = [f"r{number}" for number in range(regions)]
        self.workers = {
            region: [f"{region}w{n}" for n in range(workers)] for region in self.regions
        }
        self.kills: dict[str, int] = dict.fromkeys((ROOT, "region", "broker", "worker", "all"), 0)
        self.restored = 0
        self._next: list[str] = []  # what is killed
        self._alive: dict[str, int] = {}
        self._brokers: dict[str, RunningBroker] = {}
        folder.mkdir()
        self._files = Growing(folder / "data", self._draw)
        named = ", ".join(f'"{region}"' for region in self.regions)
        self._write_job(ROOT, regions, f"regions = [{named}]\n")
        self._start_broker(ROOT, "")
        root = self._brokers[ROOT]
        self.operator = root.broker.enrol(["operator"], operator=True)[0]
        write_credentials(folder / "operator.toml", self.operator)
        for region in self.regions:
            self._write_job(region, workers)
            write_credentials(folder / f"{region}.parent.toml", root.enrol(region))
            self._start_broker(region, self.operator.owners_key)
            own = self._brokers[region].broker.enrol(self.workers[region])
            for credentials in own:
                self._enrol(credentials)
        for name in self._all_workers():
            self._files.append(name, [ERASED] * self._draw.randint(0, 3) + ["bob"])

    def _write_job(self, name: str, workers: int, regions: str = "") -> None:
        pace = {"ttl_s": 0.5 * self._pace, "retry_s": 0.3 * self._pace}
        text = JOB.format(workers=workers, regions=regions, **pace) + SOURCE
        (self._folder / f"{name}.job.toml").write_text(text)

    def _start_broker(self, name: str, owners_key: str) -> None:
        settings = BrokerSettings(
            job="tree", host="127.0.0.1", port=free_port(), tls=True, owners_key=owners_key
        )
        broker = RunningBroker(create_broker(self._folder / f"{name}.broker", settings))
        write_credentials(self._folder / f"{name}.server.toml", broker.server)
        self._brokers[name] = broker

    def _enrol(self, credentials: Credentials) -> None:
        write_credentials(self._folder / f"{credentials.user}.toml", credentials)

    def _all_workers(self) -> list[str]:
        return [name for region in self.regions for name in self.workers[region]]

    # -- the processes --------------------------------------------------------------------------

    def start(self, name: str) -> None:
        folder = self._folder
        if name in self._brokers:
            command: list[Any] = ["serve", folder / f"{name}.job.toml",
                                  "--broker", folder / f"{name}.server.toml"]  # fmt: skip
            more: list[Any] = ["--trust", "operator"]
            if name != ROOT:
                more = ["--parent", folder / f"{name}.parent.toml"]
        else:
            region = name.partition("w")[0]
            command = ["work", folder / f"{region}.job.toml", "--broker", folder / f"{name}.toml"]
            more = ["--data", self._files.path(name)]
        self._alive[name] = self._forks.start(
            folder / f"{name}.log", [*command, "--out", folder / name, *more], self._program
        )

    def end(self, *names: str) -> None:
        for name in names:
            self._forks.end(self._alive.pop(name))

    def _strike(self) -> None:
        """Kill a process, a broker or everything −9, and start it again."""
        if not self._next:
            kinds = [ROOT, "region", "region", "broker", "worker", "all"]
            self._next = self._draw.sample(kinds, len(kinds))
        kind = self._next.pop()
        self.kills[kind] += 1
        if kind == "broker":
            self._brokers[self._draw.choice(sorted(self._brokers))].restart()
            return
        names = {
            ROOT: [ROOT],
            "region": [self._draw.choice(self.regions)],
            "worker": [self._draw.choice(self._all_workers())],
            "all": sorted(self._alive),
        }[kind]
        self.end(*names)
        time.sleep(self._draw.choice([0.0, 0.05, 0.4]))
        for name in names:
            self.start(name)

    # -- the storm ------------------------------------------------------------------------------

    def run(self, kills: int) -> None:
        try:
            for name in (ROOT, *self.regions, *self._all_workers()):
                self.start(name)
            wait_until_calm(self._find_unread, self)
            self._blow(kills)
            self._wait_until_calm()
            self.check_certificate()
            self.check()
            self.lose(self.regions[-1])
        finally:
            self.close()

    def _blow(self, kills: int) -> None:
        erase_at, back_up_at, restore_at = sorted(self._draw.sample(range(kills), 3))
        self._draw.shuffle(order := [erase_at, back_up_at])
        region = self._draw.choice(self.regions)
        erasing = Thread(target=erase, args=(self.operator, CALM_S), daemon=True)
        backup = self._folder / "backup"
        for strike in range(kills):
            if strike == order[0]:
                erasing.start()
            if strike == order[1]:
                back_up(self._folder / region, backup)
            if strike == restore_at:
                self._restore(region, backup)
            for _ in range(3):
                self._files.grow(self._draw.choice(self._all_workers()), OTHERS)
                time.sleep(self._pace * self._draw.uniform(0.0, 0.08))
            self._strike()
        erasing.join()

    def _restore(self, region: str, backup: Path) -> None:
        self.end(region)
        restore(backup, self._folder / region, force=True)
        self.restored += 1
        self.start(region)

    def lose(self, region: str) -> None:
        """Lose a region with its workers: the root removes it, and all others stay."""
        names = [region, *self.workers[region]]
        self.end(*names)
        shutil.rmtree(self._folder / region)
        RunningServer(self._folder / "operator.toml").remove(region)
        self.regions.remove(region)
        for name in names[1:]:
            del self._files.rows[name]
        self._wait_until_calm()
        self.check()

    def close(self) -> None:
        self.end(*self._alive)
        for broker in self._brokers.values():
            broker.kill()

    # -- afterwards -----------------------------------------------------------------------------

    def _find_unread(self) -> list[str]:
        return [
            f"{name} has something to do"
            for name in self._all_workers()
            if self._files.find_sequence(name, self._folder / name / "journal.db") < 0
        ]

    def _wait_until_calm(self) -> None:
        """Wait until every row was counted by its region and by the root."""
        wait_until_calm(self._find_unread, self)
        central = {region: self.central(region) for region in ("", *self.regions)}
        wait_until_calm(lambda: self._find_unread() + self._find_uncounted(central), self)

    def _find_uncounted(self, central: dict[str, str]) -> list[str]:
        missing = []
        for region in self.regions:
            with self._reader(region) as reader:
                uplink, total = reader.uplink(), reader.state().digest
            if not total == uplink.posted == central[region]:
                missing.append(f"{region} has not counted or posted all")
            missing += [f"{region}: {uplink.refused}"] * bool(uplink.refused)
        with self._reader(ROOT) as reader:
            erasures, version = reader.count_erasures(), reader.last_version()
        if erasures != (1, 1):
            missing.append("the erasure is not published")
        if version is None or version.digest != central[""]:
            missing.append("the root has not published all")
        return missing

    def _reader(self, name: str) -> Any:
        return LedgerReader.open(self._folder / name / "ledger.db")

    def central(self, region: str = "") -> str:
        """Return the digest of central training on the rows of all files, or of one region."""
        return self._files.train(self._folder / f"{ROOT}.job.toml", region)

    def check(self) -> None:
        with self._reader(ROOT) as reader:
            total = reader.state().digest
            rows = {figures.row.name: figures.row for figures in reader.workers()}
        assert total == self.central(), f"{self}: the root's digest is not that of all rows"
        for region in self.regions:
            assert rows[region].devices == len(self.workers[region]), f"{self}: {region}"

    def check_certificate(self) -> None:
        """Compare the counts of the certificate with the rows of the files."""
        server = RunningServer(self._folder / "operator.toml")
        path = server.certify(REQUEST, "", self._folder / "certificates")
        erasure, _ = verify_certificate(path, Evidence())
        written = sum(owner == ERASED for rows in self._files.rows.values() for owner, _ in rows)
        devices = sum(map(len, self.workers.values()))
        counts = (erasure.claimed, erasure.workers, erasure.outstanding, erasure.final)
        assert counts == (written, devices, 0, True), f"{self}: {counts}, {written} were ingested"
        assert erasure.examples <= erasure.claimed

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {name}" for name, count in self.kills.items())
        rows = len(self._files)
        return f"tree storm {self.seed} ({rows} rows; kills: {kills}; {self.restored} restored)"
