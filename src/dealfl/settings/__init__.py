"""Settings files: how each section of each TOML file is declared, read and documented.

A section is a frozen `msgspec.Struct`. A field annotated with `Annotated[type, Meta(…)]` is a key:
its type states the valid values, its description the meaning. The annotated parameters of a
constructor are keys in the same way.
"""

from dealfl.settings.document import (
    Document,
    plain_value,
    read_text,
    toml_document,
    toml_key,
    toml_value,
)
from dealfl.settings.sections import (
    FLAT,
    KEY_HEAD,
    check,
    key_cells,
    key_rows,
    key_table,
    keys_of,
    nearest,
    nested_sections,
    normalise,
    read_keys,
    read_section,
    read_table,
    read_tables,
    read_value,
    read_variant,
)
from dealfl.settings.values import (
    Amount,
    As,
    Count,
    Fraction,
    Labels,
    Numbers,
    OneOf,
    Positive,
    Share,
    Text,
    Whole,
)

__all__ = [
    "FLAT",
    "KEY_HEAD",
    "Amount",
    "As",
    "Count",
    "Document",
    "Fraction",
    "Labels",
    "Numbers",
    "OneOf",
    "Positive",
    "Share",
    "Text",
    "Whole",
    "check",
    "key_cells",
    "key_rows",
    "key_table",
    "keys_of",
    "nearest",
    "nested_sections",
    "normalise",
    "plain_value",
    "read_keys",
    "read_section",
    "read_table",
    "read_tables",
    "read_text",
    "read_value",
    "read_variant",
    "toml_document",
    "toml_key",
    "toml_value",
]
