"""The path of the Python that runs the workflow, as Snakemake puts it into its jobs' commands."""

from twinrun.errors import TwinrunError

OF_SHELLS = " \t\"'\\$&;()<>|`"


def check_python(path: str) -> None:
    """Refuse a Python that a shell would not find: Snakemake writes its path without quotes.

    https://github.com/snakemake/snakemake/blob/v9.27.1/src/snakemake/script/__init__.py

    Raises:
        TwinrunError: naming the path.

    >>> check_python("/home/me/.venv/bin/python")
    """
    if any(letter in path for letter in OF_SHELLS):
        raise TwinrunError(
            f"the environment's Python, {path}, has a space or another letter in its path that a "
            f"shell takes for its own: Snakemake could start no job; make the environment in "
            f"another folder"
        )
