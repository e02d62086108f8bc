"""The user's own data: CSV, LIBSVM and ratings files, as the section [source] describes them."""

from dealfl.data.sources.base import (
    Quarantine,
    Quarantined,
    Reading,
    Source,
    report_progress,
)
from dealfl.data.sources.columns import Bounded, Column, WordColumn, find_date, is_missing
from dealfl.data.sources.formats import (
    CsvSource,
    LibsvmSource,
    RatingsSource,
    item_names,
    source_in_order,
    source_of_domain,
)
from dealfl.data.sources.memory import (
    MemoryRows,
    MemoryTable,
    TableData,
    feature_columns,
    open_table,
    owner_names,
)

__all__ = [
    "Bounded",
    "Column",
    "CsvSource",
    "LibsvmSource",
    "MemoryRows",
    "MemoryTable",
    "Quarantine",
    "Quarantined",
    "RatingsSource",
    "Reading",
    "Source",
    "TableData",
    "WordColumn",
    "feature_columns",
    "find_date",
    "is_missing",
    "item_names",
    "open_table",
    "owner_names",
    "report_progress",
    "source_in_order",
    "source_of_domain",
]
