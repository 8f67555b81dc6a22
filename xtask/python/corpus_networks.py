"""The neural networks of the corpus, in PyTorch. Definitions follow the papers named; none is downloaded."""

import torch
from torch import nn
from torch.nn import functional


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def lenet():
    """LeCun et al. 1998, with maxima and ReLU."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


class BasicBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(inner + self.shortcut(x))


def resnet18():
    """He et al. 2015, with the stem of the CIFAR experiments (3 x 3, no pooling)."""
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            layers.append(BasicBlock(channels, width, 2 if stage > 0 and block == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class InvertedResidual(nn.Module):
    def __init__(self, before, after, stride, expansion):
        super().__init__()
        hidden = before * expansion
        layers = []
        if expansion != 1:
            layers += [nn.Conv2d(before, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, after, 1, bias=False), nn.BatchNorm2d(after),
        ]  # fmt: skip
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and before == after

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2():
    """Sandler et al. 2018, table 2, with the first two strides 1 for 32 x 32 images."""
    layers = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    channels = 32
    for expansion, width, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            layers.append(InvertedResidual(channels, width, stride if block == 0 else 1, expansion))
            channels = width
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 10)]
    return nn.Sequential(*layers)


def vgg16():
    """Simonyan and Zisserman 2014, configuration D with BatchNorm, and one linear layer for 32 x 32 images."""
    layers, channels = [], 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class RowReader(nn.Module):
    """A recurrent network that reads an image row by row."""

    def __init__(self, kind):
        super().__init__()
        self.recurrent = kind(28, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        states, _ = self.recurrent(x)
        return self.head(states[:, -1])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return [t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v)]

    def join(self, x):
        return self.out(x.transpose(1, 2).flatten(2))


class CausalAttention(Attention):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(functional.scaled_dot_product_attention(q, k, v, is_causal=True))


class MaskedAttention(Attention):
    """Written out, as encoders commonly are: scores, an additive mask of the padding, softmax."""

    def forward(self, x, mask):
        q, k, v = self.split(x)
        scores = q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5) + mask
        return self.join(torch.softmax(scores, dim=-1) @ v)


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Radford et al. 2019, four layers over characters: 0.22 million weights."""

    def __init__(self, alphabet=65, context=128, width=64, heads=4, layers=4):
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(alphabet, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, alphabet, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(places))))


class BertBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = MaskedAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    """Devlin et al. 2018 in shape: token, position and segment embeddings, post-norm blocks, a pooler, a classifier."""

    def __init__(self, vocabulary=1000, context=64, width=128, heads=4, layers=4, classes=4):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions, self.segments = nn.Embedding(context, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.ModuleList([BertBlock(width, heads) for _ in range(layers)])
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, tokens, mask):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        segments = torch.zeros_like(tokens)
        x = self.norm(self.tokens(tokens) + self.positions(places) + self.segments(segments))
        additive = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10_000.0
        for block in self.blocks:
            x = block(x, additive)
        return self.head(torch.tanh(self.pooler(x[:, 0])))
