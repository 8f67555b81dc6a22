"""Estimators of tables: scikit-learn by skl2onnx, XGBoost and LightGBM by onnxmltools, trees as tensors by hummingbird."""

import lightgbm
import numpy
import onnxmltools
import sklearn.calibration
import sklearn.cluster
import sklearn.cross_decomposition
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.ensemble
import sklearn.gaussian_process
import sklearn.linear_model
import sklearn.naive_bayes
import sklearn.neighbors
import sklearn.neural_network
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
import sklearn.tree
import skl2onnx
import torch
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as MlFloat
from skl2onnx.common.data_types import FloatTensorType

from exporters_common import CALIBRATION, TESTS, make
from exporters_torch import export

ROWS = 300
OPSET = {"": 17, "ai.onnx.ml": 3}

CLASSIFIERS = [
    ("LogisticRegression", lambda d: sklearn.linear_model.LogisticRegression(C=d.choice([0.3, 1.0]), max_iter=300)),
    ("SGDClassifier", lambda d: sklearn.linear_model.SGDClassifier(loss="log_loss", random_state=1)),
    ("RidgeClassifier", lambda d: sklearn.linear_model.RidgeClassifier()),
    ("Perceptron", lambda d: sklearn.linear_model.Perceptron(random_state=1)),
    ("LinearSVC", lambda d: sklearn.svm.LinearSVC(max_iter=3000)),
    ("SVC", lambda d: sklearn.svm.SVC(kernel=d.choice(["linear", "rbf", "poly"]), probability=d.random() < 0.5)),
    ("MLPClassifier", lambda d: sklearn.neural_network.MLPClassifier((d.choice([8, 24]),), activation=d.choice(["relu", "tanh", "logistic"]), max_iter=150)),
    ("KNeighborsClassifier", lambda d: sklearn.neighbors.KNeighborsClassifier(d.choice([1, 3, 5]))),
    ("GaussianNB", lambda d: sklearn.naive_bayes.GaussianNB()),
    ("BernoulliNB", lambda d: sklearn.naive_bayes.BernoulliNB()),
    ("LinearDiscriminantAnalysis", lambda d: sklearn.discriminant_analysis.LinearDiscriminantAnalysis()),
    ("QuadraticDiscriminantAnalysis", lambda d: sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis()),
    ("DecisionTreeClassifier", lambda d: sklearn.tree.DecisionTreeClassifier(max_depth=d.choice([3, 8]))),
    ("RandomForestClassifier", lambda d: sklearn.ensemble.RandomForestClassifier(d.choice([5, 20]), max_depth=d.choice([4, 8]))),
    ("ExtraTreesClassifier", lambda d: sklearn.ensemble.ExtraTreesClassifier(10, max_depth=6)),
    ("GradientBoostingClassifier", lambda d: sklearn.ensemble.GradientBoostingClassifier(n_estimators=d.choice([10, 30]))),
    ("HistGradientBoostingClassifier", lambda d: sklearn.ensemble.HistGradientBoostingClassifier(max_iter=20)),
    ("AdaBoostClassifier", lambda d: sklearn.ensemble.AdaBoostClassifier(n_estimators=8)),
    ("BaggingClassifier", lambda d: sklearn.ensemble.BaggingClassifier(n_estimators=6)),
    ("VotingClassifier", lambda d: sklearn.ensemble.VotingClassifier([("a", sklearn.linear_model.LogisticRegression()), ("b", sklearn.tree.DecisionTreeClassifier(max_depth=4))], voting="soft", flatten_transform=False)),
    ("CalibratedClassifierCV", lambda d: sklearn.calibration.CalibratedClassifierCV(sklearn.linear_model.LogisticRegression())),
]

REGRESSORS = [
    ("LinearRegression", lambda d: sklearn.linear_model.LinearRegression()),
    ("Ridge", lambda d: sklearn.linear_model.Ridge(d.choice([0.1, 3.0]))),
    ("Lasso", lambda d: sklearn.linear_model.Lasso(0.02)),
    ("ElasticNet", lambda d: sklearn.linear_model.ElasticNet(0.02)),
    ("HuberRegressor", lambda d: sklearn.linear_model.HuberRegressor()),
    ("BayesianRidge", lambda d: sklearn.linear_model.BayesianRidge()),
    ("PoissonRegressor", lambda d: sklearn.linear_model.PoissonRegressor()),
    ("SVR", lambda d: sklearn.svm.SVR(kernel=d.choice(["linear", "rbf", "poly"]))),
    ("MLPRegressor", lambda d: sklearn.neural_network.MLPRegressor(hidden_layer_sizes=(d.choice([8, 24]),), max_iter=200)),
    ("KNeighborsRegressor", lambda d: sklearn.neighbors.KNeighborsRegressor(d.choice([1, 3, 5]))),
    ("DecisionTreeRegressor", lambda d: sklearn.tree.DecisionTreeRegressor(max_depth=d.choice([3, 8]))),
    ("RandomForestRegressor", lambda d: sklearn.ensemble.RandomForestRegressor(d.choice([5, 20]), max_depth=6)),
    ("GradientBoostingRegressor", lambda d: sklearn.ensemble.GradientBoostingRegressor(n_estimators=d.choice([10, 40]))),
    ("HistGradientBoostingRegressor", lambda d: sklearn.ensemble.HistGradientBoostingRegressor(max_iter=20)),
    ("GaussianProcessRegressor", lambda d: sklearn.gaussian_process.GaussianProcessRegressor(alpha=0.1)),
    ("PLSRegression", lambda d: sklearn.cross_decomposition.PLSRegression(2)),
]

