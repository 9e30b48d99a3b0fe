"""Start work in fresh processes, with the environment that must be set before Python starts.

`launch` is for the side that starts (it imports neither torch nor Lightning); the other side is
this module run as a program, which calls the named function with the keyword arguments it reads
from its standard input. Its standard output is the channel back: lines of JSON with progress or
with the sentence of an error. What the function itself prints goes to standard error, the log.

One launch may start several workers, on several machines by Slurm's srun; then each finds its rank,
their number and a place to meet in its environment. They end together: when one fails, the others
are ended too. SIGINT and SIGTERM are passed on, so that the workers can stop in good order; a
second one ends them. The processes die with their parent, and each has a process group, so that
what they started dies with them.
"""

import contextlib
import ctypes
import importlib
import json
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import msgspec

from twinrun.errors import TwinrunError, sentence_of
from twinrun.process.job import say
from twinrun.process.machine import SET_BY_US

POLL_SECONDS = 0.1
SRUN_SECONDS = 30.0  # for srun, which ends the others itself and then says how each ended
SIGNALLED = 128  # a shell's or srun's exit code of a process that a signal ended, less the signal
GRACE_SECONDS = 2.0  # for the others to fail by themselves, and to say why, after one has failed

# What another launcher (torchrun, a cluster) may have set for processes of its own.
NOT_INHERITED = {
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
}


