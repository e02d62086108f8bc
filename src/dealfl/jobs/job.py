"""The sections [job], [rewards], [selection], [source] and [machine] of a job file."""

from __future__ import annotations

import fractions
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.data import CATALOG, Dataset, Task, load
from dealfl.data.sources import (
    CsvSource,
    LibsvmSource,
    MemoryRows,
    MemoryTable,
    Quarantine,
    RatingsSource,
    Reading,
    Source,
)
from dealfl.learners import learners_for
from dealfl.power import METERS
from dealfl.protocol import SELECTORS, Name, RewardWeights, Rules, Sleep
from dealfl.settings import (
    FLAT,
    Amount,
    Count,
    Document,
    Fraction,
    OneOf,
    Positive,
    Share,
    Text,
    Whole,
    keys_of,
    plain_value,
    read_keys,
    read_section,
    read_table,
    read_variant,
)
from dealfl.worker import MIN_BATTERY, SCHEMES

if TYPE_CHECKING:
    from dealfl.server.selection import Selector

_OWN_SECTIONS = {"job.learner": "learner", "job.selector": "selection"}
_NO_CARRY = fractions.Fraction(0)
_FOR_EVER_S = 1e9


class Job(Struct, frozen=True, kw_only=True):
    """What is learned, how, and when the job ends."""

    dataset: Annotated[
        str, OneOf(CATALOG), Meta(description="dataset of the catalog; a [source] replaces it")
    ] = ""
    name: Annotated[Name, Meta(min_length=1, description="name of the job")] = "simulated"
    learner: Annotated[
        Text, Meta(description="name of the learner; by default the first that suits the task")
    ] = ""
    scheme: Annotated[
        str,
        OneOf(SCHEMES),
        Meta(description="which examples a worker keeps, and whether it retrains from scratch"),
    ] = "deal"
    forget_fraction: Annotated[
        Fraction,
        Meta(description="share of the old examples that each training evicts, θ in the paper"),
    ] = "0.02"
    rules: Annotated[Rules, FLAT] = Rules()
    selector: Annotated[
        str, OneOf(SELECTORS), Meta(description="policy that selects the workers of a round")
    ] = "uniform"
    retry_after_s: Annotated[
        Positive,
        Meta(description="time after which a worker repeats an unconfirmed message"),
    ] = 30.0
    sleep: Annotated[
        bool,
        Meta(
            description="workers with nothing worth a burst close their connection, until enough "
            "examples wait or `max_wait_s` is over"
        ),
    ] = False
    evaluate_every: Annotated[
        Count, Meta(description="number of rounds between two tests of the model")
    ] = 1
    max_h: Annotated[
        Positive,
        Meta(description="virtual time after which the job ends in any case"),
    ] = 168.0
    seed: Annotated[Whole, Meta(description="seed of all random draws")] = 0

    @property
    def first_sleep(self) -> Sleep | None:
        """When a worker that sleeps calls for the first time; None if it does not sleep."""
        rules = self.rules
        if not self.sleep:
            return None
        return rules.make_sleep(self.name, "", rules.min_waiting, rules.max_wait_s)

    @property
    def most_rounds(self) -> int:
        """About the number of rounds: `max_h` ends a job, too; a phone that calls opens one."""
        every_s = self.rules.round_every_s
        return min(self.rules.rounds, int(self.max_h * 3600.0 / every_s) if every_s else 1 << 62)

    @property
    def ends_at_h(self) -> float:
        """Virtual time that ends the job before all rounds; 0 if the rounds may end it."""
        return self.max_h if self.most_rounds < self.rules.rounds else 0.0

    @property
    def server_rules(self) -> Rules:
        """The rules, with the share of its examples that a worker of this scheme evicts."""
        many, retention = 10**9, SCHEMES[self.scheme].retention
        own, *limits = (
            retention.evict(many, fractions.Fraction(fraction), _NO_CARRY).count
            for fraction in (self.forget_fraction, "0", "1")
        )
        depends = limits[0] != limits[1]  # a scheme that keeps all needs no θ
        forget_by = self.rules.forget_by if depends else "job"
        return replace(self.rules, evicted_share=own / many, forget_by=forget_by)


def read_job(document: Document) -> Job:
    """Read the sections [job] and [rewards] of a job file.

    Examples
    --------
    >>> text = "[job]\\nrounds = 3\\n[rewards]\\nspeed = 2"
    >>> rules = read_job(Document.parse(text, "job.toml")).rules
    >>> rules.rounds, rules.rewards.speed
    (3, 2.0)
    """
    job = read_section(document, Job, "job")
    rules = replace(job.rules, rewards=read_section(document, RewardWeights, "rewards"))
    if "presence_timeout_s" not in document.tables.get("job", {}):
        rules = replace(rules, presence_timeout_s=_FOR_EVER_S)
    return replace(job, rules=rules)


def read_selection(document: Document, job: Job) -> dict[str, Any]:
    """Read the section [selection]: the settings of the selector."""
    from dealfl.server.selection import SELECTORS as KINDS  # a worker needs the names only

    made = KINDS[job.selector]
    table = document.tables.get("selection", {})
    settings = read_keys(document, made, "selection", table)
    if "seed" in keys_of(made):
        settings.setdefault("seed", job.seed)
    return settings


def read_selector(document: Document, job: Job) -> Selector:
    """Return the selector of a job, with the settings of the section [selection]."""
    from dealfl.server.selection import make_selector  # a worker needs none

    return make_selector(job.selector, read_selection(document, job))


