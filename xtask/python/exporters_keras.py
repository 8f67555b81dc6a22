"""Keras networks of drawn sizes, by Keras' own export to ONNX."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy

from exporters_common import CALIBRATION, TESTS, make, split


def dense(draws):
    features = draws.choice([4, 13, 30])
    layers = [keras.Input((features,))]
    for _ in range(draws.randint(1, 3)):
        layers.append(keras.layers.Dense(draws.choice([8, 32]), activation=draws.choice(["relu", "tanh", "gelu", "selu", "swish"])))
        if draws.random() < 0.4:
            layers.append(keras.layers.BatchNormalization())
    layers.append(keras.layers.Dense(draws.choice([1, 3]), activation=draws.choice([None, "sigmoid", "softmax"])))
    return keras.Sequential(layers), (features,)


def convolution(draws):
    size, channels = draws.choice([16, 28]), draws.choice([1, 3])
    layers = [keras.Input((size, size, channels))]
    for _ in range(draws.randint(1, 3)):
        layers.append(keras.layers.Conv2D(draws.choice([8, 16]), draws.choice([1, 3, 5]), strides=draws.choice([1, 2]), padding=draws.choice(["same", "valid"]), activation=draws.choice(["relu", "elu"])))
    layers += [draws.choice([keras.layers.MaxPooling2D, keras.layers.AveragePooling2D])(2, padding="same"), keras.layers.Flatten(), keras.layers.Dense(5, activation="softmax")]
    return keras.Sequential(layers), (size, size, channels)


def separable(draws):
    layers = [keras.Input((16, 16, 3)), keras.layers.SeparableConv2D(8, 3, padding="same", activation="relu"), keras.layers.DepthwiseConv2D(3), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)]
    return keras.Sequential(layers), (16, 16, 3)


def sequence(draws):
    steps, width = draws.choice([10, 16]), draws.choice([4, 8])
    kind = draws.choice([keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN, keras.layers.Conv1D])
    if kind is keras.layers.Conv1D:
        body = [kind(16, 3, activation="relu"), keras.layers.GlobalMaxPooling1D()]
    else:
        body = [kind(12)]
    return keras.Sequential([keras.Input((steps, width)), *body, keras.layers.Dense(2)]), (steps, width)


def attention(draws):
    steps, width = draws.choice([6, 12]), draws.choice([8, 16])
    given = keras.Input((steps, width))
    attended = keras.layers.MultiHeadAttention(draws.choice([1, 2]), 8)(given, given)
    hidden = keras.layers.LayerNormalization()(given + attended)
    return keras.Model(given, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling1D()(hidden))), (steps, width)


def residual(draws):
    given = keras.Input((12, 12, 3))
    first = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(given)
    second = keras.layers.BatchNormalization()(keras.layers.Conv2D(8, 3, padding="same")(first))
    joined = keras.layers.Activation("relu")(keras.layers.Add()([first, second]))
    up = keras.layers.Conv2DTranspose(4, 2, strides=2)(joined)
    return keras.Model(given, keras.layers.Conv2D(1, 1)(draws.choice([keras.layers.UpSampling2D(2)(up), up]))), (12, 12, 3)


KINDS = [dense, convolution, separable, sequence, attention, residual]


def draw(draws, folder, number):
    keras.utils.set_random_seed(draws.getrandbits(31))
    kind = KINDS[number % len(KINDS)]
    model, shape = kind(draws)
    samples = [draws.numpy().normal(size=(CALIBRATION + TESTS, *shape)).astype(numpy.float32)]
    model(samples[0][:1])
    model.export(str(folder / "model.onnx"), format="onnx", verbose=False)
    few, some = split(samples)
    return kind.__name__, few, some


def graphs(root, seed, chosen):
    make(root, "keras", seed, 4 * len(KINDS), draw, chosen)
