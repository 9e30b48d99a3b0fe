"""Fast steps prove themselves: short trainings of the user's own module, plain and fast.

Done before a variant's first run and its first timing (see `remembered_proofs`), with modules and
data of their own, in processes of their own (see `prove_apart`), so that nothing of it is left in
what is run or timed; see `acceleration.proof` for what is compared. The batches are the first of
the loader and one of another shape, if there is one, so that an epoch is short: hooks and schedules
of epochs take part, too.
"""

import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from twinrun.acceleration.compilation import compiler_switches, traced_only
from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.acceleration.evidence import Recorded, Recorder
from twinrun.acceleration.placement import device_of
from twinrun.acceleration.proof import Judgement, compare
from twinrun.acceleration.roundings import noise_of
from twinrun.acceleration.steps import check
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Training, Variant
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.errors import JobError, TwinrunError, sentence_of
from twinrun.parallel.accumulation import accumulate
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.process.machine_faults import is_machine_fault
from twinrun.proof_records import Proof
from twinrun.training.assemble import build, trainer_of
from twinrun.training.few_batches import BATCHES, shorten

EPOCHS = 2  # of each short training
# Perturbed trainings; more than one only where a value is off. Of 60 honest proofs of a residual
# network in another layout, one perturbed training would have refused 4, and two refused none.
PERTURBED = 8
# What torch raises where it cannot trace or compile a function, as a sentence begins.
NOT_COMPILED = ("InternalTorchDynamoError", "Unsupported", "BackendCompiler", "TorchRuntimeError")
UNCOMPILED = (
    "torch's compiler cannot follow that code; keep it out of what is compiled (torch.compiler."
    "disable), or take compile: none"
)


@dataclass(frozen=True, kw_only=True)
class ShortTraining:
    """What is asked of one short training."""

    training: Training
    """The run or timing whose fast steps are to be proven, or its plain counterpart."""
    epochs: int
    """How many; as many with fast steps as with plain ones."""
    perturbation: float = 0.0
    """By how much all initial weights are changed, relative to each."""
    draw: int = 0
    """Which of the weights are changed up, and which down."""
    is_traced: bool = False
    """Run what is compiled without generating code."""


@dataclass(frozen=True, kw_only=True)
class ShortlyTrained:
    """What one short training left."""

    evidence: Recorded
    """Every value that is compared, by name."""
    epsilon: float
    """How far 1 and the next number are apart in what it computed with."""
    steps: int
    """Optimizer steps that were taken."""
    shapes: int
    """Shapes of batch that were seen."""
    in_parts: str | None
    """Why steps were done in parts."""


class OtherComputationError(TwinrunError):
    """Fast steps that compute something else than the plain ones."""


class BrokenOffError(Exception):
    """A short training that failed in a process of its own; its text is the whole sentence."""


def provable(training: Training) -> Training:
    """Return the training that a proof is made of: of one worker, which loads its batches itself.

    Several workers do each on its own what is proven here.
    """
    variant = replace(training.variant, devices=1, nodes=1, data_workers=0)
    return replace(training, variant=replace(variant, persistent_workers=False))


def prove(
    training: Training,
    train: Callable[[ShortTraining], ShortlyTrained] | None = None,
) -> Proof:
    """Train shortly with and without what is fast in a variant, and compare.

    Args:
        training: of one worker (see `provable`).
        train: does a short training; here and now by default. Switches and generators are as before
            when it is done, but not what the user's modules keep outside of their objects: so
            `prove_apart` has each done by a process of its own.

    Raises:
        TwinrunError: naming the settings and the first value that is not the plain training's, or
            why they cannot be tried or compared.
        JobError: if the device is missing.
    """
    started = time.perf_counter()
    training, train = provable(training), train or train_shortly
    own = training.variant
    found: list[Judgement] = []
    not_in_float64 = None
    if own.precision != "64-true":
        exact = replace(training, variant=replace(own, precision="64-true"))
        try:
            found.append(_leg(exact, own, train, is_traced=True)[0])
        except TwinrunError:
            raise
        except Exception as error:  # a module or a device may know no float64
            _raise_of_machine(error)
            traceback.print_exc()
            not_in_float64 = _told(error)
    # Counters and rates alone widen no bound, nor what was rounded as in float32.
    proven = next((leg.names for leg in found if leg.why_none is None and leg.is_exact), None)
    try:
        leg, seen = _leg(training, own, train, is_traced=False, proven=proven)
    except TwinrunError:
        raise
    except Exception as error:  # a user's module or a compiler may raise anything
        _raise_of_machine(error)
        why = f"{_told(error)}{_cure(own, _told(error))}"
        raise TwinrunError(f"{named(own)} was not proven: {why}") from error
    found.append(leg)
    if all(leg.why_none for leg in found):
        raise TwinrunError(f"{named(own)} was not proven: {found[0].why_none}")
    return {
        "steps": seen.steps,
        "shapes": seen.shapes,
        "in_parts": seen.in_parts,
        "legs": [each.leg for each in found],
        "not_in_float64": not_in_float64,
        "seed": training.seed,
        "seconds": round(time.perf_counter() - started, 3),
        "key": None,
        "is_remembered": False,
    }


