"""The report: one self-contained page for a reader who was not there."""
