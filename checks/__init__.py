"""What `make check` holds the source against, beside style and types."""
