//! What is not taken is named; mutated files never panic.

use crate::files::{bpe, unigram, word_piece};
use serde_json::{Value, json};
use tg_text::{FILE_BYTES_MAX, LayoutError, TextTokenizer, TokenizerError, fuzz};

fn error(file: &Value) -> TokenizerError {
    TextTokenizer::read(file.to_string().as_bytes()).unwrap_err()
}

fn changed(mut file: Value, at: &str, value: Value) -> Value {
    *file.pointer_mut(at).unwrap() = value;
    file
}

/// Asserts that these files are refused by these fields.
fn named(cases: Vec<(Value, &str)>) {
    for (file, field) in cases {
        match error(&file) {
            TokenizerError::Layout(LayoutError::Field { field: found, .. }) => {
                assert_eq!(found, field);
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn a_field_of_the_model_that_is_not_taken_is_named() {
    named(vec![
        (
            changed(bpe(), "/model/type", json!("WordTree")),
            "model.type",
        ),
        (changed(bpe(), "/model/type", json!(null)), "model.type"),
        (
            changed(bpe(), "/model/dropout", json!(0.1)),
            "model.dropout",
        ),
        (
            changed(bpe(), "/model/continuing_subword_prefix", json!("##")),
            "model.continuing_subword_prefix",
        ),
        (
            changed(word_piece(), "/model/unk_token", json!("u".repeat(2_000))),
            "model.unk_token",
        ),
        (
            changed(
                word_piece(),
                "/model/max_input_chars_per_word",
                json!(1u64 << 40),
            ),
            "model.max_input_chars_per_word",
        ),
        (
            changed(bpe(), "/added_tokens/0/content", json!("t".repeat(2_000))),
            "added_tokens",
        ),
    ]);
}

#[test]
fn a_field_of_a_part_that_is_not_taken_is_named() {
    named(vec![
        (
            changed(
                bpe(),
                "/normalizer",
                json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
            ),
            "normalizer.precompiled_charsmap",
        ),
        (
            changed(
                bpe(),
                "/pre_tokenizer",
                json!({"type": "FixedLength", "length": 0}),
            ),
            "pre_tokenizer.length",
        ),
        (
            changed(
                unigram(),
                "/post_processor/special_tokens/<s>/ids",
                json!(vec![0; 65]),
            ),
            "post_processor",
        ),
        (
            changed(bpe(), "/decoder", json!({"type": "x".repeat(9_000)})),
            "decoder.type",
        ),
    ]);
}

#[test]
fn parts_are_few_and_lengthen_a_text_a_little() {
    let replace = |times: usize| {
        let one = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"});
        json!({"type": "Sequence", "normalizers": vec![one; times]})
    };
    let grown = error(&changed(bpe(), "/normalizer", replace(3)));
    assert!(matches!(grown, TokenizerError::Layout(LayoutError::Growth)));
    let many = json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); 64]});
    let many = error(&changed(bpe(), "/normalizer", many));
    assert!(matches!(many, TokenizerError::Layout(LayoutError::Parts)));
    // Of the library's parts it says itself which it does not know.
    let unknown = error(&changed(bpe(), "/normalizer", json!({"type": "Rot13"})));
    assert!(
        matches!(unknown, TokenizerError::Read { .. }),
        "{unknown:?}"
    );
}

#[test]
fn numbers_that_would_be_read_as_others_are_refused() {
    let mut file = bpe();
    file["added_tokens"][0]["id"] = json!(40);
    assert!(matches!(
        error(&file),
        TokenizerError::Added {
            stated: 40,
            read: 21,
            ..
        }
    ));
}

#[test]
fn what_is_no_json_and_what_is_too_large_is_refused() {
    let json = |bytes: &[u8]| {
        matches!(
            TextTokenizer::read(bytes),
            Err(TokenizerError::Layout(LayoutError::Json(_)))
        )
    };
    assert!(json(b""));
    assert!(json(b"{}"));
    assert!(json(b"{\"model\": 3}"));
    assert!(json("[".repeat(100_000).as_bytes()));
    assert!(json(br#"{"model": {"type": "BPE"}}"#));
    let large = vec![b' '; FILE_BYTES_MAX + 1];
    assert!(matches!(
        TextTokenizer::read(&large),
        Err(TokenizerError::Layout(LayoutError::TooLarge { .. }))
    ));
}

/// A panic inside the library is an error: the trie of this table points out of it.
#[test]
fn a_panic_of_the_library_is_an_error() {
    // A trie of one unit whose offset is far beyond it, and no texts.
    let mut file = bpe();
    file["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAAD8AwA="});
    let tokenizer = TextTokenizer::read(file.to_string().as_bytes()).unwrap();
    let found = tokenizer.encode(tg_text::Text::of("hello"), tg_text::TextLength::Own);
    assert!(
        matches!(found, Err(tg_text::TextError::Failed { .. })),
        "{found:?}"
    );
}

/// A mutation of a file gives a tokenizer or an error, and a tokenizer gives tokens or an error.
#[test]
fn mutated_files_never_panic() {
    let mut state = 7u64;
    println!("seed {state}");
    let mut next = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let charsmap =
        json!({"type": "Precompiled", "precompiled_charsmap": "CAAAAAAAAAAAAAAAYWIAYwA="});
    let mut with_table = unigram();
    with_table["normalizer"] = charsmap;
    for file in [bpe(), word_piece(), unigram(), with_table] {
        let file = file.to_string().into_bytes();
        for _ in 0..1_500 {
            let mut bytes = file.clone();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                match next(4) {
                    // A digit, quote or bracket more often than any byte.
                    0 => bytes[at] = b"0123456789\"[]{},:-eE"[next(20)],
                    1 => bytes[at] = next(256) as u8,
                    2 => {
                        let length = next(12).min(bytes.len() - at);
                        bytes.drain(at..at + length);
                    }
                    _ => {
                        let end = (at + next(40)).min(bytes.len());
                        let copied = bytes[at..end].to_vec();
                        bytes.splice(at..at, copied);
                    }
                }
            }
            fuzz::tokenizer(&bytes);
        }
    }
}
