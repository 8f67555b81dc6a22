//! Texts as inputs: the tokenizer of a folder, one that is named, and the one that a program was compiled with.

use crate::run::{Grid, Ran, root, run};
use serde_json::{Value, json};
use std::path::Path;

/// WordPiece with special tokens around a text.
pub(crate) fn word_piece() -> Value {
    let token = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let of = |name: &str, id: u32| json!({"id": name, "ids": [id], "tokens": [name]});
    json!({
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, token("[SEP]")],
            "pair": [
                token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, token("[SEP]"), {"Sequence": {"id": "B", "type_id": 1}},
                token("[SEP]"),
            ],
            "special_tokens": {"[CLS]": of("[CLS]", 2), "[SEP]": of("[SEP]", 3)},
        },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "hello": 4, "world": 5, "##s": 6},
        },
    })
}

/// BPE on bytes.
pub(crate) fn bpe() -> Value {
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "added_tokens": [{
            "id": 23, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        }],
        "pre_tokenizer": bytes, "decoder": bytes,
        "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "c": 2, "\u{120}": 3, "ab": 4, "\u{120}ab": 5, "d": 6, "e": 7, "f": 8, "g": 9, "h": 10, "i": 11,
                "j": 12, "k": 13, "l": 14, "m": 15, "n": 16, "o": 17, "p": 18, "q": 19, "r": 20, "s": 21, "t": 22, "<|endoftext|>": 23},
            "merges": ["a b", "\u{120} ab"],
        },
    })
}

/// A folder as `save_pretrained` writes it, with a tokenizer.
pub(crate) struct TextFolder {
    folder: tempfile::TempDir,
}

