"""A config file is read or refused in words, whatever its bytes are."""

import doctest

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from twinrun.config import config_files, schema_check
from twinrun.config.config_files import hashes_of_contents, mistakes_of
from twinrun.config.shipped import STANDARD
from twinrun.config.with_standard import merged

SIGNS = st.text(alphabet="ab:-[]{},&*!#|>'\"%@`?~ \n\t01.e+no", max_size=60)


@pytest.mark.parametrize("module", [config_files, schema_check])
def test_the_examples_in_the_docstrings(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert found.failed == 0


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(b"(:\t")  # the C parser takes it, the Python one does not
@given(st.one_of(st.binary(max_size=60), SIGNS.map(str.encode)))
def test_any_bytes_are_read_or_refused_in_words(tmp_path, content):
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    mistakes = mistakes_of(file)
    assert all(mistake and "\n" not in mistake for mistake in mistakes)
    if not mistakes:
        assert isinstance(yaml.safe_load(content.decode()), dict)


def test_what_is_right_is_not_refused(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "studies: [reproducibility]\n"
        "variants: &all {mine: {deterministic: yes, threads: 1}}\n"
        "again: {<<: *all, b: 1.0e-3, c: '1e-3', d: 0, e: 0.1, f: 10, g: null, h: -1, i: .inf}\n"
        "workloads: {a: {hyperparameters: {kind: none, name: 1e3x, version: '010'}}}\n"
    )
    assert mistakes_of(file) == []
    assert mistakes_of(STANDARD) == []


@pytest.mark.parametrize(
    ("theirs", "epochs"),
    [
        ("sweep: {seeds: [1, 2]}", 2),
        ("sweep: {workloads: [digits]}", 2),
        ("sweep: {workloads: [mine]}", None),
        ("sweep: {workloads: [digits, mine]}", None),
        ("sweep: {workloads: [peaks]}", None),
        ("workloads: {digits: {module: 'mine:Net', epochs: 60}}", None),
        ("sweep: {workloads: [mine], epochs: 3}", 3),
    ],
)
def test_a_sweep_of_ones_own_is_not_cut_to_our_epochs(tmp_path, theirs, epochs):
    """Red before: every trial of a workload of 60 epochs was trained 2, as ours are."""
    file = tmp_path / "mine.yaml"
    file.write_text(theirs)
    config, mistakes = merged([file])
    assert (config["sweep"].get("epochs"), mistakes) == (epochs, [])


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{\n\t"studies": ["matrix"]\n}', '{\n\t"studies": ["sweep"]\n}', False),
        ('{\n\t"a": 1, "b": 2\n}', '{"b": 2, "a": 1}', True),
        ("a: {0: x, other: y}", "a: {0: x, other: z}", False),
        ("a: {0: x, other: y}", "a: {other: y, 0: x}  # a comment", True),
        ("a: {0: x}", "a: {'0': x}", False),
        ("a: {1: x}", "a: {true: x}", False),
        ("a: 2026-01-02", "a: '2026-01-02'", False),
        ("a: &b [1, *b]", "a: &b [2, *b]", False),
        ("? [1, {}]\n: 1", "? [1, {}]\n: 2", False),
        ("a: !mine 1", "a: !mine 2", False),
        ("a: [1", "a: [2", False),
        ("a: 1\n---\na: 2", "a: 1\n---\na: 3", False),
        (b"\xff1", b"\xff2", False),
        ("[" * 3000, "[" * 3001, False),
    ],
)
def test_files_that_say_something_else_have_other_hashes(tmp_path, one, other, is_same):
    """Red before: what the hash could not read was the same whatever it said."""
    file = tmp_path / "mine.yaml"

    def hashed(content):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        (found,) = hashes_of_contents([file]).values()
        return found

    assert hashed(one) == hashed(one)
    assert (hashed(one) == hashed(other)) == is_same
    before = hashed(one)
    file.unlink()
    assert before not in hashes_of_contents([file]).values()


def test_files_are_united_as_snakemake_unites_them(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("studies: [devices]\nvariants: {cpu: {threads: 1}}\n")
    second.write_text("variants: {cpu: {precision: 64-true}}\n")
    config = merged([first, second])[0]
    assert config["studies"] == ["devices"]
    assert config["variants"]["cpu"] == {"accelerator": "cpu", "threads": 1, "precision": "64-true"}
    assert config["variants"]["eager"] == {"threads": 1}


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("workloads", {"module": "my:Digits"}),
        ("workloads", {"cli": "my.yaml", "epochs": 2}),
        ("datasets", {"file": "d.csv"}),
        ("datasets", {"make": "my:make"}),
    ],
)
def test_a_users_own_takes_nothing_from_a_built_in_of_its_name(tmp_path, section, entry):
    """Red before: a workload of another module had our data module, dataset, hyperparameters."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(yaml.safe_dump({section: {"digits": entry}}))
    second.write_text(yaml.safe_dump({section: {"digits": {"shows": None}}}))
    assert merged([first, second])[0][section]["digits"] == {**entry, "shows": None}


@pytest.mark.parametrize(
    ("section", "name", "change"),
    [
        ("workloads", "digits", {"epochs": 5, "cli": None}),
        ("datasets", "digits", {"parameters": {"seed": 2}}),
        ("variants", "compiled", {"compile": "module"}),
    ],
)
def test_what_names_no_code_of_its_own_changes_a_built_in(tmp_path, section, name, change):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({section: {name: change}}))
    ours = merged([])[0][section][name]
    found = merged([file])[0][section][name]
    assert found.keys() == ours.keys() | change.keys()
    assert found != ours


def test_hyperparameters_without_any_do_not_drop_those_of_a_file_before(tmp_path):
    """Red before: another training than the first file says, in silence."""
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("workloads: {net: {module: 'a:B', hyperparameters: {lr: 0.5}}}")
    second.write_text("workloads:\n  net:\n    epochs: 3\n    hyperparameters:\n      # lr: ...\n")
    assert merged([first, second])[1] == [
        f"workloads.net.hyperparameters: has no value in {second}, by which those of {first} would "
        f"be dropped; leave the key out there"
    ]
    assert merged([second, first])[1] == merged([first])[1] == merged([second])[1] == []
    second.write_text("workloads: {net: {hyperparameters: {}}}")  # united with the others
    assert merged([first, second])[1] == []
