"""An ONNX graph, built node by node. A value in it is the name of a tensor.

Opset 18 is the first in which `ScatterElements` has a minimum, and IR version 8 goes with it: runtimes since 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macrid.errors import MacridError
from macrid.version import __version__

OPSET, IR_VERSION = 18, 8
MOST_INSIDE = 2**31 - 2**24  # bytes of weights; a file of 2 GiB or more cannot be read
SMALL = 1024  # bytes; smaller weights are always inside
ALIGNMENT = 4096  # bytes, of weights in a file of their own, which may be memory-mapped


def onnx_module() -> Any:
    """The onnx package, or an error that says how to get it."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise MacridError(f"export needs {error.name}; install it with `pip install 'macrid[export]'`") from None
    return onnx


def data_file(file: Path) -> Path:
    """Where the weights are that do not fit into a file."""
    return file.with_name(f"{file.name}.data")


class Graph:
    """Nodes, inputs, outputs and weights so far."""

    def __init__(self, name: str) -> None:
        self._onnx, self._name = onnx_module(), name
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._weights: dict[str, np.ndarray] = {}

    def node(self, kind: str, *values: str, name: str = "", **attributes: Any) -> str:
        """The output of a new node."""
        return self.nodes(kind, *values, names=(name,), **attributes)[0]

    def nodes(self, kind: str, *values: str, names: Sequence[str], **attributes: Any) -> list[str]:
        """The outputs of a new node that has several."""
        outputs = [name or f"{kind}_{len(self._nodes)}" for name in names]
        self._nodes.append(self._onnx.helper.make_node(kind, values, outputs, outputs[0], **attributes))
        return outputs

    def constant(self, value: Any, name: str = "") -> str:
        """Numbers that are the same in every call; Python's floats become single precision."""
        array = np.asarray(value)
        array = np.ascontiguousarray(array.astype(np.float32) if array.dtype == np.float64 else array)
        name = name or f"constant_{len(self._weights)}"
        assert name not in self._weights
        self._weights[name] = array.reshape(np.shape(value))
        return name

    def input(self, name: str, kind: type, shape: Sequence[int | str]) -> str:
        self._inputs.append(self._described(name, kind, shape))
        return name

    def output(self, name: str, value: str, kind: type, shape: Sequence[int | str]) -> None:
        self.node("Identity", value, name=name)
        self._outputs.append(self._described(name, kind, shape))

    def _described(self, name: str, kind: type, shape: Sequence[int | str]) -> Any:
        data_type = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self._onnx.helper.make_tensor_value_info(name, data_type, list(shape))

    def cast(self, value: str, kind: type) -> str:
        return self.node("Cast", value, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    # A few combinations that occur often

    def total(self, value: str, axis: int, keep: bool = True, name: str = "") -> str:
        return self.node("ReduceSum", value, self.constant([axis]), keepdims=int(keep), name=name)

    def size(self, value: str, axis: int) -> str:
        """Of an axis: (1,)."""
        return self.node("Shape", value, start=axis, end=axis + 1)

    def joined(self, *sizes: str) -> str:
        """A shape from sizes (1,)."""
        return self.node("Concat", *sizes, axis=0)

    def filled(self, shape: str, value: Any, name: str = "") -> str:
        """A tensor of one value, an array of length 1."""
        tensor = self._onnx.numpy_helper.from_array(np.asarray(value))
        return self.node("ConstantOfShape", shape, value=tensor, name=name)

    def unit(self, value: str, epsilon: float, name: str = "") -> str:
        """Vectors along the last axis over their lengths, which are at least epsilon."""
        length = self.node("ReduceL2", value, self.constant([-1]), keepdims=1)
        return self.node("Div", value, self.node("Max", length, self.constant(epsilon)), name=name)

    # Writing

    @property
    def weight_bytes(self) -> int:
        return sum(array.nbytes for array in self._weights.values())

    def write(self, file: Path, description: str, metadata: Mapping[str, str]) -> None:
        """Write the graph; if it has too many weights for one file, these are in FILE.data."""
        onnx, data = self._onnx, data_file(file)
        apart = self.weight_bytes > MOST_INSIDE
        weights = self._written_apart(data) if apart else self._inside()
        graph = onnx.helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, weights, doc_string=description
        )
        model = onnx.helper.make_model(
            graph,
            producer_name="macrid",
            producer_version=__version__,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            doc_string=description,
        )
        onnx.helper.set_model_props(model, dict(metadata))
        file.write_bytes(model.SerializeToString())

    def _inside(self) -> list[Any]:
        return [self._onnx.numpy_helper.from_array(array, name) for name, array in self._weights.items()]

    def _written_apart(self, data: Path) -> list[Any]:
        """Write large weights to a file, straight from memory; what the graph says instead."""
        tensors = []
        with data.open("wb") as file:
            for name, array in self._weights.items():
                if array.nbytes < SMALL:
                    tensors.append(self._onnx.numpy_helper.from_array(array, name))
                    continue
                file.seek(-file.tell() % ALIGNMENT, 1)
                tensor = self._onnx.TensorProto(
                    name=name,
                    data_type=self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
                    dims=array.shape,
                    data_location=self._onnx.TensorProto.EXTERNAL,
                )
                for key, value in (("location", data.name), ("offset", file.tell()), ("length", array.nbytes)):
                    tensor.external_data.add(key=key, value=str(value))
                file.write(array.data)
                tensors.append(tensor)
        return tensors
