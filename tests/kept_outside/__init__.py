"""A package of a user's whose modules keep state."""
