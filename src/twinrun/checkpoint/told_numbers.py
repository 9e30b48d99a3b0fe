"""Numbers that `set_epoch` sets in datasets, by which samples are made: hooks may move them too."""

from collections.abc import Sequence

from torch.utils.data import IterableDataset

from twinrun.checkpoint.stream_position import PLAIN, parts_of, told_anew, told_parts
from twinrun.checkpoint.users_code import attributes_seen


def told_numbers(loaders: Sequence[object]) -> dict[str, str]:
    """Write them down, by place and name; none of datasets of which data workers have copies."""
    parts = told_parts(loaders)
    has_workers = any(getattr(each, "num_workers", 0) for each in parts)
    here = {id(each) for each in (parts_of(loaders) if has_workers else parts)}
    found = {}
    for turn, part in enumerate(parts):
        is_read = isinstance(part, IterableDataset) or hasattr(type(part), "__getitem__")
        told = told_anew(part) if is_read and id(part) in here else set()
        values = attributes_seen(part) if told else {}
        for name in sorted(told & values.keys()):
            if isinstance(values[name], PLAIN):
                found[f"{turn} {type(part).__name__}.{name}"] = repr(values[name])
    return found
