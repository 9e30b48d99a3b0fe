"""Start work in fresh processes, with the environment that must be set before Python starts.

This is the side that starts (it imports neither torch nor Lightning); `fresh_process` is the other
one, and `worker_process` what is between them.

One launch may start several workers, on several machines by Slurm's srun; then each finds its rank,
their number and a place to meet in its environment. They end together: when one fails, the others
are ended too. The first SIGINT or SIGTERM is passed on, so that the workers can stop in good order;
a second one of either ends them. The processes die with their parent, and each has a process group,
so that what they started dies with them.
"""

import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinrun.errors import JobError
from twinrun.process.machine import THREADS
from twinrun.process.slurm import srun_of_workers
from twinrun.process.worker_process import (
    WorkerProcess,
    ended_by_signals,
    failure_of,
    signals_passed_on,
    watch,
)

SRUN_SECONDS = 30.0  # for srun, which ends the others itself and then says how each ended
# What cuBLAS asks for to be deterministic: https://docs.nvidia.com/cuda/cublas/#results-reproducibility
DETERMINISTIC_WORKSPACE = ":4096:8"
GRACE_SECONDS = 2.0  # for the others to fail by themselves, and to say why, after one has failed


def environment_of(
    *, seed: int, deterministic: bool, threads: int, further: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Name the environment variables of a run's fresh process; `further` ones go before ours.

    What a variant is not told to fix is inherited from the shell, and recorded.
    """
    variables = dict.fromkeys(THREADS, str(threads))
    if deterministic:
        # Without them the order of a set of strings, and cuBLAS's sums, are left to chance, as a
        # plain `seed_everything` leaves them.
        variables |= {
            "PYTHONHASHSEED": str(seed),
            "CUBLAS_WORKSPACE_CONFIG": DETERMINISTIC_WORKSPACE,
        }
    return {**variables, **(further or {})}


def launch(
    function: str,
    arguments: Mapping[str, object],
    environment: Mapping[str, str],
    *,
    workers: int = 1,
    nodes: int = 1,
    command: Sequence[str] = (),
    ends_with_us: bool = False,
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
        command: what starts the process, elsewhere than here (see `slurm.srun_of_job`).
        ends_with_us: SIGINT and SIGTERM are not passed on, but end the processes and then do to
            this one what they always do: what was started is a part of its own work.

    Raises:
        TwinrunError: if the function raised; a JobError if what it raised was the machine's fault,
            or a process died. No process is left then: on other
            nodes Slurm ends it, with the job at the latest.
    """
    _check_nodes(workers, nodes)
    with tempfile.TemporaryDirectory(prefix="twinrun-") as folder:
        started: list[WorkerProcess] = []
        try:
            for rank in _ranks(workers, nodes, folder):
                prefix = command
                if nodes > 1:
                    threads = int(environment["OMP_NUM_THREADS"])
                    prefix = srun_of_workers(workers, nodes, threads)
                started.append(WorkerProcess(prefix, function, arguments, {**environment, **rank}))
            heard = ended_by_signals if ends_with_us else signals_passed_on
            with heard(started) as signals:
                watch(started, GRACE_SECONDS if nodes == 1 else SRUN_SECONDS)
        finally:
            for worker in started:
                worker.kill()
                worker.process.wait()
    failure = failure_of(function, started)
    if failure is None:
        return
    # A cluster sends SIGTERM to all processes: what a module has started died of it too, and the
    # module then fails in any way.
    if signals and not isinstance(failure, JobError):
        failure = JobError(f"{failure} (after {signals[0]}, which ends a job)")
    raise failure


def _check_nodes(workers: int, nodes: int) -> None:
    """Refuse to start workers on other machines than was asked for."""
    # Snakemake's own step inside a job of Slurm forgets how many nodes it has: srun finds out then.
    unknown = str(nodes) if "SLURM_JOB_ID" in os.environ else "1"
    found = os.environ.get("SLURM_JOB_NUM_NODES", unknown)
    if workers > 1 and found != str(nodes):
        raise JobError(
            f"nodes: the variant wants {nodes}, but this job has {found}; several take Slurm "
            f"(--workflow-profile slurm), which gives a job as many as it asks for"
        )


def _ranks(workers: int, nodes: int, folder: str) -> list[dict[str, str]]:
    """Say which worker each process is, in the variables that torch and Lightning read too.

    They meet in a file: unlike a port, it cannot be taken by another program in between. On
    several nodes there is no such file, and one process starts them all (see `_rank_by_slurm`).
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
