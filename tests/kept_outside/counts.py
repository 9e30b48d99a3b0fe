"""Counts in a global of its own."""

steps = 0.0


def next_scale():
    global steps
    steps += 0.1
    return 1 + steps
