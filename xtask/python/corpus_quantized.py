"""Quantised ONNX by onnxruntime.quantization, in both formats, of networks the corpus already holds."""

import numpy
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from corpus_common import write_entry


class Samples(CalibrationDataReader):
    def __init__(self, name, array):
        self.rows = iter([{name: array[k : k + 1]} for k in range(len(array))])

    def get_next(self):
        return next(self.rows, None)


def entries(root, chosen):
    for name in ("lenet", "resnet18"):
        source = root / f"{name}-torchscript"
        for suffix, form in (("qdq", QuantFormat.QDQ), ("qoperator", QuantFormat.QOperator)):
            if not chosen(f"{name}-{suffix}"):
                continue
            folder = root / f"{name}-{suffix}"
            folder.mkdir(parents=True, exist_ok=True)
            calibration = numpy.load(source / "calibration.0.npy")
            tests = numpy.load(source / "test.0.npy")[:256]
            labels = source / "labels.npy"
            prepared = folder / "prepared.onnx"
            quant_pre_process(str(source / "model.onnx"), str(prepared))
            quantize_static(
                str(prepared), str(folder / "model.onnx"), Samples("input", calibration), quant_format=form,
                per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            )  # fmt: skip
            prepared.unlink()
            known = numpy.load(labels)[: len(tests)] if labels.exists() else None
            exporter = f"onnxruntime.quantization {onnxruntime.__version__} {suffix}"
            measure = "noise" if known is None else "accuracy"
            write_entry(folder, exporter, measure, [calibration], [tests], known, known is not None)
