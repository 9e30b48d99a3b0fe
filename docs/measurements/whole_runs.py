"""What is around a step: the Trainer's loop, what a run keeps, compilation, the start of a process.

    python docs/measurements/whole_runs.py FOLDER

`loop`: a step of peaks bare, through the Trainer, and with all that a run keeps; then each
callback of ours is left out, in turn, in one process, round by round. Plain and fast.
`runs`: whole runs as the workflow makes them, plain and fast: peaks (2,000 epochs) and digits
(`--epochs`), the seconds of `fit` with compilation and without. Fast steps are proven before.
`start`: seconds from the start of a run to its first step, and which packages are imported in it.

`--rows` names those that are wanted. Each in a process of its own, in FOLDER, as rows of Markdown.
Nothing else must run beside; on a machine that is shared `--cpu` counts the processor's time of the
loop, on one thread.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytorch_lightning as pl
import torch
import yaml
from msgspec import convert

from twinrun import artifacts
from twinrun.acceleration.compilation import compiler_switches
from twinrun.acceleration.placement import lay_out_batch
from twinrun.acceleration.under_trainer import Speed
from twinrun.checkpoint.resumable import Resumable
from twinrun.checkpoint.stop_request import Stop
from twinrun.config.definitions import Run, Training, Variant
from twinrun.config.shipped import SCHEMA
from twinrun.data.digits import make
from twinrun.parallel.team import Team
from twinrun.process.compiler_cache import own_cache
from twinrun.timing.bare_step import bare_step
from twinrun.timing.fit import Fit
from twinrun.timing.initial_state import InitialState
from twinrun.trace.step_tracer import Tracer
from twinrun.training.epoch_log import EpochMetrics, EpochSeconds
from twinrun.training.progress import Curves, Progress
from twinrun.training.run import run
from twinrun.training.unsupported import Supported
from twinrun.training.what_happened import WhatHappened
from twinrun.workloads.peaks import Peaks

HERE = Path(__file__).absolute()  # before the folder is changed
STEPS = 50  # of a round
PEAKS = {
    "module": "twinrun.workloads.peaks:Peaks",
    "data": "twinrun.workloads.peaks:PeaksGrid",
    "dataset": None,
    "hyperparameters": {"points": 40_000, "learning_rate": 0.08},
    "epochs": 2000,
}
DIGITS = {
    "module": "twinrun.workloads.digits:Digits",
    "data": "twinrun.workloads.digits:DigitImages",
    "dataset": "digits",
    "hyperparameters": {"learning_rate": 0.001, "angle_weight": 0.05, "batch_size": 32},
}
STARTED = {
    **PEAKS,
    "module": "whole_runs:Started",
    "epochs": 1,
}
PLAIN: dict[str, object] = {"threads": 2}
FAST: dict[str, object] = {"threads": 2, "compile": "step", "layout": "features_first"}
EAGER: dict[str, object] = {"threads": 1}
COMPILED: dict[str, object] = {"threads": 1, "compile": "step", "layout": "channels_last"}
FILES = {"weights": "weights.safetensors", "steps": "steps.csv", "epochs": "epochs.csv"}
FILES |= {"fingerprints": "fingerprints.npz", "predictions": "predictions.safetensors"}
FILES |= {"manifest": "run.json", "checksums": "SHA256SUMS"}


class Started(Peaks):
    """Peaks, which writes when its first step begins."""

    def __init__(self, learning_rate: float, note: str) -> None:
        super().__init__(learning_rate)
        self.note = note

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Note the time, once."""
        if self.note:
            Path(self.note).write_text(repr(time.time()))
            self.note = ""
        return super().training_step(batch, batch_idx)


def training_of(
    workload: Mapping[str, object], variant: Mapping[str, object], dataset: str | None = None
) -> dict[str, object]:
    """Return what a training is made of, with the defaults of the schema."""
    settings = yaml.safe_load(SCHEMA.read_text())["properties"]["variants"]["additionalProperties"]
    defaults = {name: entry["default"] for name, entry in settings["properties"].items()}
    return {
        "workload": dict(workload),
        "variant": {**defaults, "accelerator": "cpu", "deterministic": True, **variant},
        "dataset": dataset,
        "search_path": [str(HERE.parent)],
        "seed": 1,
    }


