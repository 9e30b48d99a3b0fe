"""GPUs are those that torch would see, by whichever driver, found without importing torch."""

import platform

import pytest
import torch

from twinrun.process import environment, gpus
from twinrun.process.gpus import Gpus

LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-4b4c-8c2e-4c3a5f1d2e11)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0c1f2b8e-9d5a-4e8e-8a0b-7a4f1d0e6b22)
"""


VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Give a function that puts a machine in place of this one."""

    def pretend(
        *,
        listing=None,
        fails=False,
        cuda="12.8",
        hip=None,
        system="Linux",
        processor="x86_64",
        devices=(),
        **variables,
    ):
        if listing is not None:
            tool = tmp_path / "nvidia-smi"
            answer = f"[ $1 = -L ] && cat <<'END'\n{listing}END\n"
            tool.write_text(f"#!/bin/sh\n{'exit 9' if fails else answer}")
            tool.chmod(0o755)
        asked = []

        def count(visible):
            asked.append(visible)
            return len(devices)

        monkeypatch.setattr(gpus, "_torchs_count", count)
        file = tmp_path / "device"
        if devices:
            file.touch()
        monkeypatch.setattr(gpus, "DEVICE_FILES", (str(file),))
        (tmp_path / "cat").symlink_to("/bin/cat")
        monkeypatch.setenv("PATH", str(tmp_path))
        found = {"cuda": cuda, "hip": hip}
        monkeypatch.setattr(gpus, "versions", lambda: {k: v for k, v in found.items() if v})
        monkeypatch.setattr(platform, "system", lambda: system)
        monkeypatch.setattr(platform, "machine", lambda: processor)
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            if value is not None:
                monkeypatch.setenv(name, value)
        return asked

    return pretend


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 2),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("1,0", 2),
        ("1, 0", 2),
        ("0,-1,1", 1),
        ("2", 0),
        ("0,7", 1),
        ("0,0", 0),
        ("0,GPU-5d5b", 0),
        ("NoDevFiles", 0),
        ("GPU-0c1f2b8e-9d5a-4e8e-8a0b-7a4f1d0e6b22", 1),
        ("GPU-5d5b,GPU-0c1f", 2),
        ("GPU-ffff", 0),
        ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", 1),
    ],
)
def test_visible_devices_are_counted_as_cuda_reads_them(machine, visible, count):
    machine(listing=LISTING, CUDA_VISIBLE_DEVICES=visible)
    assert gpus.count_gpus() == count


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        pytest.param({}, 0, id="no driver"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, 0, id="no driver, whatever is visible"),
        pytest.param({"listing": "No devices were found\n"}, 0, id="driver, no GPU"),
        pytest.param({"listing": LISTING, "cuda": "none"}, 0, id="torch without CUDA"),
        pytest.param({"listing": LISTING, "cuda": None}, 2, id="no torch here"),
        pytest.param({"system": "Darwin", "processor": "arm64"}, 1, id="Apple's GPU"),
        pytest.param({"system": "Darwin"}, 0, id="older Apple"),
        pytest.param({"devices": "ab"}, 2, id="no tool, as in a container"),
        pytest.param({"devices": "ab", "listing": "", "fails": True}, 2, id="the tool fails"),
        pytest.param({"devices": "ab", "cuda": "none"}, 0, id="torch without CUDA, a device"),
        pytest.param({"devices": "ab", "cuda": "none", "hip": "6.4"}, 2, id="AMD's GPUs"),
        pytest.param({"cuda": "none", "hip": "6.4"}, 0, id="torch for AMD's GPUs, none here"),
    ],
)
def test_gpus_are_those_that_torch_would_see(machine, settings, count):
    machine(**settings)
    assert gpus.count_gpus() == count


@pytest.mark.skipif(platform.system() == "Darwin", reason="counts CUDA devices")
def test_gpus_of_this_machine_are_those_that_torch_sees():
    assert gpus.count_gpus() == torch.cuda.device_count()


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, Gpus(["0", "1"])),
        ({"CUDA_VISIBLE_DEVICES": "3, 1"}, Gpus(["3", "1"])),
        # torch counts two: CUDA read no further.
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,-1,GPU-c"}, Gpus(["GPU-a", "GPU-b"])),
    ],
)
def test_without_the_tool_gpus_are_named_as_the_variable_names_them(machine, variables, found):
    machine(devices="ab", **variables)
    assert gpus.visible_gpus() == found


@pytest.mark.parametrize(
    ("variables", "names", "identities"),
    [
        ({}, ["0", "1"], ["0", "1"]),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, ["1", "0"], ["1", "0"]),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, ["2", "3"], ["2", "3"]),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, ["0", "1"], ["2", "3"]),
        (
            {"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "0,2"},
            ["0", "2"],
            ["4", "6"],
        ),
    ],
)
def test_amds_gpus_are_told_apart_whatever_is_visible(machine, variables, names, identities):
    machine(devices="ab", cuda="none", hip="6.4", **variables)
    found = gpus.visible_gpus()
    assert (found.names, found.variable) == (names, "HIP_VISIBLE_DEVICES")
    assert found.locked_as == dict(zip(names, identities, strict=True))


@pytest.mark.parametrize("hip", [None, "6.4"])
def test_where_there_is_no_device_torch_is_not_asked(machine, hip):
    """Its import would hold up every start of Snakemake."""
    asked = machine(hip=hip)
    assert gpus.count_gpus() == 0
    assert asked == []


def test_torch_is_asked_in_a_process_of_its_own():
    assert gpus._torchs_count("of this test") == torch.cuda.device_count()


def test_a_torch_that_fails_to_answer_has_no_gpus(monkeypatch):
    monkeypatch.setattr(gpus, "ASK_TORCH", "raise RuntimeError('no driver')")
    assert gpus._torchs_count("of another test") == 0
    monkeypatch.setattr(gpus, "ASK_TORCH", "import time; time.sleep(600)")
    monkeypatch.setattr(gpus, "ASK_SECONDS", 0.1)
    assert gpus._torchs_count("of a third test") == 0


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023",
            "535.104.05",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
            "570.86.15",
        ),
        (None, "none"),
    ],
)
def test_without_the_tool_the_kernel_says_which_driver_it_has(tmp_path, monkeypatch, text, version):
    file = tmp_path / "version"
    if text is not None:
        file.write_text(f"{text}\nGCC version:  gcc version 11.4.0\n")
    pattern = environment.DRIVER_FILES["/proc/driver/nvidia/version"]
    monkeypatch.setattr(environment, "DRIVER_FILES", {str(file): pattern})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment._driver() == version
