"""A table of the page without the columns in which nothing stands."""

import re

from markupsafe import Markup

ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)
CELL = re.compile(r"<(th|td)\b[^>]*>.*?</\1>", re.DOTALL)
SPAN = re.compile(r'colspan="(\d+)"')
NOTHING = "–"


def without_empty_columns(table: Markup) -> Markup:
    """Leave out the columns of a table that hold a dash in every row.

    >>> head, first = "<tr><th>a</th><th>b</th></tr>", "<tr><td>1</td><td>–</td></tr>"
    >>> print(without_empty_columns(Markup(head + first)))
    <tr><th>a</th></tr><tr><td>1</td></tr>
    """
    rows = [list(CELL.finditer(row[0])) for row in ROW.finditer(table)]
    if len(rows) < 2:
        return table
    width = max(map(len, rows))
    # A row of fewer cells has one that spans several columns: it says nothing of a single one.
    whole = [row for row in rows[1:] if len(row) == width and not any(map(_span, row))]
    empty = [
        column
        for column in range(width)
        if whole and all(_text(row[column][0]) == NOTHING for row in whole)
    ]
    if not empty:
        return table
    # Its text is escaped already.
    return Markup(ROW.sub(lambda row: _without(row[0], empty), str(table)))  # noqa: S704


def _without(row: str, empty: list[int]) -> str:
    column, last, kept = 0, 0, []
    for cell in CELL.finditer(row):
        kept.append(row[last : cell.start()])
        span = _span(cell) or 1
        left = span - sum(column <= at < column + span for at in empty)
        if left:
            kept.append(SPAN.sub(f'colspan="{left}"', cell[0], count=1) if span > 1 else cell[0])
        column, last = column + span, cell.end()
    return "".join([*kept, row[last:]])


def _span(cell: re.Match[str]) -> int | None:
    """Return over how many columns a cell goes; None for one."""
    found = SPAN.search(cell[0].partition(">")[0])
    return int(found[1]) if found else None


def _text(cell: str) -> str:
    return re.sub("<[^>]*>", "", cell).strip()
