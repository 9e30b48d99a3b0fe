"""Whether the machine's C++ compiler can make its vector instructions: asked once a machine.

torch's compiler finds out by compiling a library and loading it in a Python of its own that imports
torch, which takes a third of what compiling a small step takes. It keeps the answer in its cache,
and each run has an empty one. The answer is of CPU, compiler and torch: where all instruction sets
of the CPU passed once, they are not tried again. What is compiled is the same.
"""

import hashlib
import os
import platform
import shutil
import sys
from functools import cache
from pathlib import Path

import torch

from twinrun.process.machine import cpu


def trust_earlier() -> None:
    """Have torch's compiler skip its trial in this process, if an earlier process passed it."""
    found = _marker()
    if found is not None and found.exists():
        from torch._inductor import config

        if config.cpp.vec_isa_ok is None:
            config.cpp.vec_isa_ok = True


def remember() -> None:
    """Note that the trial was passed, if this process has done it."""
    module = sys.modules.get("torch._inductor.cpu_vec_isa")
    marker = _marker()
    if module is None or marker is None or marker.exists():
        return
    from torch._inductor import config

    if config.cpp.vec_isa_ok is not None or not module.valid_vec_isa_list.cache_info().currsize:
        return
    flags = module.x86_isa_checker()
    of_cpu = [s for s in module.supported_vec_isa_list if set(str(s).split()) <= set(flags)]
    # One that failed would have to fail again: then nothing is noted.
    if of_cpu and list(module.valid_vec_isa_list()) == of_cpu:
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


@cache
def _marker() -> Path | None:
    """Return the file whose existence says so; None where the trial is another one."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if sys.platform != "linux" or platform.machine() != "x86_64" or compiler is None:
        return None
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    stat = Path(compiler).resolve().stat()
    of = (torch.__version__, torch.__file__, sys.executable, compiler, stat.st_size)
    key = hashlib.sha256(repr((*of, stat.st_mtime_ns, sorted(cpu().items()))).encode())
    # Beside the headers that torch prepares once a machine.
    return Path(default_cache_dir(), f"twinrun-vectors-{key.hexdigest()[:16]}")
