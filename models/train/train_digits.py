"""Trains the two digit models that TensorGrid ships, and the model of the MNIST check.

    python -m venv env && env/bin/pip install -r models/train/requirements.txt
    env/bin/python models/train/train_digits.py                      # both shipped models and models/digits/digits.bin
    env/bin/python models/train/train_digits.py --mnist DIR --out F  # a LeNet on the first 8,000 images of DIR

Everything is numpy: convolutions as matrix products over gathered windows, Adam, a cosine learning rate. The recipe is
fixed beforehand and the unseen images are only looked at once, at the end. Floating-point sums depend on the BLAS, so a
rerun gives models of the same accuracy, not the same bytes; the split and the digits file are the same bytes every time.
"""

import argparse
import gzip
import os
import pathlib
import struct

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products this small are slower on several threads

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SPLIT_SEED = 20_260_101
UNSEEN = 360
ROOT = pathlib.Path(__file__).resolve().parents[2] / "models"


# ---------------------------------------------------------------- images


def level_to_byte(levels):
    """A digit's grey levels 0..16 as bytes 0..255: round(v * 255 / 16)."""
    return ((levels.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)


def upscale(levels):
    """8x8 levels 0..16 to 28x28 bytes, bilinear, half-pixel centres, in integers (see models/digits/README.md)."""
    at = np.clip(16 * np.arange(28) - 20, 0, 7 * 56)
    low, weight = at // 56, at % 56
    high = np.minimum(low + 1, 7)
    v = levels.astype(np.int64)
    rows = v[:, low, :] * (56 - weight)[None, :, None] + v[:, high, :] * weight[None, :, None]
    both = rows[:, :, low] * (56 - weight) + rows[:, :, high] * weight
    return ((both * 255 + 25_088) // 50_176).astype(np.uint8)


def to_real(pixels):
    """Bytes as the reals in [0, 1] that the models take, with one channel: N x 1 x H x W."""
    return (pixels.astype(np.float32) / np.float32(255))[:, None, :, :]


def shifted(batch, rng, reach):
    """Each image moved by up to `reach` pixels; zeros move in."""
    if reach == 0:
        return batch
    height, width = batch.shape[2:]
    padded = np.pad(batch, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    down, right = rng.integers(0, 2 * reach + 1, (2, len(batch)))
    return np.stack([p[:, d : d + height, r : r + width] for p, d, r in zip(padded, down, right)])


# ---------------------------------------------------------------- layers


class Linear:
    def __init__(self, rng, inputs, outputs):
        self.weight = rng.normal(0, np.sqrt(2 / inputs), (outputs, inputs)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.x = x
        return x @ self.weight.T + self.bias

    def backward(self, g):
        self.gradients = [g.T @ self.x, g.sum(0)]
        return g @ self.weight


class Convolution:
    """Valid convolution, stride 1."""

    def __init__(self, rng, inputs, outputs, side):
        self.side = side
        self.weight = rng.normal(0, np.sqrt(2 / (inputs * side * side)), (outputs, inputs, side, side)).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.shape = x.shape
        windows = np.lib.stride_tricks.sliding_window_view(x, (self.side, self.side), axis=(2, 3))
        n, c, h, w = windows.shape[:4]
        self.columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n * h * w, -1)
        y = self.columns @ self.weight.reshape(len(self.weight), -1).T + self.bias
        return y.reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, g):
        n, o, h, w = g.shape
        rows = g.transpose(0, 2, 3, 1).reshape(-1, o)
        self.gradients = [(rows.T @ self.columns).reshape(self.weight.shape), rows.sum(0)]
        columns = (rows @ self.weight.reshape(o, -1)).reshape(n, h, w, -1, self.side, self.side)
        back = np.zeros(self.shape, np.float32)
        for i in range(self.side):
            for j in range(self.side):
                back[:, :, i : i + h, j : j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return back


class Relu:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, g):
        return g * self.on


class MaxPool:
    """2 x 2, stride 2."""

    def forward(self, x):
        n, c, h, w = x.shape
        cells = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
        self.at, self.shape = cells.argmax(-1), x.shape
        return cells.max(-1)

    def backward(self, g):
        n, c, h, w = self.shape
        cells = np.zeros((n, c, h // 2, w // 2, 4), np.float32)
        np.put_along_axis(cells, self.at[..., None], g[..., None], -1)
        return cells.reshape(n, c, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(self.shape)


class Flatten:
    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, g):
        return g.reshape(self.shape)


def lenet(rng):
    return [
        Convolution(rng, 1, 6, 5), Relu(), MaxPool(),
        Convolution(rng, 6, 16, 5), Relu(), MaxPool(), Flatten(),
        Linear(rng, 256, 120), Relu(), Linear(rng, 120, 84), Relu(), Linear(rng, 84, 10),
    ]  # fmt: skip


def mlp(rng):
    return [Flatten(), Linear(rng, 64, 32), Relu(), Linear(rng, 32, 10)]


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


def accuracy(layers, x, labels):
    guesses = [forward(layers, x[i : i + 250]).argmax(1) for i in range(0, len(x), 250)]
    return float(np.mean(np.concatenate(guesses) == labels))


# ---------------------------------------------------------------- training


def train(layers, x, labels, rng, epochs, reach, rate, batch=32, decay=1e-4):
    weighted = [layer for layer in layers if hasattr(layer, "weight")]
    moments = [[np.zeros_like(layer.weight), np.zeros_like(layer.bias)] for layer in weighted]
    squares = [[np.zeros_like(layer.weight), np.zeros_like(layer.bias)] for layer in weighted]
    steps, step = epochs * (len(x) // batch), 0
    for epoch in range(epochs):
        order, loss = rng.permutation(len(x)), 0.0
        for start in range(0, len(x) - batch + 1, batch):
            chosen, step = order[start : start + batch], step + 1
            logits = forward(layers, shifted(x[chosen], rng, reach))
            shift = logits - logits.max(1, keepdims=True)
            p = np.exp(shift) / np.exp(shift).sum(1, keepdims=True)
            loss -= float(np.log(p[np.arange(batch), labels[chosen]] + 1e-12).sum())
            g = p
            g[np.arange(batch), labels[chosen]] -= 1
            g = (g / batch).astype(np.float32)
            for layer in reversed(layers):
                g = layer.backward(g)
            now = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            for layer, moment, square in zip(weighted, moments, squares):
                for i, value in enumerate([layer.weight, layer.bias]):
                    gradient = layer.gradients[i]
                    moment[i] += 0.1 * (gradient - moment[i])
                    square[i] += 0.001 * (gradient**2 - square[i])
                    update = moment[i] / (1 - 0.9**step) / (np.sqrt(square[i] / (1 - 0.999**step)) + 1e-8)
                    value -= (now * (update + (decay * value if i == 0 else 0))).astype(np.float32)
        print(f"  epoch {epoch + 1:3} loss {loss / len(x):.4f}", flush=True)


# ---------------------------------------------------------------- files


def export(layers, name, shape, path):
    """One node per layer, named; opset 17; the batch axis is 1."""
    nodes, tensors, value, counts = [], [], "input", {}
    for position, layer in enumerate(layers):
        kind = {"Convolution": "conv", "Linear": "fc", "Relu": "relu", "MaxPool": "pool", "Flatten": "flatten"}[type(layer).__name__]
        counts[kind] = counts.get(kind, 0) + 1
        node, result = f"{kind}{counts[kind]}", "logits" if position == len(layers) - 1 else f"{kind}{counts[kind]}.out"
        inputs = [value]
        if hasattr(layer, "weight"):
            for part in ["weight", "bias"]:
                tensors.append(numpy_helper.from_array(np.ascontiguousarray(getattr(layer, part)), f"{node}.{part}"))
                inputs.append(f"{node}.{part}")
        attributes = {
            "conv": {"kernel_shape": [5, 5]},
            "fc": {"transB": 1},
            "pool": {"kernel_shape": [2, 2], "strides": [2, 2]},
            "flatten": {"axis": 1},
        }.get(kind, {})
        operator = {"conv": "Conv", "fc": "Gemm", "relu": "Relu", "pool": "MaxPool", "flatten": "Flatten"}[kind]
        nodes.append(helper.make_node(operator, inputs, [result], name=node, **attributes))
        value = result
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        tensors,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tensorgrid train_digits.py")
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    print(f"  wrote {path.name}: {path.stat().st_size} bytes, {sum(int(np.prod(t.dims)) for t in tensors)} parameters")


def write_digits(levels, labels, unseen, path):
    """`TGDIGITS`, count u32, height u8, width u8, then per image its levels, its label and 1 if unseen, 0 if trained on."""
    rows = np.concatenate([levels.reshape(len(levels), 64), labels[:, None], unseen[:, None]], axis=1).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"TGDIGITS" + struct.pack("<IBB", len(levels), 8, 8) + rows.tobytes())


def read_idx(path):
    data = gzip.decompress(path.read_bytes())
    axes = data[3]
    shape = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def digits():
    from sklearn.datasets import load_digits

    source = load_digits()
    levels, labels = source.images.astype(np.uint8), source.target.astype(np.uint8)
    unseen = np.zeros(len(levels), np.uint8)
    unseen[np.random.RandomState(SPLIT_SEED).permutation(len(levels))[:UNSEEN]] = 1
    write_digits(levels, labels, unseen, ROOT / "digits" / "digits.bin")
    seen = unseen == 0
    plans = [
        ("mlp-digits", mlp, to_real(level_to_byte(levels)), dict(epochs=120, reach=0, rate=4e-3, decay=1e-2)),
        ("lenet-digits", lenet, to_real(upscale(levels)), dict(epochs=40, reach=2, rate=2e-3)),
    ]
    for name, build, x, recipe in plans:
        rng = np.random.default_rng(SPLIT_SEED)
        layers = build(rng)
        print(name)
        train(layers, x[seen], labels[seen], rng, **recipe)
        print(f"  trained on {seen.sum()}: {accuracy(layers, x[seen], labels[seen]):.4f}, unseen {UNSEEN}: {accuracy(layers, x[~seen], labels[~seen]):.4f}")
        export(layers, name, x.shape[1:], ROOT / f"{name}.onnx")


def mnist(folder, out):
    x = to_real(read_idx(folder / "t10k-images-idx3-ubyte.gz"))
    labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz")
    rng = np.random.default_rng(SPLIT_SEED)
    layers = lenet(rng)
    train(layers, x[:8_000], labels[:8_000], rng, epochs=10, reach=1, rate=2e-3, batch=64)
    print(f"  last 2,000: {accuracy(layers, x[8_000:], labels[8_000:]):.4f}")
    export(layers, "lenet-mnist", x.shape[1:], out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", type=pathlib.Path, help="folder with the t10k files; trains a LeNet on their first 8,000 images")
    parser.add_argument("--out", type=pathlib.Path, help="where --mnist writes its model")
    options = parser.parse_args()
    if options.mnist:
        if not options.out:
            parser.error("--mnist needs --out")
        mnist(options.mnist, options.out)
    else:
        digits()


if __name__ == "__main__":
    main()
