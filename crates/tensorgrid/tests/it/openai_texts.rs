//! The OpenAI routes of models whose tokens are those of a tokenizer.

use std::path::Path;

use serde_json::json;
use tg_types::Digest;

use crate::http::{Answer, post};
use crate::run::{Grid, run};
use crate::texts::{TextFolder, bpe, word_piece};

/// The token that ends a text, which is the letter c.
const END: u64 = 2;

fn refusal(answer: &Answer) -> (u16, String, String) {
    let error = &answer.json()["error"];
    let text = |name: &str| error[name].as_str().unwrap().to_owned();
    (answer.status, text("code"), text("message"))
}

#[test]
fn texts_are_written_and_embedded_by_tokenizers() {
    let writer = writer();
    let folder = tempfile::tempdir().unwrap();
    let held = folder.path().join("tokenizers");
    std::fs::create_dir(&held).unwrap();
    let data = folder.path().join("data");
    let more = ["--no-models", "--tokenizers", held.to_str().unwrap()];
    let grid = Grid::up_with(&data, 1, &more);
    let [own, public] = ["m.tgm", "m.tgv"].map(|name| writer.path(name));
    grid.run(&["model", "add", &own, &public, "--name", "writer"])
        .ends(0);
    not_held(&grid);
    // The folder of the model, as it is.
    std::os::unix::fs::symlink(writer.path("model"), held.join("qwen3")).unwrap();
    written(&grid, &writer);
    embedded(&grid, &data);
}

