"""What each setting of a variant makes of each module: equal, in parts, refused or another.

`python tests/faithfulness/table.py` writes docs/faithfulness.md from these lists; the tests beside
it hold every cell to them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # as a workload finds the modules
import ordinary_modules

DOCS = Path(__file__).parents[2] / "docs/faithfulness.md"
NAMES = [module.__name__ for module in ordinary_modules.MODULES]

# The settings by their column's name. The slow ones take minutes for all modules: see `is_sampled`.
SETTINGS = {
    "compile: step": {"compile": "step"},
    "layout: channels_last": {"layout": "channels_last"},
    "optimizer: foreach": {"optimizer": "foreach"},
    "optimizer: fused": {"optimizer": "fused"},
    "cuda_graph": {"cuda_graph": True},
    "threads": {"threads": 1},
    "accumulate": {"accumulate": 2},
}
SLOW_SETTINGS = {
    "compile: module": {"compile": "module"},
    "compile: step, channels_last": {"compile": "step", "layout": "channels_last"},
    "compile: step, features_first": {"compile": "step", "layout": "features_first"},
    "compile: module, fused": {"compile": "module", "optimizer": "fused"},
    "compile: step, cuda_graph": {"compile": "step", "cuda_graph": True},
    "data_workers": {"data_workers": 2},
    "persistent_workers": {"data_workers": 2, "persistent_workers": True},
}

# Why a step that was to be in one piece is done in parts, as the run records it.
IN_PARTS = {
    "ClippedByTrainer": "Trainer(gradient_clip_val=0.05)",
    "ClippedByHook": "configure_gradient_clipping of ClippedByHook",
    "ClippedBeforeStep": "on_before_optimizer_step of ClippedBeforeStep",
    "ClippedByCallback": "on_before_optimizer_step of Clip",
    "OneCycle": "a change of momentum of SGD",
    "WarmUp": "optimizer_step of WarmUp",
    "AverageByOptimizerHook": "a step hook of Adam",
    "AverageBeforeZeroGrad": "on_before_zero_grad of AverageBeforeZeroGrad",
    "HookFromSecondEpoch": "a step hook of SGD",
    "StepsEverySecond": "optimizer_step of StepsEverySecond",
    "OwnBackward": "backward of OwnBackward",
    "AroundBackward": "on_before_backward of AroundBackward",
    "ParameterHook": "a hook of a parameter",
    "ChangingHeads": "other parameters get gradients than before",
    "ReadsBack": "what does not compile into one graph",
    "Lbfgs": "the update of LBFGS",
    "OwnOptimizer": "the update of Signed",
    "OutsideOptimizer": "a parameter that the optimizer does not hold",
}

# What is said where a setting is refused. Captured steps have no parts; the proof refuses those
# whose Python decides something at each step.
MANUAL = {"TwoOptimizers": "optimizes manually"}
UNSEEN = dict.fromkeys(
    ("SkippedBatches", "Annealed", "ByEpoch"), "does not compute what the plain step computes"
)
CAPTURED = {
    **{name: f"has no room for {why}" for name, why in IN_PARTS.items()},
    **MANUAL,
    "ReadsBack": "the log of 'number' is a float, which a replay cannot renew",
    **UNSEEN,
}
REFUSED = {
    "compile: step": MANUAL,
    "compile: step, channels_last": MANUAL,
    "compile: step, features_first": MANUAL,
    "optimizer: foreach": {"Lbfgs": "LBFGS has no foreach form"},
    "optimizer: fused": {
        "Lbfgs": "LBFGS has no fused form",
        "Plateau": "RMSprop has no fused form",
    },
    "compile: module, fused": {
        "Lbfgs": "LBFGS has no fused form",
        "Plateau": "RMSprop has no fused form",
    },
    "cuda_graph": {**CAPTURED, "CountsInUpdate": "has no room for the update of Adagrad"},
    "compile: step, cuda_graph": {
        **CAPTURED,
        "ReadsBack": "has no room for what does not compile into one graph",
    },
    "accumulate": {
        **MANUAL,
        "Lbfgs": "LBFGS computes the gradients of a step several times",
    },
}

# What a GPU alone has not.
REFUSED_ON_GPU = {
    "optimizer: fused": {
        "CountsInUpdate": "Adagrad has no fused form for parameters of torch.float64 on cuda"
    }
}

# Another computation by what the setting is. Of micro-batches: these modules do something with each
# of them. The study `matrix` measures how much that is.
STATISTICS = "its batch statistics are those of micro-batches"
EACH = "it does something at each micro-batch"
ANOTHER = {
    "accumulate": {
        "StepsEverySecond": EACH,
        "OwnBackward": EACH,
        "Dropout": "its random numbers are drawn for each micro-batch",
        "BatchNorm": STATISTICS,
        "Convolution": STATISTICS,
        "Buffers": EACH,
        "MadeInSetup": STATISTICS,
        "MadeInConfigureModel": STATISTICS,
        "UsesOutputs": EACH,
        "Annealed": EACH,
        "ReadsBack": "its loss is no mean over the samples",
    },
    # From torch, whoever sets it: the loader's generator gives each epoch a seed for its workers,
    # but none to workers that stay, so that the sampler's numbers are others.
    "persistent_workers": dict.fromkeys(
        NAMES, "torch shuffles the second epoch otherwise; equal to a loader with this option"
    ),
}


def expected(name: str, setting: str, accelerator: str = "cpu") -> tuple[str, str]:
    """Return what a setting makes of a module, and why: equal, in parts, refused or another."""
    changes = {**SETTINGS, **SLOW_SETTINGS}[setting]
    if accelerator == "gpu" and name in REFUSED_ON_GPU.get(setting, {}):
        return "refused", REFUSED_ON_GPU[setting][name]
    if name in REFUSED.get(setting, {}):
        return "refused", REFUSED[setting][name]
    if name in ANOTHER.get(setting, {}):
        return "another", ANOTHER[setting][name]
    if changes.get("compile") == "step" and name in IN_PARTS:
        return "in parts", IN_PARTS[name]
    return "equal", ""


def is_sampled(name: str, setting: str) -> bool:
    """Tell whether a cell of a slow setting is one of those that every change is tested with.

    They are a diagonal of the table: every module meets one slow setting, every slow setting meets
    five modules or six.
    """
    # Of the seven diagonals the one in which fewest are refused: those train nothing.
    place = NAMES.index(name) + 4
    return place % len(SLOW_SETTINGS) == [*SLOW_SETTINGS].index(setting)


def page() -> str:
    """Return the page: a table of all cells, and the reasons under it."""
    columns = [*SETTINGS, *SLOW_SETTINGS]
    notes: dict[tuple[str, str], int] = {}

    def cell(name: str, setting: str) -> str:
        kind, why = expected(name, setting)
        if not why:
            return kind
        number = notes.setdefault((kind, why), len(notes) + 1)
        return f"{kind} [{number}](faithfulness.md#reasons)"

    rows = [
        f"| {module.__doc__} | "
        + " | ".join(cell(module.__name__, setting) for setting in columns)
        + " |"
        for module in ordinary_modules.MODULES
    ]
    reasons = [f"{number}. {kind}: {why}" for (kind, why), number in notes.items()]
    return "\n".join(
        [
            HEAD,
            "| module | " + " | ".join(columns) + " |",
            "| --- " * (len(columns) + 1) + "|",
            *rows,
            "",
            "## Reasons",
            "",
            *reasons,
            "",
        ]
    )


HEAD = """# Settings that must not change a training

