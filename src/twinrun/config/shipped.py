"""Where the files are that Twinrun brings along: its workflow, schema, templates and profiles.

In a clone they lie at the top level, in an installed package inside of it, by the same names. They
are found from the package, so that it makes no difference which Snakefile was started, where it
lies, or whether another workflow uses ours as a module.
"""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def shipped(name: str, package: Path = PACKAGE) -> Path:
    """Return the path of a file or folder by its name in a clone, such as `workflow/report`.

    Args:
        name: relative to the top level of a clone.
        package: folder of the package `twinrun`.
    """
    inside = package / name
    return inside if inside.exists() else package.parents[1] / name


SCHEMA = shipped("workflow/schemas/config.schema.yaml")
STANDARD = shipped("config.yaml")
