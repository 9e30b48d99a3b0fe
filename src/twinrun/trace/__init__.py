"""What a training step leaves: fingerprints of batch, gradients, parameters and operations."""
