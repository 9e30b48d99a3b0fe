"""Two looks at what data were first given as they were read: whether they contradict each other."""

from collections.abc import Mapping

from twinrun.checkpoint.late_content import Content


def first_other(before: Mapping[str, Content], now: Mapping[str, Content]) -> str | None:
    """Name the first of two looks that is another one in both.

    >>> first_other({"A.rows": {"1": "a x", "2": "b x"}}, {"A.rows": {"2": "b ", "3": "c "}})
    >>> first_other({"A.rows": {"1": "a x"}}, {"A.rows": {"1": "a y"}})
    'A.rows'
    """
    return next((key for key in before if key in now and _is_other(before[key], now[key])), None)


def with_more(before: Mapping[str, Content], now: Mapping[str, Content]) -> dict[str, Content]:
    """Return all that two looks have seen, which do not contradict each other."""
    found = {**before}
    for key, content in now.items():
        known = found.get(key)
        is_filled = isinstance(known, dict) and isinstance(content, dict)
        found[key] = {**content, **known} if is_filled else content  # pyrefly: ignore[invalid-argument]
    return found


def more_than(before: Mapping[str, Content], now: Mapping[str, Content]) -> dict[str, Content]:
    """Return what of a look is new or another one since an earlier one."""
    found: dict[str, Content] = {}
    for key, content in now.items():
        known = before.get(key)
        if isinstance(known, dict) and isinstance(content, dict):
            content = {k: v for k, v in content.items() if k not in known or _differs(known[k], v)}
        elif known == content:
            continue
        if content != {}:
            found[key] = content
    return found


def lacks(now: Mapping[str, Content], wanted: Mapping[str, Content]) -> str | None:
    """Name the first of what was wanted that is not there."""
    for key, content in wanted.items():
        has = now.get(key)
        if has is None or (isinstance(content, dict) and not content.keys() <= {*has}):
            return key
    return None


def _is_other(before: Content, now: Content) -> bool:
    if isinstance(before, dict) and isinstance(now, dict):
        return any(_differs(before[key], now[key]) for key in before.keys() & now.keys())
    return before != now


def _differs(before: str, now: str) -> bool:
    (few, _, whole), (others, _, all_of_them) = before.partition(" "), now.partition(" ")
    return few != others or bool(whole and all_of_them and whole != all_of_them)
