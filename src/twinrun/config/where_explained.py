"""Which section of the docs explains what a mistake is about."""

import re
from collections.abc import Iterable, Iterator

from twinrun.config.shipped import shipped

GUIDE = "docs/audit-your-module.md"
# The first that is found in a mistake: what is more special stands further up.
SECTIONS = (
    (r"^workloads\.\S+\.trainer\.(callbacks|logger)\b", f"{GUIDE}#callbacks-and-loggers"),
    (r"^workloads\.\S+\.trainer\b", f"{GUIDE}#your-trainers-settings"),
    (r"^workloads\.\S+\.cli\b|\.cli\.|link_arguments", f"{GUIDE}#a-lightningcli-config"),
    (r"\bclass_path\b|\binit_args\b", f"{GUIDE}#objects-as-hyperparameters"),
    (
        r"lazy layer|cannot be compared|of another version|manual optimization",
        f"{GUIDE}#which-features-of-lightning-are-supported",
    ),
    (r"[Nn]o `?train_dataloader|`train_dataloader` must", f"{GUIDE}#without-a-data-module"),
    (r"^datasets\b|^workloads\.\S+\.dataset\b|\bloaders?\b|\bbatch(es)?\b", f"{GUIDE}#data"),
    (r"^workloads\b", f"{GUIDE}#what-the-classes-need"),
    (r"^require\b", "docs/gate.md"),
    (r"^[a-z_]+(\.\S+)?: ", "docs/config.md"),
)


def sections(mistakes: Iterable[str]) -> Iterator[str]:
    """Yield the sections that explain mistakes, each once, in the order of the mistakes.

    >>> for section in sections(["workloads.mine.trainer.precision: ..., say it in a variant"]):
    ...     print(section.partition("docs/")[2])
    audit-your-module.md#your-trainers-settings
    """
    found = (_section(mistake) for mistake in mistakes)
    for section in dict.fromkeys(section for section in found if section):
        file, mark, heading = section.partition("#")
        yield f"{shipped(file)}{mark}{heading}"


def _section(mistake: str) -> str | None:
    return next((section for words, section in SECTIONS if re.search(words, mistake)), None)
