"""Job files: TOML that is checked key by key, with the offending line named."""

from dealfl.jobs.document import Document
from dealfl.jobs.job import Job

__all__ = ["Document", "Job"]
