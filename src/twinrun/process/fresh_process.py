"""The child's side of `launching`: the program that a started process runs.

The parent's side is `worker_process`; what is said between them is in `messages`.

It reads keyword arguments from its standard input, rebuilds them by the annotations of the function
that it is told to call, and calls it. Its standard output is the channel back: lines of JSON with
progress or with the sentence of an error. What the function itself prints goes to standard error.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NoReturn, get_type_hints

import msgspec

from twinrun.errors import TwinrunError, sentence_of
from twinrun.process import messages
from twinrun.process.import_record import record_imports
from twinrun.process.machine_faults import is_machine_fault
from twinrun.process.messages import DoneMessage, FailureMessage, Message, ProgressMessage
from twinrun.process.parent import STARTED_BY, end_with_parent
from twinrun.process.shared_files import ends, watch, watch_torch

# What torch.distributed says where another worker has gone, by its backends: gloo's and NCCL's
# transports, and the store at which the workers meet. NCCL names itself in every error, its own
# faults included (two workers on one GPU), so that its name alone says nothing.
# https://github.com/NVIDIA/nccl/blob/v2.23.4-1/src/init.cc (ncclGetErrorString)
LOST_PEER = (
    *("gloo", "connection closed", "connection reset", "connection refused", "broken pipe"),
    *("socket timeout", "tcpstore"),
    *("ncclremoteerror", "remote process exited", "ncclsystemerror", "unhandled system error"),
    *("communicator was aborted", "communicator encountered error", "collective operation timeout"),
)
# Words of a worker that found a fault of its own, whatever else the sentence holds.
OWN_FAULT = ("ncclinvalidusage", "invalid usage", "ncclinvalidargument", "duplicate gpu")

_channel: int | None = None


def report_progress(text: str) -> None:
    """Send one line to the terminal and the log of the process that launched this one."""
    if _channel is None:  # none has
        print(text, file=sys.stderr, flush=True)
    _send(ProgressMessage(text=text))


def _send(message: Message) -> None:
    if _channel is not None:
        os.write(_channel, messages.written(message))


def leave() -> NoReturn:
    """End at once as what was called is to: nothing is tidied up, as after a kill."""
    _send(DoneMessage())
    os._exit(0)


def rebuilt(function: Callable[..., object], arguments: Mapping[str, object]) -> dict[str, object]:
    """Return keyword arguments as a function annotates them: dataclasses from mappings.

    Raises:
        msgspec.ValidationError: if one does not fit its annotation.
    """
    kinds = get_type_hints(function)
    return {
        name: msgspec.convert(value, kinds[name]) if name in kinds else value
        for name, value in arguments.items()
    }


def _work(function: str) -> NoReturn:
    """Be the fresh process."""
    global _channel
    end_with_parent(os.environ.pop(STARTED_BY, None))
    _rank_by_slurm()
    record_imports()
    watch()
    arguments = json.load(sys.stdin)
    _channel = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(_channel, False)
    module, _, name = function.partition(":")
    try:
        # Nothing that is imported is garbage, and to look for it takes a quarter of the time.
        gc.disable()
        called = getattr(importlib.import_module(module), name)
        gc.enable()
        watch_torch()
        try:
            called(**rebuilt(called, arguments))
        finally:
            ends()
    except KeyboardInterrupt:  # while something is imported: a training stops in good order
        _failed("interrupted by SIGINT (Ctrl-C)", is_machine_fault=True)
        sys.exit(128 + signal.SIGINT)
    # Every failure is one sentence there and a traceback here. To end the program is one, whatever
    # the code: what was called has not come to its end.
    except (Exception, SystemExit) as error:
        if not isinstance(error, TwinrunError) or error.__cause__ is not None:
            with contextlib.suppress(OSError):  # a full disk takes no log either
                traceback.print_exc()
        _failed(
            sentence_of(error),
            is_lost_peer=is_lost_peer(error),
            is_machine_fault=is_machine_fault(error),
        )
        sys.exit(1)
    _send(DoneMessage())
    sys.exit(0)


def _failed(error: str, *, is_lost_peer: bool = False, is_machine_fault: bool = False) -> None:
    _send(
        FailureMessage(
            error=error,
            time=time.time(),
            is_lost_peer=is_lost_peer,
            is_machine_fault=is_machine_fault,
        )
    )


def _rank_by_slurm() -> None:
    """Take from Slurm which worker this process is, if it was started on one of several nodes."""
    kind, _, port = os.environ.get("TWINRUN_MEETING", "").partition(" ")
    if kind == "port":
        address = os.environ["SLURM_LAUNCH_NODE_IPADDR"]  # the first worker's node too
        os.environ["TWINRUN_MEETING"] = f"tcp://{address}:{port}"
        names = {"RANK": "PROCID", "LOCAL_RANK": "LOCALID", "NODE_RANK": "NODEID"}
        for name, source in {**names, "WORLD_SIZE": "NTASKS"}.items():
            os.environ[name] = os.environ[f"SLURM_{source}"]


def is_lost_peer(error: BaseException) -> bool:
    """Say whether an error only tells that the connection to another worker is gone.

    torch.distributed raises RuntimeError and its children (DistBackendError, DistNetworkError).
    """
    text = str(error).lower()
    if not isinstance(error, RuntimeError) or any(words in text for words in OWN_FAULT):
        return False
    return any(words in text for words in LOST_PEER)


if __name__ == "__main__":
    # The program is a module of its own, `__main__`; functions it calls import this one.
    from twinrun.process import fresh_process

    asked = sys.argv.pop()  # a user's module may read the command line when it is imported
    fresh_process._work(asked)
