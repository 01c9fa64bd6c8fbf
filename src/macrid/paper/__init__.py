"""The paper's tables and figures, one module each: `compute` makes the numbers, `draw` the picture.

Numbers are stored part by part as JSON in the output folder, so an interrupted reproduction can resume.
"""
