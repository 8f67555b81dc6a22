"""Arm's TOSA integer tests with the reference model's answers, as plain files.

usage: dump_tosa_cases.py DIR

The tests are those of `tosa_verif_build_tests --profile tosa-pro-int --extension none --test-type positive`. Operators
on shapes and on block-scaled types, and CONV3D, are left out and counted: they have no counterpart in TGX-1.

DIR/generated/...                 the generator's own output
DIR/cases/<case>/case.json        operator, attributes, operands in order, result
DIR/cases/<case>/<tensor>.npy     values of an operand or of the result, in their own integer type
DIR/cases.txt                     one case name a line, sorted
DIR/left_out.txt                  "<operator> <tests>" of what is left out
DIR/failed.txt                    "<case>: <reason>" where the reference model gave no answer

The generator draws 32-bit values from their whole range, which no accumulator of TGX-1 has. A case `<case>+narrowed`
is the same graph with 32-bit operands, and 16-bit factors, shifted right by a few bits; the reference model answers it
anew.
"""

import concurrent.futures
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy
from tosa.Attribute import Attribute
from tosa.DType import DType
from tosa.Op import Op
from tosa.TosaGraph import TosaGraph

DTYPES = {value: name for name, value in vars(DType).items() if not name.startswith("_")}
ATTRIBUTES = {value: name for name, value in vars(Attribute).items() if not name.startswith("_")}
OPS = {value: name for name, value in vars(Op).items() if not name.startswith("_")}
WIDTHS = {"BOOL": numpy.bool_, "INT8": numpy.int8, "INT16": numpy.int16, "INT32": numpy.int32, "SHAPE": numpy.int64}
LEFT_OUT = re.compile(r"_shape$|_block_scaled$|^(const|dim|conv3d_.*)$")
LINEAR = ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
BIAS_SHIFT, OPERAND_SHIFT, FACTOR_SHIFT = 9, 3, 17
# Operands that are indices or amounts of a shift, which keep their values.
KEPT = {"GATHER": (1,), "SCATTER": (1,), "ROW_GATHER": (1, 2), "MUL": (2,), "RESCALE": (1, 2, 3, 4), "NEGATE": (1, 2)}


def tool(name, *arguments):
    done = subprocess.run([name, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr).strip().splitlines()[-1:] or name)


def attributes_of(operator):
    """The fields of an operator's attribute table; scalars as numbers, vectors as lists."""
    kind = ATTRIBUTES[operator.AttributeType()]
    if kind == "NONE":
        return {}
    table = getattr(importlib.import_module(f"tosa.{kind}"), kind)()
    table.Init(operator.Attribute().Bytes, operator.Attribute().Pos)
    out = {}
    for method in sorted(vars(type(table))):
        field = re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower()
        if method.startswith(("GetRootAs", "Init", "_")) or method.endswith(("AsNumpy", "IsNone", "BufferHasIdentifier")):
            continue
        if method.endswith("Length"):
            name = method.removesuffix("Length")
            field = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            out[field] = [int(getattr(table, name)(i)) for i in range(getattr(table, method)())]
        elif not hasattr(table, f"{method}Length"):
            value = getattr(table, method)()
            out[field] = value if isinstance(value, bool) else int(value)
    return out


class Graph:
    """The one operator of a test, its operands, and its result."""

    def __init__(self, buffer):
        self.buffer = buffer
        block = TosaGraph.GetRootAs(buffer, 0).Regions(0).Blocks(0)
        tensors = [block.Tensors(i) for i in range(block.TensorsLength())]
        self.tensors = {t.Name().decode(): t for t in tensors}
        shapes = [block.Shapes(i) for i in range(block.ShapesLength())]
        self.shapes = {s.Name().decode(): s for s in shapes}
        operators = [block.Operators(i) for i in range(block.OperatorsLength())]
        constant = (Op.CONST, Op.CONST_SHAPE)
        chosen = [o for o in operators if o.Op() not in constant] or operators[-1:]
        if len(chosen) != 1:
            raise ValueError(f"{len(chosen)} operators")
        operator = chosen[0]
        self.name = OPS[operator.Op()]
        self.attributes = attributes_of(operator)
        self.operands = [operator.Inputs(i).decode() for i in range(operator.InputsLength())]
        self.results = [operator.Outputs(i).decode() for i in range(operator.OutputsLength())]
        self.given = {block.Inputs(i).decode() for i in range(block.InputsLength())}

    def dtype(self, name):
        return "SHAPE" if name in self.shapes else DTYPES[self.tensors[name].Type()]

    def constant(self, name):
        """A writable view of a constant's values, or None."""
        holder = self.shapes.get(name) or self.tensors[name]
        raw = holder.DataAsNumpy()
        if name in self.given or not isinstance(raw, numpy.ndarray):
            return None
        values = raw.view(numpy.dtype(WIDTHS[self.dtype(name)]).newbyteorder("<"))
        if name in self.shapes:
            return values
        tensor = self.tensors[name]
        shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
        return values[: int(numpy.prod(shape))].reshape(shape)

    def narrow(self, given):
        """Shifts 32-bit operands (and 16-bit factors) right; false where there is none."""
        changed = False
        for position, name in enumerate(self.operands):
            if position in KEPT.get(self.name, ()):
                continue
            values = given[name] if name in given else self.constant(name)
            kind = self.dtype(name)
            if kind == "INT32":
                small = self.name in ("MUL", "REDUCE_SUM")
                amount = BIAS_SHIFT if self.name in LINEAR else FACTOR_SHIFT if small else OPERAND_SHIFT
            elif kind == "INT16" and self.name == "MUL":
                amount = 1
            else:
                continue
            changed = True
            values[...] = values >> amount
        return changed


