"""Public packages go through every study that their configs ask for."""

import pytest
import yaml
from external.audit import AUDITS, ENVIRONMENTS, HERE, ROOT, environment, row, run
from snakemake.utils import update_config

from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve


@pytest.mark.parametrize("audit", AUDITS)
def test_the_page_has_a_row_of_each_audit_and_its_config_is_one(audit, monkeypatch):
    monkeypatch.chdir(HERE / audit)  # where a file of LightningCLI is looked for
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    update_config(config, yaml.safe_load((HERE / audit / "config.yaml").read_text()))
    verdicts = [{"study": study, "answer": ""} for study in resolve(config, SCHEMA, gpus=0).studies]
    assert row(audit, verdicts, 0).rsplit("|", 3)[0] in (ROOT / "docs/external.md").read_text()


@pytest.mark.external
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("audit", AUDITS)
def test_a_package_goes_through(audit, tmp_path):
    verdicts = run(audit, environment(audit, ENVIRONMENTS), tmp_path)
    assert verdicts
    missing = [each for each in verdicts if each["answer"] in ("not run", "not comparable")]
    # A data module may have nothing to predict.
    assert [each for each in missing if "prediction" not in each["key"]] == []