# -- data ---------------------------------------------------------------------------------------

SOURCES: tuple[type[Source], ...] = (CsvSource, LibsvmSource, RatingsSource)


@dataclass(frozen=True, slots=True)
class Subject:
    """The data of a job: equal keys mean the same file in the same state, read in the same way."""

    key: str
    dataset: Dataset = field(compare=False)
    read: Callable[[], Reading] = field(compare=False, repr=False)
    source: Source | None = field(compare=False, default=None)

    @property
    def name(self) -> str:
        """Name of the dataset or file."""
        return self.dataset.name

    @property
    def task(self) -> Task:
        """Classification, regression or recommendation."""
        return self.dataset.task

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of the learners that suit the task."""
        return learners_for(self.task)


def read_source(document: Document) -> Source:
    """Read the section [source]; the data file is not opened."""
    source: Source = read_variant(document, SOURCES, "source")
    return source.with_columns(document)


Data = MemoryTable | MemoryRows
"""Data in memory that replaces the file of a [source]."""


def read_subject(document: Document, job: Job, data: Data | None = None) -> Subject:
    """Return the data of a job: a dataset of the catalog, or the file of its [source].

    Examples
    --------
    >>> digits = Document.parse("", "job.toml")
    >>> read_subject(digits, Job(dataset="digits")).learners
    ('tikhonov_classifier', 'naive_bayes', 'neighbors')
    """
    if "source" in document.tables and job.dataset:
        raise document.error(
            "job.dataset",
            f"job.dataset is {job.dataset!r}, but there is a [source], too: remove one of them",
        )
    if "source" in document.tables:
        return _own_subject(document, data)
    if not job.dataset:
        raise document.error(
            "job",
            f"the key 'dataset' is missing in job; it takes {OneOf(CATALOG).takes}; or "
            "describe your own file in a section [source] (`dealfl job init FILE` writes it)",
        )
    name = job.dataset
    return Subject(name, CATALOG[name], lambda: Reading(load(name), Quarantine(name)))


def _own_subject(document: Document, data: Data | None) -> Subject:
    source = read_source(document)
    read_from = document.folder / source.file if data is None else data
    source.check(document, read_from)
    if isinstance(read_from, Path):
        state = read_from.stat()
        key = f"{read_from.resolve()} {state.st_mtime_ns} {state.st_size}"
    else:
        key = read_from.key
    key += f" {document.tables['source']}"
    return Subject(key, source.describe(read_from), partial(source.read, read_from), source)


class PrivacyKeys(Struct, frozen=True, kw_only=True):
    """Sums under masks: the server sees sums of cohorts only, which a keyholder opens."""

    keyholder: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_-]{0,64}$",
            description="name under which the keyholder is enrolled at the broker; empty: no masks",
        ),
    ] = ""
    cohort: Annotated[
        int,
        Meta(ge=2, description="minimum number of workers with fresh examples in a sum, t"),
    ] = 5
    max_workers: Annotated[
        Count,
        Meta(
            description="maximum number of workers, whose sums must fit; a simulation has its own"
        ),
    ] = 10_000


def read_privacy(document: Document) -> PrivacyKeys:
    """Return the section [privacy] of a job file."""
    keys = read_section(document, PrivacyKeys, "privacy")
    if "privacy" in document.tables and not keys.keyholder:
        raise document.error(
            "privacy", 'the section [privacy] needs the name of a keyholder: keyholder = "NAME"'
        )
    return keys


class MachineKeys(Struct, frozen=True, kw_only=True):
    """The machine of a worker process; `dealfl work` has a flag for each key."""

    meter: Annotated[
        Text,
        Meta(description=f"energy meter: {', '.join(METERS)}, or a Monsoon CSV file under way"),
    ] = "auto"
    clock: Annotated[
        Text,
        Meta(description="clock of the CPU while it trains: off, deal (by signals), or a MHz"),
    ] = "off"
    min_battery: Annotated[
        Share, Meta(description="charge below which the worker declines without a charger")
    ] = MIN_BATTERY
    max_temperature_c: Annotated[
        Amount, Meta(description="temperature above which the worker declines")
    ] = 85.0
    device_command: Annotated[
        Text,
        Meta(
            description="command that prints JSON objects with what sysfs does not tell: battery, "
            "charging, metered, hot, busy; and network_active, if it keeps running"
        ),
    ] = ""
    sysfs: str = "/sys"  # not a key: where the tests have another tree


def change(document: Document, settings: Mapping[str, object]) -> Document:
    """Return a job with other values for some keys; None removes a key or a section.

    Another learner or selector takes none of the keys that the job has for its own.

    >>> job = Document.parse("[job]\\nrounds = 3", "job.toml")
    >>> change(job, {"job.forget_fraction": 0.05, "job.rounds": None}).tables
    {'job': {'forget_fraction': Decimal('0.05')}}
    """
    job = read_table(document, "job")
    for key, section in _OWN_SECTIONS.items():
        own = job.get(key.removeprefix("job."))
        if section in document.tables and settings.get(key, own) != own:
            document = document.replaced(section, None)
    for key, value in settings.items():
        document = document.replaced(key, plain_value(value))
    return document


def read_machine_keys(document: Document, flags: Mapping[str, object]) -> MachineKeys:
    """Return the section [machine] of a job file."""
    for name, value in flags.items():
        if value is not None:
            document = document.replaced(f"machine.{name}", value)
    return read_section(document, MachineKeys, "machine")
