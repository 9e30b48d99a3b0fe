"""What a workload should keep so that its trainings can repeat, looked at in a few first steps.

`twinrun check` says what is not kept. None of it is a mistake: that a training does not repeat is
what the studies measure. tests/workloads_contract.py puts more of it to longer trainings.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace

from twinrun.config.definitions import Training
from twinrun.process.determinism import determinism
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.training.assemble import build, trainer_of
from twinrun.training.first_step import FirstStep, without_checkpoints
from twinrun.training.load_workload import load_workload, parameters_of
from twinrun.wording import some


def deviations(training: Training, say: Callable[[str], None]) -> Iterator[str]:
    """Yield a sentence for each thing that a workload does not keep.

    Args:
        training: one that can take a step.
        say: told what begins.
    """
    say("comparing first steps")
    _, data_class, *_ = load_workload(training.workload, training.search_path)
    # Two of one seed and one of another: constant weights repeat too, and hide a seed that is lost.
    first, second, other = (_weights(replace(training, seed=s)) for s in (1, 1, 2))
    if first != second:
        yield "the same seed gives other initial weights: something is drawn without the seed"
    elif first == other:
        yield "another seed gives the same initial weights: the module seeds itself, or draws none"
    plain, again = _step(training), _step(training)
    if plain.unchanged:
        yield f"the first step leaves unchanged: {some(plain.unchanged)}"
    if plain.batch != again.batch:
        yield "the same seed gives another first batch: it is drawn without the seed"
    elif "data_workers" in parameters_of(data_class):
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
    is_same_start = first == second and plain.batch == again.batch
    if is_same_start and steps[0].parameters != steps[1].parameters:
        yield "the first step differs between two tries under deterministic algorithms"


def _weights(training: Training) -> object:
    return fingerprint_tree(build(training)[0].state_dict())


def _step(training: Training) -> FirstStep:
    """Take the first step of a training that is built anew."""
    module, data = build(training)
    step = FirstStep(keeps_batch=True)
    without_checkpoints(module)
    with tempfile.TemporaryDirectory(prefix="twinrun-") as root:
        trainer = trainer_of(
            training.variant, root=root, callbacks=[step], max_epochs=training.workload.epochs
        )
        trainer.limit_val_batches = min(trainer.limit_val_batches, 1)
        trainer.fit(module, datamodule=data)
    return step
