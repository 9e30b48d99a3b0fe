"""Tables, columns and indices of pandas, as the arrays that they are made of."""

import sys


def is_table(value: object) -> bool:
    """Say whether it is a table, a column or an index of pandas."""
    pandas = sys.modules.get("pandas")  # not imported for those whose batches hold none of it
    if pandas is None or not hasattr(pandas, "Index"):  # or is on its way
        return False
    return isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index))


def parts_of(value: object) -> list[tuple[str, object]] | None:
    """Return what an object of pandas holds, by name; None for any other object.

    >>> import pandas as pd
    >>> [name for name, _ in parts_of(pd.DataFrame({"a": [1]}))]
    ['columns', 'index', 'attrs', '0']
    """
    if not is_table(value):
        return None
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        columns = [(str(column), value.iloc[:, column]) for column in range(value.shape[1])]
        named = [("columns", value.columns), ("index", value.index), ("attrs", value.attrs)]
        return [*named, *columns]
    if isinstance(value, pandas.Series):
        named = [("name", value.name), ("index", value.index), ("attrs", value.attrs)]
        return [*named, ("values", pandas.Index(value.array))]
    named = [("names", list(value.names)), ("dtype", str(value.dtype))]
    if isinstance(value, pandas.CategoricalIndex):
        return [*named, ("codes", value.codes), ("categories", value.categories)]
    # Of times and periods the numbers: with a zone they would be objects.
    times = getattr(value, "asi8", None)
    return [*named, ("values", value.to_numpy() if times is None else times)]
