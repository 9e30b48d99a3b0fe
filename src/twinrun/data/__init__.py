"""How each built-in dataset is made: one module each, a function from parameters to arrays."""
