"""What surrounds a computation: a job, a fresh process, its machine, its source code."""
