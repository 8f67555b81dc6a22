"""PyTorch networks of drawn sizes, by both exporters of torch.onnx."""

import numpy
import torch
from torch import nn

from exporters_common import CALIBRATION, TESTS, make, split

ACTIVATIONS = [nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Hardswish, nn.Softplus, nn.Mish]


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


class First(nn.Module):
    """The first of a module's results, at the last step if `last`."""

    def __init__(self, body, last):
        super().__init__()
        self.body, self.last = body, last

    def forward(self, x):
        result = self.body(x)[0]
        return result[:, -1] if self.last else result


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.body = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.body(x, x, x, need_weights=False)[0]


class Unet(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), activation())
        self.down2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), activation())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, 2, 3, padding=1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        return self.out(torch.cat([first, self.up(second)], dim=1))


class TwoHeads(nn.Module):
    def __init__(self, features, hidden, activation):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), activation())
        self.a, self.b = nn.Linear(hidden, 3), nn.Linear(hidden, 1)

    def forward(self, x):
        x = self.body(x)
        return self.a(x).softmax(-1), self.b(x)


class TwoTowers(nn.Module):
    def __init__(self, left, right, hidden):
        super().__init__()
        self.left, self.right = nn.Linear(left, hidden), nn.Linear(right, hidden)

    def forward(self, a, b):
        a, b = self.left(a), self.right(b)
        return (nn.functional.normalize(a, dim=-1) * nn.functional.normalize(b, dim=-1)).sum(-1, keepdim=True)


class Tokens(nn.Module):
    def __init__(self, words, width, body):
        super().__init__()
        self.table, self.body, self.out = nn.Embedding(words, width), body, nn.Linear(width, 4)

    def forward(self, tokens):
        return self.out(self.body(self.table(tokens)))


def images(draws, channels, size):
    return draws.numpy().normal(size=(CALIBRATION + TESTS, channels, size, size)).astype(numpy.float32)


def rows(draws, *shape):
    return draws.numpy().normal(size=(CALIBRATION + TESTS, *shape)).astype(numpy.float32)


def mlp(draws):
    sizes = [draws.choice([4, 13, 30, 64])] + [draws.choice([16, 32, 100]) for _ in range(draws.randint(0, 3))]
    activation, layers = draws.choice(ACTIVATIONS), []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), activation()]
        if draws.random() < 0.3:
            layers.append(draws.choice([nn.BatchNorm1d, nn.LayerNorm])(after))
        if draws.random() < 0.3:
            layers.append(nn.Dropout(0.2))
    layers.append(nn.Linear(sizes[-1], draws.choice([1, 3, 10])))
    if draws.random() < 0.3:
        layers.append(draws.choice([nn.Softmax(dim=-1), nn.LogSoftmax(dim=-1), nn.Sigmoid()]))
    return nn.Sequential(*layers), [rows(draws, sizes[0])]


def cnn(draws):
    channels, size = draws.choice([1, 3]), draws.choice([16, 28, 32])
    activation, layers, before = draws.choice(ACTIVATIONS), [], channels
    for _ in range(draws.randint(1, 3)):
        after = draws.choice([8, 12, 16, 24])
        kernel, stride = draws.choice([1, 3, 5]), draws.choice([1, 1, 2])
        layers.append(nn.Conv2d(before, after, kernel, stride, padding=draws.choice([0, kernel // 2]), bias=draws.random() < 0.7))
        norm = draws.choice([None, nn.BatchNorm2d, nn.GroupNorm, nn.InstanceNorm2d])
        if norm is not None:
            layers.append(norm(4, after) if norm is nn.GroupNorm else norm(after))
        layers.append(activation())
        if draws.random() < 0.4:
            layers.append(draws.choice([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2, 1)]))
        before = after
    layers += [draws.choice([nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)]), nn.Flatten(), nn.Linear(before, 10)]
    return nn.Sequential(*layers), [images(draws, channels, size)]


def separable(draws):
    width, activation = draws.choice([8, 16, 24]), draws.choice([nn.ReLU6, nn.Hardswish, nn.SiLU])
    block = nn.Sequential(
        nn.Conv2d(width, 4 * width, 1), nn.BatchNorm2d(4 * width), activation(),
        nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width), nn.BatchNorm2d(4 * width), activation(),
        nn.Conv2d(4 * width, width, 1), nn.BatchNorm2d(width),
    )
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), activation(), Residual(block), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    ), [images(draws, 3, 32)]


