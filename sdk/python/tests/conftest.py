"""Models that the tests share, and a grid on this machine."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import numpy
import pytest

import tensorgrid

onnx = pytest.importorskip("onnx", reason="the tests write ONNX files with the package onnx")


def model_of(nodes, inputs, outputs, constants):
    """An ONNX model's bytes; inputs and outputs are (name, element type, shape)."""
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [onnx.numpy_helper.from_array(numpy.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.fixture(scope="session")
def classifier_file():
    """A dense layer of four numbers and three classes."""
    weights = numpy.array([[1, -1, 0], [0.5, 0.25, -1], [-1, 0, 1], [0, 2, -0.5]], numpy.float32)
    bias = numpy.array([0.1, -0.2, 0.3], numpy.float32)
    nodes = [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["scores"])]
    kind = onnx.TensorProto.FLOAT
    data = model_of(nodes, [("x", kind, ["N", 4])], [("scores", kind, ["N", 3])], {"w": weights, "b": bias})
    return data, lambda x: x @ weights + bias


@pytest.fixture(scope="session")
def rows():
    """Calibration rows of the classifier."""
    return numpy.random.default_rng(1).normal(size=(200, 4)).astype(numpy.float32)


@pytest.fixture(scope="session")
def classifier(classifier_file, rows):
    """The classifier, compiled."""
    return tensorgrid.compile(classifier_file[0], rows, labels=["cat", "dog", "eel"])


@pytest.fixture(scope="session")
def grid(tmp_path_factory):
    """The address of a grid in a process of its own."""
    folder = tmp_path_factory.mktemp("grid")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [str(tensorgrid.binary_path()), "up", "--data-dir", str(folder / "data"), "--listen", address]
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
    try:
        _wait_for_models(f"http://{address}", process, folder / "said")
        yield f"http://{address}"
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_models(url, process, said):
    ends = time.monotonic() + float(os.environ.get("TENSORGRID_TEST_START_S", "180"))
    while time.monotonic() < ends:
        assert process.poll() is None, said.read_text(errors="replace")
        try:
            with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as response:
                models = json.load(response)
            with urllib.request.urlopen(f"{url}/v1/offers", timeout=5) as response:
                offers = json.load(response)
            listed = models["items"] if isinstance(models, dict) else models
            offered = offers["items"] if isinstance(offers, dict) else offers
            if len(offered) >= 1 and any(m["name"] == "mlp-digits" and m["state"] == "active" for m in listed):
                return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"the grid did not start: {said.read_text(errors='replace')[-2000:]}")
