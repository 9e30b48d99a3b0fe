"""The dataset of `steady`, made without torch; the file POINTS_MARK gets a line each time."""

import os
from pathlib import Path

import numpy as np


def make(size):
    with Path(os.environ.get("POINTS_MARK", os.devnull)).open("a") as file:
        file.write("made\n")
    return {"inputs": np.random.default_rng(1).standard_normal((size, 4), dtype=np.float32)}
