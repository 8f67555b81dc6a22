"""Tree ensembles and linear models: scikit-learn through skl2onnx, XGBoost through onnxmltools."""

import numpy
import onnxmltools
import skl2onnx
import sklearn
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as XgboostFloats
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from corpus_common import CALIBRATION, SEED, TESTS, write_entry

OPSETS = {"": 17, "ai.onnx.ml": 3}


def tables():
    """The two small tables scikit-learn ships, split by a fixed shuffle: (train, test) of (x, y)."""
    out = []
    for load in (load_digits, load_diabetes):
        x, y = load(return_X_y=True)
        order = numpy.random.default_rng(SEED).permutation(len(x))
        x, y = x[order].astype(numpy.float32), y[order]
        cut = len(x) - min(TESTS, len(x) // 4)
        out.append(((x[:cut], y[:cut]), (x[cut:], y[cut:])))
    return out


def save(root, name, model, convert, exporter, train, test, classes):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    model.fit(*train)
    (folder / "model.onnx").write_bytes(convert(model, train[0].shape[1]).SerializeToString())
    labels = test[1] if classes else None
    measure = "accuracy" if classes else "noise"
    write_entry(folder, exporter, measure, [train[0][:CALIBRATION]], [test[0]], labels, True)


def by_skl2onnx(model, features):
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    initial = [("input", FloatTensorType([None, features]))]
    return skl2onnx.convert_sklearn(model, initial_types=initial, options=options, target_opset=OPSETS)


def by_onnxmltools(model, features):
    initial = [("input", XgboostFloats([None, features]))]
    return onnxmltools.convert_xgboost(model, initial_types=initial, target_opset=15)


def entries(root, chosen):
    digits, diabetes = tables()
    learn = f"skl2onnx {skl2onnx.__version__}, scikit-learn {sklearn.__version__}"
    boost = f"onnxmltools {onnxmltools.__version__}, XGBoost {xgboost.__version__}"
    for name, model, convert, exporter, table, classes in (
        ("random-forest-classifier", RandomForestClassifier(50, random_state=SEED), by_skl2onnx, learn, digits, True),
        ("random-forest-regressor", RandomForestRegressor(50, random_state=SEED), by_skl2onnx, learn, diabetes, False),
        ("gradient-boosting-classifier", GradientBoostingClassifier(n_estimators=30, random_state=SEED), by_skl2onnx, learn, digits, True),
        ("gradient-boosting-regressor", GradientBoostingRegressor(n_estimators=50, random_state=SEED), by_skl2onnx, learn, diabetes, False),
        ("logistic-regression", make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), by_skl2onnx, learn, digits, True),
        ("xgboost-classifier", xgboost.XGBClassifier(n_estimators=20, max_depth=4, random_state=SEED, n_jobs=1), by_onnxmltools, boost, digits, True),
        ("xgboost-regressor", xgboost.XGBRegressor(n_estimators=50, max_depth=4, random_state=SEED, n_jobs=1), by_onnxmltools, boost, diabetes, False),
    ):  # fmt: skip
        if chosen(name):
            save(root, name, model, convert, exporter, *table, classes)
