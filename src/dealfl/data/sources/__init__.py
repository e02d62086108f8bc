"""The user's own data: CSV, LIBSVM and ratings files, as the section [source] describes them."""

from dealfl.data.sources.base import Source
from dealfl.data.sources.columns import Bounded, Column, WordColumn, find_date, is_missing
from dealfl.data.sources.csv_source import CsvSource
from dealfl.data.sources.libsvm_source import LibsvmSource, gather
from dealfl.data.sources.memory import MemoryRows, MemoryTable, Place, open_table
from dealfl.data.sources.quarantine import Quarantine, Quarantined
from dealfl.data.sources.ratings_source import RatingsSource
from dealfl.data.sources.reading import OwnerNames, Reading, report_progress, sift

__all__ = [
    "Bounded", "Column", "CsvSource", "LibsvmSource", "MemoryRows", "MemoryTable", "OwnerNames",
    "Place", "Quarantine", "Quarantined", "RatingsSource", "Reading", "Source", "WordColumn",
    "find_date", "gather", "is_missing", "open_table", "report_progress", "sift",
]  # fmt: skip
