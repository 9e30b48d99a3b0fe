"""What a fresh process says to the one that started it: a line of JSON each."""

import msgspec


class ProgressMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A line for the terminal and the log."""

    text: str
    """What is printed."""


class FailureMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Why the process fails."""

    error: str
    """In one sentence."""
    time: float
    """When, in seconds since the epoch: of several workers the first failure is the cause."""
    is_lost_peer: bool
    """Whether it only lost the connection to another one."""
    is_machine_fault: bool
    """Whether the machine failed, not what was computed; see `machine_faults`."""


class DoneMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """That what was called has come to its end."""


Message = ProgressMessage | FailureMessage | DoneMessage


def written(message: Message) -> bytes:
    """Return a message as the line to be sent."""
    return msgspec.json.encode(message) + b"\n"


def read(line: bytes) -> Message:
    """Return the message of a line.

    Raises:
        msgspec.ValidationError: if it is none: an error of ours.
    """
    return msgspec.json.decode(line, type=Message)
