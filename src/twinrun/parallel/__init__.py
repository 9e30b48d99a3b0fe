"""One network trained by several workers."""
