"""Tensor functions the models are built from."""

from macrid.ops.partition import log_partition

__all__ = ["log_partition"]
