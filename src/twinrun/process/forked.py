"""A function in a process of its own that has already imported what this one has.

A user's module may end its process, hang, or be killed: the process that forked
it is told of that, and continues. What the forked one prints is thrown away.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection
from typing import TypeVar

from twinrun.errors import TwinrunError
from twinrun.process.parent import end_with_parent, this_process

# On macOS a forked process may crash in Apple's libraries: there each imports anew.
CONTEXT = (
    multiprocessing.get_context("fork")
    if sys.platform == "linux"
    else multiprocessing.get_context("spawn")
)


Message = TypeVar("Message")


class TimeLimitError(TwinrunError):
    """A process that was ended by its limit: nothing else is known to be wrong."""


def messages_of(
    function: Callable[[Callable[[Message], None]], None],
    *,
    every: float,
    limit: float | None = None,
) -> Generator[Message | None]:
    """Call `function(send)` in a process of its own and yield what it sends.

    Args:
        function: of a module or a `functools.partial` of one, so that it can be pickled, as its
            arguments and messages.
        every: seconds after which None is yielded where nothing was sent.
        limit: seconds after which the process is ended.

    Raises:
        TimeLimitError: if the process was ended by the limit.
        TwinrunError: if it died of itself.
    """
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(sender, function, this_process()))
    process.start()
    sender.close()
    deadline = time.monotonic() + limit if limit is not None else None
    try:
        while deadline is None or time.monotonic() < deadline:
            if not receiver.poll(every):
                yield None
                continue
            try:
                yield receiver.recv()
            except EOFError:
                break
        else:
            raise TimeLimitError(f"takes more than {limit:.0f} s")
        process.join()
    finally:
        process.kill()
        process.join()
        receiver.close()
    if process.exitcode:
        raise TwinrunError(death(process.exitcode))


def _work(
    sender: Connection, function: Callable[[Callable[[object], None]], None], parent: str
) -> None:
    end_with_parent(parent)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    # It was said for this process, and a module of a user's may say it once.
    multiprocessing.set_start_method(None, force=True)
    function(sender.send)


def death(code: int) -> str:
    """Say how a process ended, by its exit code.

    >>> death(3), death(-9)
    ('ended its process (exit code 3)', 'was ended by SIGKILL, as when memory runs out')
    """
    if code > 0:
        return f"ended its process (exit code {code})"
    name = signal.Signals(-code).name
    return f"was ended by {name}{', as when memory runs out' if name == 'SIGKILL' else ''}"
