"""Functions stand for what they do: which code it is, whatever object holds it."""

import functools
import types
from typing import TypeAlias

from twinrun.checkpoint.unsaved_state import OURS
from twinrun.checkpoint.users_code import is_users

Code: TypeAlias = object
"""It equals that of another function with the same lines."""

A_LIBRARYS = "of a library"
# What these register and patch, they do in a resumed process, too, wherever they need it.
_LIBRARIES = (*OURS[1:], "lightning_fabric.", "torchmetrics.", "torch._", "torch.distributed.")
_LIBRARIES += ("torch.nn.modules.lazy", "torch.nn.parallel.")


def code_of(value: object) -> Code:
    """Stand for something that can be called: a function, a method, a partial, an object."""
    # Where it first compiles, torch wraps methods of optimizers so that they are not compiled.
    value = getattr(value, "_torchdynamo_orig_callable", value)
    if isinstance(value, functools.partial):
        code = code_of(value.func)
        return code if code == A_LIBRARYS else ("partial", code)
    if isinstance(value, types.MethodType):
        code = code_of(value.__func__)
        return code if code == A_LIBRARYS else (type(value.__self__), code)
    named = value if isinstance(value, types.FunctionType | type) else type(value)
    module = str(named.__module__)
    is_twinruns = module.startswith("twinrun.") and not is_users(module)
    if is_twinruns or f"{module}.".startswith(_LIBRARIES):
        return A_LIBRARYS
    if isinstance(value, types.FunctionType):
        return value.__code__
    return value if isinstance(value, type | types.BuiltinFunctionType) else type(value)