def loop(folder: Path, rounds: int, *, is_cpu: bool) -> None:
    """Measure steps of peaks, bare and with more and less around them."""
    what = "ms of the processor" if is_cpu else "ms"
    print(f"| a step of peaks, 40,000 points, in {what} | plain | fast | plain / fast |")
    print("| --- | --- | --- | --- |", flush=True)
    with own_cache() as cache:
        os.environ |= cache
        found = [
            _steps_of(settings, folder / name, rounds, is_cpu=is_cpu)
            for name, settings in (("plain", PLAIN), ("fast", FAST))
        ]
    for what in found[0]:
        plain, fast = (statistics.median(each[what]) for each in found)
        pairs = zip(*(each[what] for each in found), strict=True)
        ratio = statistics.median(first / second for first, second in pairs)
        print(f"| {what} | {plain:.3f} | {fast:.3f} | {ratio:.2f} |")
    sys.stdout.flush()


def _steps_of(
    settings: Mapping[str, object], folder: Path, rounds: int, *, is_cpu: bool
) -> dict[str, list[float]]:
    """Return the milliseconds of a step of each round, by what is around it."""
    if is_cpu:  # of several threads it would add up how long they wait for each other
        settings = {**settings, "threads": 1}
        torch.set_num_threads(1)
    training = convert(training_of({**PEAKS, "epochs": 10**6}, settings), Training)
    clock = time.process_time if is_cpu else time.perf_counter
    with compiler_switches():
        initial = InitialState(training)
        bare = _bare(initial, training.variant)
        module = initial.module()
        callbacks = _of_a_run(module, training, folder)
        fit = Fit(initial, module, training.variant, callbacks=list(callbacks.values()))
        steps = fit.steps()
        subsets = {"through the Trainer": ["Speed"], "as in a run": list(callbacks)}
        for name in callbacks:
            if name != "Speed":
                subsets[f"as in a run, without {name}"] = [n for n in callbacks if n != name]
        found: dict[str, list[float]] = {"bare": [], **{what: [] for what in subsets}}
        for number in range(rounds + 1):
            took = {"bare": _milliseconds(bare, clock)}
            for what, names in subsets.items():
                with _only(fit.trainer, [callbacks[name] for name in names]):
                    took[what] = _milliseconds(lambda: next(steps), clock)
            for what, value in took.items() if number else []:  # the first compiles and allocates
                found[what].append(value)
    return found


def _bare(initial: InitialState, variant: Variant) -> Callable[[], object]:
    fit, step = bare_step(initial, variant)
    (batch,) = initial.batches("train", fit.trainer, 1)
    batch = lay_out_batch(batch, variant.layout)
    return lambda: step(batch, 0)


def _of_a_run(module: pl.LightningModule, training: Training, folder: Path) -> dict[str, Any]:
    """Return the callbacks of a run by their names, in its order."""
    variant, tracer = training.variant, Tracer()
    team = cast(Team, SimpleNamespace(end_step=lambda: None, communication=lambda: 0.0))
    made = [
        Resumable(folder / "checkpoints", identity={}),
        Speed(module, variant),
        Stop(folder / "STOP"),
        Supported(),
        tracer,
        EpochMetrics(),
        EpochSeconds(team),
        WhatHappened(variant, training.workload.trainer),
        Progress("peaks", tracer, 1),
        Curves(folder / "tensorboard", tracer),
    ]
    return {type(callback).__name__: callback for callback in made}


@contextmanager
def _only(trainer: pl.Trainer, callbacks: list[pl.Callback]) -> Iterator[None]:
    """Have a Trainer call some of its callbacks alone."""
    all_of_them = vars(trainer)["callbacks"]
    vars(trainer)["callbacks"] = callbacks
    try:
        yield
    finally:
        vars(trainer)["callbacks"] = all_of_them


