"""Writes onnx_cases.json: small models of every supported operator with the output of ONNX's own reference evaluator.

    env/bin/python crates/tg-compile/tests/data/make_onnx_cases.py     (packages: models/train/requirements.txt)
"""

import json
import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.RandomState(7)
CASES = []


def draw(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def case(name, shape, nodes, constants=(), opset=17):
    """`nodes` are (operator, inputs, attributes); each output is named after its position, the last one `y`."""
    protos = []
    for position, (operator, inputs, attributes) in enumerate(nodes):
        output = "y" if position == len(nodes) - 1 else f"v{position}"
        protos.append(helper.make_node(operator, inputs, [output], name=f"{operator.lower()}{position}", **attributes))
    graph = helper.make_graph(
        protos, name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in dict(constants).items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = draw(*shape)
    (y,) = ReferenceEvaluator(model).run(None, {"x": x})
    CASES.append(
        {
            "name": name,
            "model": model.SerializeToString().hex(),
            "input": [float(f"{v:.9g}") for v in x.ravel()],
            "shape": list(y.shape),
            "output": [float(f"{v:.9g}") for v in y.ravel()],
        }
    )


def main():
    conv = {"w": draw(4, 2, 3, 3), "b": draw(4)}
    case("conv", [1, 2, 6, 5], [("Conv", ["x", "w", "b"], {})], conv)
    case("conv without bias", [1, 2, 6, 5], [("Conv", ["x", "w"], {"kernel_shape": [3, 3]})], {"w": conv["w"]})
    case("conv pads", [1, 2, 6, 5], [("Conv", ["x", "w", "b"], {"pads": [1, 0, 2, 1], "strides": [2, 1]})], conv)
    for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        case(f"conv {auto}", [1, 2, 6, 5], [("Conv", ["x", "w", "b"], {"auto_pad": auto, "strides": [2, 2]})], conv)
    gemm = {"w": draw(6, 4), "b": draw(4)}
    case("gemm", [1, 6], [("Gemm", ["x", "w", "b"], {})], gemm)
    case("gemm alpha beta", [1, 6], [("Gemm", ["x", "w", "b"], {"alpha": 0.5, "beta": -2.0})], gemm)
    case("gemm transposed", [1, 6], [("Gemm", ["x", "w"], {"transB": 1})], {"w": draw(4, 6)})
    case("gemm one bias", [1, 6], [("Gemm", ["x", "w", "b"], {})], {"w": draw(6, 4), "b": draw(1, 1)})
    case("matmul add", [1, 6], [("MatMul", ["x", "w"], {}), ("Add", ["b", "v0"], {})], gemm)
    case("matmul of a transposed constant", [1, 6],
         [("Transpose", ["w"], {"perm": [1, 0]}), ("MatMul", ["x", "v0"], {})], {"w": draw(4, 6)})  # fmt: skip
    case("conv add per channel", [1, 2, 6, 5],
         [("Conv", ["x", "w"], {}), ("Add", ["v0", "c"], {})], {"w": conv["w"], "c": draw(1, 4, 1, 1)})  # fmt: skip
    norm = {"s": draw(4), "o": draw(4), "m": draw(4), "v": np.abs(draw(4)) + np.float32(0.1)}
    case("batch normalisation", [1, 2, 6, 5],
         [("Conv", ["x", "w", "b"], {}), ("BatchNormalization", ["v0", "s", "o", "m", "v"], {"epsilon": 1e-3}), ("Relu", ["v1"], {})],
         conv | norm)  # fmt: skip
    case("batch normalisation of a gemm", [1, 6],
         [("Gemm", ["x", "w", "b"], {}), ("BatchNormalization", ["v0", "s", "o", "m", "v"], {})], gemm | norm)  # fmt: skip
    for name, pool in [("max", "MaxPool"), ("average", "AveragePool")]:
        case(f"{name} pool", [1, 3, 6, 5], [(pool, ["x"], {"kernel_shape": [2, 3], "strides": [2, 1]})])
        case(f"{name} pool VALID", [1, 3, 6, 5], [(pool, ["x"], {"kernel_shape": [2, 2], "auto_pad": "VALID"})])
    case("max pool pads", [1, 3, 6, 5], [("MaxPool", ["x"], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})])
    case("average pool pads", [1, 3, 6, 5],
         [("AveragePool", ["x"], {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1})])  # fmt: skip
    case("global average pool", [1, 3, 6, 5], [("GlobalAveragePool", ["x"], {}), ("Flatten", ["v0"], {})])
    case("relu", [1, 7], [("Relu", ["x"], {})])
    bounds = {"low": np.float32(-0.25), "high": np.float32(0.5)}
    case("clip", [1, 7], [("Clip", ["x", "low", "high"], {})], bounds)
    case("clip below", [1, 7], [("Clip", ["x", "low"], {})], bounds)
    case("clip above", [1, 7], [("Clip", ["x", "", "high"], {})], bounds)
    case("identity", [1, 7], [("Identity", ["x"], {}), ("Relu", ["v0"], {})])
    case("add to itself", [1, 3, 2, 2], [("Relu", ["x"], {}), ("Add", ["v0", "x"], {})])
    case("flatten to gemm", [1, 3, 2, 2], [("Flatten", ["x"], {}), ("Gemm", ["v0", "w"], {})], {"w": draw(12, 5)})
    case("reshape with 0 and -1", [1, 4, 3, 2], [("Reshape", ["x", "s"], {}), ("Relu", ["v0"], {})], {"s": np.array([0, 2, -1, 2])})
    case("transpose", [1, 4, 3, 2], [("Transpose", ["x"], {"perm": [0, 2, 3, 1]}), ("Relu", ["v0"], {})])
    case("transpose, flatten, gemm", [1, 2, 3, 2],
         [("Transpose", ["x"], {"perm": [0, 3, 1, 2]}), ("Flatten", ["v0"], {}), ("Gemm", ["v1", "w"], {})], {"w": draw(12, 5)})  # fmt: skip
    case("reshape to an image, conv", [1, 24],
         [("Reshape", ["x", "s"], {}), ("Conv", ["v0", "w"], {})], {"s": np.array([1, 2, 4, 3]), "w": conv["w"]})  # fmt: skip
    case("constant node", [1, 6],
         [("Constant", [], {"value": numpy_helper.from_array(draw(6, 4))}), ("MatMul", ["x", "v0"], {})])  # fmt: skip
    case("constant floats and ints", [1, 4],
         [("Constant", [], {"value_floats": [0.5, -0.5, 0.25, 1.0]}), ("Constant", [], {"value_ints": [4, 1]}),
          ("Reshape", ["v0", "v1"], {}), ("MatMul", ["x", "v2"], {})])  # fmt: skip
    case("dead nodes", [1, 6], [("Relu", ["x"], {}), ("Gemm", ["x", "w", "b"], {})], gemm)
    for opset in [13, 21]:
        case(f"opset {opset}", [1, 6], [("Gemm", ["x", "w", "b"], {}), ("Relu", ["v0"], {})], gemm, opset)
    net = {"w1": draw(4, 2, 3, 3), "b1": draw(4), "w2": draw(3, 4, 2, 2), "w3": draw(12, 5), "b3": draw(5)}
    case("residual net", [1, 2, 6, 6],
         [("Conv", ["x", "w1", "b1"], {"pads": [1, 1, 1, 1]}), ("Relu", ["v0"], {}), ("MaxPool", ["v1"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
          ("Conv", ["v2", "w2"], {}), ("Clip", ["v3", "low", "high"], {}), ("Add", ["v4", "v3"], {}), ("Relu", ["v5"], {}),
          ("Flatten", ["v6"], {}), ("Gemm", ["v7", "w3", "b3"], {})],
         net | {"low": np.float32(0), "high": np.float32(6)})  # fmt: skip
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES)
    path = pathlib.Path(__file__).with_name("onnx_cases.json")
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{len(CASES)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
