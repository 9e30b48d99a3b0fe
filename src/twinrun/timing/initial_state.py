"""Where all variants of a timing get the same initial weights and the same batches from."""

import copy
import functools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import pytorch_lightning as pl
from lightning_fabric.utilities.seed import _set_rng_states
from pytorch_lightning.trainer.connectors.data_connector import _parse_num_batches
from pytorch_lightning.trainer.states import RunningStage
from pytorch_lightning.utilities.combined_loader import CombinedLoader
from pytorch_lightning.utilities.model_helpers import is_overridden
from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils._pytree import tree_leaves

from twinrun.batches import elements, num_bytes, opaque
from twinrun.checkpoint.refusals import generators_of
from twinrun.config.definitions import Training
from twinrun.errors import TwinrunError, sentence_of
from twinrun.process.determinism import State, capture, restore_switches
from twinrun.process.fresh_process import report_progress
from twinrun.timing.own_modules import give_weights, holds_itself
from twinrun.trace.fingerprints import fingerprint_tree
from twinrun.training.assemble import build, of_run_in
from twinrun.training.build_workload import build_module
from twinrun.training.few_batches import length_of
from twinrun.training.load_workload import load_workload

# What is kept of a loader, and goes round and round; each variant has a copy on its device.
BATCHES_BYTES = 2**28
MOST_BATCHES = 1000


