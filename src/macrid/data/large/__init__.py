"""Preparing data that need not fit into memory: files are read by DuckDB, which spills to disk, in stages that a kill
does not undo."""
