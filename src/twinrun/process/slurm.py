"""Commands of Slurm: a process for each worker of this job, or a job of its own for one process."""

import os
import shlex
from collections.abc import Mapping

# Resources by which a rule tells Snakemake's plugin what a job needs, and srun's options for them.
# https://snakemake.github.io/snakemake-plugin-catalog/plugins/executor/slurm.html
OPTIONS = {
    "slurm_account": "account",
    "slurm_partition": "partition",
    "clusters": "clusters",
    "qos": "qos",
    "reservation": "reservation",
    "constraint": "constraint",
    "mem_mb": "mem",
    "mem_mb_per_cpu": "mem-per-cpu",
    "runtime": "time",
    "gres": "gres",
}


def srun_of_workers(workers: int, nodes: int, threads: int) -> list[str]:
    """Return the command that starts a process for each worker on the nodes of this Slurm job."""
    return [
        *("srun", f"--nodes={nodes}", f"--ntasks={workers}", "--distribution=block", "--overlap"),
        *(f"--ntasks-per-node={workers // nodes}", "--kill-on-bad-exit=1", "--export=ALL"),
        f"--cpus-per-task={threads}",
    ]


def srun_of_job(resources: Mapping[str, object], *, name: str, threads: int) -> list[str]:
    """Return the command that runs one process as a job of its own, and waits for it.

    Args:
        resources: as a rule's job has them; those that only several nodes need are left out.
        name: of the job, for `squeue`.
        threads: CPUs of the process.

    >>> command = srun_of_job({"slurm_partition": "gpu", "mem_mb": 4000}, name="one", threads=2)
    >>> command[-3:]
    ['--cpus-per-task=2', '--partition=gpu', '--mem=4000']
    """
    # Inside a job of Slurm, srun would start a step of that job, with what is left of it.
    outer = [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"]
    command = [
        *("env", *(f"--unset={name}" for name in outer)),
        *("srun", f"--job-name={name}", "--nodes=1", "--ntasks=1", f"--cpus-per-task={threads}"),
    ]
    for resource, option in OPTIONS.items():
        if value := resources.get(resource):
            command.append(f"--{option}={value}")
    if gpus := resources.get("gpu"):
        command.append(f"--gpus={gpus}")
    return [*command, *shlex.split(str(resources.get("slurm_extra") or ""))]
