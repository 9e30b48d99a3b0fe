"""How near a compiled step is to its floor: the library's convolutions and matrix products alone.

    python docs/measurements/floor.py results/data/digits.npz [PYTHON_WITH_JAX]

It prints a table for the workloads `digits` (a prediction, a training step) and `peaks` (a bare
training step of 40,000 points), with one thread and with two. Plain and fast are the steps that a
timing measures. The floor is each convolution and matrix product of the plain step alone, forward
and both gradients, in the fastest of the layouts in which the library takes it. The step of peaks
is compared with JAX's too, where an interpreter that has it is named (see `jax_peaks.py`).

All are measured in turn, round by round; ratios are medians over the rounds with their 95 %
interval. With one thread the clock is that of the processor, which other load disturbs less.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import yaml
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from twinrun.acceleration.compilation import compiler_switches
from twinrun.acceleration.steps import calls_to_warm_up
from twinrun.config.definitions import Training, Variant
from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.timing.initial_state import InitialState
from twinrun.timing.ratios import interval
from twinrun.timing.timed_variant import Phase, TimedVariant

ROOT = Path(__file__).parents[2]
THREADS = (1, 2)
ROUNDS, ROUND_SECONDS = 25, 0.12
BATCHES = 32  # that are kept of a loader, and go round

aten = torch.ops.aten
LIBRARY = {
    *(aten.convolution.default, aten.convolution_backward.default),
    *(aten.mm.default, aten.addmm.default, aten.bmm.default),
}
Call = Callable[[], object]
Measure = Callable[[], float]
"""Measures one round, and returns the seconds of a step."""


class Recorder(TorchDispatchMode):
    """Keeps every call of the library with copies of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., object], list[object]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with self:  # in inference mode `linear`, say, arrives as it is
            if (result := func.decompose(*args, **(kwargs or {}))) is not NotImplemented:
                return result
        if func in LIBRARY:
            kept = tree_map_only(torch.Tensor, lambda t: t.detach().clone(), list(args))
            self.calls.append((func, kept))
        return func(*args, **(kwargs or {}))


def in_layouts(func: Callable[..., object], arguments: list[object]) -> Iterator[Call]:
    """List the ways in which the library may be asked for one and the same result."""
    yield lambda: func(*arguments)
    if not any(isinstance(x, torch.Tensor) and x.dim() == 4 for x in arguments):
        # A matrix may be stored by its columns.
        for number, argument in enumerate(arguments):
            if isinstance(argument, torch.Tensor) and argument.dim() == 2:
                other = list(arguments)
                other[number] = argument.t().contiguous().t()
                yield lambda other=other: func(*other)
        return
    for layout in (torch.contiguous_format, torch.channels_last):
        # Copied into, since `to` leaves an image of one channel as it is.
        laid = tree_map_only(
            torch.Tensor,
            lambda t: torch.empty(t.shape, memory_format=layout).copy_(t) if t.dim() == 4 else t,  # noqa: B023
            arguments,
        )
        yield lambda laid=laid: func(*laid)
        if func is aten.convolution.default:
            yield from packed(laid)


def packed(arguments: list[object]) -> Iterator[Call]:
    """Yield a convolution with weights in the library's own layout, which a prediction may keep."""
    images, weight, bias, stride, padding, dilation, _, _, groups = arguments
    try:
        own = torch._C._nn.mkldnn_reorder_conv2d_weight(
            weight.to_mkldnn(), padding, stride, dilation, groups, images.shape
        )
        conv = torch.ops.mkldnn._convolution_pointwise
        conv(images, own, bias, padding, stride, dilation, groups, "none", [], "")
    except RuntimeError:  # no such library in this build
        return
    yield lambda: conv(images, own, bias, padding, stride, dilation, groups, "none", [], "")


def seconds_of(call: Call, clock: Callable[[], float], times: int) -> float:
    """Return the seconds of a call, as the mean of several."""
    started = clock()
    for _ in range(times):
        call()
    return (clock() - started) / times


def floor_of(step: Call, clock: Callable[[], float]) -> list[Call]:
    """Return the library's calls of a step, each in the fastest layout under these threads."""
    with Recorder() as recorder:
        step()
    found = []
    with torch.inference_mode():
        for func, arguments in recorder.calls:
            ways = list(in_layouts(func, arguments))
            for way in ways:
                way()
            best = min(ways, key=lambda way: min(seconds_of(way, clock, 10) for _ in range(5)))
            found.append(best)
    return found


