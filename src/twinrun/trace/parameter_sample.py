"""A fixed sample of the elements of all parameters, from which the growth of a difference is drawn.

SAMPLE_SIZE elements are spread evenly over all parameters where the training starts. Of a
parameter that has been replaced by one of another shape since, or is gone, the sample is NaN.
"""

from collections.abc import Mapping

import numpy as np
import torch

from twinrun.trace.device_hash import is_on_gpu
from twinrun.trace.fingerprints import DENSE, is_plain
from twinrun.trace.pending import Pending
from twinrun.trace.step_fingerprints import elements_of

SAMPLE_SIZE = 1024
NARROW = (torch.float32, torch.bfloat16, torch.float16)  # types of which float32 holds every value


class ParameterSample:
    """Looks at the same elements at every step."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Choose the elements.

        Args:
            parameters: those at the start, by name.
        """
        is_narrow = all(p.dtype in NARROW for p in parameters.values())
        self._dtype = torch.float32 if is_narrow else torch.float64
        self._chosen: dict[str, tuple[torch.Size, torch.Tensor]] = {}
        self._inside: dict[str, np.ndarray] = {}
        total = sum(p.numel() for p in parameters.values())
        chosen = np.linspace(0, max(total - 1, 0), min(SAMPLE_SIZE, total)).astype(np.int64)
        chosen, start = np.unique(chosen), 0
        for name, parameter in parameters.items():
            size = parameter.numel()
            inside = chosen[(chosen >= start) & (chosen < start + size)] - start
            index = torch.from_numpy(inside).to(parameter.device)
            self._chosen[name] = parameter.shape, index
            self._inside[name] = inside
            start += size

    def of(self, parameters: Mapping[str, torch.Tensor]) -> np.ndarray | Pending[np.ndarray]:
        """Return the elements as they are now; at most SAMPLE_SIZE, float32 or float64.

        Those of parameters on a GPU are pending.
        """
        if (elements := self._at_hand(parameters)) is not None:
            return elements
        parts = []
        for name, (shape, index) in self._chosen.items():
            if not len(index):
                continue
            now = parameters.get(name)
            if now is None or now.shape != shape:
                parts.append(torch.full(index.shape, torch.nan, dtype=self._dtype))
                continue
            flat = now.detach().reshape(-1)
            if len(index) < len(flat) or index.device != now.device:  # else all of them, in order
                flat = flat[index.to(now.device)]
            parts.append(flat.to(index.device, self._dtype))
        devices = {part.device for part in parts}
        parts = parts if len(devices) == 1 else [part.cpu() for part in parts]
        return elements_of(torch.cat(parts)) if parts else np.empty(0)

    def _at_hand(self, parameters: Mapping[str, torch.Tensor]) -> np.ndarray | None:
        """Return them where all parameters are plain ones on a CPU, None otherwise.

        By NumPy, in a sixth of the time: a step of a small network has many parameters.
        """
        found = []
        for name, (shape, _) in self._chosen.items():
            now = parameters.get(name)
            if now is None or type(now) not in DENSE or not is_plain(now):
                return None
            if not now.is_cpu or is_on_gpu(now):
                return None
            if now.dtype is not self._dtype or now.shape != shape:
                return None
            found.append(now.numpy(force=True).reshape(-1)[self._inside[name]])
        return np.concatenate(found) if found else None
