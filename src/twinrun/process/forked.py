"""A function in a process of its own that has already imported what this one has.

A user's module may end its process, hang, or be killed: the process that forked
it is told of that, and continues. What the forked one prints is thrown away.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from twinrun.errors import TwinrunError

# On macOS a forked process may crash in Apple's libraries: there each imports anew.
METHOD = "fork" if sys.platform == "linux" else "spawn"


def messages_of(
    function: Callable[..., None], *arguments: object, every: float, limit: float | None = None
) -> Iterator[Any]:
    """Call `function(send, *arguments)` in a process of its own and yield what it sends.

    Args:
        function: of a module, so that it can be pickled, as its arguments and messages.
        arguments: its further arguments.
        every: seconds after which None is yielded where nothing was sent.
        limit: seconds after which the process is ended.

    Raises:
        TwinrunError: if the process died of itself, or was ended by the limit.
    """
    context: Any = multiprocessing.get_context(METHOD)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, function, arguments))
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
            raise TwinrunError(f"takes more than {limit:.0f} s")
        process.join()
    finally:
        process.kill()
        process.join()
        receiver.close()
    if process.exitcode:
        raise TwinrunError(_death(process.exitcode))


def _work(sender: Connection, function: Callable[..., None], arguments: tuple[object, ...]) -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1  # the system ends it with the process that started it
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    function(sender.send, *arguments)


def _death(code: int) -> str:
    """Say how a process ended.

    >>> _death(3), _death(-9)
    ('ended its process (exit code 3)', 'was ended by SIGKILL, as when memory runs out')
    """
    if code > 0:
        return f"ended its process (exit code {code})"
    name = signal.Signals(-code).name
    return f"was ended by {name}{', as when memory runs out' if name == 'SIGKILL' else ''}"
