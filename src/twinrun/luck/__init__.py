"""How much of a result is luck: values of several seeds compared, ranked and forecast."""
