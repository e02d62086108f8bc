"""The entries of the catalog, by task."""