class InitialState:
    """A workload that was constructed; for every variant its module is constructed once more."""

    def __init__(self, training: Training, before: State | None = None) -> None:
        """Build the workload; of the variant only what concerns the data counts.

        Args:
            training: what is built.
            before: the switches before any of the user's code was imported, which happens once in a
                process; None for those of now.

        Raises:
            TwinrunError: if it cannot be built.
        """
        told = training.workload.trainer
        if isinstance(told.accumulate_grad_batches, dict):
            raise TwinrunError(
                f"accumulate_grad_batches: {told.accumulate_grad_batches} changes what a step is "
                f"from epoch to epoch, and a timing measures steps of one kind"
            )
        self._limits = {
            "train": told.overfit_batches or told.limit_train_batches,
            "predict": told.limit_predict_batches,
        }
        self.epochs = training.workload.epochs
        """Of a whole training; modules ask the Trainer for them."""
        self.trainer_arguments = told
        """What the Trainer is told of what is trained."""
        self._seed = training.seed
        self._folder = tempfile.TemporaryDirectory(prefix="twinrun-")
        self.root = self._folder.name
        """An empty folder for the Trainers."""
        self._training = training
        self.switches_before = before or capture()
        """The switches of the process without the user's code."""
        with isolate_rng():
            self._module, self.data, self._generators = build(training)
        self._is_copied = False
        self.switches_after = capture()
        """Those that its imports and constructors have left."""
        _set_up_once(self.data)
        self._found: dict[tuple[str, int], list[object]] = {}
        self._extents: dict[str, int | None] = {}
        self._counts: dict[str, list[tuple[int | None, int | None]]] = {}

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()

    def module(self) -> pl.LightningModule:
        """Return a module of one's own with the initial weights.

        Constructed as each run constructs it: a copy would still call functions (of hooks, losses)
        that hold the module they were made in.

        Raises:
            TwinrunError: if it can be neither constructed once more nor copied.
        """
        try:
            if self._is_copied:
                return copy.deepcopy(self._module)
            with isolate_rng():
                _set_rng_states(self._generators)
                module = self._constructed()
                give_weights(self._module, module)
                return module
        except Exception as error:
            if self._is_copied or holds_itself(self._module):
                raise TwinrunError(
                    f"{type(self._module).__name__} can neither be copied nor constructed a second "
                    f"time, and a timing needs a module for each variant: {sentence_of(error)}"
                ) from error
            self._is_copied = True
            return self.module()

    def construct(self) -> None:
        """Construct a module and forget it, for what its constructor sets in this process.

        In a run it happens after the variant's own settings. A constructor
        that can run only once in a process (it registers a name) is left at that, and said.

        Raises:
            TwinrunError: if it fails under the variant's settings, and without them it does not.
        """
        switches = capture()
        try:
            self._construct()
        except Exception as error:
            restore_switches(self.switches_before)
            try:
                self._construct()
            except Exception:  # whatever the settings: copies have what it set the first time
                report_progress(f"the module can be constructed only once: {sentence_of(error)}")
            else:
                raise
            finally:
                restore_switches(switches)

    def _construct(self) -> None:
        with self.seeded():
            self._constructed()

    def _constructed(self) -> pl.LightningModule:
        training = self._training
        return build_module(training.workload, training.search_path, of_run_in(training))

    def has(self, phase: str) -> bool:
        """Say whether the data module has a loader for a phase, and the workload wants it."""
        if phase == "predict" and not self._training.workload.predict:
            return False
        if self._limits[phase] == 0:
            return False
        return is_overridden(f"{phase}_dataloader", self.data, pl.LightningDataModule)

    def batches(self, phase: str, trainer: pl.Trainer, most: int = MOST_BATCHES) -> list[object]:
        """Return the loader's first batches, at most `most` and 256 MiB, where it leaves them.

        Args:
            phase: `train` or `predict`.
            trainer: what the data module finds as its Trainer; all variants share the batches.
            most: batches.

        Raises:
            TwinrunError: if the loader gives none.
        """
        name = f"{phase}_dataloader"
        if not self.has(phase):
            if not self._training.workload.predict and phase == "predict":
                raise TwinrunError("the workload says `predict: false`")
            raise TwinrunError(f"{type(self.data).__name__} has no {name}")
        if (phase, most) not in self._found:
            with self.seeded():
                self.data.trainer = trainer
                if phase == "predict":  # for training the Trainer has set it up
                    self.data.setup("predict")
                loader = getattr(self.data, name)()
                # Of several loaders none stands for all.
                is_one = not isinstance(loader, dict | list | tuple)
                kept = self._limited(phase, length_of(loader) if is_one else None)
                self._extents[phase] = kept if is_one else None
                self._counts[phase] = _counts(loader)
            with self.ordered(loader):
                # ASSUME these stand for the epoch, where it has more batches than are kept.
                taken = islice(_batches_of(loader, phase), min(kept or most, most))
                found = list(_while_small(taken))
            if not found:
                raise TwinrunError(f"{name} gives no batch")
            self._found[phase, most] = found
        return self._found[phase, most]

    def _limited(self, phase: str, batches: int | None) -> int | None:
        """Return how many batches the Trainer takes of a loader; None where nobody knows."""
        limit = self._limits[phase]
        if limit is None:
            return batches
        if batches is None:
            return int(limit) if limit > 1 or isinstance(limit, int) else None
        return int(_parse_num_batches(RunningStage.TRAINING, batches, limit))

    @contextmanager
    def ordered(self, loaders: object) -> Iterator[None]:
        """Let the body begin an epoch in the order in which every epoch of a timing is.

        Args:
            loaders: one, or several as Lightning takes them, which may have generators of their
                own: the variants share the data module, and would take turns in drawing from them.
        """
        several = loaders.iterables if isinstance(loaders, CombinedLoader) else loaders
        with self.seeded():
            for generator in generators_of(tree_leaves(several)):
                generator.manual_seed(self._seed)
            yield

    def fingerprint(self, hyperparameter: str | None) -> int | None:
        """Fingerprint the timed batches that a hyperparameter makes, and how many an epoch has.

        Returns:
            None for a hyperparameter that the module takes too, which may do anything with it;
            where no training was measured; and where it cannot be told: of objects that cannot be
            looked into, and of loaders without a length that have more batches than are kept.
        """
        training = self._training
        _, _, of_module, _ = load_workload(training.workload, training.search_path)
        # Fewer are kept of what is not timed, such as a prediction that is only compared.
        timed = {phase: kept for (phase, most), kept in self._found.items() if most == MOST_BATCHES}
        if "train" not in timed or hyperparameter is None or hyperparameter in of_module:
            return None
        for phase, kept in timed.items():
            is_whole = len(kept) < MOST_BATCHES and num_bytes(kept) < BATCHES_BYTES
            is_counted = all(batches is not None for batches, _ in self._counts[phase])
            if opaque(kept) or not (is_whole or is_counted):
                return None
        return fingerprint_tree([timed, {phase: self._counts[phase] for phase in timed}])

    def extent(self, phase: str) -> int | None:
        """Return how many batches a loader has that was asked for batches, if it says so."""
        return self._extents.get(phase)

    def sizes(self, phase: str) -> list[int]:
        """Return how many elements each batch of a phase has that goes round; [] of none."""
        return [elements(batch) for batch in self._found.get((phase, MOST_BATCHES), [])]

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Let the body draw what it draws for every variant; put the generators back."""
        with isolate_rng():
            pl.seed_everything(self._seed, workers=True, verbose=False)
            yield


def _set_up_once(data: pl.LightningDataModule) -> None:
    """Have the data be prepared and set up once for each stage, by whichever Trainer asks first."""
    prepare, setup = data.prepare_data, data.setup
    done: set[str] = set()

    @functools.wraps(prepare)
    def prepare_once() -> None:
        if "prepared" not in done:
            prepare()
            done.add("prepared")

    @functools.wraps(setup)
    def setup_once(stage: str) -> None:
        if stage not in done:
            setup(stage)
            done.add(stage)

    data.prepare_data, data.setup = prepare_once, setup_once


def _batches_of(loader: Iterable[object], phase: str) -> Iterator[object]:
    """Iterate over a loader, or over several as Lightning does in training."""
    if isinstance(loader, CombinedLoader | dict | list | tuple):
        if phase != "train":
            raise TwinrunError(f"{phase}_dataloader gives several loaders; one can be timed")
        if not isinstance(loader, CombinedLoader):
            loader = CombinedLoader(loader, "max_size_cycle")
        return (batch for batch, _, _ in loader)
    return iter(loader)


def _counts(loaders: object) -> list[tuple[int | None, int | None]]:
    """Count the batches and the samples of each loader, where it says so."""
    several = loaders.iterables if isinstance(loaders, CombinedLoader) else loaders
    return [
        (length_of(loader), length_of(getattr(loader, "dataset", None)))
        for loader in tree_leaves(several)
    ]


def _while_small(batches: Iterable[object]) -> Iterator[object]:
    """Pass batches on until they reach the bytes that are kept; the first in any case."""
    size = 0
    for batch in batches:
        size += num_bytes(batch)
        yield batch
        if size >= BATCHES_BYTES:
            return
