"""What keeps a federation going: state, models, copies, logs and metrics."""
