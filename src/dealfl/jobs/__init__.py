"""Job files: TOML that is checked key by key; errors name the line."""

from dealfl.data.sources import Quarantine, Reading
from dealfl.jobs.job import (
    SOURCES,
    Data,
    Job,
    MachineKeys,
    PrivacyKeys,
    change,
    read_job,
    read_machine_keys,
    read_privacy,
    read_selection,
    read_selector,
    read_source,
)
from dealfl.jobs.plan import Plan, plan_without_data, read_plan
from dealfl.jobs.records import GrowingSource, Head, Records, records_of
from dealfl.settings import Document

__all__ = [
    "SOURCES",
    "Data",
    "Document",
    "GrowingSource",
    "Head",
    "Job",
    "MachineKeys",
    "Plan",
    "PrivacyKeys",
    "Quarantine",
    "Reading",
    "Records",
    "change",
    "plan_without_data",
    "read_job",
    "read_machine_keys",
    "read_plan",
    "read_privacy",
    "read_selection",
    "read_selector",
    "read_source",
    "records_of",
]
