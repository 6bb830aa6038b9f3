"""Runs: the Parquet files of a fold.

    tables         the columns of a run
    rows           the order of rows, and which of them count
    values         rows to an image
    image_rows     an image to rows; `touched`: the keys whose rows a fold makes anew
    file           one run, byte for byte
    store          the runs of a log dir, and images read from them

All but `file` and `store` are pure.
"""
