"""What is logged in each epoch, a row for each, which goes to disk as it comes.

A training of however many epochs holds none of them in memory, and a checkpoint has their number
and a hash. Names are kept once for all rows of the same ones.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from twinrun.trace.spool import Spool

if TYPE_CHECKING:  # a run imports it when it writes its tables
    import pandas as pd

PART = 1_024  # rows of the table that are held at once
NUMBERS = 16_384  # that are read at once
FILE = "epochs"


class EpochRows:
    """Takes rows of numbers by name; `rows` and `table` give them back.

    In the file there is for each row the number of its names, and then its values.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Write nothing yet.

        Args:
            folder: in which a resumed training finds the rows; without one they are in a temporary
                file, and a checkpoint holds them.
        """
        self._path = None if folder is None else folder / FILE
        self._begin()

    def _begin(self) -> None:
        self._spool = Spool(np.float64, self._path)
        self._numbers: dict[tuple[str, ...], int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, row: Mapping[str, float]) -> None:
        """Add a row: its epoch, by this name, and values."""
        number = self._numbers.setdefault(tuple(row), len(self._numbers))
        self._spool.append(np.array([number, *row.values()], dtype=np.float64))
        self._count += 1

    def rows(self) -> Iterator[dict[str, float]]:
        """Yield all rows."""
        names, start = list(self._numbers), 0
        most = max(NUMBERS, 1 + max(map(len, names), default=0))  # at least a row
        while start < len(self._spool):
            numbers, position = self._spool.read(start, most).tolist(), 0
            while position < len(numbers):
                of_row = names[int(numbers[position])]
                end = position + 1 + len(of_row)
                if end > len(numbers):
                    break
                row = dict(zip(of_row, numbers[position + 1 : end], strict=True))
                yield row | {"epoch": int(row["epoch"])}
                position = end
            start += position

    def table(self) -> "Iterator[pd.DataFrame]":
        """Yield the table in parts: at least one, which may have no rows.

        A value that is no number is the text `nan`: an empty cell is of a metric that the module
        did not log in that epoch.
        """
        import pandas as pd

        if not len(self):
            yield pd.DataFrame({"epoch": []})
        # In the order in which the names came first.
        columns = list(dict.fromkeys(name for names in self._numbers for name in names))
        rows = (
            {name: "nan" if math.isnan(value) else value for name, value in row.items()}
            for row in self.rows()
        )
        while part := list(islice(rows, PART)):
            yield pd.DataFrame(part, columns=columns)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the rows: tensors and plain values."""
        state = {"names": [list(names) for names in self._numbers], "count": self._count}
        if self._path is not None:
            return state | {"file": dict(self._spool.state())}
        return state | {"values": torch.from_numpy(self._spool.read().copy())}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on after what `state` gave.

        Raises:
            TwinrunError: if the file in the folder is not that of the checkpoint.
        """
        self.close()
        self._begin()
        self._numbers = {tuple(names): number for number, names in enumerate(state["names"])}
        self._count = state["count"]
        if "file" in state:
            self._spool.resume(state["file"])
        elif len(state["values"]):
            self._spool.append(state["values"].numpy())

    def close(self) -> None:
        """Close the file."""
        self._spool.close()
