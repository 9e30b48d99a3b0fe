"""What the command `twinrun` does."""
