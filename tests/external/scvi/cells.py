"""Synthetic cells, registered as the package asks before it trains."""

from scvi.data import AnnDataManager, synthetic_iid
from scvi.model import SCVI


def registered(batch_size: int = 64) -> AnnDataManager:
    cells = synthetic_iid(batch_size=batch_size)
    SCVI.setup_anndata(cells, batch_key="batch", labels_key="labels")
    return SCVI(cells).adata_manager
