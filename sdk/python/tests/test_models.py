"""Compiling, running, proving and verifying, with numpy in and out."""

import numpy
import pytest

import tensorgrid
from conftest import model_of, onnx

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def test_a_proof_shows_the_reals_of_the_file(classifier, classifier_file, rows):
    _, reference = classifier_file
    said = []
    proof = tensorgrid.prove(classifier, rows[:1], progress=said.append)
    assert said and proof.data and proof.prove_ms > 0 and not proof.zk
    verified = tensorgrid.verify(proof, classifier.public)
    scores = verified.answer["scores"]
    assert scores.dtype == numpy.float32 and scores.shape == (1, 3)
    expected = reference(rows[:1])
    assert numpy.abs(scores - expected).max() < 0.05
    assert verified.answer.label == ["cat", "dog", "eel"][int(expected.argmax())]
    assert verified.answer.labels == {"scores": verified.answer.label}
    assert verified.security_bits is not None and verified.security_bits > 90
    assert verified.model_id == proof.model_id == classifier.report["model"]
    assert numpy.array_equal(tensorgrid.run(classifier, rows[:1])["scores"], scores)
    assert numpy.array_equal(proof.answer.raw, verified.answer.raw) and proof.answer.raw.dtype == numpy.int32


def test_a_changed_proof_is_rejected(classifier, rows):
    proof = classifier.prove(rows[0])
    broken = bytearray(proof.data)
    broken[-1] ^= 1
    with pytest.raises(tensorgrid.RejectedError) as caught:
        classifier.verify(bytes(broken))
    error = caught.value
    assert error.exit_code == 3 and error.check and "REJECTED" in error.message


def test_files_are_saved_and_loaded(classifier, rows, tmp_path):
    classifier.save(tmp_path / "m.tgm", tmp_path / "m.tgv")
    loaded = tensorgrid.Model.load(tmp_path / "m.tgm", tmp_path / "m.tgv")
    proof = loaded.prove({"x": rows[3]})
    proof.save(tmp_path / "proof.bin")
    assert tensorgrid.verify(tmp_path / "proof.bin", tmp_path / "m.tgv").answer.array.shape == (1, 3)
    public = tensorgrid.PublicModel.from_bytes(loaded.public.to_bytes())
    assert public.verify(proof).answer.label in ("cat", "dog", "eel")
    with pytest.raises(tensorgrid.NotFoundError):
        tensorgrid.Model.load(tmp_path / "missing.tgm")


def test_hidden_and_committed_inputs(classifier, rows, tmp_path):
    hidden = classifier.prove(rows[:1], zk=True)
    assert hidden.zk and set(hidden.input[2:]) == {"0"}
    assert classifier.verify(hidden).answer["scores"].shape == (1, 3)
    salt = tmp_path / "salt"
    committed = [classifier.prove(rows[:1], zk=True, input_mode="committed", input_salt=salt) for _ in range(2)]
    assert committed[0].input == committed[1].input != hidden.input
    shut = classifier.prove(rows[:1], zk=True, output_mode="hidden")
    verified = classifier.verify(shut)
    assert verified.answers == [] and verified.zk
    with pytest.raises(tensorgrid.NotFoundError, match="does not show its output"):
        verified.answer


def test_private_weights_need_their_secret(classifier_file, rows, tmp_path):
    secret = tmp_path / "m.tgs"
    model = tensorgrid.compile(classifier_file[0], rows, private_weights=secret, openings=2)
    with pytest.raises(tensorgrid.UsageError, match="private"):
        model.prove(rows[:1])
    proof = model.prove(rows[:1], zk=True)
    assert proof.proofs_left == model.report["proofs"] - 1
    assert model.verify(proof).answer.array.shape == (1, 3)