impl TextFolder {
    pub(crate) fn of(model: &str, tokenizer: &Value) -> Self {
        let this = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let from = root().join("crates/tg-pretrained/tests/data").join(model);
        std::fs::create_dir(this.folder.path().join("model")).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = this.folder.path().join("model");
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        this.write("model/tokenizer.json", &tokenizer.to_string());
        this
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Compiles it for so many tokens, calibrated on texts.
    pub(crate) fn compile(&self, flags: &[&str]) -> Ran {
        let texts = self.write(
            "texts.txt",
            "hello world\nworlds\n\nhello hello hello\nworld\n",
        );
        self.compile_on(&texts, flags)
    }

    pub(crate) fn compile_on(&self, calibrate: &str, flags: &[&str]) -> Ran {
        let [model, own, public] = ["model", "m.tgm", "m.tgv"].map(|name| self.path(name));
        let compile = [
            "--json",
            "model",
            "compile",
            &model,
            "--axis",
            "sequence=6",
            "--calibrate",
            calibrate,
            "-o",
            &own,
            "--public-out",
            &public,
        ];
        run(&[&compile[..], flags].concat())
    }
}

/// What a file of tokens and what their text give.
fn compare(text: &Ran, tokens: &Ran, field: &str) {
    let [text, tokens] = [text.json(), tokens.json()];
    assert!(text[field].is_array(), "{text}");
    assert_eq!(text[field], tokens[field]);
}

#[test]
fn a_folder_takes_texts_by_its_own_tokenizer() {
    let folder = TextFolder::of("bert", &word_piece());
    let model = folder.path("model");
    let ids = write_npy(Path::new(&folder.path("ids.npy")), &[2, 4, 5, 6, 3]);
    let ids = format!("input_ids={ids}");
    let text = run(&["run", &model, "--text", "Hello worlds", "--json"]).ends(0);
    assert!(text.stderr.is_empty(), "{}", text.stderr);
    let files = run(&["run", &model, &ids, "--json"]).ends(0);
    compare(&text, &files, "outputs");
    // More tokens than the model has positions.
    let long = "hello ".repeat(40);
    let cut = run(&["run", &model, "--text", &long]).ends(0);
    let told = "the text has 42 tokens, the model takes 16: 26 are left out";
    assert!(cut.stderr.contains(told), "{}", cut.stderr);
    for (arguments, told) in [
        (&["--text", ""][..], "the text is empty"),
        (&["--text", "a", &ids], "cannot be used with"),
        (
            &["--text-pair", "a"],
            "required arguments were not provided",
        ),
    ] {
        let refused = run(&[&["run", &model], arguments].concat()).ends(2);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    std::fs::remove_file(folder.path("model/tokenizer.json")).unwrap();
    let refused = run(&["run", &model, "--text", "hello"]).ends(2);
    assert!(
        refused.stderr.contains("hint: --tokenizer"),
        "{}",
        refused.stderr
    );
    let mut large = word_piece();
    large["model"]["vocab"]["hello"] = json!(24);
    let large = folder.write("large.json", &large.to_string());
    let refused = run(&["run", &model, "--text", "hello", "--tokenizer", &large]).ends(2);
    let told = "the text has the token 24 (\"hello\"), and the model's tokens are below 24";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    for (name, text, told) in [
        ("broken.json", "{", "it is not the JSON of a tokenizer"),
        (
            "kind.json",
            r#"{"model": {"type": "Tree", "vocab": {}}}"#,
            "BPE, WordPiece, Unigram and WordLevel are taken",
        ),
    ] {
        let path = folder.write(name, text);
        let refused = run(&["run", &model, "--text", "hello", "--tokenizer", &path]).ends(2);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
}

/// A list of tokens as a file of numpy.
fn write_npy(path: &Path, tokens: &[i64]) -> String {
    let row = [1, tokens.len()];
    let header = format!(
        "{{'descr': '<i8', 'fortran_order': False, 'shape': ({}, {}), }}",
        row[0], row[1]
    );
    let padded = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(padded.len()).unwrap().to_le_bytes());
    bytes.extend(padded.as_bytes());
    tokens
        .iter()
        .for_each(|token| bytes.extend(token.to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_program_takes_texts_by_the_tokenizer_that_it_was_compiled_with() {
    let folder = TextFolder::of("bert", &word_piece());
    let bound = ["--bind", "attention_mask=1"];
    let compiled = folder.compile(&bound).ends(0).json();
    let tokenizer = folder.path("model/tokenizer.json");
    let bytes = std::fs::read(&tokenizer).unwrap();
    let digest = tg_types::Digest::of_blob(&bytes).to_string();
    assert_eq!(compiled["tokenizer"], digest);
    let [own, public, proof] = ["m.tgm", "m.tgv", "p.bin"].map(|name| folder.path(name));
    let input = folder.write("x.json", r#"{"input_data": [[2, 4, 5, 3, 0, 0]]}"#);
    let files = run(&["run", &own, &input, "--json"]).ends(0);
    let text = ["--text", "hello world", "--tokenizer", &tokenizer];
    let ran = run(&[&["run", &own, "--json"], &text[..]].concat()).ends(0);
    compare(&ran, &files, "values");
    let told = "it looks at the 2 tokens of padding as at the text";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let proved = run(&[&["prove", &own, "-o", &proof, "--json"], &text[..]].concat()).ends(0);
    assert_eq!(proved.json()["values"], files.json()["values"]);
    run(&["verify", &proof, "--model", &public]).ends(0);
    // Another tokenizer is refused with both digests, and none with that of the program.
    let other = folder.write("other.json", &bpe().to_string());
    let other_digest = tg_types::Digest::of_blob(bpe().to_string().as_bytes()).to_string();
    for command in [&["run", &own][..], &["prove", &own, "-o", &proof]] {
        let refused = [command, &["--text", "ab", "--tokenizer", &other]].concat();
        let refused = run(&refused).ends(2).stderr;
        assert!(refused.contains(&digest), "{refused}");
        assert!(refused.contains(&other_digest), "{refused}");
        let missing = run(&[command, &["--text", "hello"]].concat()).ends(2);
        assert!(missing.stderr.contains(&digest), "{}", missing.stderr);
    }
    // The same folder without a tokenizer is another program, which takes any.
    std::fs::rename(&tokenizer, folder.path("kept.json")).unwrap();
    let rows = folder.write(
        "rows.json",
        r#"{"input_data": [[2, 4, 5, 3, 0, 0], [2, 5, 6, 3, 0, 0], [2, 4, 4, 4, 3, 0], [2, 5, 3, 0, 0, 0]]}"#,
    );
    let without = folder.compile_on(&rows, &bound).ends(0).json();
    assert!(without["tokenizer"].is_null());
    assert_ne!(without["program"], compiled["program"]);
    let kept = folder.path("kept.json");
    let ran = run(&[
        "run",
        &own,
        "--text",
        "hello world",
        "--tokenizer",
        &kept,
        "--json",
    ])
    .ends(0);
    compare(&ran, &files, "values");
    let told = "the program names no tokenizer";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let refused = folder.compile(&bound).ends(2);
    assert!(
        refused.stderr.contains("a text needs the tokenizer"),
        "{}",
        refused.stderr
    );
    let named = folder.compile(&[&bound[..], &["--tokenizer", &kept]].concat());
    assert_eq!(named.ends(0).json()["program"], compiled["program"]);
}

#[test]
fn masks_are_made_of_a_text_where_a_program_takes_them() {
    let folder = TextFolder::of("bert", &word_piece());
    folder.compile(&[]).ends(0);
    let own = folder.path("m.tgm");
    let tokenizer = folder.path("model/tokenizer.json");
    let input = folder.write(
        "x.json",
        r#"{"input_ids": [[2, 4, 5, 3, 0, 0]], "attention_mask": [[1, 1, 1, 1, 0, 0]]}"#,
    );
    let files = run(&["run", &own, &input, "--json"]).ends(0);
    let text = ["--text", "hello world", "--tokenizer", &tokenizer];
    let ran = run(&[&["run", &own, "--json"], &text[..]].concat()).ends(0);
    compare(&ran, &files, "values");
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
}

#[test]
fn a_writer_speaks_by_its_tokenizer() {
    let folder = TextFolder::of("gpt2", &bpe());
    let texts = folder.write("texts.txt", "ab ab ab\nabcdef\nttt ab\n");
    folder.compile_on(&texts, &["--top-k", "4"]).ends(0);
    let own = folder.path("m.tgm");
    let tokenizer = folder.path("model/tokenizer.json");
    let common = [
        "generate",
        &own,
        "--seed",
        &"07".repeat(32),
        "-n",
        "3",
        "--json",
    ];
    let with = |more: &[&str]| run(&[&common[..], more].concat());
    let numbers = with(&["--prompt", "4,5"]).ends(0).json();
    assert!(numbers["text"].is_null());
    let text = with(&["--text", "ab ab", "--tokenizer", &tokenizer]);
    let text = text.ends(0).json();
    assert_eq!(text["prompt"], json!([4, 5]));
    assert_eq!(text["tokens"], numbers["tokens"]);
    let spelled = text["tokens"].as_array().unwrap().iter().map(|token| {
        let vocabulary = bpe()["model"]["vocab"].as_object().unwrap().clone();
        let found = vocabulary.iter().find(|(_, id)| *id == token);
        let found = found.unwrap().0.replace('\u{120}', " ");
        found.replace("<|endoftext|>", "")
    });
    assert_eq!(text["text"], spelled.collect::<String>());
    let both = with(&["--prompt", "4,5", "--tokenizer", &tokenizer]);
    assert_eq!(both.ends(0).json()["text"], text["text"]);
    let missing = with(&["--text", "ab"]).ends(2);
    let digest = tg_types::Digest::of_blob(bpe().to_string().as_bytes());
    assert!(
        missing.stderr.contains(&digest.to_string()),
        "{}",
        missing.stderr
    );
    let other = folder.write("other.json", &word_piece().to_string());
    with(&["--text", "ab", "--tokenizer", &other]).ends(2);
}

#[test]
fn a_grid_takes_texts_by_the_tokenizer_that_a_program_names() {
    let folder = TextFolder::of("bert", &word_piece());
    folder.compile(&[]).ends(0);
    let [own, public] = ["m.tgm", "m.tgv"].map(|name| folder.path(name));
    let [tokenizer, data] = ["model/tokenizer.json", "data"].map(|name| folder.path(name));
    let text = ["--text", "hello worlds"];
    let alone = ["run", &own, "--tokenizer", &tokenizer, "--json"];
    let alone = run(&[&alone[..], &text].concat()).ends(0).json();
    let grid = Grid::up(Path::new(&data), 1);
    grid.run(&["model", "add", &own, &public, "--name", "words"])
        .ends(0);
    let infer = [&["infer", "words", "--yes"][..], &text].concat();
    let right = [&infer[..], &["--tokenizer", &tokenizer, "--json"]].concat();
    let answer = grid.run(&right).ends(0).json();
    assert_eq!(answer["output"], alone["output"], "{answer} {alone}");
    let missing = grid.run(&infer).ends(2);
    assert!(missing.stderr.contains("--tokenizer"), "{}", missing.stderr);
    let mut other = word_piece();
    other["model"]["max_input_chars_per_word"] = json!(99);
    let other = folder.write("other.json", &other.to_string());
    let refused = [&infer[..], &["--tokenizer", &other]].concat();
    let refused = grid.run(&refused).ends(2).stderr;
    let told = "the program was compiled with the tokenizer";
    assert!(refused.contains(told), "{refused}");
}
