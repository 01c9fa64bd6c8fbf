"""A split in the layout of the authors' release."""

import numpy as np


def write_released(split, folder):
    """Write train.csv, validation_tr.csv, … (users and items by position) and unique_sid.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "unique_sid.txt").write_text("".join(f"{item}\n" for item in split.items))
    write_pairs(folder / "train.csv", *split.train.pairs)
    first = len(split.train.users)
    for name, group in (("validation", split.validation), ("test", split.test)):
        order = group.users.order()
        for suffix, matrix in (("tr", group.history), ("te", group.target)):
            users = np.repeat(first + order, np.diff(matrix.indptr)[order])
            write_pairs(folder / f"{name}_{suffix}.csv", users, matrix[order].indices)
        first += len(group.users)


def write_pairs(path, users, items):
    np.savetxt(path, np.column_stack([users, items]), "%d", ",", header="uid,sid", comments="")
