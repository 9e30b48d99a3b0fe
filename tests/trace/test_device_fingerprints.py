"""A training's steps, fingerprinted as on a GPU: what is copied, when, and what it tells.

No GPU is needed: which tensors count as lying on one is asked by one function, which these tests
replace. The tests marked `gpu` do the same on one.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from tracing import rows_of

from twinrun.comparison.comparable import are_comparable
from twinrun.config.traced_steps import TracedSteps
from twinrun.trace import device_hash, parameter_sample, samples, step_fingerprints
from twinrun.trace.fingerprints import fingerprint, fingerprint_tree
from twinrun.trace.hash_kinds import ARRAY, batch_on_host, kinds_of
from twinrun.trace.pending import Pending, fetch, value_of
from twinrun.trace.samples import fingerprint_samples, prints_of_samples
from twinrun.trace.step_fingerprints import StepFingerprints, fingerprint_at_once
from twinrun.trace.step_tracer import Tracer

STEPS = 8
LIKE_ON_A_CPU = ["step", "epoch", "loss", "loss_fingerprint", "random", "random_after", "settings"]
HOOKS = ("on_train_batch_start", "on_before_optimizer_step", "on_train_batch_end")


@pytest.fixture
def on_gpu(monkeypatch):
    """Have every tensor count as lying on a GPU."""

    def patch(answer=True):
        for module in (step_fingerprints, samples, parameter_sample):
            monkeypatch.setattr(module, "is_on_gpu", lambda tensor: answer)

    patch()
    return patch


class Net(pl.LightningModule):
    """Layers with buffers and random numbers, whose steps may be disturbed."""

    def __init__(self, disturb=None, optimizer="adam"):
        super().__init__()
        self.net = torch.nn.Sequential(
            *(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU()),
            *(torch.nn.Dropout(0.2), torch.nn.Linear(16, 1)),
        )
        self.register_buffer("zeros", torch.zeros(5))
        self.disturb, self.optimizer, self.begun = disturb, optimizer, 0

    def training_step(self, batch, batch_idx):
        self.begun += 1
        return torch.nn.functional.mse_loss(self.net(batch["x"]), batch["y"])

    def on_after_backward(self):
        change = (self.disturb or {}).get(self.begun)
        if change is not None:
            change(self)

    def configure_optimizers(self):
        if self.optimizer == "adam":
            return torch.optim.Adam(self.parameters(), lr=torch.tensor(0.01))
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def train(disturb=None, optimizer="adam", *, seed=3, order=None, tracer=None, accelerator="cpu"):
    """Train and trace; give the tracer."""
    pl.seed_everything(seed, verbose=False)
    module = Net(disturb, optimizer)
    data = [
        {"x": torch.randn(8), "y": torch.randn(1), "text": f"sample {number}"}
        for number in range(6 * STEPS // 2)
    ]
    data = data if order is None else [data[i] for i in order]
    tracer = tracer or Tracer()
    trainer = pl.Trainer(
        accelerator=accelerator,
        devices=1,
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[tracer],
    )
    trainer.fit(module, DataLoader(data, batch_size=6))
    return tracer


def table_of(tracer):
    return pd.concat(tracer.table())


# What a test makes of the step that is under way when gradients are there.
def nudge(name, module):
    with torch.no_grad():
        dict(module.named_parameters())[name].view(-1)[0] += 1e-6


def turn_zero(module):
    module.zeros[2] *= -1


def swap(module):
    weight = module.net[4].weight
    with torch.no_grad():
        weight.copy_(weight[:, [1, 0, *range(2, 16)]])


def tilt(module):
    module.net[0].weight.grad[3, 3] *= -1


def draw(module):
    torch.rand(1)


OTHERS = {
    "the same": {},
    "another seed": {"seed": 4},
    "another order in a batch": {"order": [1, 0, *range(2, 24)]},
    "another order of batches": {"order": [*range(6, 12), *range(6), *range(12, 24)]},
    "a parameter": {"disturb": partial(nudge, "net.4.bias")},
    "a zero's sign": {"disturb": turn_zero},
    "a swap": {"disturb": swap},
    "a gradient's sign": {"disturb": tilt},
    "a random number": {"disturb": draw},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("at", [1, 3])
def test_pairs_differ_where_they_differ_on_a_cpu(on_gpu, other, at):
    """Each quantity at each step, of runs that something disturbs at a step."""
    told = dict(OTHERS[other])
    disturb = told.pop("disturb", None)
    if at == 3 and disturb is None:
        pytest.skip("it is not at a step")

    def pair():
        first = train()
        second = train({at: disturb}, **told)
        equal = table_of(first) == table_of(second)
        names = [key for key in first.arrays() if first.arrays()[key].dtype == np.uint64]
        names = [name for name in names if name != ARRAY]
        return equal, {n: first.arrays()[n] == second.arrays()[n] for n in names}

    hashed, of_tensors = pair()
    on_gpu(False)
    known, known_of_tensors = pair()
    pd.testing.assert_frame_equal(hashed, known)
    assert of_tensors.keys() == known_of_tensors.keys()
    for name, of in of_tensors.items():
        assert np.array_equal(of, known_of_tensors[name]), name
    assert known.all(axis=None) == (other == "the same")
    if disturb is not None:  # it is seen at its step, and not before
        assert list(known.all(axis=1)) == [step < at for step in range(1, STEPS + 1)]


def test_the_first_step_is_fingerprinted_as_on_a_cpu_and_no_other(on_gpu):
    """So a run on a GPU and one on a CPU say whether they were given the same."""
    hashed = train()
    on_gpu(False)
    known = train()
    assert ARRAY not in known.arrays()
    left, right = table_of(hashed), table_of(known)
    pd.testing.assert_frame_equal(left[LIKE_ON_A_CPU], right[LIKE_ON_A_CPU])
    others = [name for name in left if name not in LIKE_ON_A_CPU and name != "own_gradients"]
    assert (left[others] != right[others])[1:].all(axis=None)
    unlike = left.columns[(left != right).iloc[0]]
    assert list(unlike) == ["batch", "samples"]
    assert batch_on_host(hashed.arrays(), np.arange(99)) == {1: int(right["batch"][0], 16)}
    for name in ("initial", "initial_buffers", "random"):
        assert np.array_equal(hashed.arrays()[name], known.arrays()[name])
    assert np.array_equal(hashed.arrays()["sample"], known.arrays()["sample"])
    # Full-batch training and a replayed epoch have a batch again: by one hash in all steps.
    assert left["batch"][0] == left["batch"][4]
    steps = np.arange(1, STEPS + 1)
    for name in others:
        comparable = are_comparable(hashed.arrays(), known.arrays(), name, steps)
        assert list(comparable) == [name != "samples", *[False] * (STEPS - 1)], name
        assert are_comparable(hashed.arrays(), hashed.arrays(), name, steps).all()


def test_where_fewer_steps_are_traced_the_first_of_these_is_like_a_cpus(on_gpu):
    def thinned(host_step=None, traced=None):
        tracer = Tracer()
        tracer.traced = traced or TracedSteps(every=3)
        tracer.host_step = host_step
        return table_of(train(tracer=tracer)).set_index("step")

    hashed = thinned()
    # What replays a run traces all steps, and must find what the run found.
    again = thinned(TracedSteps(every=3).start, TracedSteps())
    pd.testing.assert_frame_equal(again.loc[[3, 6]], hashed)
    on_gpu(False)
    known = thinned()
    assert list(hashed["gradients"] == known["gradients"]) == [True, False]


def test_a_resumed_trace_knows_its_hashes(on_gpu):
    first = train()
    second = Tracer()
    second.load_state_dict(first.state_dict())
    assert np.array_equal(second.arrays()[ARRAY], first.arrays()[ARRAY])
    train(tracer=second)  # the process begins again; the steps are counted on
    assert np.array_equal(second.arrays()[ARRAY], first.arrays()[ARRAY])


LEAVING = ("cpu", "numpy", "tolist", "item", "__float__", "__int__", "__bool__", "__array__")


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_one_copy_a_step_leaves_the_gpu_and_no_hook_waits_but_the_last(
    on_gpu, monkeypatch, optimizer
):
    left, under_way = [], []

    def watched(name, method):
        def called(self, *args, **kwargs):
            # What is on the host already: a generator's state, and what was copied.
            if under_way and not getattr(self, "is_here", False) and self.numel() != RNG_STATE:
                left.append((*under_way[-1], name, self.numel() * self.element_size()))
            found = method(self, *args, **kwargs)
            if isinstance(found, torch.Tensor):
                found.is_here = True
            return found

        return called

    RNG_STATE = torch.get_rng_state().numel()
    for name in LEAVING:
        monkeypatch.setattr(torch.Tensor, name, watched(name, getattr(torch.Tensor, name)))

    class Noted(Tracer):
        __module__ = Tracer.__module__  # else its hooks count as those of a user's callback

    def noted(name):
        def hook(self, *args):
            under_way.append((self.steps + 1, name))
            try:
                getattr(Tracer, name)(self, *args)
            finally:
                under_way.pop()

        return hook

    for name in HOOKS:
        setattr(Noted, name, noted(name))
    tracer = train(optimizer=optimizer, tracer=Noted())
    later = [found for found in left if found[0] > 1]
    assert [found[:3] for found in later] == [
        (step, "on_train_batch_end", "cpu") for step in range(2, STEPS + 1)
    ]
    parameters, buffers = 6, 4  # the batch normalisation's three and the zeros
    state = {"adam": 3, "sgd": 1}[optimizer] * parameters
    numbers = 2 * parameters + 2 * buffers + state  # with the gradients
    # The two tensors of the batch and its 12 rows; the loss as it is and as a number.
    numbers += 2 + 2 * 6 + 2
    numbers += 2 * (optimizer == "adam")  # its learning rate in a tensor, likewise
    numbers += len(tracer.arrays()["sample"][0])
    # The second step takes what the first has left once more, by the other hash; the fifth what was
    # there before its epoch.
    again = [parameters * (step in (2, 5)) for step in range(2, STEPS + 1)]
    assert [found[3] for found in later] == [8 * (numbers + more) for more in again]


def test_a_fingerprint_is_of_what_a_tensor_was_when_it_was_taken(on_gpu):
    tensors = {"large": torch.arange(50.0), "small": torch.ones(2), "odd": torch.ones(3).bfloat16()}
    taken = StepFingerprints()
    found = taken.tensors(tensors)
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    for tensor in tensors.values():
        tensor.zero_()
    fetch(found.values())
    for name, copy in copies.items():
        assert value_of(found[name]) == fingerprint_at_once(copy)
        assert value_of(found[name]) != fingerprint_at_once(tensors[name])
    # Of 8 bytes or fewer the bits of a CPU.
    assert value_of(found["small"]) == fingerprint(copies["small"])
    assert value_of(found["odd"]) == fingerprint(copies["odd"])
    assert value_of(found["large"]) != fingerprint(copies["large"])


def test_what_was_not_fetched_is_no_fingerprint(on_gpu):
    found = StepFingerprints().tensors({"": torch.ones(9)})
    with pytest.raises(IndexError):
        value_of(found[""])


KINDS = {
    "sparse": lambda x: torch.eye(4)[[0, 2, 1]].mul(x).to_sparse(),
    "csr": lambda x: torch.eye(4).mul(x).to_sparse_csr(),
    "nested": lambda x: torch.nested.nested_tensor([torch.ones(3) * x, torch.ones(5)]),
    "jagged": lambda x: torch.nested.nested_tensor(
        [torch.ones(3) * x, torch.ones(5)], layout=torch.jagged
    ),
    "quantised": lambda x: torch.quantize_per_tensor(torch.ones(9) * x, 0.1, 0, torch.qint8),
    "empty": lambda x: torch.empty(0, int(x)),
    "none": lambda x: None if x == 1 else torch.ones(9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_any_kind_are_fingerprinted(on_gpu, kind):
    one, same, other = KINDS[kind](1.0), KINDS[kind](1.0), KINDS[kind](2.0)
    assert fingerprint_at_once(one) == fingerprint_at_once(same)
    assert (fingerprint_at_once(one) == fingerprint_at_once(other)) is (kind == "empty")
    for tensor in (one, other):
        assert fingerprint_at_once(tensor) != 0 or tensor is None


def taken_of(batch):
    found, opaque = StepFingerprints().batch(batch)
    rows = prints_of_samples(batch)
    fetch([found, rows])
    return value_of(found), value_of(rows), opaque


BATCHES = {
    "tensors": lambda v: [torch.tensor(v) * 1.5, torch.tensor(v)],
    "rows": lambda v: {"x": torch.tensor(v)[:, None] * torch.ones(7), "texts": [f"{x}" for x in v]},
    "images of several sizes": lambda v: [torch.full((3, 4 + x % 3, 5), float(x)) for x in v],
    "with an array": lambda v: (torch.tensor(v), np.array(v), "text", 3),
    "with a mask": lambda v: {"x": torch.tensor(v), "mask": torch.ones(99)},
    "with a scalar": lambda v: {"x": torch.tensor(v), "rate": torch.tensor(0.5)},
    "sparse": lambda v: (torch.eye(100)[v].to_sparse(), torch.tensor(v) % 2),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_samples_are_known_in_another_order(on_gpu, kind):
    made = BATCHES[kind]
    whole, rows, _ = taken_of(made([0, 1, 2, 3, 4, 5]))
    again, same, _ = taken_of(made([0, 1, 2, 3, 4, 5]))
    assert (whole, list(rows)) == (again, list(same))
    whole_of_other, other, _ = taken_of(made([3, 1, 0, 5, 4, 2]))
    assert whole_of_other != whole
    assert list(other) != list(rows)
    assert sorted(other) == sorted(rows)
    _, changed, _ = taken_of(made([0, 1, 2, 3, 4, 6]))
    assert len(set(changed) - set(rows)) == 1
    assert len(rows) == len(fingerprint_samples(made([0, 1, 2, 3, 4, 5])))


def test_a_batch_may_be_written_to_while_its_fingerprint_is_on_its_way(on_gpu):
    batch = [torch.arange(12.0).view(6, 2), np.arange(6), ["a"] * 6]
    known, known_rows, _ = taken_of(batch)
    found, _ = StepFingerprints().batch(batch)
    rows = prints_of_samples(batch)
    batch[0].zero_()
    batch[1][:] = 0
    fetch([found, rows])
    assert value_of(found) == known
    assert list(value_of(rows)) == list(known_rows)


def test_a_batch_without_tensors_on_a_gpu_has_the_fingerprints_of_a_cpu():
    batch = {"texts": ["a", "b"], "numbers": np.arange(2), "x": torch.ones(2, 5)}
    found, rows, _ = taken_of(batch)
    assert found == fingerprint_tree(batch)
    assert list(rows) == list(fingerprint_samples(batch))
    assert not isinstance(StepFingerprints().batch(batch)[0], Pending)


def test_kinds_are_those_of_the_last_change():
    arrays = {ARRAY: np.array([[2, 6, 7], [4, 6, 0], [4, 7, 9]], dtype=np.uint64)}
    steps = np.array([1, 2, 3, 4, 9])
    assert list(kinds_of(arrays, "gradients", steps)) == [0, 7, 7, 0, 0]
    assert list(kinds_of(arrays, "optimizer", steps)) == [0, 0, 0, 9, 9]
    assert list(kinds_of(arrays, "loss_fingerprint", steps)) == [0] * 5
    assert list(kinds_of({}, "gradients", steps)) == [0] * 5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("is_deterministic", [False, True])
def test_on_a_gpu_no_hook_waits_but_the_last(is_deterministic, monkeypatch):
    """torch raises where something waits, but for the one copy."""
    original, torch_mode = fetch, torch.cuda.get_sync_debug_mode()

    def allowed(values):
        strict = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("default")
        try:
            original(values)
        finally:
            torch.cuda.set_sync_debug_mode(strict)

    monkeypatch.setattr("twinrun.trace.step_record.fetch", allowed)

    class Strict(Tracer):
        def _strictly(self, name, *args):
            torch.cuda.set_sync_debug_mode("error" if self.steps else "default")
            try:
                getattr(Tracer, name)(self, *args)
            finally:
                torch.cuda.set_sync_debug_mode(torch_mode)

    for name in HOOKS:
        setattr(Strict, name, lambda self, *args, name=name: self._strictly(name, *args))
    torch.use_deterministic_algorithms(is_deterministic, warn_only=True)
    try:
        first = train(tracer=Strict(), accelerator="gpu")
        second = train(accelerator="gpu")
    finally:
        torch.use_deterministic_algorithms(False)
    assert first.arrays()[ARRAY].tolist() == second.arrays()[ARRAY].tolist()
    assert rows_of(first)[0]["batch"] == rows_of(second)[0]["batch"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_fingerprints_that_the_stand_in_gives(on_gpu):
    tensor = torch.randn(1000)
    known = fingerprint_at_once(tensor)
    for module in (step_fingerprints, samples, parameter_sample):
        module.is_on_gpu = device_hash.is_on_gpu
    assert fingerprint_at_once(tensor.cuda()) == known
