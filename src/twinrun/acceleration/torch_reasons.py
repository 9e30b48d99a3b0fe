"""Why torch has compiled again, in its own words."""

from torch._dynamo.utils import get_compilation_metrics

_last: object = None  # of its records, that has been looked at


def told_since_last() -> list[str | None]:
    """Return its reason for each function that it has compiled since this was last asked.

    Where a graph breaks, a change of one compiles functions behind it, too, for which it has none.
    """
    global _last
    found = get_compilation_metrics()
    last, _last = _last, found[-1]
    at = next((i for i, each in enumerate(found) if each is last), -1)
    return [each.recompile_reason for each in found[at + 1 :]]
