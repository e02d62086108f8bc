"""Job files: TOML that is checked key by key, with the offending line named."""

from dealfl.jobs.job import Job
from dealfl.jobs.plan import Plan, plan_of
from dealfl.jobs.sources.quarantine import Quarantine, Quarantined
from dealfl.jobs.subject import Reading, Subject
from dealfl.settings import Document

__all__ = ["Document", "Job", "Plan", "Quarantine", "Quarantined", "Reading", "Subject", "plan_of"]
