"""Built-in workloads: one module each with a LightningModule and its LightningDataModule."""
