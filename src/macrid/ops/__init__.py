"""Functions of tensors that the models are made of."""

from macrid.ops.partition import log_partition

__all__ = ["log_partition"]