def run_reference(folder, stated, tosa_file, suffix, given):
    """The reference model's answer to `given`."""
    files = []
    for name, values in given.items():
        files.append(f"{name}{suffix}.npy")
        numpy.save(folder / files[-1], values)
    result = f"answer{suffix}.npy"
    schema = next(pathlib.Path(p) / "bin" / "tosa.fbs" for p in sys.path if (pathlib.Path(p) / "bin" / "tosa.fbs").exists())
    tool(
        "tosa_reference_model", f"--test_desc={folder / 'desc.json'}", f"--operator_fbs={schema}",
        f"--tosa_file={tosa_file}", f"--flatbuffer_dir={folder}", f"--output_dir={folder}",
        f"--ifm_name={','.join(given)}", f"--ifm_file={','.join(files)}",
        f"--ofm_name={stated['ofm_name'][0]}", f"--ofm_file={result}",
    )  # fmt: skip
    return numpy.load(folder / result)


def write_case(target, graph, given, answer):
    target.mkdir(parents=True)

    def describe(name, values):
        if graph.dtype(name) == "SHAPE":
            return {"type": "SHAPE", "values": [int(v) for v in values.reshape(-1)]}
        numpy.save(target / f"{name}.npy", numpy.ascontiguousarray(values))
        return {"type": graph.dtype(name), "shape": list(values.shape), "file": f"{name}.npy", "constant": name not in given}

    operands = [describe(n, given[n] if n in given else graph.constant(n)) for n in graph.operands]
    case = {
        "name": target.name, "operator": graph.name, "attributes": graph.attributes,
        "operands": operands, "result": describe(graph.results[0], answer),
    }  # fmt: skip
    (target / "case.json").write_text(json.dumps(case) + "\n")


def dump(source, cases):
    """Writes a test and its narrowed form; returns (names written, reasons of failure)."""
    written, failed = [], []
    stated = json.loads((source / "desc.json").read_text())
    original = (source / stated["tosa_file"]).read_bytes()
    for suffix in ("", "+narrowed"):
        name = source.name + suffix
        try:
            graph = Graph(bytearray(original))
            given = {n: numpy.load(source / f) for n, f in zip(stated["ifm_name"], stated["ifm_file"])}
            if suffix and not graph.narrow(given):
                continue
            file = f"test{suffix}.tosa"
            (source / file).write_bytes(graph.buffer)
            answer = run_reference(source, stated, file, suffix, given)
            write_case(cases / name, graph, given, answer)
            written.append(name)
        except (RuntimeError, ValueError, KeyError) as error:
            failed.append(f"{name}: {error}")
    return written, failed


def main():
    target = pathlib.Path(sys.argv[1])
    generated, cases = target / "generated", target / "cases"
    if not (target / "generated.done").exists():
        tool(
            "tosa_verif_build_tests", "--profile", "tosa-pro-int", "--extension", "none",
            "--test-type", "positive", "-o", str(generated),
        )  # fmt: skip
        (target / "generated.done").write_text("")
    shutil.rmtree(cases, ignore_errors=True)
    sources, left_out = [], {}
    for source in sorted(path.parent for path in generated.glob("*/*/desc.json")):
        folder = source.parent.name
        if LEFT_OUT.search(folder):
            operator = re.sub(r"_\dx.*", "", folder)
            left_out[operator] = left_out.get(operator, 0) + 1
        else:
            sources.append(source)
    (target / "left_out.txt").write_text("".join(f"{name} {count}\n" for name, count in left_out.items()))
    written, failed = [], []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for names, reasons in pool.map(lambda source: dump(source, cases), sources):
            written += names
            failed += reasons
    (target / "cases.txt").write_text("".join(f"{name}\n" for name in sorted(written)))
    (target / "failed.txt").write_text("".join(f"{line}\n" for line in sorted(failed)))
    print(f"{len(sources)} tests, {len(written)} cases written, {len(failed)} without an answer")


if __name__ == "__main__":
    main()
