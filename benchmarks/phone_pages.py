"""Page swaps of a fleet's resident models, for `phone.py`: policies, and the optimum.

Each worker's page trace is recorded while the fleet runs. Belady's optimum knows the future of this
trace; it is computed for each worker with its frames, and summed over the fleet.
"""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace
from reporting import Report, Row, progress

from dealfl.power import PHONES, EnergyModel
from dealfl.settings import Document
from dealfl.simulate import FleetSpec, read_fleet, run_fleet
from dealfl.storage import Policy, Touch
from dealfl.worker import Memory, WorkerKeys
from dealfl_paper.paging import belady

JOB = Path(__file__).parents[1] / "examples" / "jobs" / "pagerank-movielens.toml"
PAGES = 1384  # of the model of movielens
POLICIES = ("theta_lru", "lru", "arc")
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # of the pages
READ_J = fmean(  # of a page; the phones have the same storage
    EnergyModel(one).compute(0.0, one.fastest, pages_in=1).storage_j for one in PHONES.values()
)


class RecordedPolicy(Policy):
    """A policy that notes the pages it touches; the first round is the model's making."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.frames = policy, policy.frames
        self._made: list[int] = []
        self._trained: list[int] | None = None

    def touch(self, page: int) -> Touch:
        """Note a page and use it."""
        (self._made if self._trained is None else self._trained).append(page)
        return self._policy.touch(page)

    def new_round(self) -> None:
        """Start a round."""
        self._trained = self._trained or []
        self._policy.new_round()

    def note(self, page: int, *, changed: bool) -> None:
        """Pass on that a page was changed, or written back."""
        self._policy.note(page, changed=changed)

    def leaving(self) -> Iterator[int]:
        """Yield the pages that may leave."""
        return self._policy.leaving()

    def __contains__(self, page: int) -> bool:
        return page in self._policy

    @property
    def optimal_loads(self) -> int:
        """The loads of trainings that no policy can avoid with these frames."""
        loads = belady(self._made + (self._trained or []), self.frames)
        return sum(loads[len(self._made) :])


class RecordedMemory(Memory, frozen=True, kw_only=True):
    """The page frames of a fleet's workers, whose policies record."""

    made: list[RecordedPolicy]

    def make_policy(self, frames: int) -> RecordedPolicy:
        """Return the policy of a worker's model."""
        self.made.append(RecordedPolicy(super().make_policy(frames)))
        return self.made[-1]


def add_pages(report: Report, quick: bool) -> None:
    """Count the swaps of a fleet's resident models of movielens, by policy and number of frames."""
    document = Document.read(JOB).replaced("job.max_h", 2.0 if quick else 10.0)
    fleet = read_fleet(document.replaced("job.evaluate_every", 1000))  # no need to recommend
    for share in (0.1, 0.5) if quick else SHARES:
        found = {policy: run_paged(fleet, int(share * PAGES), policy) for policy in POLICIES}
        report.rows += [{"frames": f"{share:.0%}", "policy": n, **row} for n, row in found.items()]
        compare(report, f"{share:.0%}", found)


def compare(report: Report, share: str, found: dict[str, Row]) -> None:
    """Check that no policy beats the optimum; name those that θ-LRU loses to."""
    best, parts = found["theta_lru"]["optimum / training"], []
    for what in ("pages in / training", "storage J"):
        own = found["theta_lru"][what]
        better = [name for name in POLICIES if found[name][what] < own]
        listed = ", ".join(f"{name} {row[what]:.4g}" for name, row in found.items())
        parts.append(f"{what}: {listed}; θ-LRU loses to {' and '.join(better) or 'none'}")
    report.check(
        f"swaps of a fleet, M = {share} of the pages", "no policy reads less than the optimum",
        f"optimum {best:.4g} pages in / training. {'. '.join(parts)}",
        all(row["optimum / training"] <= row["pages in / training"] for row in found.values()),
    )  # fmt: skip
    joules = {name: row["storage J"] for name, row in found.items()}
    report.check(
        f"energy of storage with θ-LRU, M = {share} of the pages", "≤ that of LRU and of ARC",
        ", ".join(f"{name} {spent:.4g} J" for name, spent in joules.items()),
        joules["theta_lru"] <= min(joules.values()),
    )  # fmt: skip


def run_paged(fleet: FleetSpec, frames: int, policy: str) -> Row:
    """Run a fleet of paged models; return its swaps, and the optimum of its page traces."""
    memory = RecordedMemory(frames=frames, policy=policy, made=[])
    keys = WorkerKeys(model="resident", memory=memory)
    with progress(f"{policy}, {frames} frames"):
        energy = run_fleet(replace(fleet, worker=keys)).energy
        optimum = sum(one.optimal_loads for one in memory.made)
    trainings = max(energy.wake_ups, 1)
    return {
        "trainings": trainings,
        "pages in / training": energy.pages_in / trainings,
        "pages out / training": energy.pages_out / trainings,
        "storage J": energy.by_cause_j["storage"],
        "optimum / training": optimum / trainings,
        "its reads, J": optimum * READ_J,
    }
