"""Who reads what a Trainer counts otherwise of parts of mini-batches, or with several workers."""

import functools
import importlib
import operator

import counts
import hostile
import pytest
import pytorch_lightning as pl
import torch
from small import Points, Small
from torch.utils.data import DataLoader

from twinrun.parallel import reached_code
from twinrun.parallel.counters_read import counters_read, divided_by_devices


def of_batches(trainer):
    return trainer.fit_loop.max_batches


def over(function, value):
    return function(value)


def rate(step, *, trainer):
    return 1 / (step + trainer.num_training_batches)


class Helper:
    __slots__ = ("trainer",)

    def share(self):
        return 1 / self.trainer.num_training_batches


class InFunction(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / of_batches(self.trainer)


class InFunctionOfAFunction(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / over(of_batches, self.trainer)


class InAnotherFile(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * counts.share(self.trainer)


class InImportedClass(Small):
    def training_step(self, batch, batch_idx):
        from counts import Deep as Own

        return super().training_step(batch, batch_idx) * Own(self.trainer).scale()


class ByText(Small):
    def training_step(self, batch, batch_idx):
        batches = getattr(self.trainer, "num_training_batches", 1)
        return super().training_step(batch, batch_idx) / batches


class ByTextInATuple(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / counts.by_text(self.trainer)


class ByPath(Small):
    def training_step(self, batch, batch_idx):
        batches = operator.attrgetter("fit_loop.max_batches")(self.trainer)
        return super().training_step(batch, batch_idx) / batches


class ByGlobalText(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / counts.by_global_text(self.trainer)


class ByGlobalTexts(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / counts.by_global_texts(self.trainer)[1]


class ByGlobalPath(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / counts.batches_of(self.trainer)


class ByTextOfTheClass(Small):
    total = "num_training_batches"

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / getattr(self.trainer, self.total)


class ByDefault(Small):
    def read(self, name="num_training_batches"):
        return getattr(self.trainer, name)

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / self.read()


class Named(type):
    def total(cls, trainer):
        return trainer.num_training_batches


class ByMetaclass(Small, metaclass=Named):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) / type(self).total(self.trainer)


class Steps(dict):
    """A dictionary with a method."""

    def total(self):
        return self["trainer"].num_training_batches


class InOwnDictionary(Small):
    def training_step(self, batch, batch_idx):
        self.steps = Steps(trainer=self.trainer)
        return super().training_step(batch, batch_idx) / self.steps.total()


class InHelper(Small):
    def on_train_start(self):
        self.helpers = {"share": [Helper()]}
        self.helpers["share"][0].trainer = self.trainer

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * self.helpers["share"][0].share()


class InSchedule(Small):
    def configure_optimizers(self):
        optimizer, trainer = super().configure_optimizers(), self.trainer
        plain = [lambda step: 1 / (step + trainer.fit_loop.max_batches)]
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, plain)]


class InPartial(Small):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        made = functools.partial(rate, trainer=self.trainer)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, made)]


class Decorated(Small):
    @functools.lru_cache  # noqa: B019
    def total(self):
        return of_batches(self.trainer)

    @functools.cached_property
    def share(self):
        return 1 / self.total()


class Hooked(Small):
    def on_train_start(self):
        self.hidden.register_forward_hook(
            lambda _, inputs, output: output / self.trainer.num_training_batches
        )


class Layer(torch.nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs) / self.trainer[0].num_training_batches


class InLayerOfALibrarys(Small):
    def configure_model(self):
        self.hidden = torch.nn.Sequential(torch.nn.Sequential(Layer(4, 8)))
        self.hidden[0][0].trainer = [self.trainer]


class InCallback(Small):
    def configure_callbacks(self):
        return CallsBack()


class CallsBack(pl.Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        trainer.optimizers[0].param_groups[0]["lr"] = counts.share(trainer)


class OfData(Points):
    def on_before_batch_transfer(self, batch, dataloader_idx):
        return [part / self.trainer.num_training_batches for part in batch]


class Collates(Points):
    def collate(self, samples):
        self.seen = of_batches(self.trainer)
        return torch.utils.data.default_collate(samples)

    def train_dataloader(self):
        return DataLoader(
            super().train_dataloader().dataset, batch_size=16, collate_fn=self.collate
        )


class Scales(Small):
    """Scales its rate by the number of workers, as of one whose mini-batches are larger."""

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1 * self.trainer.world_size)


class ScalesByTorch(Small):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1 * counts.workers())


class ScalesByEnvironment(Small):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1 * counts.workers_by_environment())


