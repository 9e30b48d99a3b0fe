"""What a trained network gives on the test and the prediction data.

A training is never thrown away because its test or its prediction fails: what cannot be measured or
kept is named with the reason, and the run stands. A fault of the machine is no such reason: the run
would lack for good what the next attempt measures, and differ in it from its pair. A first signal
ends neither: the training is over, and its run is whole when they are.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar

import pytorch_lightning as pl
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun.checkpoint.stop_request import Stop
from twinrun.config.class_paths import code_of
from twinrun.config.definitions import Workload
from twinrun.errors import sentence_of
from twinrun.process.import_path import user_line
from twinrun.process.machine_faults import is_machine_fault
from twinrun.run_records import SampleHashes
from twinrun.training.evaluated_samples import SeenSamples, no_samples
from twinrun.training.kept_predictions import keep
from twinrun.training.prediction_spool import Spool, Spooling
from twinrun.training.remedies import remedy_of_workers
from twinrun.training.tensor_file import Parts

Result = TypeVar("Result")


@dataclass(kw_only=True)
class Evaluation:
    """What was measured and predicted, and what was not."""

    metrics: dict[str, float] = field(default_factory=dict)
    """What the module logs on the test data, of all its loaders."""
    predictions: dict[str, Parts] = field(default_factory=dict)
    """The outputs of `predict_step` by name; see `kept_predictions`."""
    missing: dict[str, str] = field(default_factory=dict)
    """What could not be measured or kept, and why."""
    given: SampleHashes = field(default_factory=no_samples)
    """Hashes of the samples that the steps were given; none where the phase failed."""
    loaded: SampleHashes = field(default_factory=no_samples)
    """Likewise, as the loaders gave them: before they are cast to a precision."""


def evaluate(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    data: pl.LightningDataModule,
    workload: Workload,
    stop: Stop | None = None,
    spool: Spool | None = None,
) -> Evaluation:
    """Test and predict as far as module and data module can, and the workload wants it.

    Args:
        trainer: that has trained.
        module: what it has trained.
        data: what to test on, and to predict.
        workload: what is wanted.
        stop: hears signals. What fails behind one is no fault of the module's.
        spool: where predictions wait until they are written; in memory without one.

    Raises:
        Exception: a fault of the machine, as it came.
    """
    found = Evaluation()
    seen = SeenSamples()
    spooling = [] if spool is None else [Spooling(spool)]
    vars(trainer)["callbacks"] = [*vars(trainer)["callbacks"], seen, *spooling]
    attempt = partial(_attempt, found, code_of(workload), stop)
    if workload.test:
        found.metrics = attempt("test", lambda: _test(trainer, module, data), {})
    if workload.predict:
        outputs = attempt("predict", lambda: _predict(trainer, module, data), {})
        # What a module predicts may be of any class, and that class raise when it is looked at.
        found.predictions, missing = attempt("predict", lambda: keep(outputs), ({}, {}))
        found.missing |= missing
    # What broke off saw a part.
    found.given, found.loaded = (of.hashes(found.missing) for of in (seen.given, seen.loaded))
    return found


def _attempt(
    found: Evaluation,
    users: Sequence[str],
    stop: Stop | None,
    name: str,
    act: Callable[[], Result],
    otherwise: Result,
) -> Result:
    try:
        return act()
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        if is_machine_fault(error) or (stop is not None and stop.heard):
            raise
        traceback.print_exc()
        where, told = user_line(error, users), sentence_of(error)
        placed = f"{told} ({where})" if where and where not in told else told
        found.missing[name] = f"{placed}{remedy_of_workers(told)}"
        return otherwise


def _test(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, float]:
    # Lightning raises where one of the two is missing; a module without a test is in order.
    if not (
        is_overridden("test_step", module, pl.LightningModule)
        and is_overridden("test_dataloader", data, pl.LightningDataModule)
    ):
        return {}
    # A dictionary for each loader; Lightning adds the loader's number to names that several log.
    found = trainer.test(module, data, verbose=False)
    return {name: float(value) for values in found for name, value in values.items()}


def _predict(
    trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule
) -> dict[str, list[object]]:
    """Return the outputs for each batch, by a prefix that names the loader if there are several.

    Lightning's own `predict_step` calls `forward`: a module with neither predicts nothing.
    """
    can_predict = any(
        is_overridden(method, module, pl.LightningModule) for method in ("predict_step", "forward")
    )
    if not (can_predict and is_overridden("predict_dataloader", data, pl.LightningDataModule)):
        return {}
    _iterate_as_they_are(trainer)
    # Lightning returns None where a module predicts nothing on purpose.
    found = trainer.predict(module, data) or []
    loaders = trainer.predict_dataloaders
    # Of several loaders Lightning returns a list of batches each, of one the batches alone.
    if found and isinstance(loaders, list | tuple | dict) and len(loaders) > 1:
        names = loaders if isinstance(loaders, dict) else range(len(loaders))
        return {f"loader{name}.": list(b) for name, b in zip(names, found, strict=True)}
    return {"": list(found)}


def _iterate_as_they_are(trainer: pl.Trainer) -> None:
    """Have a Trainer predict from the user's own loaders where it cannot make them anew.

    It makes each DataLoader anew, with a sampler that remembers the indices, and fails on as little
    as a batch size without its name: `DataLoader(dataset, 64)`.
    """
    connector = trainer._data_connector
    prepare = connector._prepare_dataloader

    @wraps(prepare)
    def prepared(dataloader: object, *arguments: Any, **options: Any) -> object:
        try:
            return prepare(dataloader, *arguments, **options)
        except Exception:  # a class of the user's may refuse to be made anew by anything
            return dataloader

    vars(connector)["_prepare_dataloader"] = prepared
