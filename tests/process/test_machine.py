"""A machine is identified by more than its name, and by the variables that change arithmetic."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from twinrun.process import machine
from twinrun.process.launching import environment_of, launch

XEON = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: {model}
model name\t: Intel(R) Xeon(R) Processor @ 2.50GHz
stepping\t: 1
cache size\t: 36608 KB
flags\t\t: fpu sse {flags}

processor\t: 1
flags\t\t: other
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd {flags}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (XEON.format(model=85, flags="avx2"), XEON.format(model=106, flags="avx2")),
        (XEON.format(model=85, flags="avx2"), XEON.format(model=85, flags="avx2 avx512f")),
        (ARM.format(flags="sve"), ARM.format(flags="")),
        (ARM.format(flags=""), ARM.format(flags="").replace("0xd0c", "0xd40")),
    ],
)
def test_cpus_of_one_name_are_told_apart(first, second):
    one, other = machine.cpu(first), machine.cpu(second)
    assert one["cpu"] == other["cpu"]
    assert one != other
    assert one == machine.cpu(first)


def test_the_order_of_flags_and_other_cores_do_not_count():
    one = machine.cpu(XEON.format(model=85, flags="avx2 fma"))
    assert one == machine.cpu(XEON.format(model=85, flags="fma avx2").replace("other", "more"))
    assert one["cpu_id"] == "GenuineIntel 6 85 1"


def test_variables_that_change_arithmetic_are_found_and_ours_left_out():
    variables = {
        "MKL_CBWR": "COMPATIBLE",
        "OMP_NUM_THREADS": "2",
        "CUDA_VISIBLE_DEVICES": "0",
        "HOME": "/root",
        "LD_PRELOAD": "libjemalloc.so",
        machine.SET_BY_US: "OMP_NUM_THREADS,MKL_NUM_THREADS",
    }
    expected = {"LD_PRELOAD": "libjemalloc.so", "MKL_CBWR": "COMPATIBLE"}
    assert machine.inherited_variables(variables) == expected


# On this machine each of them changed the bits of a product, a convolution, a sum, or of a function
# of NumPy or of libm; Lightning's changes what is trained.
CHANGING = {
    "MKL_CBWR": "COMPATIBLE",
    "DNNL_MAX_CPU_ISA": "SSE41",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "default",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
    "PL_TRAINER_GRADIENT_CLIP_VAL": "0.1",
    # Red before: the gate passed with these, though an `assert` was left out, or memory that
    # nothing has written was another.
    "PYTHONOPTIMIZE": "1",
    "PYTHONDEVMODE": "1",
    "PYTHONMALLOC": "debug",
    "MALLOC_PERTURB_": "165",
    # On GPUs, by their manuals.
    "NVIDIA_TF32_OVERRIDE": "0",
    "TRITON_F32_DEFAULT": "tf32",
    "MIOPEN_DEBUG_CONV_WINOGRAD": "0",
    "HIPBLASLT_ALLOW_TF32": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
}


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_bits_is_part_of_the_identity(name):
    variables = {name: CHANGING[name]}
    assert machine.inherited_variables(variables) == variables


def test_numpy_and_libm_are_computed_by_other_kernels_where_a_variable_says_so(tmp_path):
    """Why they count: of a machine with AVX2 the bits are others without it."""
    code = (
        "import math, numpy as np; x = np.random.default_rng(1).normal(size=50_000).astype('f4');"
        "print(hash(np.exp(x).tobytes() + str([math.sin(v) for v in x.tolist()]).encode()))"
    )

    def bits(**variables):
        environment = {**os.environ, "PYTHONHASHSEED": "0", **variables}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    plain = bits()
    assert bits() == plain
    if platform.libc_ver()[0] != "glibc" or "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no kernels to leave out")
    assert bits(GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F") != plain


def write_identity(path: str) -> None:
    from twinrun.process import environment

    Path(path).write_text(json.dumps(environment.describe()["identity"]))


def test_a_fresh_process_tells_what_it_inherited_from_what_it_was_given(
    tmp_path, monkeypatch, request
):
    monkeypatch.setenv("PYTHONPATH", str(request.path.parent), prepend=os.pathsep)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    variables = environment_of(
        seed=1, deterministic=True, threads=1, further={"DNNL_DEFAULT_FPMATH_MODE": "STRICT"}
    )
    path = tmp_path / "identity.json"
    launch("test_machine:write_identity", {"path": str(path)}, variables)
    found = json.loads(path.read_text())
    ours = {key: value for key, value in found.items() if key.startswith("variable ")}
    assert ours.pop("variable MKL_CBWR") == "COMPATIBLE"
    assert not {"variable OMP_NUM_THREADS", "variable DNNL_DEFAULT_FPMATH_MODE"} & set(ours)
    assert {"cpu_id", "cpu_flags", "cpu_caches", "mkl", "onednn", "distributions"} <= set(found)


def test_what_is_left_to_chance_is_not_fixed_for_the_default_variant():
    plain = environment_of(seed=1, deterministic=False, threads=1)
    assert not {"PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG"} & set(plain)
    fixed = environment_of(seed=1, deterministic=True, threads=1)
    assert fixed["PYTHONHASHSEED"] == "1"
