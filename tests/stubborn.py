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
