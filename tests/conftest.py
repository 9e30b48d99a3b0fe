"""What a test leaves behind fails it: switches, threads, environment variables, processes."""

import gc
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

# No test asserts seconds: on a busy machine drawing an example takes as long as it does.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

IGNORED = (
    "PYTEST_CURRENT_TEST",
    "PL_GLOBAL_SEED",
    "PL_SEED_WORKERS",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",  # set for good by whatever compiles first
    "TORCHINDUCTOR_CACHE_DIR",
    "PYTORCH_NVML_BASED_CUDA_CHECK",  # by the first import of Lightning
    "CUDA_DEVICE_ORDER",  # by Lightning's first training on a GPU
    *("TRITON_CACHE_DIR", "TRITON_PTXAS_PATH"),  # by the first step that is compiled for one
)


LONG = ("slurm", "workflow", "parallel")  # folders


def pytest_xdist_auto_num_workers(config):
    """One more than there are cores, up to four: much of the time a test waits for a process."""
    return min(4, (os.cpu_count() or 1) + 1)


SEEN = Counter[str]()  # cases of a test


def pytest_itemcollected(item):
    """Leave to the exhaustive run all cases of a test but each n-th, where it says `one_in(n)`."""
    if marker := item.get_closest_marker("one_in"):
        name = item.nodeid.partition("[")[0]
        if SEEN[name] % marker.args[0]:
            item.add_marker(pytest.mark.exhaustive)
        SEEN[name] += 1


@pytest.hookimpl(trylast=True)  # behind what takes away the tests that were not asked for
def pytest_collection_modifyitems(items):
    """Begin with the tests that take longest, so that no process is left alone with them.

    The first makes the finished demo; who needs it too comes last of the long ones, not to wait.
    """
    of_demo = {item.path: None for item in items if "demo" in item.fixturenames}
    first = next(iter(of_demo), None)

    def rank(item):
        is_long = bool({*LONG} & {*item.path.parts})
        return (not is_long, item.path != first, item.path in of_demo)

    items.sort(key=rank)


def _environment():
    return {key: value for key, value in os.environ.items() if key not in IGNORED}


def _switches():
    import torch

    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.backends.cudnn.deterministic,
        torch.get_float32_matmul_precision(),
    )


@pytest.fixture(autouse=True)
def _a_process_of_its_own():
    """Hide from the garbage collector what earlier tests left, which no training's process has."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _no_leaks(request):
    if "workflow" in request.path.parts:  # all of it happens in other processes
        yield
        return
    environment, switches = _environment(), _switches()
    children = set(psutil.Process().children(recursive=True))
    yield
    assert _environment() == environment
    assert _switches() == switches
    if left := set(psutil.Process().children(recursive=True)) - children:
        gc.collect()  # an iterator in a cycle keeps its data workers
        left &= set(psutil.Process().children(recursive=True))
    assert not [process for process in left if process.is_running() and not _may_stay(process)]


def _may_stay(process):
    """Tell the compiler's helpers, and MPI's daemon, which Lightning starts where mpi4py is."""
    with suppress(psutil.NoSuchProcess):
        return process.name() == "orted" or any("compile_worker" in e for e in process.cmdline())
    return True


@pytest.fixture(autouse=True)
def _no_memory_of_proofs(monkeypatch):
    """Have every test prove for itself: a planted fault is in no file that a hash covers."""
    proofs = sys.modules.get("twinrun.training.remembered_proofs")
    if proofs is not None:  # to import it takes seconds, which few tests need
        monkeypatch.setattr(proofs, "MEMORY", Path("no-such-folder/proofs"))


@pytest.fixture(autouse=True)
def _no_patched_loaders():
    """Take back what Lightning leaves patched where a loader of a test cannot be made.

    In a training's process, which ends then, nothing comes behind it.
    https://github.com/Lightning-AI/pytorch-lightning/blob/2.6.6/src/lightning/fabric/utilities/data.py
    """
    yield
    data = sys.modules.get("torch.utils.data")
    for base in (data.DataLoader, data.BatchSampler) if data is not None else ():
        if "__old__setattr__" in vars(base):
            for kind in (base, *_below(base)):
                for name in ("__init__", "__setattr__", "__delattr__"):
                    if f"__old{name}" in vars(kind):
                        setattr(kind, name, vars(kind)[f"__old{name}"])
                        delattr(kind, f"__old{name}")


def _below(kind):
    return [each for below in kind.__subclasses__() for each in (below, *_below(below))]
