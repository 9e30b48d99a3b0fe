"""Variants of one workload, measured in turn, round by round, in one process.

Each variant gets its own module from copies of the same initial weights, with a Trainer attached
that Lightning has set up as for a run, and batches that are already on its device. Inside the clock
of `train` is the LightningModule's own `training_step`, the backward pass and the step of its own
optimizer, with the hooks that it brings along, as fast as the variant makes them; of `predict`, its
`predict_step`; of `trainer`, a training step through Lightning's Trainer, with loading, transfer,
hooks, logging and schedules. `transfer` (moving the batches) and `first_call` (compilation,
allocation and capture) are reported apart, and untimed calls follow them. A round measures every
variant once, all on the same batches (see `round_length`), which go round, and the next round
begins with another variant. The device is synchronised at both ends of the clock. Before all that
fast steps are proven, and each variant predicts the same batch, which is compared with the
baseline's.

What cannot run on this machine is reported with the reason, and the others are still measured.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import torch

from twinrun import artifacts
from twinrun.acceleration.compilation import compiler_switches
from twinrun.config.definitions import Timing, TimingFiles, Training, Variant, Workload
from twinrun.errors import TwinrunError
from twinrun.process import environment
from twinrun.process.imported_code import imported_files
from twinrun.process.memory_limit import bounded_memory
from twinrun.timing import ratios, summary
from twinrun.timing.compiled_in_rounds import with_compiled
from twinrun.timing.conditions import unchanged_switches
from twinrun.timing.measured import Measured
from twinrun.timing.rounds import measure_size
from twinrun.timing.same_batches import judged_once
from twinrun.timing.without_effect import ratios_in_effect


def measure(
    *,
    name: str,
    timing: Timing,
    workload: Workload,
    variants: Mapping[str, Variant],
    dataset: str | None,
    search_path: list[str],
    seed: int = 1,
    files: TimingFiles,
) -> None:
    """Measure the variants of a workload and write every round and the summary.

    Args:
        name: of the timing.
        timing: rounds, steps, phases and sizes.
        workload: what is trained.
        variants: by name; the first is the baseline.
        dataset: path of the dataset's file.
        search_path: folders with the user's own modules.
        seed: of the initial weights and the data's order.
        files: paths of what is written.

    Raises:
        TwinrunError: if a number is not positive.
    """
    for key in ("rounds", "steps"):
        value = getattr(timing, key)
        if value < 1:
            raise TwinrunError(f"{name}.{key}: {value} is out of range, at least 1 is needed")
    described = environment.describe()
    baseline = next(iter(variants))
    training = Training(
        workload=workload,
        # The batches are loaded once, for all variants, in this process.
        variant=replace(variants[baseline], data_workers=0, persistent_workers=False),
        seed=seed,
        dataset=dataset,
        search_path=search_path,
    )
    told = workload.trainer
    measured_sizes: list[tuple[int | None, Measured]] = []
    with (
        contextlib.chdir("."),  # which a module may change
        compiler_switches(),
        bounded_memory(),
        unchanged_switches() as before,
    ):
        for size in timing.sizes or [None]:
            label = name if size is None else f"{name}, {timing.size} {size}"
            # A dimension that had another size before, in the same lines of code, is one that
            # changes to torch, whose graph for every size is slower than that for one.
            torch.compiler.reset()
            # The Trainer's loop takes much the same at any size: it is timed at the largest.
            is_largest = size is None or size == max(timing.sizes)
            phases = [phase for phase in timing.phases if is_largest or phase != "trainer"]
            measured = measure_size(
                replace(training, workload=workload.with_hyperparameter(timing.size, size)),
                variants,
                # Of each round as many updates as in a training belong to its steps.
                replace(timing, phases=phases, steps=told.with_whole_updates(timing.steps)),
                size=size,
                # A prediction that is compiled only for this costs seconds of compilation.
                compares=is_largest or "predict" in phases,
                label=label,
                before=before,
            )
            measured_sizes.append((size, measured))
    found = list(judged_once(measured_sizes, timing.size, list(variants)))
    identity = {"timing": name, "workload": timing.workload}
    rows = [row for measured in found for row in measured.rows]
    columns = ["variant", "device", "size", "phase", "round", "steps", "seconds"]
    table = pd.DataFrame(rows, columns=columns)
    artifacts.write_csv(files.rounds, table.assign(**identity)[[*identity, *columns]])
    had = [row for measured in found for row in measured.had]
    compiled = [row for measured in found for row in measured.compiled]
    extents = [row for measured in found for row in measured.extents]
    kept, others = ratios_in_effect(ratios.ratios(table, baseline, extents), had, variants)
    summary.write(
        files.summary,
        {
            "timing": name,
            "workload": timing.workload,
            "baseline": baseline,
            "settings": {
                "timing": timing,
                "workload": workload,
                "variants": dict(variants),
                "seed": seed,
            },
            "environment": described,
            "code": imported_files(),
            "medians": with_compiled(ratios.medians(table, extents), compiled),
            "ratios": kept,
            "trainer": ratios.overheads(table, extents),
            "proofs": [row for measured in found for row in measured.proofs],
            "compilation": [row for measured in found for row in measured.compilation],
            "agreement": [row for measured in found for row in measured.agreement],
            "extents": extents,
            "had": had,
            "skipped": [*(row for measured in found for row in measured.skipped), *others],
            "without_epoch_hooks": [
                row for measured in found for row in measured.without_epoch_hooks
            ],
        },
    )
