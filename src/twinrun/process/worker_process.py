"""Started processes, seen from the parent's side: what they say, and how they ended.

The child's side is `fresh_process`; what is said between them is in `messages`.
"""

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from twinrun.errors import JobError, TwinrunError
from twinrun.process import messages
from twinrun.process.job import note, say
from twinrun.process.machine import SET_BY_US
from twinrun.process.messages import DoneMessage, FailureMessage, ProgressMessage
from twinrun.process.parent import STARTED_BY, this_process

POLL_SECONDS = 0.1
SIGNALLED = 128  # a shell's or srun's exit code of a process that a signal ended, less the signal

# What another launcher (torchrun, a cluster) may have set for processes of its own.
NOT_INHERITED = {
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
}


Handler = Callable[[int, FrameType | None], object]
Handlers = dict[int, Handler | int | None]
"""What a signal does, by its number: as `signal.getsignal` says it."""


class WorkerProcess:
    """A started process and what it has said."""

    def __init__(
        self,
        prefix: Sequence[str],
        function: str,
        arguments: Mapping[str, object],
        environment: Mapping[str, str],
    ) -> None:
        inherited = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        package_folder = str(Path(__file__).resolve().parents[2])
        search = os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "twinrun.process.fresh_process", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **inherited,
                # srun starts its processes from elsewhere.
                **({} if prefix else {STARTED_BY: this_process()}),
                "PYTHONPATH": search,
                **environment,
                # So that what this process inherited is told from what it was given.
                SET_BY_US: ",".join(environment),
            },
            process_group=0,
        )
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both were asked for as pipes")
        self.process, self.output = process, process.stdout
        self.errors: list[FailureMessage] = []
        self.was_killed = self._is_at_end = False
        self.is_done = False
        self._unread = b""
        with contextlib.suppress(BrokenPipeError):  # it died early; its exit code says more
            process.stdin.write(json.dumps(msgspec.to_builtins(arguments)).encode())
            process.stdin.close()

    def is_running(self) -> bool:
        """Say whether it has not ended yet."""
        return self.process.poll() is None

    def has_failed(self) -> bool:
        """Say whether it sent an error or ended with one."""
        return bool(self.errors) or self.process.poll() not in (None, 0) or self.has_left()

    def has_left(self) -> bool:
        """Say whether it ended as if all were well, and is not done (`os._exit(0)`)."""
        return self._is_at_end and self.process.poll() == 0 and not self.is_done

    def read(self) -> bool:
        """Take what it has said; False when there is no more."""
        data = os.read(self.output.fileno(), 2**16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = messages.read(line)
            if isinstance(message, ProgressMessage):
                say(message.text)
                note(message.text)
            elif isinstance(message, DoneMessage):
                self.is_done = True
            else:
                self.errors.append(message)
        self._is_at_end = not data
        return bool(data)

    def read_rest(self) -> None:
        """Take what is left, without waiting for processes of its own that hold the channel."""
        os.set_blocking(self.output.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while self.read():
                pass
        self._is_at_end = True

    def kill(self) -> None:
        """End it, if it still runs, and in any case what it has started."""
        self.was_killed = self.was_killed or self.is_running()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def watch(workers: Sequence[WorkerProcess], grace_seconds: float) -> None:
    """Read what the workers say until all have ended; one failure ends them all."""
    deadline = math.inf
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.output, selectors.EVENT_READ, worker)
        while any(worker.is_running() for worker in workers):
            for key, _ in selector.select(timeout=POLL_SECONDS):
                if not key.data.read():
                    selector.unregister(key.fileobj)
            if deadline == math.inf and any(worker.has_failed() for worker in workers):
                deadline = time.monotonic() + grace_seconds
            if time.monotonic() > deadline:
                for worker in workers:
                    worker.kill()
    for worker in workers:
        worker.read_rest()


@contextmanager
def signals_passed_on(workers: Sequence[WorkerProcess]) -> Iterator[list[str]]:
    """Pass the first SIGINT or SIGTERM on to the workers; a second one of either ends them.

    Yields:
        The names of the signals that have come.
    """
    came: list[str] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        for worker in workers:
            # Who escalates from one to the other means it too.
            if came:
                worker.kill()
            elif worker.is_running():
                worker.process.send_signal(number)
        came.append(signal.Signals(number).name)

    with _handled(lambda before: pass_on):
        yield came


@contextmanager
def ended_by_signals(workers: Sequence[WorkerProcess]) -> Iterator[list[str]]:
    """Have SIGINT and SIGTERM end the workers, and then do what they do without them.

    Yields:
        Their names, as they come.
    """
    came: list[str] = []

    def ending(before: Handlers) -> Handler:
        def end(number: int, frame: FrameType | None) -> None:
            came.append(signal.Signals(number).name)
            for worker in workers:
                worker.kill()
            signal.signal(number, before[number])
            os.kill(os.getpid(), number)

        return end

    with _handled(ending):
        yield came


@contextmanager
def _handled(handler: Callable[[Handlers], Handler]) -> Iterator[None]:
    """Handle both signals in the body, as far as this thread may; put back what was there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: Handlers = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, handler(before))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def failure_of(function: str, workers: Sequence[WorkerProcess]) -> TwinrunError | None:
    """Return what failed first; that the others then lost their connection comes last.

    A process that died says nothing of what it computes: that is a JobError.
    """
    errors = sorted((error for w in workers for error in w.errors), key=lambda e: e.time)
    causes = [error for error in errors if not error.is_lost_peer]
    if causes:
        kind = JobError if causes[0].is_machine_fault else TwinrunError
        return kind(causes[0].error)
    dead = [
        rank
        for rank, worker in enumerate(workers)
        if (worker.process.returncode or worker.has_left()) and not worker.was_killed
        # srun speaks for all: that one was killed, though the others have said that it is gone.
        if not worker.errors or worker.process.returncode > SIGNALLED
    ]
    # NCCL's watchdog aborts a process whose peer has gone: such a death is a consequence.
    dead.sort(key=lambda rank: _signal_of(workers[rank]) == signal.SIGABRT)
    deaths = [_death(function, rank, workers) for rank in dead]
    lost = [error.error for error in errors]
    ended = [f"{function} was ended before it was done" for w in workers if w.process.returncode]
    reason = next(iter([*deaths, *lost, *ended]), None)
    return None if reason is None else JobError(reason)


def _signal_of(worker: WorkerProcess) -> signal.Signals | None:
    """Return the signal that ended a process; None if it ended with an exit code."""
    code = worker.process.returncode
    if 0 <= code <= SIGNALLED:
        return None
    return signal.Signals(-code if code < 0 else code - SIGNALLED)


def _death(function: str, rank: int, workers: Sequence[WorkerProcess]) -> str:
    who = function if len(workers) == 1 else f"worker {rank + 1} of {len(workers)} of {function}"
    ended_by = _signal_of(workers[rank])
    if ended_by is None:
        too_early = "" if workers[rank].process.returncode else " before it was done (os._exit?)"
        return f"{who} ended with exit code {workers[rank].process.returncode}{too_early}"
    why = ", as the system does when memory runs out" if ended_by == signal.SIGKILL else ""
    return f"{who} was ended by {ended_by.name}{why}"
