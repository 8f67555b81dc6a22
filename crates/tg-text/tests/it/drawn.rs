//! Tokenizers that were trained, on texts that were drawn: those of the file `TENSORGRID_TOKENIZERS`, which
//! `xtask/python/make_tokenizers.py` writes with what Python's `tokenizers` gives.

use serde_json::{Value, json};
use tg_text::{Text, TextError, TextLength, TextTokenizer};

/// What a text gives, as the file has it.
fn found(tokenizer: &TextTokenizer, case: &Value) -> Value {
    let text = Text {
        first: case["a"].as_str().unwrap(),
        second: case["b"].as_str(),
    };
    let number = |field: &str| case[field].as_u64().map(|number| number as usize);
    let length = match (number("most"), number("exact")) {
        (Some(most), _) => TextLength::AtMost(most),
        (_, Some(exact)) => TextLength::Exactly(exact),
        _ => TextLength::Own,
    };
    match tokenizer.encode(text, length) {
        Ok(tokens) => {
            let back = tokenizer.decode(&tokens.ids).unwrap();
            json!([tokens.ids, tokens.mask, tokens.kinds, back])
        }
        Err(TextError::NoTokens) => json!([[], [], [], ""]),
        Err(error) => json!(error.to_string()),
    }
}

#[test]
fn texts_give_what_python_gives() {
    let Some(path) = std::env::var_os("TENSORGRID_TOKENIZERS") else {
        return;
    };
    let cases: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut compared = 0;
    for case in cases.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let file = case["file"].as_str().unwrap();
        let tokenizer = TextTokenizer::read(file.as_bytes()).unwrap();
        for text in case["texts"].as_array().unwrap() {
            assert_eq!(found(&tokenizer, text), text["want"], "{name} {text}");
            compared += 1;
        }
    }
    println!("{compared} texts agree");
}