/// A Qwen3 whose configuration says that token 2 ends a text, with room for requests of some tokens.
fn writer() -> TextFolder {
    let writer = TextFolder::of("qwen3", &bpe());
    let config = std::fs::read_to_string(writer.path("model/config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["max_position_embeddings"] = json!(64);
    config["eos_token_id"] = json!(END);
    writer.write("model/config.json", &config.to_string());
    let texts = writer.write("texts.txt", "ab ab ab\nabcdef\nttt ab\n");
    let [model, own, public] = ["model", "m.tgm", "m.tgv"].map(|name| writer.path(name));
    let compile = [
        "model",
        "compile",
        &model,
        "--axis",
        "sequence=48",
        "--calibrate",
        &texts,
    ];
    let out = ["-o", &own, "--public-out", &public, "--top-k", "4"];
    run(&[&compile[..], &out].concat()).ends(0);
    writer
}

fn not_held(grid: &Grid) {
    let mut body = json!({"model": "writer", "prompt": "ab ab", "max_tokens": 3, "temperature": 0});
    let (status, code, message) = refusal(&post(grid, "completions", &[], &body));
    assert_eq!((status, code.as_str()), (400, "tokenizer_not_held"));
    let digest = Digest::of_blob(bpe().to_string().as_bytes()).to_string();
    assert!(
        message.contains(&digest) && message.contains("--tokenizers"),
        "{message}"
    );
    let chat = json!({"model": "writer", "messages": [{"role": "user", "content": "ab"}]});
    assert_eq!(
        refusal(&post(grid, "chat/completions", &[], &chat)).1,
        "tokenizer_not_held"
    );
    // Tokens need no tokenizer, but to stop at a text.
    body["prompt"] = json!([4, 5]);
    body["stop"] = json!("ab");
    let refused = post(grid, "completions", &[], &body);
    assert_eq!(refusal(&refused).1, "tokenizer_not_held");
    body["stop"] = json!([]);
    let answer = post(grid, "completions", &[], &body).json();
    let text = answer["choices"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{answer}"));
    assert!(
        text.split(' ').all(|it| it.parse::<u32>().is_ok()),
        "{answer}"
    );
}

fn written(grid: &Grid, folder: &TextFolder) {
    let [own, tokenizer] = ["m.tgm", "model/tokenizer.json"].map(|name| folder.path(name));
    let mut ended = 0;
    for seed in 0..4i64 {
        let hex = Digest::of_blob(&seed.to_le_bytes()).to_string();
        let alone = [
            "generate",
            &own,
            "--text",
            "ab ab",
            "--tokenizer",
            &tokenizer,
            "--stop",
            "2",
            "-n",
            "12",
            "--seed",
            hex.trim_start_matches("0x"),
            "--json",
        ];
        let alone = run(&alone).ends(0).json();
        let tokens: Vec<u64> = alone["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_u64().unwrap())
            .collect();
        let body = json!({"model": "writer", "prompt": "ab ab", "max_tokens": 12, "seed": seed});
        let answer = post(grid, "completions", &[], &body).json();
        let choice = &answer["choices"][0];
        let text = alone["text"].as_str().unwrap();
        let stopped = tokens.last() == Some(&END);
        let shown = match stopped {
            true => text.strip_suffix('c').unwrap(),
            false => text,
        };
        ended += u32::from(stopped);
        assert_eq!(choice["text"], shown, "{answer}");
        assert_eq!(
            choice["finish_reason"],
            if stopped { "stop" } else { "length" }
        );
        let usage = json!({"prompt_tokens": 2, "completion_tokens": tokens.len(), "total_tokens": 2 + tokens.len()});
        assert_eq!(answer["usage"], usage);
        let mut streaming = body.clone();
        streaming["stream"] = json!(true);
        let (parts, _) = post(grid, "completions", &[], &streaming).parts();
        let streamed = parts
            .iter()
            .filter_map(|part| part["choices"][0]["text"].as_str());
        assert_eq!(streamed.collect::<String>(), shown);
    }
    assert!(ended > 0, "no seed ended at the token that ends a text");
    let long = json!({"model": "writer", "prompt": "ab ".repeat(100)});
    assert_eq!(
        refusal(&post(grid, "completions", &[], &long)).1,
        "context_length_exceeded"
    );
    let image = json!({"model": "writer", "input": "ab"});
    assert!(
        refusal(&post(grid, "embeddings", &[], &image))
            .2
            .contains("it writes text")
    );
}

/// Hidden states of a BERT, whose tokenizer comes with `model add`.
fn embedded(grid: &Grid, data: &Path) {
    let folder = TextFolder::of("bert", &word_piece());
    let config = std::fs::read_to_string(folder.path("model/config.json")).unwrap();
    folder.write(
        "model/config.json",
        &config.replace("BertForMaskedLM", "BertModel"),
    );
    folder.compile(&[]).ends(0);
    let [own, public, tokenizer] =
        ["m.tgm", "m.tgv", "model/tokenizer.json"].map(|name| folder.path(name));
    let other = folder.write("other.json", &bpe().to_string());
    let add = [
        "model",
        "add",
        &own,
        &public,
        "--name",
        "words",
        "--tokenizer",
    ];
    grid.run(&[&add[..], &[&other]].concat()).ends(2);
    grid.run(&[&add[..], &[&tokenizer]].concat()).ends(0);
    let body = json!({"model": "words", "input": ["hello worlds", "world", [2, 5, 3]]});
    let answer = post(grid, "embeddings", &[], &body).json();
    let vector = |index: usize| -> Vec<f64> {
        let list = answer["data"][index]["embedding"].as_array();
        let list = list.unwrap_or_else(|| panic!("{answer}"));
        list.iter().map(|it| it.as_f64().unwrap()).collect()
    };
    let alone = [
        "run",
        &own,
        "--text",
        "hello worlds",
        "--tokenizer",
        &tokenizer,
        "--json",
    ];
    let alone = run(&alone).ends(0).json();
    let states = &alone["answer"][0]["values"];
    let states: Vec<f64> = states
        .as_array()
        .unwrap_or_else(|| panic!("{alone}"))
        .iter()
        .map(|it| it.as_f64().unwrap())
        .collect();
    // 6 tokens of 8, of which [CLS] hello world ##s [SEP] are text.
    let mean: Vec<f64> = (0..8)
        .map(|at| (0..5).map(|row| states[row * 8 + at]).sum::<f64>())
        .collect();
    let length = mean.iter().map(|it| it * it).sum::<f64>().sqrt();
    for (got, expected) in vector(0).iter().zip(&mean) {
        assert!(
            (got - expected / length).abs() < 1e-6,
            "{:?} {mean:?}",
            vector(0)
        );
    }
    assert_eq!(vector(1), vector(2), "a text and its tokens");
    assert_ne!(vector(0), vector(1));
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 11, "total_tokens": 11})
    );
    assert_eq!(answer["tensorgrid"]["jobs"].as_array().unwrap().len(), 3);
    refused_or_coded(grid, &body);
    // The node has it for good: the grid lets go of what no record names.
    let digest = Digest::of_blob(word_piece().to_string().as_bytes());
    let kept = data.join(format!("openai/tokenizers/{digest}.json"));
    assert!(kept.is_file(), "{}", kept.display());
}

fn refused_or_coded(grid: &Grid, body: &serde_json::Value) {
    let mut coded = body.clone();
    coded["encoding_format"] = json!("base64");
    let coded = post(grid, "embeddings", &[], &coded).json();
    assert_eq!(coded["data"][1]["embedding"].as_str().unwrap().len(), 44);
    for (name, value, code) in [
        ("dimensions", json!(4), "unsupported_parameter"),
        (
            "input",
            json!("hello ".repeat(9)),
            "context_length_exceeded",
        ),
        ("input", json!(""), "invalid_value"),
        ("input", json!([99]), "invalid_value"),
        ("model", json!("gone"), "model_not_found"),
    ] {
        let mut body = body.clone();
        body[name] = value;
        assert_eq!(refusal(&post(grid, "embeddings", &[], &body)).1, code);
    }
}
