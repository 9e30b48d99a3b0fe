"""A script: parses arguments where it is imported."""

import argparse

import pytorch_lightning as pl

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
arguments = parser.parse_args()


class Net(pl.LightningModule):
    pass
