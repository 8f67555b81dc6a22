//! Proofs that show one input and not the other, and likewise outputs, from the command line.

use crate::forms::{FLOAT, Message, constant, file_of, value};
use crate::run::{Ran, run};
use serde_json::json;

/// A folder with a model of two inputs, `x` and `z`, and two outputs, `y` and what of it is `above` zero.
struct ModelFolder {
    folder: tempfile::TempDir,
}

const X: [f32; 2] = [0.5, -0.25];
const Z: [f32; 3] = [0.125, 1.0, -0.75];
const WEIGHTS: [f32; 20] = [
    0.5, -0.5, 0.25, 1.0, -1.0, 0.75, 0.5, -0.25, 0.5, 0.5, -0.5, 1.0, 1.0, -0.75, 0.25, 0.25, 0.5,
    -1.0, 0.5, -0.5,
];

/// What the model gives for these as `y`.
fn scores() -> Vec<f64> {
    let row: Vec<f32> = X.iter().chain(&Z).copied().collect();
    let of = |weights: &[f32]| {
        weights
            .iter()
            .zip(&row)
            .map(|(w, x)| f64::from(w * x))
            .sum()
    };
    WEIGHTS.chunks_exact(5).map(of).collect()
}

fn node(op: &str, inputs: &[&str], output: &str, attribute: Option<(&str, u64)>) -> Message {
    let node = inputs
        .iter()
        .fold(Message::default(), |node, input| node.text(1, input));
    let node = node.text(2, output).text(4, op);
    attribute.into_iter().fold(node, |node, (name, number)| {
        let own = Message::default().text(1, name);
        node.message(5, &own.varint(3, number).varint(20, 2))
    })
}

