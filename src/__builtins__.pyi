"""For the type checker: the global that Snakemake gives to every script."""

from typing import Any

snakemake: Any