class Gathers(Small):
    """Has a loss over what all workers gather, whose gradient is that of its own alone."""

    def training_step(self, batch, batch_idx):
        outputs = self.all_gather(self(batch[0]))
        return super().training_step(batch, batch_idx) + outputs.flatten().square().mean()


class ScalesByStrategy(Small):
    def configure_optimizers(self):
        rate = 0.1 * counts.processes(self.trainer.strategy)
        return torch.optim.SGD(self.parameters(), lr=rate)


class Reduces(Small):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return self.trainer.strategy.reduce(loss, reduce_op="sum")


class GathersObjects(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * len(counts.gathered(len(batch)))


class SchedulesByDevices(Small):
    def configure_optimizers(self):
        self.steps = 10 * self.trainer.max_epochs // self.trainer.num_devices
        return super().configure_optimizers()


class Frozen(Small):
    """Has a teacher in a file in which others read counters."""

    def on_train_start(self):
        self.hidden.eval()
        self.seen = Seen().vars() or Seen().getattr()


class Evaluates(Small):
    def on_train_start(self):
        self.seen = eval("1 + 1")  # noqa: S307


class Seen:
    def vars(self):
        return counts.workers

    def getattr(self):
        return counts.workers


def read_in(module, data=None, *, reads=counters_read):
    """Give what is said of a module that has been set up for training, and trained a step."""
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=1,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, datamodule=data or Points())
    return list(reads(trainer, module))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (InFunction, "of_batches reads fit_loop.max_batches"),
        (InFunctionOfAFunction, "of_batches reads fit_loop.max_batches"),
        (InAnotherFile, "share reads num_training_batches"),
        (InImportedClass, "share reads num_training_batches"),
        (ByText, "ByText reads num_training_batches"),
        (ByTextInATuple, "by_text reads val_check_batch"),
        (ByPath, "ByPath reads fit_loop.max_batches"),
        (ByGlobalText, "by_global_text reads num_training_batches"),
        (ByGlobalTexts, "by_global_texts reads val_check_batch"),
        (ByGlobalPath, "ByGlobalPath reads fit_loop.max_batches"),
        (ByTextOfTheClass, "ByTextOfTheClass reads num_training_batches"),
        (ByDefault, "ByDefault reads num_training_batches"),
        (ByMetaclass, "Named reads num_training_batches"),
        (InOwnDictionary, "Steps reads num_training_batches"),
        (InHelper, "Helper reads num_training_batches"),
        (
            InSchedule,
            "InSchedule reads fit_loop.max_batches",
        ),
        (InPartial, "rate reads num_training_batches"),
        (Decorated, "of_batches reads fit_loop.max_batches"),
        (Hooked, "Hooked reads num_training_batches"),
        (InLayerOfALibrarys, "Layer reads num_training_batches"),
        (InCallback, "share reads num_training_batches"),
    ],
)
def test_who_reads_a_counter_by_any_way_is_named(module, said):
    """Red before: read were the methods of the module, its parts and callbacks alone."""
    assert read_in(module()) == [
        f"in part, accumulate has the Trainer count micro-batches where {said}"
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (OfData, "OfData reads num_training_batches"),
        (Collates, "of_batches reads fit_loop.max_batches"),
    ],
)
def test_data_modules_are_read_too(data, said):
    assert read_in(Small(), data()) == [
        f"in part, accumulate has the Trainer count micro-batches where {said}"
    ]


def test_nobody_is_named_who_reads_no_counter():
    assert read_in(counts.Innocent()) == []
    assert read_in(counts.Innocent(), reads=divided_by_devices) == []


def test_code_of_an_installed_package_is_read_if_the_module_is_of_it(tmp_path, monkeypatch):
    """Red before: taken for a library's."""
    folder = tmp_path / "site-packages" / "installed_counts"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "rates.py").write_text(
        "def share(trainer):\n    return 1 / trainer.val_check_batch\n"
    )
    (folder / "base.py").write_text(
        "import pytorch_lightning as pl\n"
        "from installed_counts import rates\n"
        "class Base(pl.LightningModule):\n"
        "    def on_train_epoch_start(self):\n"
        "        self.share = rates.share(self.trainer)\n"
    )
    monkeypatch.syspath_prepend(str(folder.parent))
    base = importlib.import_module("installed_counts.base").Base
    (said,) = read_in(type("Own", (Small, base), {})())
    assert said.endswith("where share reads val_check_batch")


