"""The tables and figures of the paper, one module each. `compute` makes numbers, `draw` makes a picture of them.

Numbers are JSON, kept part by part in the output folder, so that an interrupted reproduction goes on where it was.
"""
