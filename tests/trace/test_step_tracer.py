"""Fingerprints see what a weaker hash misses; tracing changes nothing."""

import random

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tracing import rows_of

from twinrun.trace.fingerprints import (
    fingerprint,
    fingerprint_rng_states,
    fingerprint_settings,
    fingerprint_states,
    fingerprint_tree,
    settings_of,
)
from twinrun.trace.parameter_sample import SAMPLE_SIZE
from twinrun.trace.setting_values import settings_at
from twinrun.trace.step_tracer import Tracer


def flipped(tensor, *positions):
    """Flip bits of a copy, each position a (byte, bit)."""
    copy = tensor.clone()
    view = copy.view(torch.uint8)
    for byte, bit in positions:
        view[byte] ^= 1 << bit
    return copy


def test_fingerprint_sees_a_swap_of_two_values():
    assert fingerprint(torch.tensor([1.0, 2.0, 3.0])) != fingerprint(torch.tensor([2.0, 1.0, 3.0]))


def test_fingerprint_sees_the_sign_of_zero():
    assert fingerprint(torch.tensor([0.0])) != fingerprint(torch.tensor([-0.0]))


@given(
    first=st.tuples(st.integers(0, 255), st.integers(0, 7)),
    second=st.tuples(st.integers(0, 255), st.integers(0, 7)),
)
def test_fingerprint_sees_two_flipped_bits(first, second):
    tensor = torch.arange(64, dtype=torch.float32)
    same = first == second
    changed = flipped(tensor, first, second)
    assert (fingerprint(changed) == fingerprint(tensor)) is same


def test_fingerprint_sees_the_payload_of_nan():
    nan = torch.tensor([float("nan")])
    assert fingerprint(flipped(nan, (0, 0))) != fingerprint(nan)
    assert fingerprint(nan.clone()) == fingerprint(nan)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool]
)
def test_fingerprint_takes_every_type(dtype):
    tensor = torch.tensor([0, 1, 1], dtype=dtype)
    assert fingerprint(tensor) == fingerprint(tensor.clone())
    assert fingerprint(tensor) != fingerprint(tensor.flip(0))


def test_fingerprint_does_not_see_memory_layout():
    image = torch.rand(2, 3, 4, 5)
    assert fingerprint(image.contiguous(memory_format=torch.channels_last)) == fingerprint(image)


def test_fingerprint_takes_a_transposed_column():
    column = torch.arange(8.0)[None].t()
    assert column.is_contiguous()
    assert column.stride(-1) != 1
    assert fingerprint(column) == fingerprint(column.clone())


def test_fingerprint_of_sparse_tensors_sees_indices():
    def sparse(column):
        return torch.sparse_coo_tensor([[0], [column]], [1.0], (2, 3))

    assert fingerprint(sparse(1)) == fingerprint(sparse(1))
    assert fingerprint(sparse(1)) != fingerprint(sparse(2))


def test_fingerprint_of_a_tree_sees_order_types_and_shapes():
    a, b = torch.zeros(4), torch.ones(4)
    trees = [[a, b], [b, a], (a, b), {"x": a, "y": b}, [a.view(2, 2), b], [a, b, 1], [a, b, "1"]]
    assert len({fingerprint_tree(tree) for tree in trees}) == len(trees)
    assert fingerprint_tree([a, b]) == fingerprint_tree([a.clone(), b.clone()])


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        ("python", random.random),
        ("python", lambda: random.gauss(0, 1)),
        ("numpy", np.random.random),
        ("torch", lambda: torch.rand(1)),
    ],
)
def test_the_generator_that_was_drawn_from_is_told(generator, draw):
    before = fingerprint_rng_states(cuda=False)
    assert fingerprint_rng_states(cuda=False) == before
    draw()
    after = fingerprint_rng_states(cuda=False)
    assert [name for name in before if before[name] != after[name]] == [generator]


