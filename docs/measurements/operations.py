"""What a step of the digits network spends its time on, with one thread and with two.

    python docs/measurements/operations.py results/data/digits.npz

For each variant and phase it prints a table of kinds of work and a list of the largest operations.
The milliseconds are those of torch's profiler, on the thread that calls: what no operation of it
covers (Python, the clock's own reading of each call) is the rest of the step.
"""

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import yaml
from torch._inductor import config as inductor
from torch.profiler import ProfilerActivity, profile

from twinrun.acceleration.compilation import compiler_switches
from twinrun.config.definitions import Training
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.timing.initial_state import InitialState
from twinrun.timing.timed_variant import Phase, TimedVariant

ROOT = Path(__file__).parents[2]
THREADS = (1, 2)
SHOWN = 8  # operations
STEPS = 100
ROUNDS = 5
KINDS = {
    "convolutions": ("conv",),
    "matrix products": ("mm", "linear"),
    "generated loops": ("cpp_fused", "cpp_for"),
}


def kind_of(operation: str) -> str:
    """Return the kind of work that an operation of the profiler is."""
    found = (kind for kind, parts in KINDS.items() if any(part in operation for part in parts))
    return next(found, "other operations")


def profiled(timed: TimedVariant, phase: Phase) -> tuple[float, Counter[str]]:
    """Return the milliseconds a step, and those of each operation, in the fastest round."""
    rounds = []
    for number in range(ROUNDS):
        with profile(activities=[ProfilerActivity.CPU]) as recorded:
            row = timed.round(phase, number + 1, STEPS, stretch=STEPS)
        found: Counter[str] = Counter()
        for operation in recorded.key_averages():
            found[operation.key] += operation.self_cpu_time_total / 1e3 / row["steps"]
        rounds.append((1e3 * row["seconds"] / row["steps"], found))
    return min(rounds, key=lambda one: one[0])


def main() -> None:
    """Print the milliseconds a step of each phase and variant, by kind and operation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    dataset = parser.parse_args().dataset
    settings = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()), SCHEMA, gpus=0)
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
    inductor.cpp.enable_kernel_profile = True  # else a generated loop has no name
    with compiler_switches():
        for name in ("eager", "compiled"):
            for threads in THREADS:
                timed = TimedVariant(initial, replace(settings.variants[name], threads=threads))
                for phase in phases:
                    timed.prepare(phase)
                    timed.warm_up(phase)
                    step, operations = profiled(timed, phase)
                    show(f"{name}, {phase}, {threads} thread(s)", step, operations)


def show(name: str, step: float, operations: Counter[str]) -> None:
    """Print what a step takes, by kind, and its largest operations."""
    kinds: Counter[str] = Counter()
    for operation, milliseconds in operations.items():
        kinds[kind_of(operation)] += milliseconds
    kinds["the rest of the step"] = step - sum(operations.values())
    print(f"{name}: {step:.2f} ms a step")
    for found in (kinds, dict(operations.most_common(SHOWN))):
        for what, milliseconds in found.items():
            print(f"  {milliseconds:6.2f} ms  {what[:70]}")
        print()


if __name__ == "__main__":
    main()
