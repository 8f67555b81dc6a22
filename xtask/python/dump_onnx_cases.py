"""Writes the tensor-only cases of the ONNX backend node tests as files.

usage: dump_onnx_cases.py DIR

DIR/<case>/model.onnx
DIR/<case>/test_data_set_<n>/input_<i>.pb, output_<i>.pb   serialised TensorProto
DIR/<case>/tolerance.txt                                   "rtol atol" of the case
DIR/cases.txt                                              one case name a line, sorted
DIR/skipped.txt                                            "<case>: <reason>" for sequence, optional and map cases

The file layout is that of the ONNX repository (onnx/backend/test/data/node).
"""

import pathlib
import shutil
import sys

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def element_type(value_info):
    """The tensor element type of a graph input or output, or None where it is no tensor."""
    kind = value_info.type
    return kind.tensor_type.elem_type if kind.WhichOneof("value") == "tensor_type" else None


def as_tensor(value, elem_type):
    """A TensorProto of `value`; reduced-precision types keep the type the graph declares."""
    if isinstance(value, onnx.TensorProto):
        return value
    array = numpy.asarray(value)
    if elem_type == onnx.TensorProto.STRING:
        return onnx.helper.make_tensor(
            "", elem_type, array.shape, [str(item).encode() for item in array.reshape(-1)]
        )
    tensor = numpy_helper.from_array(array)
    if tensor.data_type != elem_type:
        raise ValueError(f"value has type {tensor.data_type}, the graph declares {elem_type}")
    return tensor


def dump(case, directory):
    """Writes one case; returns the reason it was not written, or None."""
    graph = case.model.graph
    initialised = {tensor.name for tensor in graph.initializer}
    declared_inputs = [v for v in graph.input if v.name not in initialised]
    sides = {"input": declared_inputs, "output": list(graph.output)}
    for value_infos in sides.values():
        for value_info in value_infos:
            if element_type(value_info) is None:
                return f"{value_info.name} is a {value_info.type.WhichOneof('value')}"
    if not case.data_sets:
        return "no data set"
    written = {}
    for number, (inputs, outputs) in enumerate(case.data_sets):
        for side, values in (("input", inputs), ("output", outputs)):
            for index, value in enumerate(values):
                tensor = as_tensor(value, element_type(sides[side][index]))
                tensor.name = sides[side][index].name
                written[f"test_data_set_{number}/{side}_{index}.pb"] = tensor.SerializeToString()
    written["model.onnx"] = case.model.SerializeToString()
    written["tolerance.txt"] = f"{case.rtol!r} {case.atol!r}\n".encode()
    for name, content in written.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return None


def main():
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    names, skipped = [], []
    for case in sorted(load_node_model_tests(), key=lambda case: case.name):
        reason = dump(case, target / case.name)
        if reason is None:
            names.append(case.name)
        else:
            skipped.append(f"{case.name}: {reason}")
    (target / "cases.txt").write_text("".join(f"{name}\n" for name in names))
    (target / "skipped.txt").write_text("".join(f"{line}\n" for line in skipped))
    print(f"{len(names)} cases written, {len(skipped)} skipped (see {target / 'skipped.txt'})")


if __name__ == "__main__":
    main()
