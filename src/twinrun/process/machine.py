"""Which machine and libraries compute: what decides the bits of a float beside the program.

A model name does not identify a CPU: virtual machines call themselves "Intel(R) Xeon(R) Processor",
ARM has none. Family, model, stepping and flags choose the kernels of oneDNN, MKL and ATen, and the
sizes of the caches choose how they cut their loops, and so the order of their sums.
"""

import contextlib
import hashlib
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from twinrun.process.held_files import mapped_files

# Variables that change what is computed, or by which kernel, by their beginnings. Not torch alone:
# measured on an Intel Xeon, OPENBLAS_NUM_THREADS and OPENBLAS_CORETYPE change NumPy's products,
# NPY_DISABLE_CPU_FEATURES its exp, and GLIBC_TUNABLES, which chooses the kernels of libm, even
# Python's own `math.sin`. Lightning's Trainer takes PL_TRAINER_GRADIENT_CLIP_VAL and the like from
# the shell where a script does not say otherwise. Python leaves out an `assert`, and what stands
# under `__debug__`, or reads text otherwise; an allocator decides what memory holds that nothing
# has written, and where it lies.
ARITHMETIC = (
    *("OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH", "PYTORCH", "TRITON_"),
    *("NVIDIA_", "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "HIP_", "HSA_", "ROCBLAS_", "HIPBLASLT_"),
    *("MIOPEN_", "OPENBLAS_", "BLIS_", "VECLIB_", "NPY_", "GLIBC_TUNABLES", "LD_PRELOAD"),
    *("PYTHONHASHSEED", "PL_TRAINER_"),
    *("PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONUTF8", "PYTHON_GIL"),
    *("PYTHONMALLOC", "MALLOC_"),
)
# Of these, the ones that say where something lies or what is shown: they change no bit.
NO_ARITHMETIC = {
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("CUDA_CACHE_PATH", "CUDA_HOME", "CUDA_PATH", "HIP_PATH"),
    # Lightning sets it when it is imported: how torch finds out whether there is a GPU.
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    *("TORCH_HOME", "TORCH_LOGS", "TORCH_EXTENSIONS_DIR", "TORCH_SHOW_CPP_STACKTRACES"),
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "MIOPEN_CUSTOM_CACHE_DIR"),
    *("MIOPEN_USER_DB_PATH", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_CUDA"),
    *("PL_TRAINER_DEFAULT_ROOT_DIR", "PYTHONMALLOCSTATS"),
}
# By which libraries are told how many threads to start. Snakemake sets all of them for a job, by
# its own threads: inherited, they would tell runs of other threads apart as other machines.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Names, joined by commas, of the variables that Twinrun or the variant has set itself: what they
# say follows from the variant's settings, by which two runs are compared anyway.
SET_BY_US = "TWINRUN_SET"


# As they were before Lightning and torch were imported, which set some for themselves.
_AT_START = dict(os.environ)


def inherited_variables(variables: Mapping[str, str] = _AT_START) -> dict[str, str]:
    """Return the variables that change arithmetic and that this process did not get from us."""
    found = variables
    ours = set(found.get(SET_BY_US, "").split(","))
    return {
        name: found[name]
        for name in sorted(found)
        if name.startswith(ARITHMETIC) and name not in NO_ARITHMETIC and name not in ours
    }


def cpu(cpuinfo: str | None = None) -> dict[str, str]:
    """Identify the CPU: `cpu` (its name), `cpu_id`, `cpu_flags` (a hash), `cpu_caches`.

    Args:
        cpuinfo: as /proc/cpuinfo has it; read from there by default.
    """
    if cpuinfo is None:
        cpuinfo = ""
        with contextlib.suppress(OSError):
            cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    first = cpuinfo.strip().split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    identity = ("vendor_id", "cpu family", "model", "stepping")
    arm = ("cpu implementer", "cpu architecture", "cpu part", "cpu variant", "cpu revision")
    numbers = [fields[name] for name in (*identity, *arm) if name in fields]
    flags = " ".join(sorted((fields.get("flags") or fields.get("features") or "").split()))
    name = fields.get("model name") or platform.processor() or platform.machine()
    return {
        "cpu": name,
        "cpu_id": " ".join(numbers) or "unknown",
        "cpu_flags": hashlib.sha256(flags.encode()).hexdigest()[:12] if flags else "unknown",
        "cpu_caches": " ".join(_cache_sizes()) or fields.get("cache size", "unknown"),
    }


def _cache_sizes() -> list[str]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError):
            found.append((index / "size").read_text(encoding="utf-8").strip())
    return found


def libraries() -> dict[str, str]:
    """Name the mathematical libraries that torch computes with, and their versions."""
    import torch

    told = torch.__config__.parallel_info() + torch.__config__.show()
    patterns = {
        "mkl": r"Math Kernel Library Version (\S+)",
        "onednn": r"MKL-DNN (v\S+ \(Git Hash \w+\))",
        "openmp": r"OpenMP (\d+)",
    }
    matches = {name: re.search(pattern, told) for name, pattern in patterns.items()}
    found = {name: match.group(1) if match else "none" for name, match in matches.items()}
    return {
        **found,
        "nccl": _nccl(),
        "openmp_library": " ".join(_loaded_openmp()) or "unknown",
    }


def _nccl() -> str:
    """Return NCCL's version, which torch's text about its build leaves out."""
    from torch.cuda import nccl

    try:
        return ".".join(map(str, nccl.version()[:3]))
    except (AttributeError, RuntimeError):  # a build without it
        return "none"


def _loaded_openmp() -> list[str]:
    """Name the OpenMP libraries that this process has loaded: two share out sums differently."""
    files = {Path(file).name for file in mapped_files()}
    return sorted(file for file in files if re.match(r"lib[gi]?omp\d*[-.]", file))
