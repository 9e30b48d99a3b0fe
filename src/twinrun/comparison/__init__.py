"""Two runs compared bit for bit, and what follows from it."""
