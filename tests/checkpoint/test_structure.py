"""What a module is made of may change while it trains: a resumed training would not have it."""

import collections
import types

import pytest
import pytorch_lightning as pl
import torch
from resumed import assert_resumed, fit
from small import Restless
from torch.optim import optimizer as torch_optimizer

from twinrun.checkpoint.same_code import code_of
from twinrun.checkpoint.structure import Structure


class Changing(Restless):
    """Is changed by a function where its second epoch starts."""

    name = "nothing"

    def __init__(self):
        super().__init__()
        self.activation, self.scaled = torch.nn.Tanh(), Scaled()
        if self.name == "hook in the place of another":
            self.hidden.register_forward_hook(scaled_by(1.0))

    def forward(self, inputs):
        return super().forward(self.scaled(self.activation(inputs)))

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        if self.current_epoch == 1:
            CHANGES[self.name][0](self)


def scaled(module, inputs, output):
    return 0.5 * output


def scaled_if_linear(module, inputs, output):
    return 0.5 * output if isinstance(module, torch.nn.Linear) else None


def halved(optimizer, args, kwargs):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.data.mul_(0.99)


def hooked_everywhere(module):
    torch.nn.modules.module.register_module_forward_hook(scaled_if_linear)


def hooked_all_optimizers(module):
    torch_optimizer.register_optimizer_step_post_hook(halved)


def exchanged_hook(module):
    module.hidden._forward_hooks.clear()
    module.hidden.register_forward_hook(scaled_by(0.5))


def scaled_by(factor):
    return lambda module, inputs, output: factor * output


def patched(module):
    own = module.hidden.forward
    module.hidden.forward = lambda inputs: 0.5 * own(inputs)


def patched_class(module):
    own = Scaled.forward
    Scaled.forward = lambda layer, inputs: 0.5 * own(layer, inputs)