OTHERS = [
    ("PCA", lambda d: sklearn.decomposition.PCA(d.choice([2, 3]))),
    ("TruncatedSVD", lambda d: sklearn.decomposition.TruncatedSVD(2)),
    ("KMeans", lambda d: sklearn.cluster.KMeans(d.choice([3, 5]), n_init=2)),
    ("StandardScaler", lambda d: sklearn.preprocessing.StandardScaler()),
    ("MinMaxScaler", lambda d: sklearn.preprocessing.MinMaxScaler()),
    ("RobustScaler", lambda d: sklearn.preprocessing.RobustScaler()),
    ("Normalizer", lambda d: sklearn.preprocessing.Normalizer(d.choice(["l1", "l2", "max"]))),
    ("PolynomialFeatures", lambda d: sklearn.preprocessing.PolynomialFeatures(2)),
    ("PowerTransformer", lambda d: sklearn.preprocessing.PowerTransformer()),
    ("IsolationForest", lambda d: sklearn.ensemble.IsolationForest(n_estimators=10)),
]


def table(draws):
    """Features with a made-up dependence: numbers, a column of classes, a column of reals."""
    numbers, features = draws.numpy(), draws.choice([4, 8, 13])
    given = numbers.normal(size=(ROWS, features)).astype(numpy.float32)
    score = given @ numbers.normal(size=features) + numpy.sin(2 * given[:, 0]) + 0.5 * given[:, 1] * given[:, 2]
    classes = numpy.digitize(score, numpy.quantile(score, [0.5] if draws.random() < 0.5 else [0.3, 0.7]))
    return given, classes.astype(numpy.int64), score.astype(numpy.float32)


def samples(given):
    return [given[:CALIBRATION]], [given[CALIBRATION : CALIBRATION + TESTS]]


def scaled(draws, estimator):
    if draws.random() < 0.3:
        return sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), estimator)
    return estimator


def sklearn_draw(draws, folder, number):
    every = CLASSIFIERS + REGRESSORS + OTHERS
    name, build = every[number % len(every)]
    given, classes, reals = table(draws)
    estimator = build(draws)
    if number < len(CLASSIFIERS) + len(REGRESSORS):
        estimator = scaled(draws, estimator)
    if name == "PoissonRegressor":
        reals = numpy.exp(reals / 4)
    place = number % len(every) - len(CLASSIFIERS)
    estimator.fit(given, reals if 0 <= place < len(REGRESSORS) else classes)
    options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "predict_proba") or hasattr(estimator, "classes_") else None
    try:
        model = skl2onnx.convert_sklearn(estimator, initial_types=[("x", FloatTensorType([None, given.shape[1]]))], options=options, target_opset=OPSET)
    except NameError:
        model = skl2onnx.convert_sklearn(estimator, initial_types=[("x", FloatTensorType([None, given.shape[1]]))], target_opset=OPSET)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return name, *samples(given)


def boosted_draw(draws, folder, number):
    given, classes, reals = table(draws)
    kind, depth, trees = number % 4, draws.choice([2, 4, 6]), draws.choice([5, 20])
    initial = [("x", MlFloat([None, given.shape[1]]))]
    if kind == 0:
        model = xgboost.XGBClassifier(n_estimators=trees, max_depth=depth).fit(given, classes)
        onnx_model = onnxmltools.convert_xgboost(model, initial_types=initial)
    elif kind == 1:
        model = xgboost.XGBRegressor(n_estimators=trees, max_depth=depth).fit(given, reals)
        onnx_model = onnxmltools.convert_xgboost(model, initial_types=initial)
    elif kind == 2:
        model = lightgbm.LGBMClassifier(n_estimators=trees, num_leaves=2**depth, verbose=-1).fit(given, classes)
        onnx_model = onnxmltools.convert_lightgbm(model, initial_types=initial, zipmap=False)
    else:
        model = lightgbm.LGBMRegressor(n_estimators=trees, num_leaves=2**depth, verbose=-1).fit(given, reals)
        onnx_model = onnxmltools.convert_lightgbm(model, initial_types=initial)
    (folder / "model.onnx").write_bytes(onnx_model.SerializeToString())
    return f"{type(model).__name__}, {trees} trees of depth {depth}", *samples(given)


def hummingbird_draw(draws, folder, number):
    import hummingbird.ml

    given, classes, reals = table(draws)
    depth, trees = draws.choice([2, 4, 6]), draws.choice([3, 10])
    kinds = [
        lambda: sklearn.ensemble.RandomForestClassifier(trees, max_depth=depth).fit(given, classes),
        lambda: sklearn.ensemble.RandomForestRegressor(trees, max_depth=depth).fit(given, reals),
        lambda: sklearn.tree.DecisionTreeClassifier(max_depth=depth).fit(given, classes),
        lambda: sklearn.ensemble.GradientBoostingRegressor(n_estimators=trees, max_depth=depth).fit(given, reals),
        lambda: xgboost.XGBRegressor(n_estimators=trees, max_depth=depth).fit(given, reals),
        lambda: lightgbm.LGBMClassifier(n_estimators=trees, max_depth=depth, verbose=-1).fit(given, classes),
    ]
    model = kinds[number % len(kinds)]()
    strategy = draws.choice(["gemm", "tree_trav", "perf_tree_trav"])
    container = hummingbird.ml.convert(model, "torch", given[:1], extra_config={"tree_implementation": strategy})
    export(container.model.eval(), [torch.from_numpy(given)], folder, dynamo=number % 2 == 1)
    return f"{type(model).__name__} by {strategy}, {trees} trees of depth {depth}", *samples(given)


def graphs(root, seed, chosen):
    make(root, "sklearn", seed, len(CLASSIFIERS) + len(REGRESSORS) + len(OTHERS), sklearn_draw, chosen)
    make(root, "boosted", seed, 16, boosted_draw, chosen)
    make(root, "hummingbird", seed, 12, hummingbird_draw, chosen)
