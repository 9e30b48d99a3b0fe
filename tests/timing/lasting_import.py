"""A module of a user's that sets a switch when it is imported."""

import torch
from lasting_steps import Lasting, Sorted

torch.use_deterministic_algorithms(True)

__all__ = ["Lasting", "Sorted"]
