"""Stop a training, kill it, resume it."""
