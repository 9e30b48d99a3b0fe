"""Whether clean modules raise a false alarm: trainings of each, compared with the first of them.

    PYTHONPATH=tests python docs/measurements/false_alarms.py

The modules are the clean ones among those of the planted faults, trained 50 times under torch's
default algorithms on one thread and on two; and one that reads batches of many kinds, 10 times.
"""

import logging
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from auditing import PLAIN, compared, train, workload
from batch_kinds import KINDS

REPEATS = 50
REPEATS_OF_KIND = 10
CLEAN = ("Base", "TwoOptimizers", "Frozen")


def main() -> None:
    """Train, compare and print."""
    for module in CLEAN:
        for threads in (1, 2):
            _tell(f"{module}, {threads} threads", workload(module), threads, REPEATS)
    for kind in KINDS:
        settings = {"module": "batch_kinds:Reader", "data": f"batch_kinds:{kind}"}
        _tell(f"batches {kind}", workload() | settings, 1, REPEATS_OF_KIND)


def _tell(name: str, settings: Mapping[str, object], threads: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        variant = PLAIN | {"threads": threads}
        numbers = range(1, repeats + 1)
        runs = [train(Path(folder), number, settings, variant) for number in numbers]
        answer = compared(Path(folder), runs)["answer"]
    print(f"{name}: {repeats} trainings are {answer}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    main()
