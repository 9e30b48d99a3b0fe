"""The machine and the versions that a result comes from.

`describe` separates the identity, which must be equal for two runs to be a pair, from the context,
which may differ. `versions` does not import torch, which takes 1.3 s: the Snakefile calls it at
every start.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from importlib import metadata, util
from pathlib import Path
from typing import TypedDict

import psutil

from twinrun.process import machine
from twinrun.process.imported_code import distributions, distributions_hash

# Where Linux says which driver it has loaded, and how to find the version there.
DRIVER_FILES = {
    "/proc/driver/nvidia/version": r"Kernel Module.*?\s(\d+\.[\d.]+)",
    "/sys/module/amdgpu/version": r"(\S+)",
}
VARIABLE = "variable "  # before the name of an inherited one, among what is in an identity
PACKAGES = ("torch", "pytorch-lightning", "numpy", "safetensors", "xxhash")


class Context(TypedDict):
    """What may differ between two runs of a pair."""

    host: str
    """Name of the machine."""
    kernel: str
    """Release of its operating system's kernel."""
    cores: int | None
    """Those that the process may use; None where nobody knows."""
    memory_gib: float
    """Main memory of the machine, in GiB."""
    gpus: int
    """Those that torch sees."""
    load_1min: float
    """Average of waiting and running processes in the last minute."""
    commit: str
    """Commit of Twinrun's own sources, with a plus sign if they were edited since; or `unknown`."""
    started: str
    """In ISO format, UTC."""


class Environment(TypedDict):
    """Machine and software of a process."""

    identity: dict[str, str]
    """What two runs must share to be a pair."""
    context: Context
    """What may differ."""
    packages: dict[str, str]
    """The version of every installed distribution; `identity` has one hash of them."""


class Switches(TypedDict):
    """torch's switches."""

    threads: int
    """Intra-op threads."""
    interop_threads: int
    """Threads between operations."""
    deterministic: bool
    """Whether torch used only reproducible algorithms."""
    warn_only: bool
    """Whether it only warned where there is none."""
    matmul_precision: str
    """Precision of float32 products: `highest`, or TF32 and below; or the switches `fp32_precision`
    that the process has set, after which torch does not tell the former any more."""


class Actual(Switches):
    """What a training really had, read from Trainer, loaders, torch and environment."""

    accelerator: str
    """torch's type of the device."""
    devices: int
    """Processes that trained."""
    precision: str
    """Lightning's name of it, by the Trainer."""
    accumulate: int
    """Micro-batches of a mini-batch, by the Trainer."""
    gathers_gradients: bool
    """Whether a step may begin with gradients that steps before it have left: several make an
    update, or the module clears them itself."""
    data_workers: list[int]
    """Processes of each training loader."""
    persistent_workers: bool
    """Whether the training loader keeps its workers from epoch to epoch."""
    validation: bool
    """Whether anything was validated while training."""
    fill_uninitialized_memory: bool
    """Whether torch filled it, which it does under deterministic algorithms alone."""
    optimizer: list[str]
    """How optimizers updated, by the operations of the first update of each: `fused (Adam)`;
    empty of compiled and captured steps, whose operations nobody sees."""
    layout: list[str]
    """Of `parameters`, `buffers`, `batches` and `products` those that lay in a layout other than
    torch's default."""
    batch_norm: str
    """`none` of a module that does not normalise over the batch, `joined` or `synchronised`."""
    checkpointing: bool
    """Whether Lightning wrote checkpoints."""
    logging: bool
    """Whether the Trainer had a logger."""
    variables: dict[str, str]
    """Environment variables that change arithmetic, ours included."""


def versions() -> dict[str, str]:
    """Return the installed versions of what computes a result, and the CUDA version of torch."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    spec = util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
        match = re.search(r"^cuda.*= '([\d.]+)'", text, re.MULTILINE)
        found["cuda"] = match.group(1) if match else "none"
        # Only of a torch for AMD's GPUs: others keep the identity that they had.
        if match := re.search(r"^hip.*= '([\w.-]+)'", text, re.MULTILINE):
            found["hip"] = match.group(1)
    return found


def this_host() -> str:
    """Name this machine."""
    return platform.node()


def planned_identity() -> dict[str, str]:
    """Return what the workflow plans a run with beside settings, code and data, without torch.

    A changed value has every run made again. No machine is in it: a cluster's jobs run on others
    than the one that plans them.
    """
    return {
        "python": platform.python_version(),
        **versions(),
        "distributions": distributions_hash(),
    }


def present_identity() -> dict[str, str]:
    """Return what `describe` would say here and now of an identity, as far as torch is not asked.

    The driver is what the machine has. `describe` records it of runs alone whose torch sees a GPU.
    """
    return {
        **planned_identity(),
        **machine.cpu(),
        "driver": _driver(),
        **{f"{VARIABLE}{name}": value for name, value in machine.inherited_variables().items()},
    }


def describe() -> Environment:
    """Describe this process's machine and software; `started` is now.

    Returns:
        `identity`: what must be equal for two runs to be a pair. `context`: what may differ (host
        name, load, commit, time).
    """
    started = datetime.now(UTC)  # before what follows, which takes a second

    import torch

    packages = distributions()
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    identity = {
        "python": platform.python_version(),
        **versions(),
        "system": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        **machine.cpu(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "gpu": gpus[0] if gpus else "none",
        "driver": _driver() if gpus else "none",
        "cudnn": str(torch.backends.cudnn.version() or "none"),
        **machine.libraries(),
        "distributions": distributions_hash(packages),
        **{f"{VARIABLE}{name}": value for name, value in machine.inherited_variables().items()},
    }
    context: Context = {
        "host": this_host(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": len(gpus),
        "load_1min": round(os.getloadavg()[0], 2),
        "commit": _commit(),
        "started": started.isoformat(timespec="seconds"),
    }
    return {"identity": identity, "context": context, "packages": packages}


def present_gpus() -> list[str]:
    """Name the kinds of GPU that the machine has; none where nobody says so without torch."""
    return list(dict.fromkeys(_told_of_gpus("name")))


def _told_of_gpus(what: str) -> list[str]:
    """Return what NVIDIA's tool says of each GPU; nothing where it does not answer."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)  # noqa: S603
    lines = [] if answer.returncode else answer.stdout.splitlines()
    return [line.strip() for line in lines if line.strip()]


def _driver() -> str:
    """Return the version of the GPU's driver; `none` without one."""
    for version in _told_of_gpus("driver_version"):
        return version
    # Where there is no tool, in containers and with AMD's GPUs, the kernel's module says it.
    for file, pattern in DRIVER_FILES.items():
        with contextlib.suppress(OSError):
            if match := re.search(pattern, Path(file).read_text(encoding="utf-8")):
                return match.group(1)
    return "unknown" if shutil.which("nvidia-smi") else "none"


def _commit() -> str:
    """Return the commit of Twinrun's own sources, with a plus sign if they were edited since."""
    folder = Path(__file__).parents[1]
    answers = []
    for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "."]):
        git = ["git", "-C", str(folder), *arguments]
        with contextlib.suppress(OSError):
            done = subprocess.run(git, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode == 0:
                answers.append(done.stdout.strip())
    if len(answers) != 2:
        return "unknown"
    return answers[0] + ("+" if answers[1] else "")
