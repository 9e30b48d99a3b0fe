"""What a user can mend, in one sentence; and any exception in one."""


class TwinrunError(Exception):
    """Something the user can mend: one sentence naming the key or file, its value and the cure."""


def sentence_of(error: Exception) -> str:
    """Say an exception in one sentence."""
    if isinstance(error, TwinrunError):
        return str(error)
    first = str(error).strip().split("\n")[0]
    no_memory = ("out of memory", "can't allocate memory", "cannot allocate memory")
    if isinstance(error, MemoryError) or any(words in first.lower() for words in no_memory):
        return f"out of memory ({first}): give the job more memory or make its batch smaller"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename or 'while writing'}"
    return f"{type(error).__name__}: {first}"
