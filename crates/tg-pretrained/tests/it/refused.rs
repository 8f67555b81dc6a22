//! What is not taken is named; mutated folders never panic.

use crate::folders::data;
use serde_json::{Value, json};
use std::path::Path;
use tg_pretrained::{PretrainedError, fuzz, read};

/// The folder `name` with fields of its configuration replaced.
fn changed(name: &str, fields: &[(&str, Value)]) -> Result<(), PretrainedError> {
    let from = data().join(name);
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = to.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (field, value) in fields {
        config[field] = value.clone();
    }
    std::fs::write(&path, config.to_string()).unwrap();
    read(to.path()).map(|_| ())
}

#[test]
fn the_field_and_its_value_are_named() {
    let cases = [
        ("bert", "model_type", json!("t5")),
        ("bert", "hidden_act", json!("xielu")),
        ("bert", "num_attention_heads", json!(3)),
        ("bert", "position_embedding_type", json!("relative_key")),
        ("bert", "num_hidden_layers", json!(100_000)),
        (
            "bert",
            "architectures",
            json!(["BertForNextSentencePrediction"]),
        ),
        ("roberta", "pad_token_id", json!(-1)),
        ("gpt2", "architectures", json!(["GPT2DoubleHeadsModel"])),
        ("llama", "num_key_value_heads", json!(0)),
        ("llama", "rope_parameters", json!({"rope_type": "yarn"})),
        ("llama", "max_position_embeddings", json!(1u64 << 40)),
        ("mistral", "sliding_window", json!(4096)),
        ("vit", "patch_size", json!(3)),
    ];
    for (folder, field, value) in cases {
        let found = changed(folder, &[(field, value.clone())]);
        let named =
            |found: &str| found == field || (field == "rope_parameters" && found == "rope_type");
        match found {
            Err(PretrainedError::Field { field: found, .. }) if named(&found) => {}
            other => panic!("{folder} {field} {value}: {other:?}"),
        }
    }
    let found = changed("bert", &[("hidden_size", Value::Null)]);
    assert!(
        matches!(found, Err(PretrainedError::Absent { .. })),
        "{found:?}"
    );
    let found = changed("bert", &[("vocab_size", json!(25))]);
    assert!(
        matches!(found, Err(PretrainedError::Shape { .. })),
        "{found:?}"
    );
    let found = changed("bert", &[("num_hidden_layers", json!(2))]);
    assert!(
        matches!(found, Err(PretrainedError::NoTensor { .. })),
        "{found:?}"
    );
}

#[test]
fn files_outside_the_folder_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("config.json"),
        r#"{"model_type":"bert"}"#,
    )
    .unwrap();
    let found = read(folder.path());
    assert!(
        matches!(found, Err(PretrainedError::NoWeights)),
        "{found:?}"
    );
    for name in ["../x.safetensors", "/etc/passwd", "a/b", ".."] {
        let index = json!({ "weight_map": { "w": name } }).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        let found = read(folder.path());
        assert!(
            matches!(found, Err(PretrainedError::Outside { .. })),
            "{found:?}"
        );
    }
}

/// A mutation of a file of weights or a configuration gives a graph or an error.
#[test]
fn mutated_files_never_panic() {
    let first = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
        paths.sort();
        std::fs::read(&paths[0]).unwrap()
    };
    let mut state = 7u64;
    println!("seed {state}");
    let mut next = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for name in ["bert", "llama"] {
        let file = first(&data().join(name));
        for _ in 0..2_000 {
            let mut bytes = file.clone();
            for _ in 0..=next(3) {
                let at = next(bytes.len().min(2_000));
                bytes[at] = next(256) as u8;
            }
            bytes.truncate(if next(4) == 0 {
                next(bytes.len())
            } else {
                bytes.len()
            });
            fuzz::safetensors(&bytes);
        }
    }
}