def plain(variant: Variant) -> Variant:
    """Return a variant without what makes its steps fast."""
    return replace(variant, compile="none", layout="default", optimizer="default", cuda_graph=False)


def _leg(
    training: Training,
    own: Variant,
    train: Callable[[ShortTraining], ShortlyTrained],
    *,
    is_traced: bool,
    proven: frozenset[str] | None = None,
) -> tuple[Judgement, ShortlyTrained]:
    """Compare in one precision.

    Raises:
        OtherComputationError: if a value is off; `own` is the variant that is then named.
    """
    variant = training.variant
    epochs = _epochs(training)
    slow = ShortTraining(training=replace(training, variant=plain(variant)), epochs=epochs)
    # First: a setting that cannot be is refused at once.
    found = train(ShortTraining(training=training, epochs=epochs, is_traced=is_traced))
    expected, again = train(slow), train(slow)
    epsilon = expected.epsilon
    perturbed: list[Recorded] = []
    while True:
        draw = replace(slow, perturbation=noise_of(epsilon), draw=len(perturbed))
        perturbed.append(train(draw).evidence)
        try:
            judgement = compare(
                expected.evidence,
                again.evidence,
                perturbed,
                found.evidence,
                precision=variant.precision,
                epsilon=epsilon,
                proven=proven,
            )
            break
        except TwinrunError as error:
            if len(perturbed) < PERTURBED:
                continue
            raise OtherComputationError(
                f"{named(own)} does not compute what the plain step computes: {error}"
            ) from error
    return judgement, found


def _epochs(training: Training) -> int:
    """Return how many epochs show all that a variant does."""
    # Each shape is warmed up and captured before it is replayed.
    warm_up = CudaGraph.CALLS_TO_WARM_UP if training.variant.cuda_graph else 0
    schedule = training.workload.trainer.accumulation()
    return EPOCHS + warm_up + (len(schedule) if isinstance(schedule, dict) else 0)


def _raise_of_machine(error: Exception) -> None:
    """Raise a fault of the machine, which says nothing of the steps, as a JobError."""
    if is_machine_fault(error):
        raise JobError(_told(error)) from error


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, BrokenOffError) else sentence_of(error)


def _cure(variant: Variant, told: str) -> str:
    """Say what helps where torch's compiler has failed."""
    is_compilers = variant.compile != "none" and told.startswith(NOT_COMPILED)
    return f"; {UNCOMPILED}" if is_compilers else ""


def train_shortly(asked: ShortTraining) -> ShortlyTrained:
    """Train a few batches from the seed, in this process."""
    training, variant = asked.training, asked.training.variant
    # Here and not before: to ask torch for its GPUs may spoil them for processes that are forked.
    device_of(variant)
    check(variant)
    recorder = Recorder(perturbation=asked.perturbation, draw=asked.draw)
    with (
        traced_only() if asked.is_traced else nullcontext(),
        determinism(**{key: getattr(variant, key) for key in SWITCHES}),
        compiler_switches() if variant.compile != "none" else nullcontext(),
        tempfile.TemporaryDirectory(prefix="twinrun-") as empty,
    ):
        module, data, _ = build(training)
        speed = Speed(module, variant)
        shorten(data)
        told = _of_few_batches(training.workload.trainer)
        if variant.accumulate > 1:
            accumulated = told.accumulation(variant.accumulate)
            accumulate(module, data, micro_batches=variant.accumulate, accumulated=accumulated)
        trainer = trainer_of(
            variant, told, root=empty, callbacks=[speed, recorder], max_epochs=asked.epochs
        )
        trainer.limit_train_batches = BATCHES
        trainer.limit_val_batches = 1 if trainer.limit_val_batches else 0
        trainer.fit(module, datamodule=data)
        return ShortlyTrained(
            evidence=recorder.evidence,
            epsilon=recorder.epsilon,
            steps=recorder.steps,
            shapes=len(recorder.shapes),
            in_parts=speed.in_parts,
        )


def _of_few_batches(told: TrainerArguments) -> TrainerArguments:
    """Return what of a workload's arguments a training of a few batches can do.

    It validates once an epoch, and each number of a schedule of accumulation has an epoch.
    """
    numbers = told.accumulation()
    if isinstance(numbers, dict):
        numbers = {str(epoch): number for epoch, number in enumerate(numbers.values())}
    return replace(
        told,
        accumulate_grad_batches=numbers,
        min_epochs=None,
        min_steps=None,
        val_check_interval=None,
        check_val_every_n_epoch=1,
        # The loader gives few batches by itself, whose order is not the loader's.
        limit_train_batches=None,
        limit_val_batches=told.overfit_batches or told.limit_val_batches,
        overfit_batches=0,
        num_sanity_val_steps=0,
    )


def named(variant: Variant) -> str:
    """Name the settings that make a variant's steps fast."""
    usual = plain(variant)
    return ", ".join(
        f"{name}: {str(getattr(variant, name)).lower()}"
        for name in ("compile", "layout", "optimizer", "cuda_graph")
        if getattr(variant, name) != getattr(usual, name)
    )