impl ModelFolder {
    fn new() -> Self {
        let graph = Message::default()
            .message(1, &node("Concat", &["x", "z"], "both", Some(("axis", 1))))
            .message(1, &node("Gemm", &["both", "w"], "y", Some(("transB", 1))))
            .message(1, &node("Relu", &["y"], "above", None))
            .text(2, "two")
            .message(5, &constant("w", &[4, 5], &WEIGHTS))
            .message(11, &value("x", FLOAT, &[1, 2]))
            .message(11, &value("z", FLOAT, &[1, 3]))
            .message(12, &value("y", FLOAT, &[1, 4]))
            .message(12, &value("above", FLOAT, &[1, 4]));
        let model_folder = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let [onnx, input, own, public] =
            ["m.onnx", "x.json", "m.tgm", "m.tgv"].map(|name| model_folder.path(name));
        std::fs::write(&onnx, file_of(&graph)).unwrap();
        std::fs::write(&input, json!({ "x": [X], "z": [Z] }).to_string()).unwrap();
        let compile = ["model", "compile", &onnx, "--calibrate", &input];
        let out = ["-o", &own, "--public-out", &public];
        let ran = run(&[&compile[..], &out].concat()).ends(0);
        assert!(ran.stdout.contains("loss: "), "{}", ran.stdout);
        let doubt = "calibrated on one input alone";
        assert!(ran.stderr.contains(doubt), "{}", ran.stderr);
        model_folder
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn prove(&self, proof: &str, flags: &[&str]) -> Ran {
        let [own, input, proof] = ["m.tgm", "x.json", proof].map(|name| self.path(name));
        let prove = ["--json", "prove", &own, &input, "-o", &proof];
        run(&[&prove[..], flags].concat())
    }

    fn verify(&self, proof: &str, flags: &[&str]) -> Ran {
        let [public, proof] = ["m.tgv", proof].map(|name| self.path(name));
        run(&[&["verify", &proof, "--model", &public], flags].concat())
    }
}

/// Whether all numbers of a list are near others.
fn near(got: &serde_json::Value, expected: &[f64]) -> bool {
    let got: Vec<f64> = serde_json::from_value(got.clone()).unwrap();
    let pairs = got.iter().zip(expected);
    got.len() == expected.len() && pairs.into_iter().all(|(a, b)| (a - b).abs() < 0.05)
}

#[test]
fn an_input_beyond_the_calibration_is_told() {
    let folder = ModelFolder::new();
    let [model, input, far] = ["m.tgm", "x.json", "far.json"].map(|name| folder.path(name));
    let beyond = "outside of the range seen at calibration";
    let ran = run(&["run", &model, &input]).ends(0);
    assert!(!ran.stderr.contains(beyond), "{}", ran.stderr);
    std::fs::write(&far, json!({ "x": [[1e3, 0.0]], "z": [Z] }).to_string()).unwrap();
    let ran = run(&["run", &model, &far]).ends(0);
    let beyond = format!("{beyond}: 1 of its 5 values");
    assert!(ran.stderr.contains(&beyond), "{}", ran.stderr);
}

#[test]
fn inputs_and_outputs_have_modes_by_name() {
    let folder = ModelFolder::new();
    let proved = folder.prove("a.proof", &["--zk", "--show", "x", "--hide", "above"]);
    let proved = proved.ends(0).json();
    let modes = json!([{ "name": "y", "mode": "public" }, { "name": "above", "mode": "hidden" }]);
    assert_eq!(
        (&proved["input_mode"], &proved["outputs"]),
        (&json!("each"), &modes)
    );

    let told = folder.verify("a.proof", &["--json"]).ends(0).json();
    assert_eq!([&told["input_mode"], &told["output_mode"]], ["each"; 2]);
    assert_eq!(told["outputs"], modes);
    let inputs = told["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 2);
    assert_eq!([&inputs[0]["name"], &inputs[0]["mode"]], ["x", "public"]);
    assert!(near(&inputs[0]["values"], &X.map(f64::from)), "{told}");
    assert_eq!(
        inputs[1],
        json!({ "name": "z", "mode": "hidden", "values": null })
    );
    let answer = told["answer"].as_array().unwrap();
    assert_eq!((answer.len(), &answer[0]["name"]), (1, &json!("y")));
    assert!(near(&answer[0]["values"], &scores()), "{told}");
    assert_eq!(told["values"].as_array().unwrap().len(), 4);

    let told = folder.verify("a.proof", &["--explain"]).ends(0).stdout;
    for line in [
        "input x: public: 0.",
        "input z: hidden\n",
        "output y: public\n",
        "output above: hidden\n",
        "output y [1, 4]: ",
        "input         x public, z hidden, ",
        "output        y public, above hidden, ",
        "public inputs beside hidden ones",
    ] {
        assert!(told.contains(line), "{line:?} in {told}");
    }
    assert!(!told.contains("output above [1, 4]"), "{told}");
    for byte in ["168", "400", "3000"] {
        let flipped = folder.verify("a.proof", &["--flip-byte", byte]).ends(3);
        assert!(flipped.stderr.contains("REJECTED"), "{}", flipped.stderr);
    }
    // Digests of inputs in lists are compared with nothing.
    let other = folder.path("a.proof");
    let same = folder
        .verify("a.proof", &["--and", &other, "--same", "input"])
        .ends(3);
    assert!(
        same.stderr.contains("modes of their own"),
        "{}",
        same.stderr
    );
}

#[test]
fn one_input_is_committed_beside_another() {
    let folder = ModelFolder::new();
    let salt = folder.path("in.salt");
    let commit = [
        "--zk",
        "--commit",
        "z",
        "--show",
        "input:x",
        "--input-salt",
        &salt,
    ];
    folder.prove("a.proof", &commit).ends(0);
    let told = folder.verify("a.proof", &["--explain"]).ends(0).stdout;
    assert!(
        told.contains("input z: committed\n") && told.contains("Ring-SIS"),
        "{told}"
    );
    let unsalted = folder.prove("b.proof", &["--zk", "--commit", "z"]).ends(2);
    assert!(
        unsalted.stderr.contains("--input-salt"),
        "{}",
        unsalted.stderr
    );
    // Modes that are all one are said by one word, and the file is what that word gives.
    let all = folder
        .prove("c.proof", &["--zk", "--show", "x", "--show", "z"])
        .ends(0);
    assert_eq!(all.json()["input_mode"], "public");
    let none = folder.prove("d.proof", &["--zk", "--hide", "z"]).ends(0);
    assert_eq!(none.json()["input_mode"], "hidden");
}

#[test]
fn names_that_are_none_are_refused_with_those_that_are() {
    let folder = ModelFolder::new();
    let refused = |flags: &[&str]| folder.prove("a.proof", flags).ends(2).stderr;
    let unknown = refused(&["--zk", "--show", "w"]);
    for part in [
        "input or output `w`",
        "inputs are `x`, `z`",
        "outputs are `y`, `above`",
    ] {
        assert!(unknown.contains(part), "{unknown}");
    }
    let twice = refused(&["--zk", "--show", "x", "--hide", "x"]);
    assert!(twice.contains("`x` is given two modes"), "{twice}");
    let clear = refused(&["--hide", "x"]);
    assert!(clear.contains("--zk"), "{clear}");
    assert!(!std::path::Path::new(&folder.path("a.proof")).exists());
}
