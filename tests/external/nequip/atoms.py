"""What `nequip-train` does before it makes a network."""

from nequip.train import NequIPLightningModule as Module  # noqa: F401
from nequip.utils.global_state import set_global_state

set_global_state()
