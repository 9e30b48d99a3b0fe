"""What a user can mend, in one sentence; and any exception in one."""

import errno
import re
import traceback
from pathlib import Path

from twinrun.signals import signal_behind


class TwinrunError(Exception):
    """Something the user can mend: one sentence naming the key or file, its value and the cure."""


class JobError(TwinrunError):
    """What kept a job from its work here and now; it says nothing of what the job computes.

    A training that fails is a result, which is kept. A training that was killed, that read a
    corrupt file or found no GPU is none: its job fails and is to be run again.
    """


def sentence_of(error: BaseException) -> str:
    """Say an exception in one sentence."""
    if isinstance(error, TwinrunError):
        return str(error)
    if (name := signal_behind(error)) is not None:
        return f"interrupted by {name}"
    if isinstance(error, SystemExit):
        return f"the code ends the program (sys.exit({error.code!r}))"
    first, *further = (line.strip() for line in str(error).strip().split("\n"))
    if first.endswith(":") and further:  # as torch lists what a state_dict misses
        first = f"{first} {further[0]}".strip()
    # https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/Context.cpp
    operation, refusal, _ = first.partition(" does not have a deterministic implementation")
    if refusal:
        return (
            f"no reproducible algorithm for {operation}: torch refuses it under `deterministic: "
            f"true`; use another operation in its place, or a variant with `deterministic: false`"
        )
    no_memory = ("out of memory", "can't allocate memory", "cannot allocate memory")
    if isinstance(error, MemoryError) or any(words in first.lower() for words in no_memory):
        # Behind that torch names the memory of each process on the GPU.
        told = re.split(r"\.? (?:Process \d|Including non-PyTorch)", first)[0]
        is_gpus = re.match("CUDA|HIP|MPS", told)
        remedy = "use a GPU with more" if is_gpus else "give the job more memory"
        return f"out of memory ({told}): {remedy} or make its batch smaller"
    if isinstance(error, OSError) and error.strerror:
        if error.filename:
            return f"{error.strerror}: {error.filename}"
        is_of_disk = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
        return f"{error.strerror}{': while writing' if is_of_disk else _raised_at(error)}"
    name = type(error).__name__
    if first and not first.endswith(":"):
        return f"{name}: {first}"
    # A bare assertion says nothing, nor does torch of one that it met in compiling.
    return f"{f'{name}: {first}'.strip(': ')}{_raised_at(error)}"


def _raised_at(error: BaseException) -> str:
    """Return the innermost line, as file and number; empty for an error that was not raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
