//! `tests/data`: tiny folders with inputs and what transformers computes of them (`xtask/python/make_pretrained.py`); those
//! of the folder `TENSORGRID_PRETRAINED`, which `cargo xtask pretrained` sets, beside them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tg_exec::kernels::Cpu;
use tg_float::tgf::{Budget, Engine};
use tg_float::{DType, FloatTensor};

/// Greatest difference from transformers, in units of the greatest value of the output.
const DIFFERENCE_MAX: f64 = 2e-5;

pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn tensor(case: &Value, dtype: Option<DType>) -> FloatTensor {
    let numbers = |field: &str| case[field].as_array().unwrap().clone();
    let shape = numbers("shape")
        .into_iter()
        .map(|n| n.as_u64().unwrap() as usize);
    let values = numbers("values").into_iter().map(|n| n.as_f64().unwrap());
    let shape: Vec<usize> = shape.collect();
    match dtype {
        Some(DType::I64) => FloatTensor::of(shape, values.map(|n| n as i64).collect()).unwrap(),
        _ => FloatTensor::of(shape, values.map(|n| n as f32).collect()).unwrap(),
    }
}

/// Runs the case of a folder; the greatest difference of an output.
fn difference(folder: &Path) -> f64 {
    let case: Value =
        serde_json::from_slice(&std::fs::read(folder.join("case.json")).unwrap()).unwrap();
    let model = tg_pretrained::read(folder).unwrap_or_else(|e| panic!("{folder:?}: {e:?}"));
    let inputs: Vec<FloatTensor> = model
        .graph
        .inputs
        .iter()
        .map(|input| tensor(&case["inputs"][&input.name], input.dtype))
        .collect();
    assert_eq!(inputs.len(), case["inputs"].as_object().unwrap().len());
    let names: Vec<String> = model
        .graph
        .outputs
        .iter()
        .map(|&value| model.graph.name_of(value).to_owned())
        .collect();
    assert_eq!(
        names.len(),
        case["outputs"].as_object().unwrap().len(),
        "{names:?}"
    );
    let mut engine = Engine::new(model.graph, Cpu::new(1));
    let given: Vec<&FloatTensor> = inputs.iter().collect();
    let outputs = engine.run(&given, &Budget::default());
    let outputs = outputs.unwrap_or_else(|e| panic!("{folder:?}: {e:?}"));
    let mut worst = 0f64;
    for (name, found) in names.iter().zip(&outputs) {
        let expected = tensor(&case["outputs"][name], None);
        assert_eq!(found.shape(), expected.shape(), "{folder:?} {name}");
        let (found, expected) = (
            found.values::<f32>().unwrap(),
            expected.values::<f32>().unwrap(),
        );
        let greatest = expected
            .iter()
            .fold(1e-6f32, |most, value| most.max(value.abs()));
        for (a, b) in found.iter().zip(expected) {
            assert!(a.is_finite(), "{folder:?} {name}");
            worst = worst.max(f64::from((a - b).abs() / greatest));
        }
    }
    worst
}

fn compare(root: &Path) -> usize {
    let entries = std::fs::read_dir(root).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut wrong = Vec::new();
    for folder in &folders {
        let worst = difference(folder);
        println!("{}: differs by {worst:.1e}", folder.display());
        if worst > DIFFERENCE_MAX {
            wrong.push(folder);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    folders.len()
}

#[test]
fn folders_give_what_transformers_computes() {
    assert_eq!(compare(&data()), 16);
    if let Some(drawn) = std::env::var_os("TENSORGRID_PRETRAINED") {
        println!("{} drawn folders agree", compare(Path::new(&drawn)));
    }
}

#[test]
fn the_configuration_says_what_tokens_there_are() {
    for (name, positions) in [("bert", 0), ("roberta", 2), ("gpt2", 0), ("llama", 0)] {
        let model = tg_pretrained::read(&data().join(name)).unwrap();
        let config = std::fs::read(data().join(name).join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        let number = |field: &str| config[field].as_u64().map(|number| number as usize);
        assert_eq!(model.tokens.vocabulary, number("vocab_size"), "{name}");
        let all = number("max_position_embeddings").or_else(|| number("n_positions"));
        assert_eq!(
            model.tokens.positions.map(|count| count + positions),
            all,
            "{name}"
        );
        let pad = model.tokens.pad.map(|pad| pad as usize);
        assert_eq!(pad, number("pad_token_id"), "{name}");
    }
}

#[test]
fn classes_have_the_names_of_the_folder() {
    for name in ["bert", "vit"] {
        let model = tg_pretrained::read(&data().join(name)).unwrap();
        let classes = model.labels.iter().enumerate();
        assert!(
            classes
                .clone()
                .all(|(i, label)| *label == format!("class {i}")),
            "{name}"
        );
    }
}
