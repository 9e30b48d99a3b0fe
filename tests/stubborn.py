"""A workload that does not do what its variant says, for tests of what is said of it."""

import torch
from small import Points, Small


class DecidesItself(Small):
    """Takes torch's switches back, where they have been set for it."""

    def on_fit_start(self):
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(1)


class OwnLoader(Points):
    """Takes the variant's workers, and does not use them."""

    def _loader(self, **options):
        self.data_workers = 0
        return super()._loader(**options)


class OwnStep(torch.optim.SGD):
    """An update of its own, which does not read how the groups want it."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter -= group["lr"] * parameter.grad
        return loss


class UpdatesItself(Small):
    def configure_optimizers(self):
        return OwnStep(self.parameters(), lr=0.1)


class Adaptive(Small):
    """Clips its gradients, which torch does by operations on lists."""

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

    def configure_gradient_clipping(self, optimizer, **_):
        torch.nn.utils.clip_grad_norm_(self.parameters(), 0.1)


class MakesAnew(Small):
    """Makes its optimizer again under way, as some do at the start of an epoch."""

    at_epoch = 0

    def on_train_epoch_start(self):
        if self.current_epoch == self.at_epoch:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            self.trainer.strategy.optimizers = [optimizer]


class MakesAnewLate(MakesAnew):
    at_epoch = 1


class TakesTheForm(Small):
    """Sets the groups back before the first step."""

    def on_train_start(self):
        for group in self.optimizers(use_pl_optimizer=False).param_groups:
            group["foreach"] = group["fused"] = False


class TwoOptimizers(Small):
    """One of torch's, and one with an update of its own."""

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        optimizers = self.optimizers()
        for optimizer in optimizers:
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in optimizers:
            optimizer.step()

    def configure_optimizers(self):
        return [
            torch.optim.SGD(self.hidden.parameters(), lr=0.1),
            HasForeach(self.output.parameters(), lr=0.1),
        ]


class HasForeach(OwnStep):
    """Takes the key, and does nothing with it."""


class Images(Small):
    """Looks at its points as images, by a convolution or without one."""

    convolves = True

    def __init__(self, width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.picture = torch.nn.Conv2d(4, 4, 1) if self.convolves else torch.nn.Identity()

    def forward(self, inputs):
        return super().forward(self.picture(inputs[:, :, None, None]).flatten(1))


class StoresOtherwise(Images):
    """Lays its weights out anew before the first step."""

    def on_train_start(self):
        self.picture.to(memory_format=torch.contiguous_format)