class Scaled(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.scale = scaled_by(factor)

    def forward(self, inputs):
        return self.scale(self, inputs, inputs.tanh()) * self.factor() * self.root()

    @staticmethod
    def factor():
        return 1.0

    @classmethod
    def root(cls):
        return 1.0


def of_another_class(module):
    module.activation.__class__ = torch.nn.Softsign


def reordered(module):
    module._modules["hidden"] = module._modules.pop("hidden")


CHANGES = {
    "nothing": (lambda module: None, ""),
    # As Lightning leaves the module's after a step of several workers.
    "own method": (lambda m: setattr(m, "forward", m.forward), ""),
    "own method of a layer": (lambda m: setattr(m.hidden, "forward", m.hidden.forward), ""),
    "method of another layer": (
        lambda m: setattr(m.scaled, "forward", m.activation.forward),
        "Scaled.forward changes while the training runs",
    ),
    "hook": (
        lambda m: m.hidden.register_forward_hook(scaled),
        "the hooks of hidden of Changing change while the training runs",
    ),
    "hook in the place of another": (
        exchanged_hook,
        "Linear._forward_hooks[0] changes while the training runs",
    ),
    "function in a hook": (
        lambda m: m.hidden.register_forward_pre_hook(lambda _, inputs: (0.5 * inputs[0],)),
        "the hooks of hidden of Changing change",
    ),
    "backward hook": (
        lambda m: m.output.register_full_backward_hook(lambda *_: None),
        "the hooks of output of Changing change",
    ),
    "hook of a parameter": (
        lambda m: m.hidden.weight.register_hook(lambda gradient: 0.5 * gradient),
        "the hooks of hidden.weight of Changing change",
    ),
    "hook of its gradient": (
        lambda m: m.hidden.weight.register_post_accumulate_grad_hook(lambda p: None),
        "the hooks of hidden.weight of Changing change",
    ),
    "hook of all modules": (hooked_everywhere, "the hooks of all modules change"),
    "hook of the optimizer": (
        lambda m: m.optimizers().optimizer.register_step_post_hook(halved),
        "the hooks of Adam change",
    ),
    "hook of all optimizers": (hooked_all_optimizers, "the hooks of all optimizers change"),
    "layer": (
        lambda m: setattr(m, "activation", torch.nn.Softsign()),
        "activation of Changing is another layer than where the training begins",
    ),
    "class of a layer": (of_another_class, "activation of Changing is another layer"),
    "order of layers": (reordered, "Changing has other layers, or in another order"),
    "method of a layer": (patched, "forward of hidden of Changing is another function"),
    "method of a class": (patched_class, "forward of Scaled is another function"),
    "static method of a class": (
        lambda m: setattr(Scaled, "factor", staticmethod(lambda: 0.5)),
        "factor of Scaled is another function",
    ),
    "method that a class inherited": (
        lambda m: setattr(Changing, "validation_step", lambda *_: None),
        "validation_step of Changing is another function",
    ),
    "method of the class itself": (
        lambda m: setattr(Scaled, "root", classmethod(lambda kind: 0.5)),
        "root of Scaled is another function",
    ),
    "function in a layer of the same class": (
        lambda m: setattr(m, "scaled", Scaled(0.5)),
        "scaled of Changing changes while the training runs",
    ),
    "attribute of a parameter": (
        lambda m: setattr(m.hidden.weight, "scale", 0.5),
        "scale of hidden.weight of Changing changes while the training runs",
    ),
    "attribute of a buffer": (
        lambda m: setattr(m.calls, "average", torch.ones(2)),
        "average of calls of Changing changes while the training runs",
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_made_otherwise_under_way_is_refused_by_name(tmp_path, monkeypatch, name):
    """Red before: a resumed training went on without it, and ended in other bits."""
    monkeypatch.setattr(Changing, "name", name)
    monkeypatch.setattr(Changing, "validation_step", Restless.validation_step)
    monkeypatch.delattr(Changing, "validation_step")
    for method in ("forward", "factor", "root"):
        monkeypatch.setattr(Scaled, method, vars(Scaled)[method])
    hooks_of_all = {
        torch.nn.modules.module: "_global_forward_hooks",
        torch_optimizer: "_global_optimizer_post_hooks",
    }
    for owner, kind in hooks_of_all.items():
        monkeypatch.setattr(owner, kind, collections.OrderedDict(vars(owner)[kind]))
    *_, said = fit(tmp_path, module=Changing, max_epochs=4, minutes=0)
    assert len(said) == bool(CHANGES[name][1])
    assert CHANGES[name][1] in "".join(said)


class Rehooked(Restless):
    """Takes its hook away and registers it again, as one does for each validation."""

    def on_train_start(self):
        self.hidden.register_forward_hook(scaled)

    def on_train_epoch_end(self):
        self.hidden._forward_hooks.clear()
        self.hidden.register_forward_hook(scaled)


class Moves(Restless):
    """Exchanges what stays the same in what it says."""

    def on_fit_start(self):
        self.activation = torch.nn.Tanh()

    def forward(self, inputs):
        return super().forward(self.activation(inputs))

    def on_train_epoch_end(self):
        self.activation = torch.nn.Tanh()


class HookedAtStart(Restless):
    """Has a hook before the first epoch begins, as any process that trains it."""

    def on_fit_start(self):
        self.hidden.register_forward_hook(lambda module, inputs, output: 0.5 * output)


@pytest.mark.parametrize("module", [HookedAtStart, Rehooked, Moves])
def test_what_each_process_makes_or_is_like_it_is_no_reason(tmp_path, module):
    options = {"minutes": 0, "max_epochs": 3}
    assert_resumed(tmp_path, [5], kills=[8], every_batches=1000, module=module, **options)


SWITCHES = {
    "dtype": (torch.set_default_dtype, torch.float64, torch.float32),
    "denormals": (torch.set_flush_denormal, True, False),
    "products": (torch.set_float32_matmul_precision, "medium", "highest"),
    "algorithms": (torch.use_deterministic_algorithms, True, False),
    "library": (lambda is_on: setattr(torch.backends.mkldnn, "enabled", is_on), False, True),
    "attention": (torch.backends.mha.set_fastpath_enabled, False, True),
    "attention of cuDNN": (torch.backends.cuda.enable_cudnn_sdp, False, True),
    "sums of products": (
        lambda is_on: setattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", is_on),
        *(True, False),
    ),
}


class Switching(Restless):
    name = "dtype"

    def on_train_epoch_end(self):
        if self.current_epoch == 0:
            SWITCHES[self.name][0](SWITCHES[self.name][1])


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_of_torch_that_is_set_under_way_is_refused(tmp_path, monkeypatch, name):
    """Red before: a resumed training began with the switch as it had been."""
    monkeypatch.setattr(Switching, "name", name)
    change, _, before = SWITCHES[name]
    try:
        *_, said = fit(tmp_path, module=Switching, max_epochs=3, minutes=0)
    finally:
        change(before)
    assert len(said) == 1
    assert "of torch changes while the training runs, and no checkpoint holds it" in said[0]


class Dilates(Restless):
    """Looks further from its second epoch on: no number of torch's, but a pair of them."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, inputs):
        return super().forward(self.convolution(inputs[:, None]).flatten(1))

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        if self.current_epoch == 1:
            self.convolution.padding, self.convolution.dilation = (2,), (2,)


def test_numbers_of_a_layer_that_change_are_put_back(tmp_path):
    """Red before: a resumed training went on with those that it began with."""
    options = {"minutes": 0, "max_epochs": 4, "module": Dilates}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=1000, **options)


SPACE, CHOSEN, LAST = types.SimpleNamespace(scale=1.0), set(), collections.deque([1.0])
PAIR, FOUND = ("scale", 1.0), None
TABLE = {"scale": 1.0}


class Reaching(Restless):
    """Reaches globals of its file in a step, of which one changes where an epoch ends."""

    name = "SPACE"

    def training_step(self, batch, batch_idx):
        scale = SPACE.scale * len(CHOSEN) * LAST[0] * PAIR[1] * TABLE["scale"]
        found = 0.0 if FOUND is None else FOUND.scale
        return super().training_step(batch, batch_idx) * (1 + scale + found)

    def on_train_epoch_end(self):
        if self.current_epoch == 0:
            REACHED[self.name]()


def put(name, value):
    globals()[name] = value


REACHED = {
    "SPACE": lambda: setattr(SPACE, "scale", 0.5),
    "CHOSEN": lambda: CHOSEN.add("first"),
    "LAST": lambda: LAST.append(LAST.popleft() / 2),
    "PAIR": lambda: put("PAIR", ("scale", 0.5)),
    "FOUND": lambda: put("FOUND", types.SimpleNamespace(scale=0.5)),
    "TABLE": lambda: put("TABLE", {"scale": 0.5}),
}


@pytest.mark.parametrize("name", REACHED)
def test_what_a_step_reaches_and_is_exchanged_under_way_is_refused(tmp_path, monkeypatch, name):
    """Red before: only what an object keeps that stays itself was looked at, and not all kinds."""
    monkeypatch.setattr(Reaching, "name", name)
    for known, value in (
        ("SPACE", types.SimpleNamespace(scale=1.0)),
        ("CHOSEN", {"none"}),
        ("LAST", collections.deque([1.0])),
        ("PAIR", ("scale", 1.0)),
        ("FOUND", None),
        ("TABLE", {"scale": 1.0}),
    ):
        monkeypatch.setitem(globals(), known, value)
    *_, said = fit(tmp_path, module=Reaching, max_epochs=3, minutes=0)
    assert len(said) == 1
    assert "while the training runs, and no checkpoint holds it" in said[0]


def test_a_scripted_layer_is_looked_at():
    """Red before: the training failed with KeyError: 0, where a plain Trainer trains it."""

    def look(*layers):
        module = pl.LightningModule()
        module.inner = torch.jit.script(torch.nn.Sequential(*layers))
        trainer = types.SimpleNamespace(lightning_module=module, optimizers=[], callbacks=[])
        return Structure(trainer)

    of_two = look(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert not list(of_two.changed(look(torch.nn.Linear(2, 2), torch.nn.ReLU())))
    (said,) = [s for s in look(torch.nn.Linear(2, 2)).changed(of_two) if "other layers" in s]
    assert said.startswith("inner of LightningModule has other layers")


def test_what_torch_compile_puts_around_a_function_is_no_other_function():
    """Red before: it wraps `_init_group` of optimizers; no compiled training had a checkpoint."""
    assert code_of(torch.compiler.disable(scaled)) == code_of(scaled)
    assert code_of(torch.compiler.disable(scaled)) != code_of(scaled_if_linear)
