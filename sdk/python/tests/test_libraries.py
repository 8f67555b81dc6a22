"""Models of scikit-learn and PyTorch, where these are installed."""

import numpy
import pytest

import tensorgrid


def test_scikit_learn_models_are_proved():
    pytest.importorskip("skl2onnx")
    datasets = pytest.importorskip("sklearn.datasets")
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inputs, classes = datasets.load_iris(return_X_y=True)
    inputs = inputs.astype(numpy.float32)
    estimators = [
        LinearRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0),
    ]
    for estimator in estimators:
        estimator.fit(inputs[::2], classes[::2])
        options = {"zipmap": False} if hasattr(estimator, "predict_proba") else None
        exported = to_onnx(estimator, inputs[:1], options=options)
        model = tensorgrid.compile(exported, inputs[::2])
        sample = inputs[101:102]
        verified = model.verify(model.prove(sample))
        expected = estimator.predict(sample)
        first = verified.answer.array
        if options:
            assert first.dtype == numpy.int64 and int(first.ravel()[0]) == int(expected[0])
            scores = list(verified.answer.values())[1]
            assert numpy.abs(scores - estimator.predict_proba(sample)).max() < 0.05
        else:
            assert abs(float(first.ravel()[0]) - float(expected[0])) < 0.05


def test_a_torch_module_is_compiled_as_it_is():
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
            self.head = torch.nn.Linear(4 * 4 * 4, 5)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, image, extra):
            x = torch.nn.functional.max_pool2d(torch.relu(self.conv(image)), 2)
            return self.head(self.drop(x.flatten(1))) + extra

    module = Net()
    module.train()
    images = torch.randn(64, 1, 8, 8)
    extras = torch.randn(64, 5)
    model = tensorgrid.compile(module, (images, extras))
    assert module.training
    answer = model.prove((images[3:4], extras[3:4])).answer
    with torch.no_grad():
        expected = module.eval()(images[3:4], extras[3:4]).numpy()
    assert answer.array.shape == (1, 5)
    assert numpy.abs(answer.array - expected).max() < 0.05 * numpy.abs(expected).max() + 0.05
