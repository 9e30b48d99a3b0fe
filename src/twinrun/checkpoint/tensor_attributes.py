"""Attributes of the parameters and buffers of a module: the flag, and what somebody puts there.

A penalty may keep with each parameter where that began (`parameter.start`).
"""

import torch

FLAG = "requires_grad"


def tensors_of(part: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a part's own parameters and buffers, by name: of both the flag may change."""
    return dict([*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)])


def on_tensors(part: torch.nn.Module) -> dict[str, object]:
    """Return the attributes of a part's own tensors, each by the tensor's name, a dot and its own.

    Those that begin with an underscore are a library's.
    """
    found = dict[str, object]()
    for name, tensor in tensors_of(part).items():
        found[f"{name}.{FLAG}"] = tensor.requires_grad
        put = {key: value for key, value in vars(tensor).items() if not key.startswith("_")}
        found |= {f"{name}.{key}": value for key, value in put.items()}
    return found


def of_tensor(part: torch.nn.Module, name: str) -> tuple[torch.Tensor | None, str]:
    """Return the tensor of a name of `on_tensors`, None of any other name, and its attribute."""
    tensor_name, _, attribute = name.partition(".")
    return (tensors_of(part).get(tensor_name) if attribute else None), attribute
