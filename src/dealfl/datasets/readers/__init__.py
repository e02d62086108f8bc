"""Reading data files: unpacked, as delimited text, LIBSVM text or binary, with errors by line."""
