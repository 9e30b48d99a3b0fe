"""Which failures are the machine's, and not those of what a job computes.

The job of such a failure fails and is run again, perhaps with more memory. Any other failure of a
training is a result (see `training.failed_run`).
"""

import errno

from twinrun.errors import JobError

# What a disk, a limit of the system or a dying machine answers. Any other OSError, such as a file
# of the user's that is not there, is the fault of the code that asked.
OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
}
NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")
# https://github.com/pytorch/pytorch/blob/v2.11.0/torch/utils/data/_utils/signal_handling.py
LOST_WORKER = ("killed by signal", "exited unexpectedly")


def is_machine_fault(error: BaseException | None) -> bool:
    """Say whether an exception, or what caused it, is the machine's fault."""
    if error is None:
        return False
    if isinstance(error, JobError | MemoryError):
        return True
    text = str(error).lower()
    if isinstance(error, OSError):
        is_fault = error.errno in OF_THE_MACHINE
    elif "dataloader worker" in text:
        is_fault = any(words in text for words in LOST_WORKER)
    else:
        # A retry asks for more of the machine's memory, never for a larger GPU.
        is_fault = "cuda" not in text and any(words in text for words in NO_MEMORY)
    return is_fault or is_machine_fault(error.__cause__)
