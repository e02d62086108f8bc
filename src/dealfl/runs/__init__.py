"""A run and its folder: start, stop, resume, compare; state, models, copies, logs, metrics."""
