"""Trained models outside Python: as an ONNX graph that recommends, and as vectors for a vector database."""

from macrid.export.checking import Agreement, largest_difference
from macrid.export.onnx_file import INPUTS, OnnxExport, check_file, check_inputs, items_file, write_onnx
from macrid.export.vectors import VectorExport, check_folder, write_vectors

__all__ = [
    "INPUTS",
    "Agreement",
    "OnnxExport",
    "VectorExport",
    "check_file",
    "check_folder",
    "check_inputs",
    "items_file",
    "largest_difference",
    "write_onnx",
    "write_vectors",
]