@pytest.mark.parametrize("kept", [None, 0.25])
@pytest.mark.parametrize("generator", ["python", "numpy"])
def test_a_gaussian_number_kept_for_later_is_state(generator, kept):
    """The words alone are the same, and the next number that is drawn is another one."""
    python, numpy = random.getstate(), np.random.get_state(legacy=False)
    try:
        random.setstate((*python[:2], 0.5))
        np.random.set_state(numpy | {"has_gauss": 1, "gauss": 0.5})
        before = fingerprint_rng_states(cuda=False)
        if generator == "python":
            random.setstate((*python[:2], kept))
        else:
            has_kept = {"has_gauss": int(kept is not None), "gauss": kept or 0.0}
            np.random.set_state(numpy | has_kept)
        after = fingerprint_rng_states(cuda=False)
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
    assert [name for name in before if before[name] != after[name]] == [generator]


def fingerprint_of(optimizer):
    return fingerprint_settings(settings_of(optimizer))


def test_the_state_and_the_settings_of_an_optimizer_are_told():
    parameters = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))]
    optimizer = torch.optim.Adam(parameters)
    before = fingerprint_of(optimizer)
    assert fingerprint_states([optimizer], parameters) == [0, 0]
    parameters[0].grad = torch.ones(3)
    optimizer.step()
    first, second = fingerprint_states([optimizer], parameters)
    assert first != 0
    assert (second, fingerprint_of(optimizer)) == (0, before)


@pytest.mark.parametrize(
    "change",
    [{"lr": 0.5}, {"lr": torch.tensor(0.001)}, {"betas": (0.9, 0.99)}, {"maximize": True}],
)
def test_every_setting_counts(change):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(3))])
    before = fingerprint_of(optimizer)
    assert fingerprint_of(optimizer) == before
    optimizer.param_groups[0].update(change)
    changed = fingerprint_of(optimizer)
    assert changed != before
    if isinstance(change.get("lr"), torch.Tensor):
        change["lr"].add_(1e-9)
        assert fingerprint_of(optimizer) != changed


