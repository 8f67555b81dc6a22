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
        ("classes", "pad_token_id", json!("end")),
        ("llama", "num_key_value_heads", json!(0)),
        ("llama", "rope_parameters", json!({"rope_type": "longrope"})),
        ("llama", "architectures", json!(["LlamaForDepthEstimation"])),
        ("llama", "max_position_embeddings", json!(1u64 << 40)),
        ("mistral", "sliding_window", json!(0)),
        ("qwen2", "layer_types", json!(["chunked_attention"])),
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

/// A file of weights as PyTorch writes it: an archive of this pickle, and one storage of two floats.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let files: [(&str, &[u8]); 2] = [
        ("a/data.pkl", pickle),
        ("a/data/0", &[0, 0, 128, 63, 0, 0, 0, 64]),
    ];
    let (mut all, mut list) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let sizes = [bytes.len() as u32; 2].map(u32::to_le_bytes).concat();
        let lengths = [name.len() as u8, 0, 0, 0];
        let start = (all.len() as u32).to_le_bytes();
        all.extend(b"PK\x03\x04");
        all.extend([0; 14]);
        all.extend([sizes.as_slice(), &lengths, name.as_bytes(), bytes].concat());
        list.extend(b"PK\x01\x02");
        list.extend([0; 16]);
        list.extend(
            [
                sizes.as_slice(),
                &lengths,
                &[0; 10],
                &start,
                name.as_bytes(),
            ]
            .concat(),
        );
    }
    let [size, start] = [list.len(), all.len()].map(|n| (n as u32).to_le_bytes());
    all.extend(list);
    all.extend(b"PK\x05\x06");
    all.extend([[0; 8].as_slice(), &size, &start, &[0; 2]].concat());
    all
}

/// A folder with these weights.
fn with_weights(pickle: &[u8]) -> PretrainedError {
    let folder = tempfile::tempdir().unwrap();
    let config =
        r#"{"model_type":"gpt2","n_embd":2,"n_head":1,"n_layer":1,"vocab_size":1,"n_positions":2}"#;
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    std::fs::write(folder.path().join("pytorch_model.bin"), archive(pickle)).unwrap();
    read(folder.path()).unwrap_err()
}

/// A dictionary of one tensor.
fn pickled(name: &str, places: &[u8]) -> Vec<u8> {
    let mut pickle = b"\x80\x02}(X".to_vec();
    pickle.extend((name.len() as u32).to_le_bytes());
    pickle.extend(name.as_bytes());
    pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ");
    pickle.extend(places);
    pickle.extend(b"\x89ccollections\nOrderedDict\n)RtRu.");
    pickle
}

#[test]
fn of_a_pickle_only_tensors_are_read() {
    // The table is there; the next tensor is not.
    let found = with_weights(&pickled("wte.weight", b"K\0K\x01K\x02\x86K\x02K\x01\x86"));
    assert!(
        matches!(&found, PretrainedError::NoTensor { name } if name == "wpe.weight"),
        "{found:?}"
    );
    // Of a shape or strides that do not fit the storage.
    for places in [
        b"K\x01K\x01K\x02\x86K\x02K\x01\x86".as_slice(),
        b"K\0K\x01K\x02\x86K\x02K\x02\x86",
        b"K\0K\x01K\x02\x86K\0K\0\x86",
        b"J\xff\xff\xff\xffK\x01K\x02\x86K\x02K\x01\x86",
    ] {
        let found = with_weights(&pickled("wte.weight", places));
        assert!(matches!(found, PretrainedError::Torch { .. }), "{found:?}");
    }
    // What a pickle could do is not done, and is named.
    let found = with_weights(b"\x80\x02cos\nsystem\n(X\x04\0\0\0truetR.");
    let text = format!("{:?}", found);
    assert!(
        matches!(found, PretrainedError::Torch { .. }) && text.contains("os.system"),
        "{text}"
    );
    let mut deep = b"\x80\x02)".to_vec();
    deep.extend([0x85; 100_000]);
    for pickle in [
        deep.as_slice(),
        b"",
        b"}",
        b"(((",
        b"I1\n.",
        b"q\0.",
        b"h\x09.",
        b"u.",
        b"K\x01.",
    ] {
        let found = with_weights(pickle);
        assert!(matches!(found, PretrainedError::Torch { .. }), "{found:?}");
    }
}

/// What takes any bytes.
type Fuzzed = fn(&[u8]);

/// A mutation of a file of weights or a configuration gives a graph or an error.
#[test]
fn mutated_files_never_panic() {
    let first = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        let weights = ["safetensors", "bin"].map(std::ffi::OsStr::new);
        paths.retain(|path| path.extension().is_some_and(|end| weights.contains(&end)));
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
    let fuzzed: [(&str, Fuzzed); 3] = [
        ("bert", fuzz::safetensors),
        ("llama", fuzz::safetensors),
        ("pickled", fuzz::torch),
    ];
    for (name, fuzzed) in fuzzed {
        let file = first(&data().join(name));
        for _ in 0..2_000 {
            let mut bytes = file.clone();
            for _ in 0..=next(3) {
                // Lists are at the start, or at the end.
                let at = next(bytes.len().min(2_000));
                let at = if next(2) == 0 {
                    at
                } else {
                    bytes.len() - 1 - at
                };
                bytes[at] = next(256) as u8;
            }
            bytes.truncate(if next(4) == 0 {
                next(bytes.len())
            } else {
                bytes.len()
            });
            fuzzed(&bytes);
        }
    }
}
