"""Trains the byte-level language model that TensorGrid ships, `models/gpt-bytes.tgm`.

    python -m venv env && env/bin/pip install -r models/train/requirements-gpt.txt
    env/bin/python models/train/train_gpt.py --text FILE --out DIR
    tensorgrid model compile DIR/gpt-bytes.onnx --calibrate DIR/calibration.npy --name gpt-bytes \
        --precision mixed --top-k 32 -o models/gpt-bytes.tgm

The text is any plain text; the shipped model was trained on 1.1 MB of Shakespeare's plays (public domain). A token is a
byte. The network is a GPT: learned places, blocks of causal attention and a perceptron behind normalisations, an output
layer of its own. Adam with a cosine learning rate; the last tenth of the text is not trained on and measured at the end.
What is written: the ONNX file (opset 17, no operators beyond it), calibration inputs, and `loss.txt`. Floating-point sums
depend on the processor, so a rerun gives a model of the same quality, not the same bytes.
"""

import argparse
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY = 256
CALIBRATION = 32


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600, help="of processor time, about")
    parser.add_argument("--steps", type=int, default=1400, help="at most; the learning rate ends at 0 after so many")
    return parser.parse_args()


# ---------------------------------------------------------------- network


def initial(options, rng):
    """Weights as GPT-2 draws them."""
    c = options.channels

    def draw(*shape, scale=0.02):
        return jnp.asarray(rng.normal(0, scale, shape), jnp.float32)

    onward = 0.02 / np.sqrt(2 * options.layers)
    block = lambda: {
        "gain1": jnp.ones(c), "offset1": jnp.zeros(c), "qkv": draw(c, 3 * c, scale=0.06), "qkv_bias": jnp.zeros(3 * c),
        "mix": draw(c, c, scale=onward), "mix_bias": jnp.zeros(c),
        "gain2": jnp.ones(c), "offset2": jnp.zeros(c), "up": draw(c, 4 * c, scale=0.06), "up_bias": jnp.zeros(4 * c),
        "down": draw(4 * c, c, scale=onward), "down_bias": jnp.zeros(c),
    }
    return {
        "tokens": draw(VOCABULARY, c, scale=0.05), "places": draw(options.window, c, scale=0.02),
        "blocks": [block() for _ in range(options.layers)],
        "gain": jnp.ones(c), "offset": jnp.zeros(c), "out": draw(c, VOCABULARY),
    }


def normal(x, gain, offset):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + offset


def scores(weights, tokens, heads):
    """Scores of the next token after each: B x T x VOCABULARY."""
    x = weights["tokens"][tokens] + weights["places"][: tokens.shape[1]]
    batch, steps, c = x.shape
    mask = jnp.triu(jnp.full((steps, steps), -1e9), 1)
    for block in weights["blocks"]:
        h = normal(x, block["gain1"], block["offset1"])
        qkv = (h @ block["qkv"] + block["qkv_bias"]).reshape(batch, steps, 3, heads, c // heads)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        attention = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(c // heads) + mask, -1)
        mixed = (attention @ v).transpose(0, 2, 1, 3).reshape(batch, steps, c)
        x = x + mixed @ block["mix"] + block["mix_bias"]
        h = normal(x, block["gain2"], block["offset2"])
        x = x + jnp.maximum(h @ block["up"] + block["up_bias"], 0) @ block["down"] + block["down_bias"]
    return normal(x, weights["gain"], weights["offset"]) @ weights["out"]


def loss_of(weights, batch, heads):
    logits = scores(weights, batch[:, :-1], heads)
    log = jax.nn.log_softmax(logits, -1)
    return -jnp.take_along_axis(log, batch[:, 1:, None], -1).mean()


# ---------------------------------------------------------------- training


def train(options, text):
    rng = np.random.default_rng(1)
    weights = initial(options, rng)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros)
    heads, peak, warm = options.heads, 2e-3, 60

    @jax.jit
    def step(state, batch, at):
        weights, first, second = state
        loss, slope = jax.value_and_grad(loss_of)(weights, batch, heads)
        norm = jnp.sqrt(sum((s**2).sum() for s in jax.tree.leaves(slope)))
        slope = jax.tree.map(lambda s: s * jnp.minimum(1, 1 / norm), slope)
        first = jax.tree.map(lambda m, s: 0.9 * m + 0.1 * s, first, slope)
        second = jax.tree.map(lambda v, s: 0.98 * v + 0.02 * s * s, second, slope)
        rate = peak * jnp.minimum((at + 1) / warm, 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(at / options.steps, 1))))
        ahead = lambda m: m / (1 - 0.9 ** (at + 1))
        behind = lambda v: v / (1 - 0.98 ** (at + 1))
        decay = lambda w: 0.05 * w if w.ndim > 1 else 0 * w
        update = lambda w, m, v: w - rate * (ahead(m) / (jnp.sqrt(behind(v)) + 1e-8) + decay(w))
        return (jax.tree.map(update, weights, first, second), first, second), loss

    start, losses = time.process_time(), []
    for at in range(options.steps):
        starts = rng.integers(0, len(text) - options.window - 1, options.batch)
        batch = np.stack([text[s : s + options.window + 1] for s in starts]).astype(np.int32)
        state, loss = step(state, batch, at)
        losses.append(float(loss))
        if at % 50 == 0:
            print(f"step {at} loss {np.mean(losses[-50:]):.3f} after {time.process_time() - start:.0f} s", flush=True)
        if time.process_time() - start > options.seconds:
            print("the time is over", flush=True)
            break
    return state[0]


