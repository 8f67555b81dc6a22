"""What every family of the drawn corpus shares: draws, answers, and how a graph is written.

DIR/<graph>/model.onnx            as the exporter wrote it
DIR/<graph>/calibration.<i>.npy   16 samples of model input i
DIR/<graph>/test.<i>.npy          2 samples of model input i
DIR/<graph>/expected.<o>.npy      onnxruntime's answers for the test samples, model output o
DIR/<graph>/entry.json            family, configuration, input and output names

The first axis of every array counts samples; a sample's arrays are `array[k : k + 1]`, or `array[k]` where "batched" is
false: then the model has no batch axis.
"""

import json
import random
import shutil
import traceback
import zlib

import numpy
import onnx
import onnxruntime

CALIBRATION = 16
TESTS = 2


class Draws(random.Random):
    """Numbers that follow from a seed and a name, so that a graph does not depend on the others."""

    def __init__(self, seed, name):
        super().__init__(zlib.crc32(f"{seed} {name}".encode()))

    def numpy(self):
        return numpy.random.default_rng(self.getrandbits(32))


class Refused(Exception):
    """The exporter, or onnxruntime, does not take this configuration: another one is drawn."""


def answers(path, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    outputs = [value.name for value in session.get_outputs()]
    rows = [session.run(None, {n: a[k : k + 1] for n, a in zip(names, inputs)}) for k in range(len(inputs[0]))]
    stacked = []
    for index in range(len(outputs)):
        values = [numpy.asarray(row[index]) for row in rows]
        if values[0].dtype == object or values[0].dtype.kind in "SU":
            raise Refused(f"its output {outputs[index]} is of text or maps")
        stacked.append(numpy.stack(values))
    return names, outputs, stacked


def finish(folder, family, configuration, calibration, tests):
    """Completes a folder that holds model.onnx."""
    names, outputs, expected = answers(folder / "model.onnx", tests)
    for index, (few, some) in enumerate(zip(calibration, tests)):
        numpy.save(folder / f"calibration.{index}.npy", few)
        numpy.save(folder / f"test.{index}.npy", some)
    for index, values in enumerate(expected):
        numpy.save(folder / f"expected.{index}.npy", values)
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    entry = {
        "name": folder.name,
        "family": family,
        "configuration": configuration,
        "inputs": names,
        "outputs": outputs,
        "operators": sorted({node.op_type for node in model.graph.node}),
    }
    (folder / "entry.json").write_text(json.dumps(entry, indent=1) + "\n")


def make(root, family, seed, count, draw, chosen):
    """Draws `count` graphs: `draw(draws, folder, number)` writes model.onnx and gives configuration and samples."""
    for number in range(count):
        name = f"{family}-{number:02}"
        if not chosen(name) or (root / name / "entry.json").is_file():
            continue
        for attempt in range(4):
            folder = root / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            # Estimators without a seed of their own draw from these.
            random.seed(zlib.crc32(f"{seed} {name} {attempt}".encode()))
            numpy.random.seed(random.getrandbits(32))
            try:
                configuration, calibration, tests = draw(Draws(seed, f"{name} {attempt}"), folder, number)
                finish(folder, family, configuration, calibration, tests)
                print(f"{name}: {configuration}", flush=True)
                break
            except Exception as error:  # what an exporter does not take is not ours to judge
                shutil.rmtree(folder, ignore_errors=True)
                last = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
                print(f"{name} attempt {attempt}: {last[:200]}", flush=True)


def split(samples):
    """Calibration and test samples of arrays that hold both."""
    few = [array[:CALIBRATION] for array in samples]
    some = [array[CALIBRATION : CALIBRATION + TESTS] for array in samples]
    return few, some
