"""What happens before the first step of a script happens before that of a run, in its order."""

import sys

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import HERE, VARIANT, WORKLOAD
from pytorch_lightning.trainer.connectors import callback_connector
from small import Points, Small

from twinrun.config.definitions import TrainerArguments, Training, Variant, Workload
from twinrun.training.assemble import assembled, build, trainer_of


def training(seed=1, *, trainer=None, folders=(), **workload):
    told = TrainerArguments(**(trainer or {}))
    return Training(
        workload=Workload(**{**WORKLOAD, "trainer": told, **workload}),
        variant=Variant(**{**VARIANT, "threads": 1}),
        seed=seed,
        dataset=None,
        search_path=[HERE, *map(str, folders)],
    )


class Noisy(Small):
    """Draws in every forward pass, as a diffusion model does, and shows an example of its input."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.example_input_array = torch.zeros(2, 4)

    def forward(self, inputs):
        self.calls += 100
        return super().forward(inputs + 0.1 * torch.randn_like(inputs))


class Summarized(Noisy):
    """Brings a summary of its own."""

    def configure_callbacks(self):
        return [pl.callbacks.ModelSummary(max_depth=2)]


def of_script(kind, **told):
    pl.seed_everything(1, workers=True, verbose=False)
    data, module = Points(size=70, seed=1), kind(learning_rate=0.1)
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=2, num_sanity_val_steps=0, **options, **told)
    trainer.fit(module, datamodule=data)
    return module.state_dict()


def of_run(kind, **told):
    asked = training(
        trainer=told,
        module=f"test_before_the_first_step:{kind.__name__}",
        data="small:Points",
        hyperparameters={"learning_rate": 0.1, "size": 70},
        epochs=2,
        folders=[__file__.rpartition("/")[0]],
    )
    with assembled(asked) as assembly:
        trainer = trainer_of(
            asked.variant,
            asked.workload.trainer,
            root=assembly.root,
            callbacks=[assembly.speed, assembly.team.tracer],
            max_epochs=2,
        )
        trainer.fit(assembly.module, datamodule=assembly.data)
        return assembly.module.state_dict()


class OfRich(pl.callbacks.ModelSummary):
    """Stands for the summary that Lightning takes where `rich` is installed."""


class SummarizedRichly(Noisy):
    def configure_callbacks(self):
        return [callback_connector.RichModelSummary()]


@pytest.mark.parametrize("kind", [Noisy, Summarized, SummarizedRichly])
def test_it_does_so_where_rich_is_installed(kind, monkeypatch):
    """Red before: of a module with a plain summary, which replaces no rich one, it asked once."""
    monkeypatch.setattr(callback_connector, "_RICH_AVAILABLE", True)
    monkeypatch.setattr(callback_connector, "RichModelSummary", OfRich)
    with torch.random.fork_rng():
        expected, found = of_script(kind), of_run(kind)
    assert int(expected["calls"]) % 1000 // 100 > 0
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("kind", [Noisy, Summarized])
@pytest.mark.parametrize("told", [{}, {"enable_model_summary": False}])
def test_the_summary_asks_the_module_as_lightnings_does(kind, told):
    if kind is Summarized and told:
        pytest.skip("Lightning refuses a summary that is switched off and brought along")
    with torch.random.fork_rng():
        expected, found = of_script(kind, **told), of_run(kind, **told)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "at_import", ["torch.manual_seed(42)", "torch.randn(3)", "import random; random.seed(7)"]
)
def test_an_import_draws_and_seeds_before_the_seed(tmp_path, monkeypatch, at_import):
    """As in a script: the import decides nothing of what the seed decides."""
    (tmp_path / "drawing.py").write_text(
        f"import torch\nfrom small import Points, Small\n{at_import}\n\n\n"
        "class Net(Small):\n    pass\n\n\nclass Data(Points):\n    pass\n"
    )
    given = {"module": "drawing:Net", "data": "drawing:Data"}
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = []
    with torch.random.fork_rng():
        for seed in (1, 2, 1):
            monkeypatch.delitem(sys.modules, "drawing", raising=False)
            module, *_ = build(training(seed, folders=[tmp_path], **given))
            found.append(module.hidden.weight.detach().clone())
        again, *_ = build(training(1, folders=[tmp_path], **given))  # imported already
    monkeypatch.delitem(sys.modules, "drawing")
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[0], again.hidden.weight)
    assert not torch.equal(found[0], found[1])