class Line(pl.LightningModule):
    """A straight line with a dropout, so that random numbers are drawn."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 700)
        self.dropout = torch.nn.Dropout(0.5)

    def training_step(self, batch, batch_idx):
        return self.dropout(self.layer(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def fit(callbacks, precision="32-true", module=Line):
    pl.seed_everything(3, verbose=False)
    module = module()
    loader = torch.utils.data.DataLoader(torch.rand(40, 3), batch_size=8)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        precision=precision,
    )
    trainer.fit(module, loader)
    return module


def test_tracing_does_not_change_the_bits():
    plain, traced = fit([]), fit([Tracer()])
    for left, right in zip(plain.parameters(), traced.parameters(), strict=True):
        assert left.detach().numpy().tobytes() == right.detach().numpy().tobytes()


def test_tracer_has_a_row_a_step_that_ends_in_the_final_weights():
    tracer = Tracer()
    module = fit([tracer])
    assert [row["step"] for row in rows_of(tracer)] == list(range(1, 11))
    assert [row["epoch"] for row in rows_of(tracer)] == [1] * 5 + [2] * 5
    arrays = tracer.arrays()
    assert list(arrays["names"]) == ["layer.weight", "layer.bias"]
    assert list(arrays["parameters"][-1]) == [fingerprint(p) for p in module.parameters()]
    assert len(set(arrays["gradients"][:, 0])) == 10
    assert len({row["parameters"] for row in rows_of(tracer)}) == 10
    assert arrays["initial"].shape == (2,)
    assert arrays["initial"][0] != arrays["parameters"][0, 0]


def test_tracer_samples_the_same_elements_every_step():
    tracer = Tracer()
    module = fit([tracer])
    sample = tracer.arrays()["sample"]
    assert sample.shape == (10, SAMPLE_SIZE)
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()]).double().numpy()
    chosen = np.linspace(0, flat.size - 1, SAMPLE_SIZE).astype(int)
    np.testing.assert_array_equal(sample[-1], flat[chosen])


def test_samples_hold_every_value_of_the_parameters():
    tracer = Tracer()
    fit([tracer])
    assert tracer.arrays()["sample"].dtype == np.float32
    double = Tracer()
    module = fit([double], precision="64-true")
    assert double.arrays()["sample"].dtype == np.float64
    values = np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])
    assert np.isin(double.arrays()["sample"][-1], values).all()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(1.5),
        torch.arange(6.0).reshape(2, 3).T,
        torch.ones(1, 2, 3, 3).to(memory_format=torch.channels_last),
        torch.arange(3.0, requires_grad=True),
        torch.tensor([1 + 2j, 3 - 1j]).conj(),
        torch.tensor([1 + 2j, 3 - 1j]).conj().imag,  # with a negative bit
        torch.arange(5).to(torch.bfloat16),
        torch.arange(5.0).to(torch.float8_e4m3fn),
        torch.tensor([True, False]),
        torch.empty(0),
    ],
)
def test_a_fingerprint_is_of_the_bytes_in_the_order_of_the_elements(tensor):
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    assert fingerprint(tensor) == xxhash.xxh3_64_intdigest(raw)


def test_a_tensor_kept_from_inside_of_a_functional_gradient_is_read():
    kept = []

    def squared(values):
        kept.append(values * 2)
        return (values**2).sum()

    torch.func.grad(squared)(torch.arange(3.0))
    assert fingerprint(kept[0]) == fingerprint(torch.arange(3.0) * 2)


def test_a_tensor_whose_memory_was_given_back_has_no_bytes():
    tensor = torch.nn.Parameter(torch.ones(8))
    tensor.untyped_storage().resize_(0)
    assert fingerprint(tensor) == fingerprint(torch.empty(0))  # to read it ends the process
    zeros = torch._efficientzerotensor(3)  # has no memory either, and values all the same
    assert fingerprint(zeros) == fingerprint(torch.zeros(3))


def test_the_form_of_an_optimizer_is_no_setting_of_what_it_computes():
    parameters = [torch.nn.Parameter(torch.ones(2))]

    def settings(**options):
        optimizer = torch.optim.Adam(parameters, **options)
        return fingerprint_of(optimizer)

    assert settings(foreach=True) == settings(fused=True) == settings()
    assert settings(lr=0.1) != settings()


def test_a_checkpoint_after_the_last_step_keeps_the_whole_table():
    tracer = Tracer()
    fit([tracer])
    again = Tracer()
    again.load_state_dict(tracer.state_dict())
    assert rows_of(again) == rows_of(tracer)
    found, kept = again.arrays(), tracer.arrays()
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in kept.items()
    }


def test_a_training_that_tries_steps_and_takes_them_back_is_not_resumed(tmp_path, monkeypatch):
    """Red before: `resumed_at` was [0], and every comparison said so."""
    monkeypatch.chdir(tmp_path)  # LearningRateFinder saves there what it goes back to
    tracer = Tracer()
    finder = pl.callbacks.LearningRateFinder(num_training_steps=4, update_attr=False)
    fit([finder, tracer])
    assert tracer.resumed_at == []
    assert tracer.steps == len(rows_of(tracer)) == 10
    again = Tracer()
    again.load_state_dict(tracer.state_dict())
    assert again.resumed_at == [10]


class Scheduled(Line):
    """The rate goes down by step, and a second group comes in the second epoch."""

    def configure_optimizers(self):
        groups = [{"params": [self.layer.weight]}]
        optimizer = torch.optim.SGD(groups, lr=0.5, momentum=0.9, weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def on_train_epoch_start(self):
        if self.current_epoch:
            self.optimizers().optimizer.add_param_group({"params": [self.layer.bias], "lr": 0.25})
            self.lr_schedulers().base_lrs.append(0.25)


def test_the_settings_in_use_at_each_step_are_kept():
    tracer = Tracer()
    fit([tracer], module=Scheduled)
    arrays = tracer.arrays()
    rates = [settings_at(arrays, index) for index in range(10)]
    rate, other = "learning rate of group 0", "learning rate of group 1"
    # Of each step the rate that it was done with, not the next one.
    assert [found[rate] for found in rates] == [0.5] * 4 + [0.25] * 4 + [0.125] * 2
    assert [found.get(other) for found in rates[:5]] == [None] * 5
    assert rates[5][other] == 0.25
    assert rates[0]["momentum of group 0"] == 0.9
    assert rates[0]["weight decay of group 0"] == 0.1
    # One row a change, whatever the number of steps.
    assert len(arrays["setting_values"]) < 4 * len(rates[-1])
    assert [row["settings"] for row in rows_of(tracer)[:4]] == [rows_of(tracer)[0]["settings"]] * 4
    assert rows_of(tracer)[3]["settings"] != rows_of(tracer)[4]["settings"]
    again = Tracer()
    again.load_state_dict(tracer.state_dict())
    assert settings_at(again.arrays(), 7) == rates[7]


class SetsItsRate(Scheduled):
    """Sets the rate in the last hook before the update; a schedule sets it anew after each."""

    def on_before_optimizer_step(self, optimizer):
        optimizer.param_groups[0]["lr"] = 0.5 + self.trainer.fit_loop.total_batch_idx / 100

    def configure_gradient_clipping(self, optimizer, *_, **__):
        optimizer.param_groups[0]["momentum"] = 0.5


class SetsItByHand(SetsItsRate):
    automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer, loss = self.optimizers(), super().training_step(batch, batch_idx)
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 7.0
        return loss


class SetsItByTorch(SetsItByHand):
    """Steps without Lightning's wrapper, which calls no hook."""

    def training_step(self, batch, batch_idx):
        optimizer, loss = self.optimizers().optimizer, self.layer(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        self.on_before_optimizer_step(optimizer)
        self.configure_gradient_clipping(optimizer)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 7.0
        return loss


@pytest.mark.parametrize("module", [SetsItsRate, SetsItByHand, SetsItByTorch])
def test_a_rate_that_the_last_hook_sets_is_that_of_its_step(module):
    """Red before: it was read ahead of the module's own hook."""
    tracer = Tracer()
    fit([tracer], module=module)
    found = [settings_at(tracer.arrays(), index) for index in range(10)]
    assert [of["learning rate of group 0"] for of in found] == [
        0.5 + index / 100 for index in range(10)
    ]
    clipped = 0.9 if module is SetsItByHand else 0.5  # by hand Lightning does not clip
    assert {of["momentum of group 0"] for of in found} == {clipped}
    assert len({row["settings"] for row in rows_of(tracer)}) == 10


def test_lightnings_own_method_is_there_again_when_it_ends():
    module = fit([Tracer()], module=SetsItsRate)
    assert "_after_closure" not in vars(module.trainer.precision_plugin)


def test_a_trace_without_settings_still_reads():
    assert settings_at({}, 3) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_a_fingerprint_is_that_of_the_bytes_in_the_order_of_the_elements(dtype):
    whole = torch.arange(24).reshape(4, 6).to(dtype)
    plain = whole.clone().view(torch.uint8).numpy().tobytes()
    by_columns = whole.t().contiguous().t()  # other strides, the same values
    kept = torch.nn.Parameter(whole, requires_grad=False)
    for tensor in (whole, by_columns, kept, torch.cat([whole, whole])[4:], whole.conj().conj()):
        assert fingerprint(tensor) == xxhash.xxh3_64_intdigest(plain)
    for empty in (torch.empty(0, dtype=dtype), torch.empty(3, 0, dtype=dtype)):
        assert fingerprint(empty) == xxhash.xxh3_64_intdigest(b"")


def test_a_fingerprint_sees_what_is_written_past_torchs_count():
    tensor = torch.zeros(3)
    before = fingerprint(tensor)
    tensor.numpy()[1] = 1.0
    assert fingerprint(tensor) != before
    tensor.data = torch.zeros(3)
    assert fingerprint(tensor) == before
