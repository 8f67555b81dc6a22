"""Trains (or seeds) the PyTorch networks and exports each with both exporters of torch.onnx."""

import math

import numpy
import torch
from torch.nn import functional

import corpus_networks as networks
from corpus_common import CALIBRATION, SEED, TESTS, write_entry

TRAINED_IMAGES = 8_000


def shape_flat(images):
    return images


def shape_rows(images):
    return images[:, 0]


def shape_colour(images):
    """28 x 28 grey to 3 x 32 x 32, as networks for CIFAR take them."""
    return numpy.repeat(numpy.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="edge"), 3, axis=1)


# name: (network, arrangement of the images, training images, epochs, test samples)
IMAGE_NETWORKS = {
    "mlp": (networks.mlp, shape_flat, 8_000, 6, 2_000),
    "lenet": (networks.lenet, shape_flat, 8_000, 6, 2_000),
    "resnet18": (networks.resnet18, shape_colour, 1_500, 1, TESTS),
    "mobilenetv2": (networks.mobilenet_v2, shape_colour, 3_000, 1, TESTS),
    "vgg16": (networks.vgg16, shape_colour, 1_500, 1, TESTS),
    "lstm": (lambda: networks.RowReader(torch.nn.LSTM), shape_rows, 8_000, 6, TESTS),
    "gru": (lambda: networks.RowReader(torch.nn.GRU), shape_rows, 8_000, 6, TESTS),
}


def fit_images(network, images, labels, epochs):
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    steps = epochs * math.ceil(len(x) / 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    network.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            functional.cross_entropy(network(x[batch]), y[batch]).backward()
            optimiser.step()
            schedule.step()
    network.eval()


def settle_statistics(network, images):
    """Running statistics of BatchNorm as they would be after training on `images`."""
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None
    network.train()
    with torch.no_grad():
        for batch in torch.from_numpy(images).split(64):
            network(batch)
    network.eval()


def fit_text(network, text, steps=1_000):
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    network.train()
    for _ in range(steps):
        starts = torch.randint(len(text) - network.context - 1, (24,))
        batch = torch.stack([text[s : s + network.context + 1] for s in starts])
        optimiser.zero_grad()
        logits = network(batch[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimiser.step()
        schedule.step()
    network.eval()


def export(root, name, network, arguments, input_names, dynamic=None):
    """Both exporters; `dynamic` gives the names of the variable axes of each input. Returns the two folders."""
    folders = []
    for suffix, dynamo in (("torchscript", False), ("dynamo", True)):
        folder = root / f"{name}-{suffix}"
        folder.mkdir(parents=True, exist_ok=True)
        options = {"input_names": input_names, "output_names": ["output"], "dynamo": dynamo}
        if dynamo:
            options |= {"verbose": False}
            if dynamic:
                dims = {axis: torch.export.Dim.DYNAMIC for axes in dynamic for axis in axes.values()}
                options["dynamic_shapes"] = tuple({a: dims[n] for a, n in axes.items()} for axes in dynamic)
        else:
            options["opset_version"] = 17
            if dynamic:
                options["dynamic_axes"] = dict(zip(input_names, dynamic)) | {"output": {0: "batch"}}
        torch.onnx.export(network, arguments, str(folder / "model.onnx"), **options)
        folders.append(folder)
    return folders


def image_entries(root, data, chosen):
    for name, (make, arrange, count, epochs, tests) in IMAGE_NETWORKS.items():
        if not chosen(name):
            continue
        torch.manual_seed(SEED)
        network = make()
        if data.digits is not None:
            images, labels = arrange(data.digits[0]), data.digits[1]
            fit_images(network, images[:count], labels[:count], epochs)
            test_labels = labels[TRAINED_IMAGES : TRAINED_IMAGES + tests]
        else:
            images = arrange(numpy.random.default_rng(SEED).standard_normal((10_000, 1, 28, 28), numpy.float32))
            test_labels = None
        images = numpy.ascontiguousarray(images)
        settle_statistics(network, images[:512])
        # One in two networks declares a variable batch: both forms are common.
        dynamic = [{0: "batch"}] if name in ("mlp", "lenet", "lstm") else None
        example = torch.from_numpy(images[: 2 if dynamic else 1])
        for folder in export(root, name, network, (example,), ["input"], dynamic):
            write_entry(
                folder, f"torch.onnx {torch.__version__} {folder.name.rsplit('-', 1)[1]}",
                "noise" if test_labels is None else "accuracy",
                [images[:CALIBRATION]], [images[TRAINED_IMAGES : TRAINED_IMAGES + tests]],
                test_labels, test_labels is not None,
            )  # fmt: skip


def gpt_entries(root, data):
    torch.manual_seed(SEED)
    network, labels = networks.Gpt(), None
    context = network.context
    if data.text is not None:
        text = torch.from_numpy(data.text)
        split = int(len(text) * 0.9)
        fit_text(network, text[:split])
        stretch = data.text[split : split + TESTS * context + 1]
        tests, labels = stretch[:-1].reshape(TESTS, context), stretch[1:].reshape(TESTS, context)
        calibration = data.text[: CALIBRATION * context].reshape(CALIBRATION, context)
    else:
        generator = numpy.random.default_rng(SEED)
        tests = generator.integers(0, 65, (TESTS, context))
        calibration = generator.integers(0, 65, (CALIBRATION, context))
    network.eval()
    for folder in export(root, "gpt", network, (torch.from_numpy(tests[:1]),), ["tokens"]):
        write_entry(
            folder, f"torch.onnx {torch.__version__} {folder.name.rsplit('-', 1)[1]}",
            "noise" if labels is None else "perplexity", [calibration], [tests], labels, labels is not None,
        )  # fmt: skip


def bert_entries(root):
    torch.manual_seed(SEED)
    network = networks.Bert().eval()
    generator = numpy.random.default_rng(SEED)

    def sentences(count):
        tokens = generator.integers(1, 1000, (count, 64))
        lengths = generator.integers(8, 65, (count, 1))
        mask = (numpy.arange(64)[None] < lengths).astype(numpy.int64)
        return [tokens * mask, mask]

    calibration, tests = sentences(CALIBRATION), sentences(TESTS)
    example = tuple(torch.from_numpy(array[:2]) for array in tests)
    dynamic = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}]
    for folder in export(root, "bert", network, example, ["tokens", "mask"], dynamic):
        exporter = f"torch.onnx {torch.__version__} {folder.name.rsplit('-', 1)[1]}"
        write_entry(folder, exporter, "noise", calibration, tests)


def entries(root, data, chosen):
    # Two threads wait for each other on a busy machine, at ten times the cost.
    torch.set_num_threads(1)
    image_entries(root, data, chosen)
    if chosen("gpt"):
        gpt_entries(root, data)
    if chosen("bert"):
        bert_entries(root)
