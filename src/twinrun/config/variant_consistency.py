"""Which settings of one variant exclude each other, and which of them would change nothing."""

from collections.abc import Iterator, Mapping

from twinrun.config.definitions import Section, Variant
from twinrun.wording import shown

COMPARING = ("devices", "acceleration", "parallel")  # studies of variants beside the first one
# Settings of several workers, and what they are by default.
ALONE = {"sharding": "canonical", "scale_batch_with_devices": False, "batch_norm": "joined"}


def impossible(variant: Variant) -> Iterator[str]:
    """Find settings of a variant that exclude each other."""
    if variant.persistent_workers and not variant.data_workers:
        yield "persistent_workers: true needs data_workers of 1 or more"
    if variant.accumulate > 1 and variant.devices > 1:
        yield f"accumulate: {variant.accumulate} needs devices: 1, not {variant.devices}"
    if variant.devices % variant.nodes:
        yield f"nodes: {variant.nodes} machines cannot evenly share {variant.devices} workers"
    # What `auto` is, is decided later.
    is_elsewhere = variant.accelerator == "gpu" or variant.nodes > 1
    if variant.stop != "none" and variant.devices > 1 and is_elsewhere:
        yield (
            f"stop: {variant.stop} needs devices: 1 or the CPUs of one machine, where several "
            f"workers can be resumed"
        )
    if variant.layout == "features_first" and variant.compile == "none":
        yield "layout: features_first needs `compile: step` or `module`"
    if variant.compile == "step" and variant.optimizer != "default":
        yield "optimizer: `compile: step` fuses it by itself, leave it out"
    if variant.compile != "step" and not variant.cuda_graph:
        return
    key = "compile: step" if variant.compile == "step" else "cuda_graph: true"
    for name, number in (("devices", variant.devices), ("accumulate", variant.accumulate)):
        if number > 1:
            yield f"{name}: {key} takes a step in one piece and needs {name}: 1"
    if variant.precision == "16-mixed":
        yield f"precision: 16-mixed scales gradients, for which {key} leaves no room"


def without_effect(variant: Variant, written: Section) -> Iterator[str]:
    """Find settings that somebody wrote and that change nothing in this variant.

    Args:
        variant: all its settings.
        written: those that stand in the config.
    """
    if written.get("fill_uninitialized_memory") and not variant.deterministic:
        yield "fill_uninitialized_memory: true has no effect without deterministic: true"
    if "resume" in written and variant.stop == "none":
        yield f"resume: {variant.resume} has no effect without a stop, such as stop: mid_epoch"
    if variant.stop == "mid_accumulation" and variant.accumulate == 1:
        yield "stop: mid_accumulation never comes without accumulate of 2 or more"
    if variant.stop in ("before_validation", "after_validation") and not variant.validation:
        yield f"stop: {variant.stop} never comes with validation: false"
    if variant.traced.are_all and variant.traced.first:
        first = variant.traced.first
        yield f"trace.first: {first} has no effect with every: 1, which traces all steps"
    for name, default in ALONE.items():
        if variant.devices == 1 and written.get(name, default) != default:
            yield f"{name}: {shown(written[name])} has no effect with devices: 1".replace("'", "")
    if variant.cuda_graph and variant.accelerator == "cpu":
        yield "cuda_graph: true needs accelerator: gpu, not cpu"


def traced_unlike(config: Section) -> Iterator[str]:
    """Find variants that a study compares and that are not traced alike: they would be no pair."""
    known = config["variants"]
    for study in (name for name in COMPARING if name in config["studies"]):
        first, *others = [name for name in config[study]["variants"] if name in known] or [None]
        for name in others:
            if known[name]["trace"] != known[first]["trace"]:
                yield (
                    f"variants.{name}.trace: {study} compares {name} with {first}, which is not "
                    f"traced alike; give both the same trace"
                )
    if "matrix" in config["studies"]:
        for index, change in enumerate(config["matrix"]["changes"]):
            if isinstance(change, Mapping) and "trace" in change:
                yield (
                    f"matrix.changes.{index}.trace: a cell is compared with the baseline, and both "
                    f"must be traced alike; change the trace of the baseline"
                )
