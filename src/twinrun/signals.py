"""Which exceptions are the work of a signal: somebody ends the program, whatever it computes."""


def signal_behind(error: BaseException) -> str | None:
    """Return the signal that an exception is of, also where Lightning ends the program for it.

    It raises a SIGTERMException, and exits with code 1 where it meets a KeyboardInterrupt.
    """
    met = error.__context__ if isinstance(error, SystemExit) else error
    if isinstance(met, KeyboardInterrupt):
        return "SIGINT (Ctrl-C)"
    is_term = isinstance(error, SystemExit) and type(error).__name__ == "SIGTERMException"
    return "SIGTERM" if is_term else None
