"""The table that a tracer has made, as a list of its rows."""

import pandas as pd


def rows_of(tracer):
    return pd.concat(tracer.table()).to_dict("records")
