"""The command `twinrun`."""

from pathlib import Path

import pytest

from twinrun.__main__ import main
from twinrun.commands import check

BAD = Path(__file__).parent / "configs/bad"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("not_utf8", "is not UTF-8"),
        ("key_twice", "given twice"),
        ("unknown_alias", "has the alias *mine"),
        ("repeats_is_a_float", "repeats: 3.0 is of the wrong type"),
    ],
)
def test_check_says_what_is_wrong_and_ends_with_1(file, words, capsys):
    assert main(["check", str(BAD / f"{file}.yaml")]) == 1
    assert words in capsys.readouterr().err


def test_check_of_a_file_that_is_not_there(capsys):
    assert main(["check", "absent.yaml"]) == 1
    assert capsys.readouterr().err == "absent.yaml: there is no such config file\n"


def test_check_rehearses_anew_and_shows_what_was_seen(tmp_path, monkeypatch, capsys):
    asked = []

    def rehearse(settings, search_path, *, is_anew):
        asked.append((search_path, is_anew))
        label = settings.active_workloads()[0]
        names = ("parameters", "parameters_bytes", "optimizer_bytes", "batch_bytes")
        sizes = dict.fromkeys(names, 4) | {"peak_memory_mb": 400}
        found = {"label": label, "sizes": sizes, "steps_per_epoch": 3, "logged": ["loss"]}
        return [{**found, "key": f"workloads.{label}", "notes": ["a note"]}]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "rehearse", rehearse)
    (tmp_path / "mine.yaml").write_text("studies: [reproducibility]\n")
    assert main(["check", "mine.yaml"]) == 0
    assert asked == [(["."], True)]
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "denoiser: 3 steps an epoch; logs loss"
    assert shown[1].startswith("  4 parameters (4 bytes), optimizer 4 bytes, a batch 4 bytes; 400")
    assert shown[2] == "  note: a note"
    (tmp_path / "mine.yaml").write_text("studies: [reproducibility]\nrehearsal: false\n")
    assert main(["check", "mine.yaml"]) == 0
    assert "not rehearsed (rehearsal: false)" in capsys.readouterr().out
    assert len(asked) == 1


def test_check_says_what_cannot_run_here(tmp_path, monkeypatch, capfd):
    """Red before: "its workloads can take a step", of which none was rehearsed."""
    monkeypatch.chdir(tmp_path)
    asked = "studies: [reproducibility]\nreproducibility: {workloads: [peaks], variants: [half]}\n"
    (tmp_path / "mine.yaml").write_text(f"{asked}variants: {{half: {{precision: 16-mixed}}}}\n")
    monkeypatch.setattr("twinrun.commands.check.count_gpus", lambda: 0)
    assert main(["check", "mine.yaml"]) == 0
    out, said = capfd.readouterr()
    assert "peaks: not rehearsed, since none of its variants can run on this machine" in out
    assert "can take a step" not in out
    assert "the variant half is not run: 16-mixed needs a GPU" in said


def test_without_a_command_the_commands_are_named(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "command" in capsys.readouterr().err
