"""From results to an exit code: what the config requires, and whether it holds."""
