"""What all studies together and the report ask for, as lists of paths in `results/`."""

from collections.abc import Mapping
from dataclasses import dataclass

from twinrun.config.inputs import Wildcards, filled
from twinrun.config.settings import Settings
from twinrun.config.studies import Study


@dataclass(frozen=True)
class Targets:
    """The input functions of `all` and of the report; no wildcard changes them."""

    settings: Settings
    """What the config asks for."""
    studies: Mapping[str, Study]
    """All studies by name."""

    def results(self, _: Wildcards) -> list[str]:
        """List what all chosen studies leave."""
        return [path for name in self.settings.studies for path in self.studies[name].results({})]

    def runs(self) -> list[str]:
        """List run.json of every run that the answers of the chosen studies rest on."""
        paths = [path for path in self.read_by_report({}) if path.endswith("/run.json")]
        # Two studies may rest on the same run; a set would lose the order.
        return list(dict.fromkeys(paths))

    def datasets(self, _: Wildcards) -> list[str]:
        """List the manifests and contact sheets of the datasets in use."""
        settings = self.settings
        named = (settings.workloads[name].dataset for name in settings.active_workloads())
        used = {name for name in named if name is not None}
        # A user's own file has no manifest: nobody made it here.
        made = sorted(name for name in used if settings.datasets[name].make)
        shown = sorted(name for name in used if settings.config["datasets"][name]["shows"])
        return [
            *filled("results/data/{dataset}.json", dataset=made),
            *filled("results/figures/data/{dataset}.svg", dataset=shown),
        ]

    def read_by_report(self, _: Wildcards) -> list[str]:
        """List the results that the page reads."""
        return [path for name in self.settings.studies for path in self.studies[name].reported()]
