"""What a step of the digits network spends its time on, operation by operation.

python docs/measurements/operations.py results/data/digits.npz
"""

import argparse
from pathlib import Path

import torch
import yaml
from torch.profiler import ProfilerActivity, profile

from twinrun.acceleration.compilation import compiler_switches
from twinrun.config.definitions import Training
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.timing.initial_state import InitialState
from twinrun.timing.timed_variant import Phase, TimedVariant

ROOT = Path(__file__).parents[2]
SHOWN = 6  # operations
STEPS = 20


def main() -> None:
    """Print the milliseconds a step of each phase and variant, then of its largest operations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    dataset = parser.parse_args().dataset
    settings = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()), SCHEMA, gpus=0)
    torch.set_num_threads(2)
    initial = InitialState(
        Training(
            workload=settings.workloads["digits"],
            variant=settings.variants["eager"],
            seed=1,
            dataset=dataset,
            search_path=[],
        )
    )
    phases: tuple[Phase, ...] = ("train", "predict")
    with compiler_switches():
        for name in ("eager", "compiled"):
            timed = TimedVariant(initial, settings.variants[name])
            for phase in phases:
                timed.prepare(phase)
                timed.warm_up(phase)
                with profile(activities=[ProfilerActivity.CPU]) as profiled:
                    row = timed.round(phase, 1, STEPS, stretch=STEPS)
                print(f"{name}, {phase}: {1e3 * row['seconds'] / row['steps']:.2f} ms a step")
                for operation in sorted(
                    profiled.key_averages(), key=lambda found: -found.self_cpu_time_total
                )[:SHOWN]:
                    milliseconds = operation.self_cpu_time_total / 1e3 / row["steps"]
                    print(f"  {milliseconds:6.2f} ms  {operation.key[:60]}")


if __name__ == "__main__":
    main()
