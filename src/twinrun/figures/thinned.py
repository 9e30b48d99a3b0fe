"""What a line can show of a long training: no spike is lost."""

import numpy as np
import pandas as pd

RANGES = 100  # of a figure that is 360 points wide
KEPT = 4  # positions of each


def thinned(table: pd.DataFrame, *, x: str, y: str) -> pd.DataFrame:
    """Leave out rows of a line, or of several that are drawn as their median and range.

    Of each hundredth of the positions those stay where a value is the least or the most of it, and
    those where the median is; and the first and the last. At these all rows stay.

    Args:
        table: in long form, its values finite.
        x: name of the column of positions.
        y: name of the column of values.
    """
    positions = np.unique(table[x])
    if len(positions) <= RANGES * KEPT:
        return table
    range_of = pd.Series(np.arange(len(positions)) * RANGES // len(positions), index=positions)
    kept = {positions[0], positions[-1]}
    for values in (table.set_index(x)[y], table.groupby(x)[y].median()):
        of_ranges = values.groupby(range_of.loc[values.index].to_numpy())
        kept |= {*of_ranges.idxmin(), *of_ranges.idxmax()}
    return table[table[x].isin(kept)]


def summed_up(table: pd.DataFrame, *, x: str, y: str) -> pd.DataFrame:
    """Return the least, the median and the most of each hundredth of the positions of a noisy line.

    They stand at its middle, as three rows. The first position, where a line begins, is as it was,
    and so are all of a table of few positions.

    Args:
        table: as of `thinned`.
        x: likewise.
        y: likewise.
    """
    positions = np.unique(table[x])
    if len(positions) <= RANGES * KEPT:
        return table
    number = np.searchsorted(positions, table[x]) * RANGES // len(positions)
    is_first = table[x] == positions[0]
    ranges = table[~is_first].groupby(number[~is_first])
    middle, values = ranges[x].median(), ranges[y]
    three = [values.min(), values.median(), values.max()]
    summed = [pd.DataFrame({x: middle, y: each}) for each in three]
    return pd.concat([table.loc[is_first, [x, y]], *summed], ignore_index=True)
