"""What the page of the config says that a key allows."""

import pytest
import yaml

from twinrun.config.reference import SCHEMA, reference


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("require.determinism_cost", "a limit such as '<= 1.25'"),
        ("matrix.baseline", "a name"),
        ("matrix.seed", "integer, 0 to 4294967295"),
        ("devices.size", "an argument's name"),
        ("workloads.<name>.module", "an import path like package.module:Class"),
        ("sweep.seeds", "list of: integer, 0 to 4294967295"),
        ("reproducibility.variants", "list of: a name"),
    ],
)
def test_a_key_allows_what_its_pattern_says(key, allowed):
    """Red before: of the limit too, "a name"."""
    page = reference(yaml.safe_load(SCHEMA.read_text()))
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{key}` |")]
    assert row.split(" | ")[2] == allowed