class Case:
    """One workload and phase under a number of threads, with all that is measured of it."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.ways: dict[str, Measure] = {}
        self.seconds: dict[str, list[float]] = {}

    def add(self, name: str, measure: Measure) -> None:
        """Measure this, too."""
        self.ways[name], self.seconds[name] = measure, []

    def round(self, number: int) -> None:
        """Measure all once, beginning with another one each time."""
        names = list(self.ways)
        start = number % len(names)
        for name in [*names[start:], *names[:start]]:
            self.seconds[name].append(self.ways[name]())

    def row(self) -> str:
        """Return a line of the table."""
        cells = [self.name, str(self.threads)]
        for name in ("plain", "fast", "floor", "JAX"):
            found = self.seconds.get(name)
            cells.append(f"{1e3 * statistics.median(found):.3g} ms" if found else "")
        for a, b in (("plain", "fast"), ("fast", "floor"), ("JAX", "fast")):
            cells.append(self._ratio(a, b) if {a, b} <= self.seconds.keys() else "")
        return f"| {' | '.join(cells)} |"

    def _ratio(self, a: str, b: str) -> str:
        found = interval(np.array(self.seconds[a]) / np.array(self.seconds[b]))
        return f"{found['time_ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def repeated(call: Call, clock: Callable[[], float]) -> Measure:
    """Measure so many calls at once that a round lasts ROUND_SECONDS."""
    number = max(1, round(ROUND_SECONDS / seconds_of(call, clock, 3)))
    return lambda: seconds_of(call, clock, number)


def of_step(timed: TimedVariant, phase: Phase, clock: Callable[[], float]) -> Measure:
    """Measure steps as a timing does."""
    steps = max(1, round(ROUND_SECONDS / timed.seconds_per_step[phase]))
    return lambda: seconds_of(lambda: timed.round(phase, 1, steps, stretch=steps), clock, 1) / steps


def of_jax(python: str, points: int, threads: int) -> Measure:
    """Start the step in JAX in a process of its own, which waits while others are measured."""
    script = str(Path(__file__).with_name("jax_peaks.py"))
    child = subprocess.Popen(  # noqa: S603  what the caller named
        [python, script, str(points), str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(steps: int) -> float:
        print(steps, file=child.stdin, flush=True)
        wall, processor, *_ = map(float, child.stdout.readline().split()[:2])
        return (processor if threads == 1 else wall) / steps

    steps = max(1, round(ROUND_SECONDS / ask(20)))
    return lambda: ask(steps)


def made(initial: InitialState, variant: Variant, phases: tuple[Phase, ...]) -> TimedVariant:
    """Make a variant ready, compiled where it compiles."""
    timed = TimedVariant(initial, variant, warm_up_calls=calls_to_warm_up(variant) + 1)
    for phase in phases:
        timed.prepare(phase, most=BATCHES)
        timed.warm_up(phase)
    return timed


def main() -> None:
    """Measure all and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("python_with_jax", nargs="?", default="")
    given = parser.parse_args()
    dataset, python_with_jax = given.dataset, given.python_with_jax
    settings = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()), SCHEMA, gpus=0)
    cases: list[Case] = []
    for workload, plain, fast, phases in (
        ("digits", "eager", "compiled", ("train", "predict")),
        ("peaks", "cpu", "cpu-fast", ("train",)),
    ):
        initial = InitialState(
            Training(
                workload=settings.workloads[workload],
                variant=settings.variants[plain],
                seed=1,
                dataset=dataset if workload == "digits" else None,
                search_path=[],
            )
        )
        with closing(initial), compiler_switches():
            for threads in THREADS:
                variants = [replace(settings.variants[v], threads=threads) for v in (plain, fast)]
                both = [made(initial, variant, phases) for variant in variants]
                for phase in phases:
                    kind = {"train": "training step", "predict": "prediction"}[phase]
                    case = Case(f"{workload}, {kind}", threads)
                    for name, timed in zip(("plain", "fast"), both, strict=True):
                        case.add(name, of_step(timed, phase, case.clock))
                    cases.append(case)
                    torch.set_num_threads(threads)
                    if workload == "digits":
                        calls = floor_of(lambda: both[0].round(phase, 1, 1, stretch=1), case.clock)  # noqa: B023
                        case.add("floor", of_floor(calls, threads, case.clock))
                    elif python_with_jax:
                        points = settings.workloads[workload].hyperparameters["points"]
                        case.add("JAX", of_jax(python_with_jax, points, threads))
            print(f"{workload}: ready", file=sys.stderr, flush=True)
            for number in range(ROUNDS):
                for case in cases:
                    if case.name.startswith(workload):
                        case.round(number)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    print(
        "| step | threads | plain | fast | floor | JAX | plain / fast | fast / floor | JAX / fast |"
    )
    print("| --- " * 9 + "|")
    for case in cases:
        print(case.row())


def of_floor(calls: list[Call], threads: int, clock: Callable[[], float]) -> Measure:
    """Measure the library's calls of a step, one after the other."""

    @torch.inference_mode()
    def all_of_them() -> None:
        for call in calls:
            call()

    measure = repeated(all_of_them, clock)

    def under_threads() -> float:
        torch.set_num_threads(threads)
        return measure()

    return under_threads


if __name__ == "__main__":
    main()