Each module below is trained by Lightning's Trainer alone, and by a variant with one setting.
Losses, logs, parameters, buffers and the optimizers' state are compared in float64.

- **equal**: to rounding. The relative L2 distance is below 1.5e-8, half of float64's digits (see
  `twinrun.acceleration.proof`).
- **in parts**: equal too. Only `training_step` is compiled; backward pass, hooks, clipping and
  update are called as always. The run records the reason (`proof.in_parts` in `run.json`).
- **refused**: the run says so, with the reason and what to do instead.
- **another**: another training by what the setting is, which the study `matrix` measures.
  `accumulate` cuts mini-batches, and the module does something with each micro-batch.
  `persistent_workers` is an option of torch's loader, under which torch draws one random number
  fewer before each epoch but the first: that training is compared with the plain Trainer's whose
  loader has this option, too, and is equal to it.

`cuda_graph` is tested on a CPU, with a stand-in that records operations and does them again;
`pytest -m gpu` captures it for real, and holds `foreach`, `fused` and some compiled cells to this
table on a GPU, where Adagrad alone has no `fused` form.
Compiled steps are traced without generated code, but for some in the slow tests. `precision` and
`devices` are no columns: they change what is computed, and docs/method.md says how.

`pytest` tests the columns up to `accumulate`. `pytest -m slow`, and CI at every change, adds a
diagonal of the others, in which each module meets one setting and each setting five or six modules;
`pytest -m exhaustive` adds the rest.

This page is written by `python tests/faithfulness/table.py`.
"""


if __name__ == "__main__":
    DOCS.write_text(page(), encoding="utf-8")
