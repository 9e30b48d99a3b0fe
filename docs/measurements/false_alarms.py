"""Whether clean modules raise a false alarm: 50 trainings of each, compared with the first.

    PYTHONPATH=tests:tests/comparison python docs/measurements/false_alarms.py

The modules are the clean ones among those of the planted faults, trained under torch's default
algorithms on one thread and on two.
"""

import logging
import tempfile
import warnings
from pathlib import Path

from test_planted_faults import PLAIN, compared, train, workload

REPEATS = 50
CLEAN = ("Base", "TwoOptimizers", "Frozen")


def main() -> None:
    """Train, compare and print."""
    for module in CLEAN:
        for threads in (1, 2):
            with tempfile.TemporaryDirectory() as name:
                folder, variant = Path(name), PLAIN | {"threads": threads}
                repeats = range(1, REPEATS + 1)
                runs = [train(folder, repeat, workload(module), variant) for repeat in repeats]
                answer = compared(folder, runs)["answer"]
            print(f"{module}, {threads} threads: {REPEATS} trainings are {answer}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    main()
