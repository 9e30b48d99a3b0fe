"""Start work in a fresh process, with the environment that must be set before Python starts.

`launch` is for the side that starts (it imports neither torch nor Lightning); the other side is
this module run as a program, which calls the named function with the keyword arguments it reads
from its standard input. Its standard output is the channel back: lines of JSON with progress or
with the sentence of an error. What the function itself prints goes to standard error, the log.
The process dies with its parent.
"""

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from twinrun.jobs import TwinrunError, say, sentence_of


def environment_of(*, seed: int, deterministic: bool, threads: int) -> dict[str, str]:
    """Name the environment variables of a run's fresh process.

    `CUBLAS_WORKSPACE_CONFIG` is what cuBLAS asks for to be deterministic:
    https://docs.nvidia.com/cuda/cublas/#results-reproducibility
    """
    variables = {
        "PYTHONHASHSEED": str(seed),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    if deterministic:
        variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return variables


def launch(function: str, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Call a function in a fresh process and wait for it.

    Args:
        function: import path, `package.module:function`.
        arguments: its keyword arguments, as JSON can hold them.
        environment: variables added to this process's own; CUBLAS_WORKSPACE_CONFIG is not
            inherited, since it would make a nondeterministic variant deterministic.

    Raises:
        TwinrunError: if the function raised, or its process died.
    """
    inherited = {k: v for k, v in os.environ.items() if k != "CUBLAS_WORKSPACE_CONFIG"}
    package_folder = str(Path(__file__).resolve().parents[1])
    search = os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "twinrun.launching", function],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**inherited, "PYTHONPATH": search, **environment},
    )
    error = None
    with process:
        try:
            json.dump(arguments, process.stdin)
            process.stdin.close()
            for line in process.stdout:
                message = json.loads(line)
                error = message.get("error", error)
                if "progress" in message:
                    say(message["progress"])
        except BrokenPipeError:
            pass  # it died early; its exit code says more
        except BaseException:
            process.kill()
            raise
    if error is not None:
        raise TwinrunError(error)
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise TwinrunError(
            f"{function} was ended by {name}"
            + (", as the system does when memory runs out" if name == "SIGKILL" else "")
        )
    if process.returncode:
        raise TwinrunError(f"{function} ended with exit code {process.returncode}")


_channel: int | None = None


def report_progress(text: str) -> None:
    """Send one line to the terminal of whoever launched this process, and to its log."""
    print(text, file=sys.stderr, flush=True)
    _send("progress", text)


def _send(kind: str, text: str) -> None:
    if _channel is not None:
        os.write(_channel, (json.dumps({kind: text}) + "\n").encode())


def _work(function: str) -> NoReturn:
    """Be the fresh process."""
    global _channel
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    arguments = json.load(sys.stdin)
    _channel = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(_channel, False)
    module, _, name = function.partition(":")
    try:
        getattr(importlib.import_module(module), name)(**arguments)
    except Exception as error:  # every failure is one sentence there and a traceback here
        if not isinstance(error, TwinrunError) or error.__cause__ is not None:
            traceback.print_exc()
        _send("error", sentence_of(error))
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    # The program is a module of its own, `__main__`; functions it calls import this one.
    from twinrun import launching

    launching._work(sys.argv[1])
