"""A training step in one piece: forward pass, backward pass and update as one function.

It is compiled into one graph, captured as one launch, or both. Gradients are copied into tensors
that stay, where they can be seen afterwards. The update is torch's own code for the optimizer,
called on a double of it that shares its state and reads its rate from a tensor: a number would be
compiled or captured as it is, and a schedule would be without effect. The rate is float64, as it is
where the plain update computes with Python numbers, and so is the count of steps (`exact_counts`).
"""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import cast

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from twinrun.acceleration.compilation import Compiled
from twinrun.acceleration.cuda_graph import CudaGraph
from twinrun.acceleration.exact_counts import ExactCounts
from twinrun.acceleration.recorded_parts import RecordedParts
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

# Optimizers that take a rate that is a tensor without reading it back, which no capture allows.
# Others are captured anew for another rate.
TENSOR_RATE = (torch.optim.Adam, torch.optim.AdamW)

Step = Callable[[object, int], object]
# The arguments that name what is logged, in the order in which they may be given.
LOG_ARGUMENTS = {"log": ("name", "value"), "log_dict": ("dictionary",)}
Logged = list[tuple[str, tuple[object, ...], dict[str, object]]]
"""Method, arguments and options of each log of a step."""


class OtherGradients(Exception):  # noqa: N818  tells what happened, no error of anybody's
    """Raised where a step gives gradients to other parameters than it did before."""


