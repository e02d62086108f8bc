"""What a run looks like: summary, page and plots."""
