"""Job files: TOML that is checked key by key; errors name the line."""

from dealfl.jobs.job import Job, job_of, selection_of
from dealfl.jobs.plan import Plan, plan_of, plan_without_data
from dealfl.jobs.sources import Quarantine, Quarantined, Reading
from dealfl.jobs.subject import SOURCES, Data, Subject, read_source, read_subject
from dealfl.settings import Document

__all__ = [
    "SOURCES", "Data", "Document", "Job", "Plan", "Quarantine", "Quarantined", "Reading", "Subject",
    "job_of", "plan_of", "plan_without_data", "read_source", "read_subject", "selection_of",
]  # fmt: skip
