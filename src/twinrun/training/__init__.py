"""One run: a workload trained under a variant from a seed."""
