"""Learn to draw a spiral: two networks against each other, an optimizer each, stepped by hand."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional


class SpiralDrawer(pl.LightningModule):
    def __init__(self, width: int = 16, noise: int = 4, learning_rate: float = 0.001):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.artist = nn.Sequential(nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, 2))
        self.critic = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 1))

    def training_step(self, batch, batch_idx):
        points, _ = batch
        of_artist, of_critic = self.optimizers()
        drawn = self.artist(torch.randn(len(points), self.hparams.noise, device=self.device))
        real, fake = self.critic(points), self.critic(drawn.detach())
        judged = functional.softplus(-real).mean() + functional.softplus(fake).mean()
        self._update(of_critic, judged)
        convincing = functional.softplus(-self.critic(drawn)).mean()
        self._update(of_artist, convincing)
        self.log_dict({"critic_loss": judged, "artist_loss": convincing})
        return judged.detach() + convincing.detach()

    def _update(self, optimizer, loss):
        self.toggle_optimizer(optimizer)
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.untoggle_optimizer(optimizer)

    def validation_step(self, batch, batch_idx):
        self.log("val_score", self.critic(batch[0]).mean())

    def predict_step(self, batch, batch_idx):
        return {"score": self.critic(batch[0]).squeeze(1)}

    def configure_optimizers(self):
        networks = (self.artist, self.critic)
        return [torch.optim.Adam(n.parameters(), lr=self.hparams.learning_rate) for n in networks]
