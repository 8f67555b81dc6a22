"""Times onnxruntime on one and two threads, on the cases that the benchmarks of tg-compile time.

Prints `name<TAB>threads<TAB>median wall ms<TAB>mean cpu ms`. Weights are random: speed does not depend on them.
usage: compare_ort.py [--avx2] [FILTER]   time the cases whose name holds FILTER
       compare_ort.py --graphs FOLDER     write each whole model, one input and onnxruntime's output, and time nothing
"""

import atexit
import importlib.util
import shutil
import sys
import tempfile
import time
from pathlib import Path


def without_avx512():
    """Takes onnxruntime from a copy that believes the operating system not to save AVX-512 registers.

    It has no switch for that. Where it looks (`not rax; test al, 0xe0; je`: bits 5 to 7 of XCR0 are set), the copy asks for
    a bit that is never set, and goes on with its AVX2 kernels.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(importlib.util.find_spec("onnxruntime").origin).parent
    shutil.copytree(package, Path(folder) / "onnxruntime")
    changed = 0
    for library in Path(folder).rglob("onnxruntime_pybind11_state*.so"):
        code = library.read_bytes()
        old, new = bytes.fromhex("48f7d0a8e00f84"), bytes.fromhex("48f7d0a8ff0f84")
        changed += code.count(old)
        library.write_bytes(code.replace(old, new))
    if changed == 0:
        sys.exit("this onnxruntime looks for AVX-512 in another way")
    sys.path.insert(0, folder)


if "--avx2" in sys.argv:
    sys.argv.remove("--avx2")
    without_avx512()

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

RNG = np.random.default_rng(1)
GEMMS = [[384, 384, 384], [1152, 1152, 1152], [128, 384, 384], [128, 1536, 384], [128, 384, 1536], [1, 4096, 1024]]


def session(model, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that wait do not burn processor time that is then counted.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    data = model if isinstance(model, (bytes, str)) else model.SerializeToString()
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def measure(name, model, feeds):
    for threads in (1, 2):
        run = session(model, threads)
        run.run(None, feeds)
        walls, start, cpu = [], time.perf_counter(), time.process_time()
        while len(walls) < 5 or time.perf_counter() - start < 1.0:
            one = time.perf_counter()
            run.run(None, feeds)
            walls.append(time.perf_counter() - one)
        cpu = (time.process_time() - cpu) / len(walls)
        print(f"{name}\t{threads}\t{np.median(walls) * 1e3:.6f}\t{cpu * 1e3:.6f}", flush=True)


class Net:
    """A model of opset 17 in the making."""

    def __init__(self, shape):
        self.nodes, self.weights, self.count = [], [], 0
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)

    def weight(self, *shape, scale=None):
        scale = scale or 1.0 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        return self.constant((RNG.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op, *inputs, **attributes):
        self.count += 1
        name = f"t{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{self.count}", **attributes))
        return name

    def conv(self, x, outputs, inputs, kernel, stride):
        pad = kernel // 2
        return self.add(
            "Conv", x, self.weight(outputs, inputs, kernel, kernel), self.weight(outputs, scale=0.1),
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
        )

    def finish(self, output, shape):
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "g", [self.input], [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def resnet18():
    net = Net([1, 3, 224, 224])
    x = net.add("Relu", net.conv("x", 64, 3, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inputs = 64
    for stage, channels in enumerate([64, 128, 256, 512]):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            y = net.add("Relu", net.conv(x, channels, inputs, 3, stride))
            y = net.conv(y, channels, channels, 3, 1)
            skip = net.conv(x, channels, inputs, 1, 2) if stride == 2 else x
            x = net.add("Relu", net.add("Add", y, skip))
            inputs = channels
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    x = net.add("Gemm", x, net.weight(1000, 512), net.weight(1000, scale=0.1), transB=1)
    return net.finish(x, [1, 1000])


def transformer(positions=128, width=384, heads=6, layers=6):
    net = Net([1, positions, width])
    ints = lambda *values: net.constant(np.array(values, dtype=np.int64))
    dense = lambda x, a, b: net.add("Add", net.add("MatMul", x, net.weight(a, b, scale=a**-0.5)), net.weight(b, scale=0.1))
    norm = lambda x: net.add("LayerNormalization", x, net.weight(width, scale=1.0), net.weight(width, scale=0.1), axis=-1)
    split, merge = ints(1, positions, heads, width // heads), ints(1, positions, width)
    root = net.constant(np.float32((width // heads) ** -0.5))
    one, half, two = (net.constant(np.float32(v)) for v in (1.0, 0.5, 2**-0.5))
    x = "x"
    for _ in range(layers):
        y = norm(x)
        q, k, v = (net.add("Reshape", dense(y, width, width), split) for _ in range(3))
        q, v = (net.add("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        k = net.add("Transpose", k, perm=[0, 2, 3, 1])
        p = net.add("Softmax", net.add("Mul", net.add("MatMul", q, k), root), axis=-1)
        y = net.add("Transpose", net.add("MatMul", p, v), perm=[0, 2, 1, 3])
        x = net.add("Add", x, dense(net.add("Reshape", y, merge), width, width))
        y = dense(norm(x), width, 4 * width)
        gelu = net.add("Mul", net.add("Mul", y, half), net.add("Add", net.add("Erf", net.add("Mul", y, two)), one))
        x = net.add("Add", x, dense(gelu, 4 * width, width))
    return net.finish(norm(x), [1, positions, width])


class Calibration(CalibrationDataReader):
    def __init__(self, feeds):
        self.rest = list(feeds)

    def get_next(self):
        return self.rest.pop() if self.rest else None


def quantised(model, feeds, folder):
    """onnxruntime's own static quantisation: u8 activations, s8 weights per channel."""
    source, ready, out = (str(Path(folder) / f"{name}.onnx") for name in ("float", "ready", "int8"))
    onnx.save(model, source)
    quant_pre_process(source, ready, skip_symbolic_shape=True)
    quantize_static(
        ready, out, Calibration([feeds]), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )
    return out


