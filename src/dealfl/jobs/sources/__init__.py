"""The user's own data: CSV, LIBSVM and ratings files, as the section [source] describes them."""

from dealfl.jobs.sources.base import Source
from dealfl.jobs.sources.columns import Bounded, Column, WordColumn, find_date, is_missing
from dealfl.jobs.sources.csv_source import CsvSource
from dealfl.jobs.sources.libsvm_source import LibsvmSource, gather
from dealfl.jobs.sources.memory import MemoryRows, MemoryTable, Place, open_table
from dealfl.jobs.sources.quarantine import Quarantine, Quarantined
from dealfl.jobs.sources.ratings_source import RatingsSource
from dealfl.jobs.sources.reading import OwnerNames, Reading, report_progress, sift

__all__ = [
    "Bounded", "Column", "CsvSource", "LibsvmSource", "MemoryRows", "MemoryTable", "OwnerNames",
    "Place", "Quarantine", "Quarantined", "RatingsSource", "Reading", "Source", "WordColumn",
    "find_date", "gather", "is_missing", "open_table", "report_progress", "sift",
]  # fmt: skip
