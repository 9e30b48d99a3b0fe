"""Tables, columns and indices of pandas, as the arrays that they are made of."""

import sys
from typing import Any


def is_table(value: object) -> bool:
    """Say whether it is a table, a column or an index of pandas."""
    pandas = _pandas()
    kinds = (pandas.DataFrame, pandas.Series, pandas.Index) if pandas is not None else ()
    return isinstance(value, kinds)


def parts_of(value: object) -> list[tuple[str, object]] | None:
    """Return what an object of pandas holds, by name; None for any other object.

    >>> import pandas as pd
    >>> [name for name, _ in parts_of(pd.DataFrame({"a": [1]}))]
    ['columns', 'index', 'attrs', '0']
    """
    if (pandas := _pandas()) is None:
        return None
    if isinstance(value, pandas.DataFrame):
        columns = [(str(column), value.iloc[:, column]) for column in range(value.shape[1])]
        named = [("columns", value.columns), ("index", value.index), ("attrs", value.attrs)]
        return [*named, *columns]
    if isinstance(value, pandas.Series):
        named = [("name", value.name), ("index", value.index), ("attrs", value.attrs)]
        return [*named, ("values", pandas.Index(value.array))]
    if not isinstance(value, pandas.Index):
        return None
    named = [("names", list(value.names)), ("dtype", str(value.dtype))]
    if isinstance(value, pandas.CategoricalIndex):
        return [*named, ("codes", value.codes), ("categories", value.categories)]
    # Of times and periods the numbers: with a zone they would be objects.
    times = getattr(value, "asi8", None)
    return [*named, ("values", value.to_numpy() if times is None else times)]


def _pandas() -> Any:
    """Return pandas if it is imported: not for those whose data hold none of it, nor on its way."""
    pandas = sys.modules.get("pandas")
    return pandas if hasattr(pandas, "Index") else None
