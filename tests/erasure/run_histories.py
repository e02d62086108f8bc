"""Runs in a folder from which people are erased: before, while it is stopped, and after its end."""

import random
from pathlib import Path
from typing import Any

import dealfl
from dealfl.erasure import ErasureRequest
from dealfl.report import write_page
from dealfl.runs import (
    Interrupted,
    Run,
    RunFolder,
    erase_owners,
    export_model,
    find_holdings,
    open_model,
    retrain,
    save_arrays,
)
from dealfl.runs.erasures import put_request
from dealfl.storage import log_to
from tests.erasure.histories import LEARNERS, NAMES
from tests.runs.erased_people import stored_bodies
from tests.traces.needles import (
    Needles,
    find_needles,
    needles_of_name,
    needles_of_records,
    needles_of_values,
)


class Disturbing:
    """Watches a run; at one round a request arrives, at another one the run is stopped."""

    def __init__(self, run: Run, folder: RunFolder, at: dict[str, int], person: str) -> None:
        self.run, self.folder, self.at, self.person = run, folder, at, person

    def start_scheme(self, *_: object) -> None: ...

    def finish_scheme(self, *_: object) -> None: ...

    def show_progress(self, progress: Any) -> None:
        if self.at.get("erase", 99) <= progress.rounds:
            del self.at["erase"]
            key = self.folder.owners_key()
            request = ErasureRequest.erasing([self.person], [], key, "the person")
            put_request(self.folder, request)
        if self.at.get("stop", 99) <= progress.rounds:
            del self.at["stop"]
            self.run.stop()


class RunHistory:
    """A run of data in memory with everything it leaves in its folder."""

    def __init__(self, number: int, path: Path) -> None:
        self.random, self.folder = random.Random(number), RunFolder(path / "run")
        self.learner = sorted(LEARNERS)[number % len(LEARNERS)]
        self.rows: dict[str, list[list[float]]] = {}
        self.people = NAMES
        settings = {"job.forget_fraction": self.random.choice((0.0, 0.3)), "job.seed": number}
        self.fleet = self._make_fleet().with_rounds(6).with_settings(settings)
        self.found_before, self.asked = 0, ""

    def _make_fleet(self) -> dealfl.Fleet:
        people = [self.random.choice(NAMES) for _ in range(48)]
        if self.learner == "personalized_pagerank":
            items = [[f"i{self.random.randrange(30)}" for _ in range(8)] for _ in range(16)]
            self.people = [f"{place}" for place in range(len(items))]
            return dealfl.Fleet.from_histories(items, workers=3)
        rows = [[round(self.random.random(), 9) for _ in range(3)] for _ in people]
        for person, row in zip(people, rows, strict=True):
            self.rows.setdefault(person, []).append(row)
        target = [a - b if self.learner == "tikhonov" else a > b for a, b, _ in rows]
        return dealfl.Fleet.from_arrays(rows, target, self.learner, owners=people, workers=3)

    def run(self) -> None:
        """Run, be stopped and resumed, perhaps erase somebody; export the model."""
        at = {what: self.random.randint(0, 9) for what in ("erase", "stop")}
        file, data = self.fleet.document.tables["source"]["file"], self.fleet.data
        assert data is not None, "the folder gets a copy"
        self.folder.prepare(self.fleet.job_text(), {file: data.text()})
        with log_to(self.folder.path / "log.jsonl"):
            while True:
                run = Run(self.fleet.simulated, self.folder, compare=False)
                try:
                    person = self.asked or self.random.choice(self.people)
                    result = run.run(Disturbing(run, self.folder, at, person))
                    break
                except Interrupted:
                    continue
                finally:
                    self.asked = person if "erase" not in at else ""
            with self.folder.locked():
                run.save(result, write_page)
        save_arrays(open_model(self.folder.path), self.folder.path / "arrays.npz")
        export_model(open_model(self.folder.path), self.folder.path / "model.deal")

    def erase(self) -> tuple[str, str, list[str]]:
        """Erase a person; return both digests, and where something of the person still is."""
        held = [one for one in self.people if find_holdings(self.folder, one)]
        person = self.random.choice(held)
        needles = self._needles(person)
        self.found_before = len(find_needles(self.folder.path, needles))
        without = retrain(self.folder, without=person)
        erased = erase_owners(self.folder, [person], requested_by="test").erasure
        after = "" if erased.after is None else erased.after.digest
        needles |= self._needles(self.asked) if self.asked else {}
        return after, without, find_needles(self.folder.path, needles)

    def _needles(self, person: str) -> Needles:
        found = needles_of_name(person)
        for row in self.rows.get(person, []):
            found |= needles_of_values(*row)
        bodies = list(stored_bodies(self.folder, person).values())
        if bodies:
            found |= needles_of_records(self.fleet.simulated.plan.make, bodies)
        return {what: needle for what, needle in found.items() if len(needle) >= 8}