class WholeStep:
    """Does steps that train a fixed set of parameters."""

    def __init__(
        self,
        training_step: Step,
        optimizer: torch.optim.Optimizer,
        used: Sequence[bool],
        variant: Variant,
        logged: Logged,
        module: torch.nn.Module,
    ) -> None:
        """Make it ready; it compiles or captures when it is called.

        Args:
            training_step: the module's.
            optimizer: after its first plain step, so that its state is there.
            used: for each of its parameters, whether it gets a gradient.
            variant: its settings.
            logged: where `training_step` leaves what it logs.
            module: whose step it is.
        """
        self.optimizer = optimizer
        self.parameters = updated_by(optimizer)
        # Weight decay moves a parameter whose gradient is 0, but none that has no gradient.
        trained = [p for p, is_used in zip(self.parameters, used, strict=True) if is_used]
        self._unused = [p for p, is_used in zip(self.parameters, used, strict=True) if not is_used]
        # Tensors that stay, since a replay writes to the addresses that its capture saw.
        self._kept = [(p, torch.zeros_like(p) if p.grad is None else p.grad) for p in trained]
        self._update = Update(optimizer, trained, variant)
        self._states = len(optimizer.state)
        self._logged = logged
        self.compiled: Compiled | None = None
        self._graph: CudaGraph[tuple[object, Logged]] | None = None
        if variant.compile == "module":
            training_step = self.compiled = compiled(training_step, variant)
        self._step = self._in_one_piece(training_step, used, is_mixed="mixed" in variant.precision)
        if variant.compile == "step":
            self._step = self.compiled = compiled(self._step, variant, fullgraph=True)
        if variant.cuda_graph:
            parts = RecordedParts(module, optimizer)
            self._graph = CudaGraph(self._with_logs, self._update.baked, parts.changes)

    @property
    def recordings(self) -> list[object]:
        """What is replayed, an object for each recorded step."""
        return [] if self._graph is None else self._graph.recordings

    def give_back(self) -> None:
        """Leave the optimizer as plain updates have it."""
        self._update.give_back()

    def is_of(self, optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> bool:
        """Tell whether the optimizer still has these parameters, its groups and its state."""
        return (
            optimizer is self.optimizer
            # Rates are read from the groups of this list.
            and optimizer.param_groups is self._update.groups
            # `load_state_dict` gives an optimizer a new dict for its state.
            and optimizer.state is self._update.double.state
            and self._update.counts.are_of(optimizer.state)
            and len(parameters) == len(self.parameters)
            and all([a is b for a, b in zip(parameters, self.parameters, strict=True)])  # noqa: C419
        )

    @property
    def lacks_state(self) -> bool:
        """Whether some of the optimizer's state is gone, which a plain step makes anew."""
        return len(self.optimizer.state) < self._states

    def __call__(self, batch: object, index: int) -> object:
        """Do a step and return what `training_step` returns, without its graph.

        Raises:
            OtherGradients: before anything is done, if other parameters get gradients.
            CannotCompile: likewise, if it does not compile into one graph.
            TwinrunError: if what it does cannot be captured.
        """
        self._update.read_rates()
        for parameter, gradient in self._kept:
            if parameter.grad is not gradient:  # `zero_grad` takes it away
                parameter.grad = gradient
        # A plain step leaves None there, and tracing tells None from a gradient of zeros.
        for parameter in self._unused:
            parameter.grad = None
        with self._update.counts.exact():
            if self._graph is None:
                result = self._step(batch, index)
            else:
                result, logged = self._graph(batch, index)
                self._logged.extend(logged)
        if result is None:  # Lightning skips such a batch, after `zero_grad`
            for parameter, _ in self._kept:
                parameter.grad = None
        # Schedulers warn where they step before the optimizer does, and look for this.
        vars(self.optimizer)["_opt_called"] = True
        return result

    def _in_one_piece(self, training_step: Step, used: Sequence[bool], *, is_mixed: bool) -> Step:
        """Return the function that is compiled or captured."""
        parameters = [p for p in self.parameters if p.requires_grad]
        expected = [u for u, p in zip(used, self.parameters, strict=True) if p.requires_grad]
        update = self._update
        device_type = self.parameters[0].device.type

        def backward_and_update(loss: torch.Tensor) -> None:
            # Unlike `backward` it accumulates nothing, so that no gradient need be zeroed.
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            if [gradient is not None for gradient in gradients] != expected:
                raise OtherGradients
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if parameter.grad is not None and gradient is not None:
                        parameter.grad.copy_(gradient)
                update.in_one_piece()

        def step(batch: object, index: int) -> object:
            result = training_step(batch, index)
            loss = returned_loss(result)
            if loss is None:
                return None
            if is_mixed:  # in Lightning only `training_step` is under autocast
                with torch.autocast(device_type, enabled=False):
                    backward_and_update(loss)
            else:
                backward_and_update(loss)
            return tree_map_only(torch.Tensor, torch.Tensor.detach, result)

        return step

    def _with_logs(self, batch: object, index: int) -> tuple[object, Logged]:
        """Do the step that is captured, and return what it logs, too: a replay logs nothing."""
        result = self._step(batch, index)
        logged = list(self._logged)
        self._logged.clear()
        for method, arguments, options in logged:
            named = dict(zip(LOG_ARGUMENTS[method], arguments, strict=False)) | options
            several = named.get("dictionary")
            values = several if isinstance(several, Mapping) else {named["name"]: named["value"]}
            for name, value in values.items():
                _check_tensor(value, f"the log of {name!r}")
        for value in tree_leaves(result):
            _check_tensor(value, "a result of training_step")
        return result, logged


class Update:
    """An optimizer's update, on a double that reads its rates from tensors."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        trained: Sequence[torch.Tensor],
        variant: Variant,
    ) -> None:
        """Make the double; the optimizer itself stays what it is, but for its count of steps."""
        # Without the wrapper that calls step hooks; there are none (see `between`).
        # Unwrapped it lacks torch's switch of gradients, too: callers are under `no_grad`.
        self.step = inspect.unwrap(type(optimizer).step)
        self.groups = optimizer.param_groups
        # `__init__` would make a new state.
        self.double = object.__new__(type(optimizer))
        vars(self.double).update(vars(optimizer))
        vars(self.double).pop("step", None)  # a scheduler's wrapper
        self.double.param_groups = []
        for group in optimizer.param_groups:
            first = group["params"][0]
            double = dict(group)
            if on_gpu(first) and "capturable" in group:
                # Else Adam computes with its count as a Python number, which a capture keeps.
                double["capturable"] = True
            elif not on_gpu(first):
                double["foreach"] = False  # does not take a rate that is a tensor
            if variant.compile == "step" or (type(optimizer) in TENSOR_RATE and on_gpu(first)):
                double["lr"] = torch.tensor(
                    group["lr"],
                    dtype=torch.float64,
                    device=first.device if double.get("capturable") else None,
                )
            self.double.param_groups.append(double)
        self.counts = ExactCounts(optimizer)
        for parameter in trained:
            state = optimizer.state[parameter]
            count = state.get("step")
            if isinstance(count, torch.Tensor):
                if on_gpu(parameter):
                    # A plain step leaves it on the CPU, where `capturable` forms refuse it, even
                    # those that do not compute with it.
                    state["step"] = count = count.to(device=parameter.device)
                self.counts.add(parameter, state, count)

    def in_one_piece(self) -> None:
        """Do the update, within `counts.exact`."""
        self.counts.read()
        self.step(self.double)
        self.counts.write_back()

    def give_back(self) -> None:
        """Have plain updates find their counts where these keep them, and wait for no GPU."""
        for group in self.groups:
            if not (group.get("capturable") or group.get("fused")):
                for parameter in group["params"]:
                    state = self.double.state.get(parameter, {})
                    if isinstance(count := state.get("step"), torch.Tensor):
                        state["step"] = count.cpu()

    def read_rates(self) -> None:
        """Take over the rates, which schedulers and hooks set in the optimizer itself."""
        for group, double in zip(self.groups, self.double.param_groups, strict=True):
            if isinstance(double["lr"], torch.Tensor):
                double["lr"].fill_(group["lr"])
            else:
                double["lr"] = group["lr"]

    def baked(self) -> Hashable:
        """Return the rates that a capture takes as they are: those that are not on its device."""
        return tuple(
            group["lr"]
            for group, double in zip(self.groups, self.double.param_groups, strict=True)
            # What a capture reads of a tensor on the CPU is part of its launches.
            if getattr(double["lr"], "device", None) != group["params"][0].device
        )


def compiled(function: Step, variant: Variant, *, fullgraph: bool = False) -> Compiled:
    """Compile a plain function as a variant's settings ask for."""
    return Compiled(
        function, features_first=variant.layout == "features_first", fullgraph=fullgraph
    )


def updated_by(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """List the parameters that an optimizer updates."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def on_gpu(parameter: torch.Tensor) -> bool:
    """Tell whether a parameter is where steps can be captured."""
    return parameter.is_cuda


def returned_loss(result: object) -> torch.Tensor | None:
    """Return the loss in what a `training_step` returns; None for a batch that it skips."""
    return cast(torch.Tensor | None, result["loss"] if isinstance(result, Mapping) else result)


def _check_tensor(value: object, what: str) -> None:
    if value is not None and not isinstance(value, torch.Tensor):
        raise TwinrunError(
            f"cuda_graph: {what} is a {type(value).__name__}, which a replay cannot renew; make it "
            f"a tensor, or leave cuda_graph out"
        )
