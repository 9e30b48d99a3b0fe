"""Which failures are the machine's, and not those of what a job computes.

The job of such a failure fails and is run again, perhaps with more memory. Any other failure of a
training is a result (see `training.failed_run`). What keeps the failure of a part (a test, a
proof, a resumed training, a variant of a timing) asks here first.
"""

import errno
import signal

from twinrun.errors import JobError
from twinrun.signals import signal_behind

# What a disk, a limit of the system or a dying machine answers. Any other OSError, such as a file
# of the user's that is not there, is the fault of the code that asked.
OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
}
NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")
# What a library in another language says of the same without an OSError: of shared memory for data
# workers, torch.save (whose message says nothing of the disk), safetensors, SQLite.
SAID = (
    *("no space left on device", "disk quota exceeded", "input/output error"),
    *("too many open files", "stale file handle", "database or disk is full"),
    *("pytorchstreamwriter failed writing", ". unexpected pos"),
    # A GPU that is broken, taken or gone: https://docs.nvidia.com/cuda/cuda-runtime-api/
    *("uncorrectable ecc error", "device(s) is/are busy or unavailable"),
    *("no cuda-capable device is detected", "fallen off the bus", "system not yet initialized"),
)
# https://github.com/pytorch/pytorch/blob/v2.11.0/torch/utils/data/_utils/signal_handling.py
LOST_WORKER = ("killed by signal", "exited unexpectedly")
# Signals of the system, of a cluster or of a user, who end a process whatever it computes.
SENT = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU}


def is_machine_fault(error: BaseException | None) -> bool:
    """Say whether an exception, or what caused it, is the machine's fault."""
    if error is None:
        return False
    if isinstance(error, JobError | MemoryError) or signal_behind(error) is not None:
        return True
    if isinstance(error, OSError):
        is_fault = error.errno in OF_THE_MACHINE
    elif _is_of_worker(error):
        is_fault = _is_lost(error)
    else:
        is_fault = lacks_memory(error) or _is_said(error)
    return is_fault or is_machine_fault(error.__cause__)


def is_disturbance(error: BaseException | None) -> bool:
    """Say whether the machine disturbed what has room and a device, so that it may do later.

    What is too large for its memory, or wants a GPU that it lacks, is no such thing: a timing that
    tries sizes and variants reports that.
    """
    if error is None:
        return False
    if isinstance(error, OSError):
        is_fault = error.errno in OF_THE_MACHINE - {errno.ENOMEM}
    else:
        is_fault = _is_lost(error) if _is_of_worker(error) else _is_said(error)
    return is_fault or is_disturbance(error.__cause__)


def lacks_memory(error: BaseException) -> bool:
    """Say whether an error says that the machine's memory is too small."""
    text = str(error).lower()
    # A retry asks for more of the machine's memory, never for a larger GPU.
    return "cuda" not in text and any(words in text for words in NO_MEMORY)


def _is_of_worker(error: BaseException) -> bool:
    return "dataloader worker" in str(error).lower()


def _is_said(error: BaseException) -> bool:
    text = str(error).lower()
    return any(words in text for words in SAID)


def _is_lost(error: BaseException) -> bool:
    return any(words in str(error).lower() for words in LOST_WORKER)