def environment_of(
    *, seed: int, deterministic: bool, threads: int, further: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Name the environment variables of a run's fresh process; `further` ones go before ours.

    What a variant is not told to fix is inherited from the shell, and recorded.

    `CUBLAS_WORKSPACE_CONFIG` is what cuBLAS asks for to be deterministic:
    https://docs.nvidia.com/cuda/cublas/#results-reproducibility
    """
    variables = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if deterministic:
        # Without them the order of a set of strings, and cuBLAS's sums, are left to chance, as a
        # plain `seed_everything` leaves them.
        variables |= {"PYTHONHASHSEED": str(seed), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    return {**variables, **(further or {})}


def launch(
    function: str,
    arguments: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    workers: int = 1,
    nodes: int = 1,
) -> None:
    """Call a function in fresh processes, as many as there are workers, and wait for them.

    Args:
        function: import path, `package.module:function`.
        arguments: its keyword arguments: plain values and dataclasses, as JSON can hold them. The
            other side rebuilds them by the annotations of the function's signature.
        environment: variables added to this process's own; NOT_INHERITED names what they lose.
        workers: how many processes; several find RANK, LOCAL_RANK, NODE_RANK, WORLD_SIZE and
            TWINRUN_MEETING, a URL where they meet, in their environment.
        nodes: machines that share the workers evenly, those of the Slurm job that this is.

    Raises:
        TwinrunError: if the function raised, or a process died. No process is left then: on other
            nodes Slurm ends it, with the job at the latest.
    """
    _check_nodes(workers, nodes)
    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
        started: list[_Worker] = []
        try:
            for place in _places(workers, nodes, folder):
                prefix = _srun(workers, nodes, environment) if nodes > 1 else []
                started.append(_Worker(prefix, function, arguments, {**environment, **place}))
            with _signals_passed_on(started):
                _watch(started, GRACE_SECONDS if nodes == 1 else SRUN_SECONDS)
        finally:
            for worker in started:
                worker.kill()
                worker.process.wait()
    failure = _failure(function, started)
    if failure is not None:
        raise TwinrunError(failure)


def _check_nodes(workers: int, nodes: int) -> None:
    """Refuse to start workers on other machines than was asked for."""
    # Snakemake's own step inside a job of Slurm forgets how many nodes it has: srun finds out then.
    unknown = str(nodes) if "SLURM_JOB_ID" in os.environ else "1"
    found = os.environ.get("SLURM_JOB_NUM_NODES", unknown)
    if workers > 1 and found != str(nodes):
        raise TwinrunError(
            f"nodes: the variant wants {nodes}, but this job has {found}; several take Slurm "
            f"(--workflow-profile slurm), which gives a job as many as it asks for"
        )


def _places(workers: int, nodes: int, folder: str) -> list[dict[str, str]]:
    """Say which worker each process is, in the variables that torch and Lightning read too.

    They meet in a file: unlike a port, it cannot be taken by another program in between. On
    several nodes there is no such file, and one process starts them all (see `_place_by_slurm`).
    """
    if workers == 1:
        return [{}]
    if nodes > 1:
        with socket.socket() as free:
            free.bind(("", 0))
            return [{"TWINRUN_MEETING": f"port {free.getsockname()[1]}"}]
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "NODE_RANK": "0",
            "WORLD_SIZE": str(workers),
            "TWINRUN_MEETING": f"file://{Path(folder, 'meeting')}",
        }
        for rank in range(workers)
    ]


def _srun(workers: int, nodes: int, environment: Mapping[str, str]) -> list[str]:
    """Give the command that starts a process for each worker on the nodes of this Slurm job."""
    return [
        *("srun", f"--nodes={nodes}", f"--ntasks={workers}", "--distribution=block", "--overlap"),
        *(f"--ntasks-per-node={workers // nodes}", "--kill-on-bad-exit=1", "--export=ALL"),
        f"--cpus-per-task={environment['OMP_NUM_THREADS']}",
    ]


def _place_by_slurm() -> None:
    """Take from Slurm which worker this process is, if it was started on one of several nodes."""
    kind, _, port = os.environ.get("TWINRUN_MEETING", "").partition(" ")
    if kind == "port":
        address = os.environ["SLURM_LAUNCH_NODE_IPADDR"]  # the first worker's node too
        os.environ["TWINRUN_MEETING"] = f"tcp://{address}:{port}"
        names = {"RANK": "PROCID", "LOCAL_RANK": "LOCALID", "NODE_RANK": "NODEID"}
        for name, source in {**names, "WORLD_SIZE": "NTASKS"}.items():
            os.environ[name] = os.environ[f"SLURM_{source}"]


class _Worker:
    """A started process and what it has said."""

    def __init__(
        self,
        prefix: Sequence[str],
        function: str,
        arguments: Mapping[str, Any],
        environment: Mapping[str, str],
    ) -> None:
        inherited = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        package_folder = str(Path(__file__).resolve().parents[2])
        search = os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "twinrun.process.launching", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **inherited,
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
        self.errors: list[dict[str, Any]] = []
        self.was_killed = False
        self._unread = b""
        with contextlib.suppress(BrokenPipeError):  # it died early; its exit code says more
            process.stdin.write(json.dumps(msgspec.to_builtins(arguments)).encode())
            process.stdin.close()

    def is_running(self) -> bool:
        return self.process.poll() is None

    def has_failed(self) -> bool:
        return bool(self.errors) or self.process.poll() not in (None, 0)

    def read(self) -> bool:
        """Take what it has said; False when there is no more."""
        data = os.read(self.output.fileno(), 2**16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "progress" in message:
                say(message["progress"])
            else:
                self.errors.append(message)
        return bool(data)

    def read_rest(self) -> None:
        """Take what is left, without waiting for processes of its own that hold the channel."""
        os.set_blocking(self.output.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while self.read():
                pass

    def kill(self) -> None:
        """End it, if it still runs, and in any case what it has started."""
        self.was_killed = self.was_killed or self.is_running()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _watch(workers: Sequence[_Worker], grace_seconds: float) -> None:
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


@contextlib.contextmanager
def _signals_passed_on(workers: Sequence[_Worker]) -> Iterator[None]:
    """Pass SIGINT and SIGTERM on to the workers; the second one ends them."""
    asked = []

    def pass_on(number: int, frame: object) -> None:
        for worker in workers:
            if number in asked:
                worker.kill()
            elif worker.is_running():
                worker.process.send_signal(number)
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.signal(n, pass_on) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _failure(function: str, workers: Sequence[_Worker]) -> str | None:
    """Say what failed first; that the others then lost their connection comes last."""
    errors = sorted((error for w in workers for error in w.errors), key=lambda e: e["time"])
    causes = [error["error"] for error in errors if not error["is_lost_peer"]]
    deaths = [
        _death(function, rank, workers)
        for rank, worker in enumerate(workers)
        if worker.process.returncode and not worker.was_killed
        # srun speaks for all: that one was killed, though the others have said that it is gone.
        if not worker.errors or worker.process.returncode > SIGNALLED
    ]
    lost = [error["error"] for error in errors]
    ended = [f"{function} was ended before it was done" for w in workers if w.process.returncode]
    return next(iter([*causes, *deaths, *lost, *ended]), None)


def _death(function: str, rank: int, workers: Sequence[_Worker]) -> str:
    code = workers[rank].process.returncode
    who = function if len(workers) == 1 else f"worker {rank + 1} of {len(workers)} of {function}"
    if 0 < code <= SIGNALLED:
        return f"{who} ended with exit code {code}"
    name = signal.Signals(-code if code < 0 else code - SIGNALLED).name
    why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"{who} was ended by {name}{why}"


_channel: int | None = None


def report_progress(text: str) -> None:
    """Send one line to the terminal of whoever launched this process, and to its log."""
    print(text, file=sys.stderr, flush=True)
    _send({"progress": text})


def _send(message: Mapping[str, Any]) -> None:
    if _channel is not None:
        os.write(_channel, (json.dumps(message) + "\n").encode())


def rebuilt(function: Callable[..., object], arguments: Mapping[str, Any]) -> dict[str, Any]:
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
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    _place_by_slurm()
    arguments = json.load(sys.stdin)
    _channel = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(_channel, False)
    module, _, name = function.partition(":")
    try:
        called = getattr(importlib.import_module(module), name)
        called(**rebuilt(called, arguments))
    except Exception as error:  # every failure is one sentence there and a traceback here
        if not isinstance(error, TwinrunError) or error.__cause__ is not None:
            with contextlib.suppress(OSError):  # a full disk takes no log either
                traceback.print_exc()
        lost = isinstance(error, RuntimeError) and "gloo" in str(error)
        _send({"error": sentence_of(error), "time": time.time(), "is_lost_peer": lost})
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    # The program is a module of its own, `__main__`; functions it calls import this one.
    from twinrun.process import launching

    launching._work(sys.argv[1])
