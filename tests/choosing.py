"""A module for which torch's compiler does not choose the same in every process.

Nothing of what it chooses is in the key by which torch looks for compiled code: as where the
compiler tries several forms of a kernel, and takes the one that was fastest.
"""

from pathlib import Path

import torch
from small import Small

FACTOR = 0.3


class Choosing(Small):
    """Each process that compiles computes with a factor that is a bit larger than the last one's.

    Those of the proofs count, too.
    """

    def __init__(self, width=8, learning_rate=0.05, tally=""):
        super().__init__(width, learning_rate)
        self.save_hyperparameters()

    def forward(self, inputs):
        hidden = self.hidden(inputs)
        return self.output(hidden.relu() + hidden * FACTOR)

    def on_fit_start(self):
        from torch._inductor.graph import GraphLowering

        if hasattr(GraphLowering, "own_call"):
            return
        GraphLowering.own_call = own = GraphLowering.call_function
        tally = Path(self.hparams.tally)
        before = len(tally.read_text()) if tally.exists() else 0
        chosen = FACTOR * (1 + before * 2**-20)
        noted = []

        # Called where a graph is made into code, and not where its code is found in the cache.
        def call_as_chosen(graph, target, arguments, options):
            if not noted:
                with tally.open("a") as file:
                    noted.append(file.write("x"))
            if target is torch.ops.aten.mul.Tensor and FACTOR in [*arguments[1:]]:
                arguments = (arguments[0], chosen)
            return own(graph, target, arguments, options)

        GraphLowering.call_function = call_as_chosen
