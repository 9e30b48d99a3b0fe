"""Variants of one workload, timed side by side."""