def _milliseconds(step: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    for _ in range(STEPS):
        step()
    return (clock() - started) / STEPS * 1e3


def runs(folder: Path, epochs: int) -> None:
    """Train whole runs, plain and fast."""
    digits = folder / "digits.npz"
    artifacts.write_arrays(digits, make(images_per_class=1000, seed=1))
    print("| whole run, seconds of fit | plain | fast | plain / fast | of fast, compiling |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    cases = (
        ("peaks, 2,000 epochs", PEAKS, (PLAIN, FAST), None),
        (f"digits, {epochs} epochs", {**DIGITS, "epochs": epochs}, (EAGER, COMPILED), str(digits)),
    )
    for what, workload, variants, dataset in cases:
        plain, fast = (
            _trained(folder / f"{what[:5]}{number}", training_of(workload, variant, dataset))
            for number, variant in enumerate(variants)
        )
        # The first two steps (one is plain) or the first epoch, over those that follow.
        first = 3 if workload is PEAKS else 1
        each = statistics.median(fast["epochs"][first:])
        compiling = sum(fast["epochs"][:first]) - first * each
        whole, without = plain["fit"] / fast["fit"], plain["fit"] / (fast["fit"] - compiling)
        print(
            f"| {what} | {plain['fit']:.1f} | {fast['fit']:.1f} | {whole:.2f}; {without:.2f} "
            f"without compiling | {compiling:.1f} |",
            flush=True,
        )


def start(folder: Path) -> None:
    """Measure the start of a run, three times, and what it imports."""
    print("| start of a run | seconds |")
    print("| --- | --- |")
    seconds = []
    for number in range(3):
        note, began = folder / f"started{number}", time.time()
        made = {**PEAKS["hyperparameters"], "note": str(note)}  # pyrefly: ignore
        _trained(
            folder / f"start{number}", training_of({**STARTED, "hyperparameters": made}, PLAIN)
        )
        seconds.append(float(note.read_text()) - began)
    low, middle, high = sorted(seconds)
    print(f"| process to first step | {middle:.2f} ({low:.2f} to {high:.2f}) |")
    command = [sys.executable, "-X", "importtime", "-c", "import twinrun.training.train"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stderr  # noqa: S603
    own: Counter[str] = Counter()
    for line in re.finditer(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", text):
        names = line[2].split(".")
        own[".".join(names[: 2 if names[0] == "torch" else 1])] += int(line[1])
    print(f"| importing `twinrun.training.train`, clocked | {own.total() / 1e6:.2f} |")
    for name, micros in own.most_common(12):
        print(f"| of it `{name}` | {micros / 1e6:.2f} |")
    sys.stdout.flush()


def _trained(folder: Path, training: Mapping[str, object]) -> dict[str, Any]:
    """Train as the workflow does; return the seconds that the run's manifest holds."""
    asked = {
        "identity": {"workload": "whole", "variant": folder.name, "seed": 1, "repeat": 1},
        "training": training,
        "source_sha256": "0" * 64,
        "imports": "",
        "files": {key: str(folder / "run" / name) for key, name in FILES.items()},
        "checkpoints": str(folder / "checkpoints"),
        "checkpoint_minutes": 10,
    }
    run(convert(asked, Run), {})
    return json.loads(Path(folder, "run", "run.json").read_text())["seconds"]


def main() -> None:
    """Measure what is asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="+", default=["loop", "runs", "start"])
    parser.add_argument("--epochs", type=int, default=20, help="of digits")
    parser.add_argument("--rounds", type=int, default=12, help="of the loop")
    parser.add_argument("--cpu", action="store_true", help="count the processor's time of the loop")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # proofs are remembered below it
    if len(given.rows) > 1:
        for row in given.rows:
            numbers = ["--epochs", str(given.epochs), "--rounds", str(given.rounds)]
            numbers += ["--cpu"] * given.cpu
            command = [sys.executable, str(HERE), str(folder), *numbers, "--rows", row]
            subprocess.run(command, check=True)  # noqa: S603
            print()
        return
    made: dict[str, Callable[[], None]] = {
        "loop": lambda: loop(folder, given.rounds, is_cpu=given.cpu),
        "runs": lambda: runs(folder, given.epochs),
        "start": lambda: start(folder),
    }
    made[given.rows[0]]()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
