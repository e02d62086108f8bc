"""Job files: TOML that is checked key by key, with the offending line named."""

from dealfl.jobs.job import Job, job_of, selection_of
from dealfl.jobs.plan import Plan, plan_of
from dealfl.jobs.sources.quarantine import Quarantine, Quarantined
from dealfl.jobs.subject import Reading, Subject
from dealfl.settings import Document

__all__ = [
    "Document", "Job", "Plan", "Quarantine", "Quarantined", "Reading", "Subject", "job_of",
    "plan_of", "selection_of",
]  # fmt: skip
