"""A stand-in for CUDA graphs on a CPU: records the operations of a step and does them again.

As on a GPU a replay runs no Python: numbers are what they were when recorded, and every tensor
keeps its place in memory. Random operations draw anew. Reading a value back fails while recording.
Unlike there, recording does the step; so the first replay, which would do it, does nothing.
"""

import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS_BACK = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default}


class _Recording(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = []

    @classmethod
    def ignore_compile_internals(cls):
        # A capture is none of torch's modes: compiled code runs in it as it does elsewhere. Under
        # any other mode torch 2.13 runs nothing compiled, and a whole graph is an error.
        return True

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        options = options or {}
        if operation in READS_BACK:
            raise RuntimeError("operation not permitted when stream is capturing")
        result = operation(*arguments, **options)
        self.operations.append((operation, arguments, options, result))
        return result


class Replays:
    """Counts what was recorded and replayed."""

    def __init__(self):
        self.recorded = self.replayed = 0

    def record(self, step):
        """Stand for `cuda_graph.record`."""
        self.recorded += 1
        with _Recording() as recording:
            result = step()
        is_done = True

        def replay():
            nonlocal is_done
            self.replayed += 1
            if not is_done:
                with torch.no_grad():
                    for operation in recording.operations:
                        _again(*operation)
            is_done = False

        return replay, result


def _again(operation, arguments, options, result):
    aliases = [returned.alias_info for returned in operation._schema.returns]
    if any(alias is not None and not alias.is_write for alias in aliases):
        return  # a view: its memory is that of what has been done again
    found = operation(*arguments, **options)
    if any(alias is not None for alias in aliases):
        return  # in place
    for mine, new in zip(tree_leaves(result), tree_leaves(found), strict=True):
        if isinstance(mine, torch.Tensor):
            mine.copy_(new)


def put_in_place(monkeypatch):
    """Have this machine's CPU take part where a CUDA device is needed."""
    replays = Replays()
    monkeypatch.setattr("twinrun.acceleration.cuda_graph.record", replays.record)
    monkeypatch.setattr("twinrun.acceleration.cuda_graph.aside", lambda step: step())
    monkeypatch.setattr("twinrun.acceleration.steps.captures_on", lambda variant: True)
    let_take_part(monkeypatch, "cpu")
    return replays


def let_take_part(monkeypatch, device):
    """Have Twinrun and torch's capturable updates take a type of device for a GPU."""
    monkeypatch.setattr(
        "twinrun.acceleration.whole_step.on_gpu", lambda parameter: parameter.device.type == device
    )
    for name in ("adam", "adamax", "radam", "rmsprop", "adadelta", "rprop"):
        # torch.optim.adam is the function, the module of that name is found here only.
        module = sys.modules[f"torch.optim.{name}"]
        monkeypatch.setattr(module, "_get_capturable_supported_devices", lambda *_, **__: [device])
