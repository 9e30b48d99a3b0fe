"""Which GPUs torch would see in a process started here, found without importing torch.

Importing torch takes 1.3 s, and the Snakefile asks at every start. NVIDIA's tool lists the GPUs
where it is there. Where it is not (AMD's GPUs, containers without the tool, Jetson boards, WSL) and
the machine has a GPU's device file, a child process asks torch.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twinrun.process.environment import versions

# What a driver opens before it can use a GPU. Most machines without one have none of these files,
# so that nobody there waits for torch.
DEVICE_FILES = (
    *("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/nvmap"),
    *("/dev/dxg", "/dev/kfd"),
)
ASK_TORCH = "import torch; print(torch.cuda.device_count())"
ASK_SECONDS = 120.0  # a driver that hangs must not hang the workflow


@dataclass(frozen=True)
class Gpus:
    """The GPUs that a process started here would see."""

    names: Sequence[str] = ()
    """In the words of `variable`, in torch's order."""
    variable: str = "CUDA_VISIBLE_DEVICES"
    """The environment variable by which a process is told which of them to use."""
    identities: Sequence[str] = ()
    """What tells each from others on the machine, whatever is visible; else the names."""

    @property
    def locked_as(self) -> dict[str, str]:
        """Return by each name what tells the GPU from others."""
        return dict(zip(self.names, self.identities or self.names, strict=True))


def count_gpus() -> int:
    """Return how many GPUs torch would see in a process started here: CUDA's, ROCm's or Apple's."""
    if platform.system() == "Darwin":
        return int(platform.machine() == "arm64")
    return len(visible_gpus().names)


def visible_gpus() -> Gpus:
    """Return the GPUs of NVIDIA or AMD that torch would see in a process started here."""
    installed = versions()
    if "hip" in installed:
        return _of_amd()
    if installed.get("cuda") == "none":
        return Gpus()
    # The tool may be there and not answer, as in a container that was not given the driver's
    # library for it.
    return _listed() or Gpus(_counted(os.environ.get("CUDA_VISIBLE_DEVICES")))


def _listed() -> Gpus | None:
    """Return what NVIDIA's tool lists; None if it does not answer.

    CUDA_VISIBLE_DEVICES names devices by index or by the beginning of a UUID:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    """
    if shutil.which("nvidia-smi") is None:
        return None
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607
    uuids = re.findall(r"UUID: (.*?)\)", listing.stdout)
    present = [uuid for uuid in uuids if uuid.startswith("GPU-")]
    if not present and listing.returncode:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return Gpus(present)

    def named(device: str) -> str | None:
        if device.startswith(("GPU-", "MIG-")):
            return next((uuid for uuid in uuids if uuid.startswith(device)), None)
        return present[int(device)] if device.isdecimal() and int(device) < len(present) else None

    found = []
    for device in visible.split(","):
        if (uuid := named(device.strip())) is None:
            break  # CUDA reads the list up to the first device that does not exist, such as -1
        found.append(uuid)
    # Of a list that names one twice CUDA takes none.
    return Gpus(found if len({*found}) == len(found) else [])


def _of_amd() -> Gpus:
    """Return AMD's GPUs.

    ROCR_VISIBLE_DEVICES chooses first, and HIP_VISIBLE_DEVICES counts what that has left; torch
    reads CUDA_VISIBLE_DEVICES in its place:
    https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
    """
    hip = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    names = _counted(hip)
    chosen = os.environ.get("ROCR_VISIBLE_DEVICES", "")
    left = [device.strip() for device in chosen.split(",") if device.strip()]
    identities = [
        left[int(name)] if name.isdecimal() and int(name) < len(left) else name for name in names
    ]
    return Gpus(names, "HIP_VISIBLE_DEVICES", identities)


def _counted(visible: str | None) -> list[str]:
    """Return as many names as torch counts GPUs: those of the variable, or indices."""
    number = _torchs_count(visible) if any(Path(file).exists() for file in DEVICE_FILES) else 0
    named = [] if visible is None else [device.strip() for device in visible.split(",")]
    return named[:number] if named else [str(index) for index in range(number)]


@cache
def _torchs_count(visible: str | None) -> int:
    """Ask torch, in a process of its own, how many GPUs there are.

    Args:
        visible: what the environment says of them: another answer is asked for again.
    """
    try:
        answer = subprocess.run(  # noqa: S603
            [sys.executable, "-c", ASK_TORCH],
            capture_output=True,
            text=True,
            check=False,
            timeout=ASK_SECONDS,
        )
        return int(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0
