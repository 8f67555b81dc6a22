//! What proofs say of inputs and outputs, and what two of them share.

use crate::run::{Ran, root, run};
use std::path::Path;

/// A folder with a model of digits and its public part.
struct ModelFolder {
    folder: tempfile::TempDir,
}

impl ModelFolder {
    fn new() -> Self {
        let model_folder = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let onnx = root().join("models/mlp-digits.onnx");
        let digit = root().join("examples/digit.json");
        let files = [model_folder.path("m.tgm"), model_folder.path("m.tgv")];
        run(&[
            "model",
            "compile",
            text(&onnx),
            "--calibrate",
            text(&digit),
            "-o",
            &files[0],
            "--public-out",
            &files[1],
        ])
        .ends(0);
        model_folder
    }

    fn path(&self, name: &str) -> String {
        text(&self.folder.path().join(name)).to_owned()
    }

    fn prove(&self, name: &str, flags: &[&str]) -> serde_json::Value {
        let digit = root().join("examples/digit.json");
        let (model, proof) = (self.path("m.tgm"), self.path(name));
        let arguments = ["--json", "prove", &model, text(&digit), "-o", &proof];
        run(&[&arguments, flags].concat()).ends(0).json()
    }

    fn verify(&self, name: &str, flags: &[&str]) -> Ran {
        let (model, proof) = (self.path("m.tgv"), self.path(name));
        run(&[&["verify", &proof, "--model", &model], flags].concat())
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two proofs under one salt are linked, by a salt file that the first one made; a third under another is not.
#[test]
fn commitments_link_proofs() {
    let model_folder = ModelFolder::new();
    let [salt, other, output] =
        ["in.salt", "other.salt", "out.salt"].map(|name| model_folder.path(name));
    let committed = ["--zk", "--input-mode", "committed", "--input-salt"];
    let first = model_folder.prove("a.proof", &[&committed[..], &[&salt]].concat());
    assert_eq!(
        (first["zk"].as_bool(), &first["input_mode"]),
        (Some(true), &"committed".into())
    );
    let hidden = ["--output-mode", "committed", "--output-salt", &output];
    let second = model_folder.prove("b.proof", &[&committed[..], &[&salt], &hidden].concat());
    assert_eq!(first["input"], second["input"]);
    assert_eq!(first["values"], second["values"]);
    let third = model_folder.prove("c.proof", &[&committed[..], &[&other]].concat());
    assert_ne!(first["input"], third["input"]);
    let [second, third] = ["b.proof", "c.proof"].map(|name| model_folder.path(name));
    for same in ["input", "model"] {
        let shared = model_folder
            .verify("a.proof", &["--and", &second, "--same", same])
            .ends(0);
        assert!(
            shared.stdout.contains("SAME: both proofs"),
            "{}",
            shared.stdout
        );
    }
    for (with, same) in [(&third, "input"), (&second, "output"), (&second, "chain")] {
        let apart = model_folder
            .verify("a.proof", &["--and", with, "--same", same])
            .ends(3);
        assert!(apart.stderr.contains("NOT THE SAME"), "{}", apart.stderr);
    }
    let told = model_folder
        .verify("b.proof", &["--explain"])
        .ends(0)
        .stdout;
    assert!(
        told.contains("input         committed, ") && told.contains("Ring-SIS"),
        "{told}"
    );
    assert!(!told.contains("greatest at index"), "{told}");
}

#[test]
fn modes_are_what_they_say() {
    let model_folder = ModelFolder::new();
    let clear = model_folder.prove("clear.proof", &[]);
    let public = model_folder.prove("public.proof", &["--zk", "--input-mode", "public"]);
    assert_eq!(
        (&clear["input"], &clear["output"]),
        (&public["input"], &public["output"])
    );
    assert_eq!(
        (clear["zk"].as_bool(), public["zk"].as_bool()),
        (Some(false), Some(true))
    );
    let other = model_folder.path("public.proof");
    let shared = model_folder
        .verify("clear.proof", &["--and", &other, "--same", "input"])
        .ends(0);
    assert!(shared.stdout.contains("SAME"), "{}", shared.stdout);
    model_folder.prove("hidden.proof", &["--zk"]);
    let other = model_folder.path("hidden.proof");
    model_folder
        .verify("clear.proof", &["--and", &other, "--same", "input"])
        .ends(3);
    model_folder
        .verify("clear.proof", &["--and", &other, "--same", "output"])
        .ends(0);
    model_folder
        .verify("hidden.proof", &["--flip-byte", "5"])
        .ends(3);
    // A commitment needs a salt, modes need --zk.
    let (model, digit) = (
        model_folder.path("m.tgm"),
        root().join("examples/digit.json"),
    );
    let begin = ["prove", &model, text(&digit), "-o", &other];
    run(&[&begin[..], &["--zk", "--input-mode", "committed"]].concat()).ends(2);
    run(&[&begin[..], &["--output-mode", "hidden"]].concat()).ends(2);
    std::fs::write(model_folder.path("bad.salt"), "no salt").unwrap();
    let bad = ["--zk", "--input-mode", "committed", "--input-salt"];
    run(&[&begin[..], &bad, &[&model_folder.path("bad.salt")]].concat()).ends(2);
}

/// A model with private weights: its secret counts the proofs, and is needed for each.
#[test]
fn weights_may_be_private() {
    let model_folder = ModelFolder::new();
    let [tgm, tgv, secret] = ["m.tgm", "m.tgv", "m.tgs"].map(|name| model_folder.path(name));
    let clear = model_folder.prove("clear.proof", &[]);
    let source = ["model", "compile"];
    let model = root().join("models/mlp-digits.onnx");
    let digits = root().join("examples/digit.json");
    let outputs = ["-o", &tgm, "--public-out", &tgv];
    let private = ["--private-weights", &secret, "--openings", "2"];
    let calibrate = [text(&model), "--calibrate", text(&digits)];
    let compile = [&["--json"][..], &source[..], &calibrate, &outputs, &private].concat();
    let compiled = run(&compile).ends(0).json();
    assert_ne!(compiled["model"], clear["model"]);
    let proofs = compiled["proofs"].as_u64().unwrap();
    assert!(proofs >= 2);
    // A secret is not overwritten, and not made for a model that nobody verifies.
    run(&compile).ends(2);
    run(&[&source[..], &calibrate, &["-o", &tgm], &private].concat()).ends(2);

    let hidden = model_folder.prove("a.proof", &["--zk", "--secret", &secret]);
    assert_eq!(hidden["proofs_left"], proofs - 1);
    assert_eq!(hidden["private_weights"], true);
    let told = model_folder
        .verify("a.proof", &["--explain"])
        .ends(0)
        .stdout;
    for part in [
        "its weights hidden",
        "anchor of the private weights",
        "and the weights.",
    ] {
        assert!(told.contains(part), "{told}");
    }
    // Without the secret, in the clear, or with the secret of another model there is no proof.
    model_folder.verify("clear.proof", &[]).ends(3);
    let (digit, other) = (
        root().join("examples/digit.json"),
        model_folder.path("b.proof"),
    );
    let begin = ["prove", &tgm, text(&digit), "-o", &other];
    run(&[&begin[..], &["--secret", &secret]].concat()).ends(2);
    run(&[&begin[..], &["--zk", "--secret", &tgm]].concat()).ends(2);
    run(&[&begin[..], &["--zk"]].concat()).ends(0);
    model_folder.verify("b.proof", &[]).ends(3);
    // Used up.
    let mut bytes = std::fs::read(&secret).unwrap();
    let place = bytes.len() - 4;
    bytes[place..].copy_from_slice(&u32::try_from(proofs + 1).unwrap().to_le_bytes());
    std::fs::write(&secret, bytes).unwrap();
    let refused = run(&[&begin[..], &["--zk", "--secret", &secret]].concat()).ends(2);
    assert!(refused.stderr.contains("were begun"), "{}", refused.stderr);
}