def test_several_inputs_and_outputs_by_name():
    helper = onnx.helper
    table = numpy.linspace(-1, 1, 40, dtype=numpy.float32).reshape(10, 4)
    weights = numpy.random.default_rng(2).normal(size=(4, 3)).astype(numpy.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Add", ["mean", "x"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["class"], axis=1, keepdims=0),
    ]
    data = model_of(
        nodes,
        [("ids", INT64, [1, 5]), ("x", FLOAT, [1, 4])],
        [("scores", FLOAT, [1, 3]), ("class", INT64, [1])],
        {"table": table, "w": weights},
    )
    random = numpy.random.default_rng(3)
    ids = random.integers(0, 10, size=(64, 1, 5))
    x = random.normal(size=(64, 1, 4)).astype(numpy.float32)
    model = tensorgrid.compile(data, {"x": x, "ids": ids})
    expected = (table[ids[0]].mean(axis=1) + x[0]) @ weights
    for inputs in ({"ids": ids[0], "x": x[0]}, (ids[0], x[0])):
        answer = model.prove(inputs).answer
        assert list(answer) == ["scores", "class"]
        assert numpy.abs(answer["scores"] - expected).max() < 0.1
        assert answer["class"].dtype == numpy.int64 and answer["class"].shape == (1,)
        assert int(answer["class"][0]) == int(answer["scores"].argmax())
    proof = model.prove({"ids": ids[0], "x": x[0]}, zk=True, show=["x"], hide=["class"])
    verified = model.verify(proof)
    assert verified.input_modes == {"ids": "hidden", "x": "public"}
    assert verified.output_modes == {"scores": "public", "class": "hidden"}
    assert list(verified.answer) == ["scores"] and list(verified.inputs) == ["x"]
    assert numpy.abs(verified.inputs["x"] - x[0].ravel()).max() < 0.05
    with pytest.raises(tensorgrid.UsageError, match="no input or output"):
        model.prove({"ids": ids[0], "x": x[0]}, zk=True, show=["y"])
    with pytest.raises(tensorgrid.UsageError, match="no array for the input `x`"):
        model.run({"ids": ids[0]})
    with pytest.raises(tensorgrid.UsageError, match="an array `y`"):
        model.run({"ids": ids[0], "y": x[0]})


def test_errors_carry_message_and_hint(classifier, rows, tmp_path):
    with pytest.raises(tensorgrid.UsageError) as caught:
        classifier.run(rows[0][:3])
    assert "shape [3]" in caught.value.message and caught.value.exit_code == 2
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, tensorgrid.TensorGridError)
    text = onnx.helper.make_node("StringNormalizer", ["x"], ["y"])
    data = model_of([text], [("x", onnx.TensorProto.STRING, [2])], [("y", onnx.TensorProto.STRING, [2])], {})
    with pytest.raises(tensorgrid.UsageError, match="StringNormalizer|not numbers"):
        tensorgrid.compile(data, rows)
    with pytest.raises(tensorgrid.UsageError, match="this is a int"):
        tensorgrid.compile(7, rows)
    (tmp_path / "m.tgv").write_bytes(b"no model")
    with pytest.raises(tensorgrid.UsageError) as caught:
        tensorgrid.verify(b"no proof", tmp_path / "m.tgv")
    assert caught.value.hint and ".tgv" in caught.value.hint
    with pytest.raises(tensorgrid.InvalidInputError, match="complex"):
        classifier.run(rows[0].astype(numpy.complex64))
    with pytest.raises(tensorgrid.InvalidInputError):
        classifier.run(["a", "b"])


def test_arrays_of_any_type_and_order_are_read(classifier, rows):
    expected = classifier.run(rows[5]).array
    for array in (
        rows[5].astype(numpy.float64),
        rows[5].astype(">f4"),
        rows[5].tolist(),
        numpy.asfortranarray(rows[5:6]),
        rows[5].reshape(4, 1),
    ):
        assert numpy.array_equal(classifier.run(array).array, expected)


def test_a_missing_program_is_named(monkeypatch, tmp_path, classifier, rows):
    monkeypatch.setenv("TENSORGRID_BINARY", str(tmp_path / "missing"))
    with pytest.raises(tensorgrid.MissingDependencyError, match="no such file"):
        classifier.run(rows[0])
