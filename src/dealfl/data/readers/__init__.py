"""Readers of data files: delimited text, LIBSVM text and binary; errors name the line."""

from dealfl.data.readers.catalogued import (
    Cifar,
    Columns,
    Events,
    Interactions,
    Libsvm,
    RatingMatrix,
    Ratings,
    Table,
    TargetColumn,
)
from dealfl.data.readers.content import (
    PACKINGS,
    Content,
    as_text,
    open_bytes,
    read_lines,
    unpacked_name,
)
from dealfl.data.readers.delimited import (
    Block,
    DelimitedText,
    Encoding,
    Layout,
    read_number,
    require_rows,
)
from dealfl.data.readers.libsvm import (
    DENSE_CELLS,
    SparseRows,
    looks_like_libsvm,
    read_libsvm,
    read_pairs,
)

__all__ = [
    "DENSE_CELLS",
    "PACKINGS",
    "Block",
    "Cifar",
    "Columns",
    "Content",
    "DelimitedText",
    "Encoding",
    "Events",
    "Interactions",
    "Layout",
    "Libsvm",
    "RatingMatrix",
    "Ratings",
    "SparseRows",
    "Table",
    "TargetColumn",
    "as_text",
    "looks_like_libsvm",
    "open_bytes",
    "read_libsvm",
    "read_lines",
    "read_number",
    "read_pairs",
    "require_rows",
    "unpacked_name",
]
