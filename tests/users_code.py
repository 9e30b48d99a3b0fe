"""What a process says of a user's code, whichever Python the tests run on."""


def of_user(found):
    """Leave out what the system executes in each of its processes, as Debian's Python does."""
    return {name: entry for name, entry in found.items() if name != "sitecustomize"}
