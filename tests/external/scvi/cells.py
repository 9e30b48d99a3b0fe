"""The package's synthetic cells, registered as its models do it."""

from scvi.data import AnnDataManager, synthetic_iid
from scvi.model import SCVI


def manager() -> AnnDataManager:
    cells = synthetic_iid()
    SCVI.setup_anndata(cells, batch_key="batch")
    return SCVI(cells).adata_manager