def gemm(kind, size):
    m, n, k = size
    integer = kind == "gemm_i8"
    b = RNG.integers(-127, 128, (k, n)).astype(np.int8) if integer else RNG.standard_normal((k, n)).astype(np.float32)
    types = (TensorProto.UINT8, TensorProto.INT32) if integer else (TensorProto.FLOAT, TensorProto.FLOAT)
    node = helper.make_node("MatMulInteger" if integer else "MatMul", ["a", "b"], ["c"])
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("a", types[0], [m, k])],
        [helper.make_tensor_value_info("c", types[1], [m, n])], [numpy_helper.from_array(b, "b")],
    )
    a = RNG.integers(0, 256, (m, k)).astype(np.uint8) if integer else RNG.standard_normal((m, k)).astype(np.float32)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), {"a": a}


MODELS = {"resnet18": (resnet18, (1, 3, 224, 224)), "transformer": (transformer, (1, 128, 384))}


def write_graphs(folder):
    for name, (build, shape) in MODELS.items():
        model, x = build(), RNG.standard_normal(shape).astype(np.float32)
        onnx.save(model, Path(folder) / f"{name}.onnx")
        np.save(Path(folder) / f"{name}.x.npy", x)
        np.save(Path(folder) / f"{name}.y.npy", session(model, 1).run(None, {"x": x})[0])


def main():
    if sys.argv[1:2] == ["--graphs"]:
        return write_graphs(sys.argv[2])
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for kind in ("gemm_i8", "gemm_f32"):
        for size in GEMMS:
            name = f"{kind} {'x'.join(map(str, size))}"
            if wanted in name:
                measure(name, *gemm(kind, size))
    for name, (build, shape) in MODELS.items():
        if wanted not in name:
            continue
        model, feeds = build(), {"x": RNG.standard_normal(shape).astype(np.float32)}
        measure(f"{name} float32", model, feeds)
        with tempfile.TemporaryDirectory() as folder:
            measure(f"{name} int8", quantised(model, feeds, folder), feeds)


main()
