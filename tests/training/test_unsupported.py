"""What of Lightning is not supported is refused by name, before it trains."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from small import Points, Small

from twinrun.errors import TwinrunError
from twinrun.training.unsupported import DTYPES, Supported, check_tensors, wrong_package

UNSIGNED = ("torch.uint16", "torch.uint32", "torch.uint64")


class WithTensor(Small):
    def __init__(self, tensor):
        super().__init__()
        self.register_buffer("extra", tensor)


class Lazy(Small):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.LazyLinear(3)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: Lazy(), "module: last.weight of Lazy belongs to a lazy layer"),
        (lambda: WithTensor(torch.zeros(2, dtype=torch.complex64)), "extra of .* torch.complex64"),
        (lambda: WithTensor(torch.zeros(2, 2).to_sparse()), "extra of .* torch.sparse_coo"),
    ],
)
def test_tensors_that_cannot_be_compared(module, message):
    with pytest.raises(TwinrunError, match=message):
        check_tensors(module())
    check_tensors(Small())


class FillsIt(Lazy):
    def setup(self, stage):
        self.last(torch.zeros(1, 4))


def test_lazy_layers_may_be_given_their_weights_in_setup():
    """Red before: refused as such that have none before the first step."""
    module = FillsIt()
    check_tensors(module, is_set_up=False)
    with pytest.raises(TwinrunError, match="or call it in setup"):
        check_tensors(module)
    module.setup("fit")
    check_tensors(module)
    with pytest.raises(TwinrunError, match="belongs to a lazy layer"):
        check_tensors(Lazy(), is_set_up=False)


class InPairs(Small):
    """Multiplies by complex weights that it holds as pairs of real numbers."""

    def __init__(self, values):
        super().__init__()
        self.pairs = torch.nn.Parameter(torch.view_as_real(values).contiguous())

    def forward(self, inputs):
        spectrum = torch.fft.fft(inputs) * torch.view_as_complex(self.pairs)
        return super().forward(torch.fft.ifft(spectrum).real)


class Complex(Small):
    """The same, as they are."""

    def __init__(self, values):
        super().__init__()
        self.values = torch.nn.Parameter(values)

    def forward(self, inputs):
        return super().forward(torch.fft.ifft(torch.fft.fft(inputs) * self.values).real)


def test_the_cure_of_a_complex_parameter_is_named_and_trains_the_same():
    """Red before: "keep it out of the module's parameters", of what is to be trained.

    But for rounding: of 12 initial values 4 led to others in the last bits, as an update of complex
    numbers is other code than one of pairs. Some 10 updates of at most a few roundings (2^-24) each
    are apart by less than 100 of them.
    """
    values = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(3))
    with pytest.raises(TwinrunError, match=r"torch\.view_as_real .* torch\.view_as_complex of it"):
        check_tensors(Complex(values.clone()))
    trained = []
    for kind in (Complex, InPairs):
        pl.seed_everything(1, verbose=False)
        module = kind(values.clone())
        fit = trainer()
        vars(fit)["callbacks"] = [c for c in fit.callbacks if not isinstance(c, Supported)]
        fit.fit(module, Points())
        trained.append(module)
    assert not torch.equal(trained[0].values, values)
    found, wanted = torch.view_as_real(trained[0].values), trained[1].pairs
    torch.testing.assert_close(found, wanted, rtol=100 * 2**-24, atol=100 * 2**-24)
    check_tensors(trained[1])


def test_the_page_names_each_type_that_is_refused():
    """Red before: unsigned integers were refused, and the page did not say so."""
    page = Path(__file__).parents[2].joinpath("docs/audit-your-module.md").read_text()
    types = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    unsigned = {kind for kind in types - DTYPES if str(kind) in UNSIGNED}
    assert len(unsigned) == len(UNSIGNED)
    assert all(f"`{str(kind).removeprefix('torch.')}`" in page for kind in unsigned)


class Late(Small):
    """Makes a complex buffer where one can, after it was constructed."""

    def __init__(self, hook):
        super().__init__()
        self.hook = hook

    def _make(self, hook):
        if hook == self.hook and not hasattr(self, "extra"):
            self.register_buffer("extra", torch.zeros(2, dtype=torch.complex64))

    def setup(self, stage):
        self._make("setup")

    def configure_model(self):
        self._make("configure_model")

    def training_step(self, batch, batch_idx):
        self._make("training_step")
        return super().training_step(batch, batch_idx)


def trainer(*callbacks, **options):
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        callbacks=[Supported(), *callbacks],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        plugins=[LightningEnvironment()],
        **options,
    )


@pytest.mark.parametrize("hook", ["setup", "configure_model", "training_step"])
def test_tensors_that_are_made_late_are_refused_too(hook):
    with pytest.raises(TwinrunError, match=r"module: extra of Late is torch\.complex64"):
        trainer().fit(Late(hook), Points())


def test_the_other_package_of_lightning_is_named():
    other = type("Module", (), {"__module__": "lightning.pytorch.core.module"})
    found = wrong_package(type("Mine", (other,), {}))
    assert found == ", but of lightning.pytorch, which was imported before twinrun"
    assert wrong_package(Small) == ""


class Schedules(Small):
    """Accumulates by a callback of its own."""

    def configure_callbacks(self):
        return [pl.callbacks.GradientAccumulationScheduler({0: 2})]


@pytest.mark.parametrize(
    ("callbacks", "number"),
    [((), 2), ((pl.callbacks.EarlyStopping("train_loss"),), 3)],
)
def test_accumulation_that_is_told_twice_is_refused_in_our_words(callbacks, number):
    """Red before: in Lightning's, which speak of a Trainer that nobody has made."""
    with pytest.raises(TwinrunError, match="accumulate: a GradientAccumulationScheduler of the"):
        trainer(*callbacks, accumulate_grad_batches=number).fit(Schedules(), Points())
    found = trainer(*callbacks)
    found.fit(Schedules(), Points())
    assert found.accumulate_grad_batches == 2
