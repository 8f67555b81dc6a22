"""What every part of the corpus shares: seeds, data, and how an entry is written.

DIR/<entry>/model.onnx            as the exporter wrote it (with its external data, where it uses some)
DIR/<entry>/calibration.<i>.npy   32 samples of model input i
DIR/<entry>/test.<i>.npy          the test samples of model input i
DIR/<entry>/expected.<o>.npy      onnxruntime's answers for the test samples, model output o
DIR/<entry>/labels.npy            the right answers, where the task has some
DIR/<entry>/entry.json            exporter, versions, input and output names, and the measure of the task

The first axis of every array counts samples; sample k is run alone, as a batch of one (`array[k:k+1]`).
"""

import gzip
import json
import pathlib

import numpy
import onnx
import onnxruntime

CALIBRATION = 32
TESTS = 256
SEED = 20_261


class Data:
    """Training data, or None where a data set was not given."""

    def __init__(self, folder):
        self.digits, self.text = None, None
        if folder is None:
            return
        folder = pathlib.Path(folder)
        mnist = folder / "mnist"
        if mnist.is_dir():
            raw = gzip.decompress((mnist / "t10k-images-idx3-ubyte.gz").read_bytes())
            images = numpy.frombuffer(raw, numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
            raw = gzip.decompress((mnist / "t10k-labels-idx1-ubyte.gz").read_bytes())
            labels = numpy.frombuffer(raw, numpy.uint8, offset=8).astype(numpy.int64)
            self.digits = ((images.astype(numpy.float32) / 255 - 0.1307) / 0.3081, labels)
        text = folder / "text" / "tinyshakespeare.txt"
        if text.is_file():
            characters = text.read_text()
            alphabet = sorted(set(characters))
            code = {character: index for index, character in enumerate(alphabet)}
            self.text = numpy.array([code[character] for character in characters], numpy.int64)


def answers(model_path, inputs, samples=None):
    """onnxruntime's outputs for each sample run as a batch of one, stacked."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model_path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    count = len(inputs[0]) if samples is None else samples
    rows = []
    for k in range(count):
        rows.append(session.run(None, {n: a[k : k + 1] for n, a in zip(names, inputs)}))
    return names, [value.name for value in session.get_outputs()], [
        numpy.concatenate([numpy.asarray(row[o]) for row in rows]) for o in range(len(rows[0]))
    ]


def write_entry(folder, exporter, measure, calibration, tests, labels=None, trained=False):
    """Completes `folder`, which holds model.onnx, to an entry of the corpus.

    `measure` is what the task counts: "accuracy", "perplexity", or "noise" where only the signal-to-noise ratio says
    something.
    """
    path = folder / "model.onnx"
    input_names, output_names, outputs = answers(path, tests)
    for index, (few, many) in enumerate(zip(calibration, tests)):
        numpy.save(folder / f"calibration.{index}.npy", few)
        numpy.save(folder / f"test.{index}.npy", many)
    for index, output in enumerate(outputs):
        numpy.save(folder / f"expected.{index}.npy", output)
    if labels is not None:
        numpy.save(folder / "labels.npy", labels.astype(numpy.int64))
    model = onnx.load(path, load_external_data=False)
    operators = {}
    for node in model.graph.node:
        operators[node.op_type] = operators.get(node.op_type, 0) + 1
    entry = {
        "name": folder.name,
        "exporter": exporter,
        "opset": {item.domain or "ai.onnx": item.version for item in model.opset_import},
        "inputs": input_names,
        "outputs": output_names,
        "measure": measure,
        "trained": trained,
        "samples": len(tests[0]),
        "operators": dict(sorted(operators.items())),
    }
    (folder / "entry.json").write_text(json.dumps(entry, indent=1) + "\n")
    print(f"  {folder.name}: {sum(operators.values())} nodes, {len(tests[0])} samples", flush=True)
