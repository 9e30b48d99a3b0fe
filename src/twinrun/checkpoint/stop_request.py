"""Stop a training early, with the network so far kept: all workers after the same step.

A stop is asked for by a file named STOP in the run's folder, by SIGTERM or by SIGINT (Ctrl-C).
The first worker that hears of it tells the others with what they exchange after the step, and all
end there. The file is removed when it has been obeyed.
"""

import functools
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytorch_lightning as pl
from torch.utils.data import get_worker_info

from twinrun.errors import JobError, sentence_of

FILE = -1  # beside the numbers of signals
NOT_TO_FORKS = ("twinrun.", "pytorch_lightning.", "lightning.")  # whose handlers only take note
LOOK_SECONDS = 0.5  # between two looks for the file


class Stopped(Exception):  # noqa: N818 - no error
    """Ends Lightning's loops."""


class Stop(pl.Callback):
    """Hears requests to stop, and ends the training when the workers have agreed."""

    def __init__(self, file: Path) -> None:
        self.reason: str | None = None
        """Why the training ended early."""
        self.is_by_signal = False
        """Interrupted, and to be trained again; a file STOP is meant to stay obeyed."""
        self._file = file
        self._signal, self._process = 0, os.getpid()
        self._looked = time.monotonic()
        self._listen()
        _have_forks_end()

    @property
    def heard(self) -> str | None:
        """The name of the signal that has come, whether or not it has been obeyed."""
        return signal.Signals(self._signal).name if self._signal else None

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Take what fails behind a signal for the machine's fault, and for no result.

        A cluster sends SIGTERM to all processes, those among them that a module has started.

        Raises:
            JobError: for any other exception of the body, where a signal has come.
        """
        try:
            yield
        except JobError:
            raise
        except Exception as error:
            if self.heard is None:
                raise
            sentence = f"{sentence_of(error)} (after {self.heard}, which ends a job)"
            raise JobError(sentence) from error

    def asked(self) -> int:
        """Say whether a stop was asked for: a signal's number, FILE, or 0."""
        now = time.monotonic()
        if not self._signal and now - self._looked > LOOK_SECONDS:
            self._looked = now
            return FILE if self._file.exists() else 0
        return self._signal

    def agree(self, asked: Iterable[float]) -> None:
        """Take every worker's answer; one that asks is enough."""
        # All workers see the same answers, and so choose the same one.
        by = next((int(number) for number in asked if number), 0)
        if by:
            name = "the file STOP was found" if by == FILE else signal.Signals(by).name
            self.reason = f"stopped: {name}"
            self.is_by_signal = by != FILE

    def end_if_agreed(self, *_: object, **__: object) -> None:
        """End the training at the first hook after the step and all that belongs to it."""
        if self.reason is not None:
            self._file.unlink(missing_ok=True)
            raise Stopped

    on_train_batch_start = on_validation_start = on_train_epoch_end = end_if_agreed

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object, **__: object) -> None:
        """With one worker there is nobody to agree with."""
        if trainer.world_size == 1:
            self.agree([self.asked()])

    def _listen(self, *_: object, **__: object) -> None:
        """Take the signals, also back from Lightning, which takes SIGTERM at every start."""
        # Lightning's handler (`_sigterm_notifier_fn`) may broadcast in the midst of a step.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    on_train_start = on_test_start = on_predict_start = _listen

    def _hear(self, number: int, frame: object) -> None:
        # A handler may run between any two lines: it only takes note.
        if os.getpid() == self._process:
            self._signal = self._signal or number
        elif get_worker_info() is None:  # a step needs what a data worker is about to give
            raise KeyboardInterrupt


_held = threading.local()  # of the thread that forks: which signals it held back before


@functools.cache  # what was registered stays
def _have_forks_end() -> None:
    """Have SIGTERM end what this process forks: who asks for that waits (`Pool.terminate`).

    By no handler in Python, which does not run in a fork that the signal meets just ahead of a wait
    for a lock: it would wait for good. Data workers have one of torch's, in C.
    """
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_end_by_default)


def _hold() -> None:
    # Else one that comes before the fork has its handler is lost.
    _held.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.before)


def _end_by_default() -> None:
    try:
        handler = signal.getsignal(signal.SIGTERM)
        kind = type(getattr(handler, "__self__", handler))
        if kind.__module__.startswith(NOT_TO_FORKS):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    finally:  # whatever a user's handler is: else nothing could end the fork
        _release()