def recurrent(draws):
    kind, features, hidden = draws.choice([nn.LSTM, nn.GRU, nn.RNN]), draws.choice([4, 9, 16]), draws.choice([8, 24])
    body = kind(features, hidden, num_layers=draws.choice([1, 2]), bidirectional=draws.random() < 0.3, batch_first=True)
    width = hidden * (2 if body.bidirectional else 1)
    return nn.Sequential(First(body, True), nn.Linear(width, draws.choice([1, 5]))), [rows(draws, draws.choice([6, 12]), features)]


def encoder(draws):
    width, heads = draws.choice([16, 32]), draws.choice([2, 4])
    layer = nn.TransformerEncoderLayer(
        width, heads, 2 * width, 0.0, activation=draws.choice(["relu", "gelu"]), batch_first=True, norm_first=draws.random() < 0.5
    )
    body = nn.TransformerEncoder(layer, draws.choice([1, 2]), enable_nested_tensor=False)
    return nn.Sequential(body, Mean(), nn.Linear(width, 4)), [rows(draws, draws.choice([8, 17]), width)]


def attention(draws):
    width = draws.choice([16, 24])
    return nn.Sequential(nn.LayerNorm(width), SelfAttention(width, draws.choice([1, 2, 4])), nn.Linear(width, 3)), [
        rows(draws, draws.choice([5, 16]), width)
    ]


def tokens(draws):
    words, width, length = draws.choice([50, 300]), draws.choice([16, 32]), draws.choice([8, 20])
    body = draws.choice([Mean(), First(nn.LSTM(width, width, batch_first=True), True), nn.Sequential(nn.LayerNorm(width), Mean())])
    given = draws.numpy().integers(0, words, size=(CALIBRATION + TESTS, length))
    return Tokens(words, width, body), [given]


def sequence(draws):
    channels, width = draws.choice([1, 4]), draws.choice([8, 16])
    return nn.Sequential(
        nn.Conv1d(channels, width, draws.choice([3, 7]), draws.choice([1, 2]), padding=1), nn.BatchNorm1d(width), draws.choice(ACTIVATIONS)(),
        nn.MaxPool1d(2), nn.Conv1d(width, width, 3, dilation=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 3),
    ), [rows(draws, channels, draws.choice([40, 64]))]


def volume(draws):
    width = draws.choice([4, 8])
    return nn.Sequential(
        nn.Conv3d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(width, width, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)
    ), [rows(draws, 1, 8, 8, 8)]


def picture(draws):
    kind, width = draws.choice(["unet", "auto", "up"]), draws.choice([4, 8])
    activation = draws.choice([nn.ReLU, nn.LeakyReLU, nn.SiLU])
    if kind == "unet":
        return Unet(width, activation), [images(draws, 3, 16)]
    if kind == "auto":
        return nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), activation(), nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Sigmoid()
        ), [images(draws, 1, 16)]
    mode = draws.choice(["nearest", "bilinear"])
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), activation(), nn.Upsample(scale_factor=2, mode=mode), nn.Conv2d(width, 3, 3, padding=1)
    ), [images(draws, 3, 12)]


def heads(draws):
    features = draws.choice([6, 20])
    return TwoHeads(features, draws.choice([16, 40]), draws.choice(ACTIVATIONS)), [rows(draws, features)]


def towers(draws):
    left, right = draws.choice([5, 12]), draws.choice([7, 16])
    return TwoTowers(left, right, draws.choice([8, 24])), [rows(draws, left), rows(draws, right)]


KINDS = [mlp, cnn, separable, recurrent, encoder, attention, tokens, sequence, volume, picture, heads, towers]


def settled(network, given):
    """Statistics of batch normalisation as after a little training, and lazy layers made."""
    network.train()
    with torch.no_grad():
        for _ in range(3):
            network(*given)
    return network.eval()


def export(network, given, folder, dynamo):
    sample = tuple(array[:1] for array in given)
    if dynamo:
        torch.onnx.export(network, sample, str(folder / "model.onnx"), dynamo=True, verbose=False)
    else:
        torch.onnx.export(network, sample, str(folder / "model.onnx"), dynamo=False, opset_version=17)


def draw(draws, folder, number):
    torch.manual_seed(draws.getrandbits(31))
    kind = KINDS[(number // 2) % len(KINDS)]
    dynamo = number % 2 == 1
    network, samples = kind(draws)
    given = [torch.from_numpy(array) for array in samples]
    export(settled(network, given), given, folder, dynamo)
    few, some = split(samples)
    return f"{kind.__name__}, {'dynamo' if dynamo else 'torchscript'}", few, some


def graphs(root, seed, chosen):
    make(root, "torch", seed, 7 * len(KINDS), draw, chosen)
