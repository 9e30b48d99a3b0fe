"""Raises where it is imported."""

raise RuntimeError("as a test wants it")
