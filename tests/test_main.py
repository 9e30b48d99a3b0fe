"""The command `twinrun`."""

import importlib.metadata
import os
import subprocess
import sys
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
        sizes = dict.fromkeys(names, 4) | {"peak_memory_mb": 400, "loader_workers": 0}
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


FOREIGN = """
import pytorch_lightning as pl
import torch


class Fremde(pl.LightningModule):
    def __init__(self, größe: int = 4, stadt="Göteborg"):
        super().__init__()
        self.layer = torch.nn.Linear(größe, 1)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(4, 4))

    def training_step(self, batch, index):
        loss = self.layer(batch).square().mean()
        self.log("verlust_größe", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
"""
# Python reads it as ASCII then: it would choose UTF-8 by itself.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.exhaustive
def test_letters_beyond_ascii_are_written_in_a_locale_that_has_none(tmp_path):
    """Red before: a UnicodeEncodeError with its traceback, after the rehearsal."""
    (tmp_path / "fremd.py").write_text(FOREIGN, encoding="utf-8")

    def run(*arguments):
        command = [sys.executable, "-m", "twinrun", *arguments]
        environment = {**os.environ, **ASCII}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    assert run("init", "fremd:Fremde")[0] == 0
    assert "größe: 4" in (tmp_path / "config/config.yaml").read_text(encoding="utf-8")
    code, shown, _ = run("check")
    assert code == 0
    assert "logs verlust_größe\n" in shown
    code, _, said = run("init", "größen:Netz")
    assert code == 1
    assert said == (
        "größen:Netz: has letters that the encoding ascii of this shell's locale does not have; "
        "set LC_ALL=C.UTF-8 or PYTHONUTF8=1\n"
    )


def test_check_says_what_cannot_run_here(tmp_path, monkeypatch, capfd):
    """Red before: it said "its workloads can take a step", of which none was rehearsed."""
    monkeypatch.chdir(tmp_path)
    asked = "studies: [reproducibility]\nreproducibility: {workloads: [peaks], variants: [half]}\n"
    (tmp_path / "mine.yaml").write_text(f"{asked}variants: {{half: {{precision: 16-mixed}}}}\n")
    monkeypatch.setattr("twinrun.commands.check.count_gpus", lambda: 0)
    assert main(["check", "mine.yaml"]) == 0
    out, said = capfd.readouterr()
    assert "peaks: not rehearsed, since none of its variants can run on this machine" in out
    assert "to a step" not in out
    assert "the variant half is not run: 16-mixed needs a GPU" in said


def test_check_names_what_has_taken_a_step(tmp_path, monkeypatch, capfd):
    """Red before: it said "its workloads can take a step", also of one that no study trains."""
    monkeypatch.chdir(tmp_path)
    mine = "workloads: {mine: {module: no_such:Net, data: no_such:Points, epochs: 1}}\n"
    asked = "studies: [reproducibility]\nreproducibility: {workloads: [peaks]}\n"
    (tmp_path / "mine.yaml").write_text(asked + mine)
    assert main(["check", "mine.yaml"]) == 0
    out, said = capfd.readouterr()
    assert out.splitlines()[-1] == "The config is right. Rehearsed to a step: peaks."
    assert "workloads.mine: not trained, since no study names it" in said


def test_without_a_command_the_commands_are_named(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "command" in capsys.readouterr().err


def test_it_says_which_version_it_is(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"twinrun {importlib.metadata.version('twinrun')}\n"