@pytest.mark.parametrize(
    "lines",
    [
        "from ..rates import share",
        "from ..rates import share as own; share = own",
        "from .. import rates; share = rates.share",
        "import importlib; share = importlib.import_module('..rates', __package__).share",
    ],
)
def test_what_is_imported_of_a_package_above_is_read(lines, tmp_path, monkeypatch):
    """Red before: of a relative import inside of a function the level was not read."""
    package = f"above{abs(hash(lines))}"
    folder = tmp_path / package
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "models" / "__init__.py").touch()
    (folder / "rates.py").write_text(
        "def share(trainer):\n    return 1 / trainer.val_check_batch\n"
    )
    (folder / "models" / "net.py").write_text(
        "from small import Small\n"
        "class Net(Small):\n"
        "    def on_train_start(self):\n"
        f"        {lines}\n"
        "        self.share = share(self.trainer)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(f"{package}.models.net").Net()
    (said,) = read_in(module)
    assert said.endswith("where share reads val_check_batch")


@pytest.mark.exhaustive
def test_a_method_of_a_builtins_name_reaches_nothing():
    """Red before: `.eval()` was taken for `eval`, and all of the file for what it may name."""
    assert read_in(Frozen()) == []
    assert "of_batches reads" in read_in(Evaluates())[0]


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (Scales, "Scales read world_size (configure_optimizers)"),
        (ScalesByTorch, "workers read get_world_size (workers)"),
        (ScalesByEnvironment, "workers_by_environment read WORLD_SIZE (workers_by_environment)"),
        (Gathers, "Gathers read all_gather (training_step)"),
        (ScalesByStrategy, "processes read num_processes (processes)"),
        (Reduces, "Reduces read strategy.reduce (training_step)"),
        (GathersObjects, "gathered read all_gather_object (gathered)"),
        (SchedulesByDevices, "SchedulesByDevices read num_devices (configure_optimizers)"),
    ],
)
def test_who_asks_for_the_number_of_workers_is_named(module, said):
    """Red before: who divided a number of steps by it, and in one function."""
    (sentence,) = read_in(module(), reads=divided_by_devices)
    assert sentence.startswith(f"in part, devices has {said}: what it makes of")


@pytest.mark.parametrize("module", [hostile.Holds, hostile.HoldsInOptimizer])
def test_objects_that_do_not_let_themselves_be_looked_at_end_no_training(module):
    assert read_in(module(), hostile.HoldsToo()) == []


class HoldsMuch(Small):
    """Holds more objects than are looked at, each another one's."""

    def __init__(self, number):
        super().__init__()
        self.inner = None
        for _ in range(number):
            self.inner = [self.inner]


@pytest.mark.parametrize("reads", [counters_read, divided_by_devices])
def test_it_is_said_if_not_all_was_looked_at(reads, monkeypatch):
    monkeypatch.setattr(reached_code, "MOST", 1_000)
    (said,) = read_in(HoldsMuch(1_001), reads=reads)
    assert "was not looked for in all code" in said
    assert read_in(HoldsMuch(100), reads=reads) == []


def test_long_data_are_no_reason_to_look_no_further():
    data = Points()
    data.samples = [[number] for number in range(100_000)]
    assert read_in(Small(), data) == []


def noise(number, like):
    source = torch.Generator().manual_seed(number)
    return torch.randn(like.shape, generator=source)


class MakesGenerators(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step([batch[0] + noise(batch_idx, batch[0]), batch[1]], batch_idx)


class SeedsAnew(Small):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        torch.manual_seed(self.global_step)
        return [batch[0] + torch.randn_like(batch[0]), batch[1]]


class MakesOneAtFirst(Small):
    """Makes and seeds generators where no step comes to."""

    def __init__(self):
        super().__init__()
        torch.nn.init.normal_(self.output.weight, generator=torch.Generator().manual_seed(1))

    def on_train_epoch_start(self):
        torch.manual_seed(self.current_epoch)


@pytest.mark.parametrize("reads", [counters_read, divided_by_devices])
@pytest.mark.parametrize(
    ("module", "named"),
    [
        (MakesGenerators, "noise"),
        (SeedsAnew, "SeedsAnew.on_after_batch_transfer"),
        (MakesOneAtFirst, None),
    ],
)
def test_generators_that_steps_make_or_seed_are_named(module, named, reads):
    """Red before: the same noise in each shard, or micro-batch, and no word of it."""
    said = read_in(module(), reads=reads)
    assert len(said) == (named is not None)
    assert all(
        f"other numbers: what {named} makes or seeds draws the same" in each for each in said
    )
