"""A graph classifier of torch_geometric's layers. Its data module is the package's own."""

import pytorch_lightning as pl
import torch
from torch_geometric.nn import GCNConv, global_mean_pool


class GraphClassifier(pl.LightningModule):
    def __init__(self, channels: int = 16, width: int = 32, classes: int = 4, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.first = GCNConv(channels, width)
        self.second = GCNConv(width, width)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, graphs):
        hidden = self.first(graphs.x, graphs.edge_index).relu()
        hidden = self.second(hidden, graphs.edge_index).relu()
        return self.head(global_mean_pool(hidden, graphs.batch))

    def training_step(self, graphs, index):
        loss = torch.nn.functional.cross_entropy(self(graphs), graphs.y)
        self.log("train_loss", loss, batch_size=graphs.num_graphs)
        return loss

    def test_step(self, graphs, index):
        right = self(graphs).argmax(1) == graphs.y
        self.log("test_accuracy", right.float().mean(), batch_size=graphs.num_graphs)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
