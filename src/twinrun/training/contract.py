"""What a workload should keep so that its trainings can repeat, looked at in a few first steps.

`twinrun check` says what is not kept. None of it is a mistake: that a training does not repeat is
what the studies measure. tests/workloads_contract.py puts more of it to longer trainings.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace

from twinrun.config.definitions import Training
from twinrun.errors import sentence_of
from twinrun.process.determinism import determinism
from twinrun.training.assemble import build
from twinrun.training.constructors import arguments_of
from twinrun.training.first_step import FirstStep, trainer_of_first_step
from twinrun.training.load_workload import load_workload, taken_from_run
from twinrun.training.rehearsed_checkpoints import write_checkpoints_below
from twinrun.wording import some


def deviations(training: Training, say: Callable[[str], None]) -> Iterator[str]:
    """Yield a sentence for each thing that a workload does not keep.

    Args:
        training: one that can take a step.
        say: told what begins.
    """
    say("comparing first steps")
    try:
        yield from _compared(training)
    except Exception as error:
        # Of a class that one process can make only once: each of the runs has a process of its own.
        yield (
            f"its first step could not be compared with another one: made once more in the same "
            f"process, it failed ({sentence_of(error)})"
        )


def _compared(training: Training) -> Iterator[str]:
    module, data, *_ = load_workload(training.workload, training.search_path)
    # Two of one seed and one of another: constant weights repeat too, and hide a seed that is lost.
    plain, again, other = (_step(replace(training, seed=seed)) for seed in (1, 1, 2))
    # As the training starts: layers may be made in `setup` and `configure_model`.
    is_same_start = plain.initial == again.initial
    if not is_same_start:
        yield (
            "the same seed gives other initial weights: something is drawn without the seed, or "
            "memory is read that nothing has written (`torch.empty`)"
        )
    elif plain.initial == other.initial:
        yield "another seed gives the same initial weights: the module seeds itself, or draws none"
    if plain.unchanged:
        yield f"the first step leaves unchanged: {some(plain.unchanged)}"
    if plain.batch != again.batch:
        yield "the same seed gives another first batch: it is drawn without the seed"
    elif "data_workers" in taken_from_run(training.workload, arguments_of(data or module)):
        variant = replace(training.variant, data_workers=2)
        if _step(replace(training, variant=variant)).batch != plain.batch:
            yield "two data workers give another first batch than the training process"
    try:
        with determinism(deterministic=True, threads=training.variant.threads):
            steps = [_step(training), _step(training)]
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        yield f"a deterministic variant cannot train it: {str(error).split('. ')[0]}"
        return
    if is_same_start and plain.batch == again.batch and steps[0].parameters != steps[1].parameters:
        yield "the first step differs between two tries under deterministic algorithms"


def _step(training: Training) -> FirstStep:
    """Take the first step of a training that is built anew."""
    module, data, _ = build(training)
    step = FirstStep(keeps_batch=True)
    with tempfile.TemporaryDirectory(prefix="twinrun-") as root:
        write_checkpoints_below(module, root)
        trainer_of_first_step(training, root, step).fit(module, datamodule=data)
    return step
