"""A user's own data: CSV, LIBSVM and ratings files, read as the section [source] fixes them."""
