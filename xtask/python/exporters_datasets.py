"""Estimators of the tables that scikit-learn brings along, whose features are in units of their own: a tumour's area beside
its smoothness, alcohol beside proline."""

import numpy
import sklearn.datasets
import sklearn.decomposition
import sklearn.ensemble
import sklearn.linear_model
import sklearn.naive_bayes
import sklearn.neural_network
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
import skl2onnx
import torch
from skl2onnx.common.data_types import FloatTensorType

from exporters_common import make
from exporters_tables import OPSET, samples
from exporters_torch import export

TABLES = [sklearn.datasets.load_breast_cancer, sklearn.datasets.load_wine, sklearn.datasets.load_iris]
KINDS = [
    ("LogisticRegression", lambda d: sklearn.linear_model.LogisticRegression(max_iter=5000)),
    ("scaled LogisticRegression", lambda d: scaled(sklearn.linear_model.LogisticRegression())),
    ("LinearRegression", lambda d: sklearn.linear_model.LinearRegression()),
    ("scaled SVC", lambda d: scaled(sklearn.svm.SVC(kernel=d.choice(["linear", "rbf", "poly"])))),
    ("SVC", lambda d: sklearn.svm.SVC(kernel="rbf")),
    ("scaled MLPClassifier", lambda d: scaled(sklearn.neural_network.MLPClassifier((d.choice([8, 24]),), max_iter=300))),
    ("MLPClassifier", lambda d: sklearn.neural_network.MLPClassifier((d.choice([8, 24]),), max_iter=300)),
    ("MinMax Ridge", lambda d: sklearn.pipeline.make_pipeline(sklearn.preprocessing.MinMaxScaler(), sklearn.linear_model.Ridge())),
    ("scaled PCA", lambda d: scaled(sklearn.decomposition.PCA(2))),
    ("PCA", lambda d: sklearn.decomposition.PCA(2)),
    ("GaussianNB", lambda d: sklearn.naive_bayes.GaussianNB()),
    ("RandomForestClassifier", lambda d: sklearn.ensemble.RandomForestClassifier(10, max_depth=5)),
    ("torch", None),
]


def scaled(estimator):
    return sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), estimator)


def network(draws, given, classes):
    """A classifier that is normalised by its first layers, trained a little."""
    torch.manual_seed(draws.getrandbits(32))
    count = int(classes.max()) + 1
    model = torch.nn.Sequential(
        torch.nn.BatchNorm1d(given.shape[1]), torch.nn.Linear(given.shape[1], 16), torch.nn.ReLU(), torch.nn.Linear(16, count)
    )
    x, y = torch.from_numpy(given), torch.from_numpy(classes)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(100):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model.eval()


def draw(draws, folder, number):
    name, build = KINDS[number % len(KINDS)]
    table = draws.choice(TABLES)
    given, classes = table(return_X_y=True)
    order = draws.numpy().permutation(len(given))
    given, classes = given[order].astype(numpy.float32), classes[order].astype(numpy.int64)
    configuration = f"{name} of {table.__name__.removeprefix('load_')}"
    if build is None:
        export(network(draws, given, classes), [torch.from_numpy(given)], folder, dynamo=number % 2 == 1)
        return configuration, *samples(given)
    estimator = build(draws).fit(given, classes)
    options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
    initial = [("x", FloatTensorType([None, given.shape[1]]))]
    try:
        model = skl2onnx.convert_sklearn(estimator, initial_types=initial, options=options, target_opset=OPSET)
    except NameError:
        model = skl2onnx.convert_sklearn(estimator, initial_types=initial, target_opset=OPSET)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return configuration, *samples(given)


def graphs(root, seed, chosen):
    make(root, "datasets", seed, 2 * len(KINDS), draw, chosen)
