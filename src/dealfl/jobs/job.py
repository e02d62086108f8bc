"""The sections [job], [rewards] and [selection]: the task, the terms, and the choice of workers."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from dealfl.bounds import Name
from dealfl.datasets import CATALOG
from dealfl.server import RewardWeights, Terms
from dealfl.server.selection import SELECTORS
from dealfl.settings import (
    FLAT,
    Count,
    Document,
    Formerly,
    Fraction,
    OneOf,
    Positive,
    Text,
    Whole,
    keys_of,
    read_keys,
    read_section,
)
from dealfl.worker import SCHEMES

__all__ = ["Job", "read_job", "read_selection"]

_MISSED = 3  # announcements, before a worker counts as offline


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
    terms: Annotated[Terms, FLAT] = Terms()
    selector: Annotated[
        str, OneOf(SELECTORS), Meta(description="policy that selects the workers of a round")
    ] = "uniform"
    announce_every_s: Annotated[
        Positive, Meta(description="time between two announcements of a worker")
    ] = 60.0
    retry_after_s: Annotated[
        Positive,
        Formerly("send_again_after_s"),
        Meta(description="time after which a worker repeats an unconfirmed message"),
    ] = 30.0
    evaluate_every: Annotated[
        Count, Meta(description="number of rounds between two tests of the model")
    ] = 1
    max_h: Annotated[
        Positive,
        Formerly("longest_h"),
        Meta(description="virtual time after which the job ends in any case"),
    ] = 168.0
    seed: Annotated[Whole, Meta(description="seed of all random draws")] = 0


def read_job(document: Document) -> Job:
    """Read the sections [job] and [rewards] of a job file.

    Parameters
    ----------
    document
        The job file.

    Returns
    -------
    Job
        The job. Without `presence_timeout_s`, a worker counts as offline after three missed
        announcements.

    Raises
    ------
    BadInput
        If a key is unknown, missing or has an invalid value; the message names the line.

    Examples
    --------
    >>> text = "[job]\\nrounds = 3\\n[rewards]\\nspeed = 2"
    >>> terms = read_job(Document.parse(text, "job.toml")).terms
    >>> terms.rounds, terms.rewards.speed
    (3, 2.0)
    """
    job = read_section(document, Job, "job")
    terms = replace(job.terms, rewards=read_section(document, RewardWeights, "rewards"))
    if "presence_timeout_s" not in document.tables.get("job", {}):
        terms = replace(terms, presence_timeout_s=_MISSED * job.announce_every_s)
    return replace(job, terms=terms)


def read_selection(document: Document, job: Job) -> dict[str, Any]:
    """Read the section [selection]: the settings of the selector.

    Parameters
    ----------
    document
        The job file.
    job
        The job, which names the selector.

    Returns
    -------
    dict
        Arguments of the selector; its seed is by default the seed of the job.

    Raises
    ------
    BadInput
        If the selector has no such key, or a value is invalid; the message names the line.
    """
    made = SELECTORS[job.selector]
    table = document.tables.get("selection", {})
    settings = read_keys(document, made, "selection", table)
    if "seed" in keys_of(made):
        settings.setdefault("seed", job.seed)
    return settings
