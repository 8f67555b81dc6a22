"""Keras networks through tf2onnx. Needs its own environment: TensorFlow and PyTorch pin different packages.

usage: corpus_keras.py DIR [--data FOLDER] [--only NAME ...]
"""

import argparse
import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # noqa: E402
import numpy  # noqa: E402
import tensorflow  # noqa: E402
import tf2onnx  # noqa: E402
from keras import layers  # noqa: E402

from corpus_common import CALIBRATION, SEED, TESTS, Data, write_entry  # noqa: E402

NETWORKS = {
    "keras-mlp": ((28, 28, 1), [layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(10, activation="softmax")]),
    "keras-cnn": ((28, 28, 1), [
        layers.Conv2D(8, 3, padding="same", use_bias=False), layers.BatchNormalization(), layers.ReLU(6.0),
        layers.MaxPooling2D(), layers.SeparableConv2D(16, 3, strides=2, padding="same"), layers.LeakyReLU(0.1),
        layers.GlobalAveragePooling2D(), layers.Dropout(0.1), layers.Dense(10, activation="softmax")]),
    "keras-lstm": ((28, 28), [layers.LSTM(32), layers.Dense(10, activation="softmax")]),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    data = Data(arguments.data)
    for name, (shape, stack) in NETWORKS.items():
        if arguments.only and not any(name.startswith(start) for start in arguments.only):
            continue
        keras.utils.set_random_seed(SEED)
        network = keras.Sequential([layers.Input(shape), *stack])
        labels = None
        if data.digits is not None:
            images, all_labels = data.digits[0].reshape(-1, *shape), data.digits[1]
            network.compile("adam", "sparse_categorical_crossentropy")
            network.fit(images[:8000], all_labels[:8000], epochs=6, verbose=0)
            labels = all_labels[8000 : 8000 + TESTS]
        else:
            images = numpy.random.default_rng(SEED).standard_normal((9_000, *shape), numpy.float32)
        signature = [tensorflow.TensorSpec([None, *shape], tensorflow.float32, name="input")]
        function = tensorflow.function(lambda x, n=network: n(x, training=False), input_signature=signature)
        folder = arguments.dir / name
        folder.mkdir(parents=True, exist_ok=True)
        tf2onnx.convert.from_function(
            function, input_signature=signature, opset=17, output_path=str(folder / "model.onnx")
        )
        exporter = f"tf2onnx {tf2onnx.__version__}, Keras {keras.__version__}"
        measure = "noise" if labels is None else "accuracy"
        write_entry(folder, exporter, measure, [images[:CALIBRATION]], [images[8000 : 8000 + TESTS]], labels, labels is not None)


if __name__ == "__main__":
    main()
