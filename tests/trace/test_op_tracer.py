"""What the trace of a step's operations says of each, and what it leaves alone."""

import linecache
import threading
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from small import Small

from twinrun.trace.op_tracer import OpTracer
from twinrun.trace.scratch import scratch_of


class Twice(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))

    def forward(self, inputs):
        return self.inner(inputs) + self.inner(2 * inputs)


def traced(module, step):
    """Trace a step; give its rows."""
    tracer = OpTracer(module, lambda row, outputs: None)
    with tracer.following():
        step(tracer)
    return tracer.rows


def forward_and_backward(module, inputs):
    module.zero_grad()

    def step(tracer):
        loss = module(inputs).square().sum()
        tracer.phase = "backward"
        loss.backward()

    return traced(module, step)


def test_operations_belong_to_their_module_in_both_passes():
    rows = forward_and_backward(Twice(), torch.ones(3, 4))
    found = [(row["phase"], row["module"], row["call"]) for row in rows if "mm" in row["op"]]
    layers = ["inner.0", "inner.1"]
    forward = [("forward", layer, call) for call in (1, 2) for layer in layers]
    assert found[:4] == forward
    assert {(phase, module) for phase, module, _ in found[4:]} == {
        ("backward", layer) for layer in layers
    }


def test_gradients_name_their_parameter_and_the_line_of_their_forward():
    rows = forward_and_backward(Twice(), torch.ones(3, 4))
    parameters = {row["parameter"] for row in rows if row["phase"] == "backward"}
    assert {"inner.0.weight", "inner.0.bias", "inner.1.weight"} <= parameters
    owned = [row for row in rows if row["phase"] == "backward" and row["op"] == "aten::mm"]
    (source,) = {row["source"] for row in owned}
    file, _, number = source.rpartition(":")
    assert file.endswith("test_op_tracer.py")
    line = linecache.getline(__file__, int(number)).strip()
    assert line == "return self.inner(inputs) + self.inner(2 * inputs)"


def test_a_trace_is_the_same_again_and_changes_no_bit():
    torch.manual_seed(1)
    module, inputs = Small(), torch.randn(5, 4)
    first, second = (forward_and_backward(module, inputs) for _ in range(2))
    assert first == second
    gradients = [p.grad for p in module.parameters()]
    module.zero_grad()
    module(inputs).square().sum().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(module.parameters(), gradients, strict=True))


def step_on(fill, reads):
    """Give the rows of a step that makes memory, fills it or not, and reads it or not."""

    def step(tracer):
        memory = torch.empty(1000)
        if fill is not None:
            memory.fill_(fill)
        if reads:
            memory.add(1)

    return [(row["op"], row["inputs"], row["outputs"]) for row in traced(Twice(), step)]


def test_unwritten_memory_is_equal_until_it_is_read():
    torch.full((1000,), 7.0)  # what the next memory may hold
    assert step_on(None, reads=False) == step_on(None, reads=False)
    assert step_on(3.0, reads=True) == step_on(3.0, reads=True)
    assert step_on(3.0, reads=True) != step_on(4.0, reads=True)
    name, inputs, _ = step_on(None, reads=True)[-1]
    assert name == "aten::add"
    assert inputs == step_on(None, reads=True)[-1][1]


def test_random_draws_and_other_numbers_are_told():
    def draw(seed):
        def step(tracer):
            torch.bernoulli(
                torch.full((100,), 0.5), generator=torch.Generator().manual_seed(seed)
            ).mul(seed)

        return {row["op"]: row for row in traced(Twice(), step)}

    first, second = draw(1), draw(2)
    assert first["aten::bernoulli"]["draws"]
    assert first["aten::bernoulli"]["inputs"] == second["aten::bernoulli"]["inputs"]
    assert first["aten::bernoulli"]["outputs"] != second["aten::bernoulli"]["outputs"]
    assert first["aten::mul"]["inputs"] != second["aten::mul"]["inputs"]


@pytest.mark.parametrize(
    ("operation", "places"),
    [
        ("_scaled_dot_product_flash_attention", [6, 7, 8]),
        ("_scaled_dot_product_efficient_attention", [2, 3]),
        ("_scaled_dot_product_cudnn_attention", [6, 7, 8]),
        ("cudnn_batch_norm", [3]),
        ("_cudnn_rnn", [3]),
        ("native_batch_norm", []),
        ("native_dropout", []),
    ],
)
def test_what_a_kernel_leaves_in_memory_that_it_need_not_write_counts_as_unwritten(
    operation, places
):
    func = getattr(torch.ops.aten, operation).default
    result = tuple(torch.full((1,), index) for index in range(len(func._schema.returns)))
    assert [int(tensor) for tensor in scratch_of(func, result)] == places


def test_scratch_differs_in_no_two_processes(monkeypatch):
    """Red before: the backward pass of attention was taken for what handed garbage on."""
    monkeypatch.setattr("twinrun.trace.op_tracer.scratch_of", lambda func, result: [result[1]])
    contents = []
    for garbage in (1.0, 2.0):
        layer = torch.nn.Linear(2, 2)
        tracer = OpTracer(layer, lambda row, outputs: None)
        with tracer.following():
            torch.ops.aten.aminmax(torch.tensor([0.0, garbage]))
        contents.append(tracer.rows[-1]["writes"])
    (least, scratch), (again, other) = contents
    assert least == again
    assert scratch == other


class Forces(pl.LightningModule):
    """Fits the derivative of an energy, as a potential of atoms does."""

    def field(self, charges):
        return torch.zeros(3).index_put((torch.tensor([0, 1, 1]),), charges, accumulate=True)

    def energy(self):
        charges = torch.ones(3, requires_grad=True)
        return self.field(charges).square().sum(), charges

    def derivative(self, energy, charges):
        return torch.autograd.grad(energy, charges, create_graph=True)[0]

    def loss(self, forces):
        innocent = torch.arange(3.0) < 2  # makes no node of its own
        return (innocent * forces**2).sum()


def lines_of(rows, op):
    """Give the lines of a backward pass at which an operation stands, by their text."""
    found = [row["source"] for row in rows if (row["phase"], row["op"]) == ("backward", op)]
    return [linecache.getline(__file__, int(f"0{at.rpartition(':')[2]}")).strip() for at in found]


def test_the_derivative_of_a_derivative_belongs_to_the_line_that_is_differentiated():
    """Red before: it was told at the line after the first backward pass, which has no index."""
    module = Forces()
    rows = traced(module, lambda _: module.loss(module.derivative(*module.energy())).backward())
    line = "return torch.zeros(3).index_put((torch.tensor([0, 1, 1]),), charges, accumulate=True)"
    assert set(lines_of(rows, "aten::index_put")) == {line}


def test_nodes_of_two_threads_that_have_one_number_have_no_line(monkeypatch):
    """Each thread counts its nodes for itself: a GPU's backward pass has a thread of its own.

    Red before where a thread was given the number of one that had ended.
    """
    one = SimpleNamespace(get_ident=lambda: 1, local=threading.local)
    monkeypatch.setattr("twinrun.trace.op_tracer.threading", one)
    module, found = Forces(), {}
    tracer = OpTracer(module, lambda row, outputs: None)

    def in_a_thread(name, call):
        def body():
            with tracer:
                found[name] = call()

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    in_a_thread("energy", module.energy)
    in_a_thread("forces", lambda: module.derivative(*found["energy"]))
    in_a_thread("loss", lambda: found["forces"].square().sum().backward())
    lines = lines_of(tracer.rows, "aten::index_put")
    assert lines
    assert set(lines) == {""}
