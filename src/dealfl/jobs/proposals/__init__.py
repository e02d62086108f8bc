"""A first job for a user's file: what it looks like, and what should be fixed before training."""
