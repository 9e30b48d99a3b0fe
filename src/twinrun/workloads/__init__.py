"""Built-in workloads: one module each, a LightningModule and its LightningDataModule, nothing else."""
