"""How far the rounds of a timing are, on the terminal."""

import time

from twinrun.process.fresh_process import report_progress

PROGRESS_SECONDS = 10.0


class RoundProgress:
    """Says every few seconds how far the rounds are."""

    def __init__(self, label: str, rounds: int) -> None:
        """Begin to count the time."""
        self._label, self._rounds = label, rounds
        self._started = self._said = time.monotonic()

    def say(self, done: int) -> None:
        """Say it, where it was not said a moment ago."""
        now = time.monotonic()
        if now - self._said >= PROGRESS_SECONDS:
            self._said = now
            left = (now - self._started) * (self._rounds / done - 1)
            report_progress(
                f"{self._label}: round {done} of {self._rounds}, about {left:.0f} s left"
            )
