"""From YAML to frozen dataclasses: every error of a config at once, before any job."""