# ---------------------------------------------------------------- ONNX


class Writer:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind, inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name


def export(weights, options, path):
    w, c, heads, steps = Writer(), options.channels, options.heads, options.window
    each = c // heads
    real = lambda name, value: w.constant(name, np.asarray(value, np.float32))
    ints = lambda name, value: w.constant(name, np.asarray(value, np.int64))

    def linear(x, name, matrix, bias):
        return w.node("Add", [w.node("MatMul", [x, real(name, matrix)]), real(f"{name}.bias", bias)])

    def layer_norm(x, name, gain, offset):
        return w.node("LayerNormalization", [x, real(f"{name}.gain", gain), real(f"{name}.offset", offset)], axis=-1)

    split, join = ints("split", [1, steps, heads, each]), ints("join", [1, steps, c])
    mask = real("mask", np.triu(np.full((1, 1, steps, steps), np.finfo(np.float32).min, np.float32), 1))
    x = w.node("Gather", [real("tokens.table", weights["tokens"]), "tokens"])
    x = w.node("Add", [x, real("places", weights["places"])])
    for index, block in enumerate(weights["blocks"]):
        name = f"block{index}"
        h = layer_norm(x, f"{name}.norm1", block["gain1"], block["offset1"])
        qkv, bias = np.array(block["qkv"]), np.array(block["qkv_bias"])
        # The scores' factor is taken into the queries.
        qkv[:, :c] /= np.sqrt(each)
        bias[:c] /= np.sqrt(each)
        parts = []
        for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            of = slice(len(parts) * c, (len(parts) + 1) * c)
            y = linear(h, f"{name}.{part}", qkv[:, of], bias[of])
            parts.append(w.node("Transpose", [w.node("Reshape", [y, split])], perm=order))
        q, k, v = parts
        attention = w.node("Softmax", [w.node("Add", [w.node("MatMul", [q, k]), mask])], axis=-1)
        mixed = w.node("Transpose", [w.node("MatMul", [attention, v])], perm=[0, 2, 1, 3])
        mixed = linear(w.node("Reshape", [mixed, join]), f"{name}.mix", block["mix"], block["mix_bias"])
        x = w.node("Add", [x, mixed])
        h = layer_norm(x, f"{name}.norm2", block["gain2"], block["offset2"])
        h = w.node("Relu", [linear(h, f"{name}.up", block["up"], block["up_bias"])])
        x = w.node("Add", [x, linear(h, f"{name}.down", block["down"], block["down_bias"])])
    x = layer_norm(x, "norm", weights["gain"], weights["offset"])
    w.nodes.append(helper.make_node("MatMul", [x, real("out", weights["out"])], ["scores"], name="scores"))
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, steps])
    given = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, steps, VOCABULARY])
    graph = helper.make_graph(w.nodes, "gpt-bytes", [tokens], [given], w.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(options.text.read_bytes(), np.uint8)
    kept = len(text) * 9 // 10
    weights = train(options, text[:kept])
    window = options.window
    unseen = np.stack([text[s : s + window + 1] for s in range(kept, len(text) - window - 1, 4 * window)]).astype(np.int32)
    measure = jax.jit(lambda weights, batch: loss_of(weights, batch, options.heads))
    loss = np.mean([float(measure(weights, unseen[i : i + 8])) for i in range(0, len(unseen) - 7, 8)])
    (options.out / "loss.txt").write_text(f"{loss:.4f} nats a byte on unseen text\n")
    print(f"{loss:.4f} nats a byte on unseen text", flush=True)
    export(weights, options, options.out / "gpt-bytes.onnx")
    starts = np.linspace(0, kept - window, CALIBRATION).astype(np.int64)
    np.save(options.out / "calibration.npy", np.stack([text[s : s + window] for s in starts]).astype(np.float32))


if __name__ == "__main__":
    main()
