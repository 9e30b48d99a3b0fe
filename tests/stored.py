"""Files of tensors as a run writes them."""

from twinrun.training.tensor_file import Parts, write_parts


def write_tensors(path, tensors):
    """Write tensors, each in one part."""
    write_parts(path, {name: Parts.of(tensor) for name, tensor in tensors.items()})
