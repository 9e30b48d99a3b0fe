"""The study noise: which runs are put on the scale of a workload and variant, and which are not.

On it are what differs elsewhere in the config and has the same baseline: the same workload, variant
and seed. What has another baseline is named, and left out: it would need a scale of its own.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinrun.config.inputs import PERTURBED, RUN
from twinrun.config.resume_variants import of_stop
from twinrun.config.rule_records import KindOnScale, ListedRun

if TYPE_CHECKING:
    from twinrun.config.settings import Settings

NOT_CHANGES = ("repeat", "seed")  # cells of a matrix that change no setting
OF_VARIANTS = ("devices", "acceleration", "parallel")  # studies with a first variant as baseline


def scale(settings: "Settings", workload: str, variant: str) -> list[ListedRun]:
    """List the runs of the scale itself, the reference first."""
    asked = settings.config["noise"]
    seed, *others = asked["seeds"]

    def listed(kind: KindOnScale, label: str, **of_run: object) -> ListedRun:
        names = {"workload": workload, "variant": variant, "seed": seed, "repeat": 1}
        run = RUN.format_map({**names, **of_run})
        return ListedRun(kind=kind, label=label, study="noise", run=run, not_run=None)

    return [
        listed("reference", f"seed {seed}"),
        listed("repeat", "repeat", repeat=2),
        *(
            listed("perturbation", f"one ULP {k}", seed=PERTURBED.format(seed=seed, perturbation=k))
            for k in range(1, asked["perturbations"] + 1)
        ),
        *(listed("seed", f"seed {other}", seed=other) for other in others),
    ]


def changes(settings: "Settings", workload: str, variant: str) -> list[ListedRun]:
    """List the changes of the same baseline, each run once for each study that has it."""
    found: dict[tuple[str, str], ListedRun] = {}
    for study, label, name, baseline in _candidates(settings, workload, variant):
        if baseline is None:
            seed = settings.config["noise"]["seeds"][0]
            run = RUN.format(workload=workload, variant=name, seed=seed, repeat=1)
            reason = settings.not_run.get(name)
            listed = ListedRun(
                kind="change",
                label=label,
                study=study,
                run="" if reason else run,
                not_run=reason,
            )
            found.setdefault((study, name), listed)
    return list(found.values())


def left_out(settings: "Settings", workload: str, variant: str) -> list[str]:
    """Name what has another baseline."""
    return list(
        dict.fromkeys(
            f"{study}, whose baseline is {baseline}"
            for study, _, _, baseline in _candidates(settings, workload, variant)
            if baseline is not None
        )
    )


def _candidates(
    settings: "Settings", workload: str, variant: str
) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield study, label and variant of each change, and its baseline if that is another one."""
    config, seed = settings.config, settings.config["noise"]["seeds"][0]
    for study in settings.studies:
        asked = config[study]
        if workload not in asked["workloads"]:
            continue
        if study == "matrix":
            other = _other((asked["baseline"], asked["seed"]), (variant, seed))
            for name, cell in settings.cells.items():
                if name not in NOT_CHANGES:
                    yield study, cell.label, cell.variant, other
        elif study == "resume":
            for name in asked["variants"]:
                for pair in settings.stops_of(name):
                    label = of_stop(pair["stop"], pair["resume"])
                    other = _other((pair["whole"], asked["seed"]), (variant, seed))
                    yield study, label, pair["stopped"], other
        elif study in OF_VARIANTS:
            baseline, *others = settings.variants_of(study) or [""]
            at = seed if seed in asked["seeds"] else asked["seeds"][0]
            for name in others:
                yield study, name, name, _other((baseline, at), (variant, seed))


def _other(baseline: tuple[str, int], of_scale: tuple[str, int]) -> str | None:
    return None if baseline == of_scale else f"{baseline[0]}, seed {baseline[1]}"
