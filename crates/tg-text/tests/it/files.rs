//! A small file of each kind.

use serde_json::{Value, json};
use tg_text::TextTokenizer;

/// Special tokens with the numbers from `first` on.
fn special(first: usize, names: &[&str]) -> Value {
    let one = |(index, name): (usize, &&str)| {
        json!({
            "id": first + index, "content": name, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        })
    };
    names.iter().enumerate().map(one).collect()
}

fn vocabulary(tokens: &[&str]) -> Value {
    let numbered = tokens.iter().enumerate();
    let named = numbered.map(|(index, token)| ((*token).to_owned(), json!(index)));
    Value::Object(named.collect())
}

/// Begin and end around each text of one or two.
fn template([begin, end]: [(&str, u32); 2], between: &[&str], kind: u32) -> Value {
    let token = |name: &str, kind: u32| json!({"SpecialToken": {"id": name, "type_id": kind}});
    let text = |name: &str, kind: u32| json!({"Sequence": {"id": name, "type_id": kind}});
    let single = vec![token(begin.0, 0), text("A", 0), token(end.0, 0)];
    let mut pair = single.clone();
    pair.extend(between.iter().map(|name| token(name, 0)));
    pair.extend([text("B", kind), token(end.0, kind)]);
    let of = |(name, id): (&str, u32)| json!({"id": name, "ids": [id], "tokens": [name]});
    json!({
        "type": "TemplateProcessing", "single": single, "pair": pair,
        "special_tokens": {begin.0: of(begin), end.0: of(end)},
    })
}

/// BPE on bytes, as GPT-2 has it.
pub(crate) fn bpe() -> Value {
    let bytes = |trim: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": trim, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": special(21, &["<|endoftext|>"]),
        "normalizer": null, "pre_tokenizer": bytes(true), "post_processor": bytes(false), "decoder": bytes(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", "end_of_word_suffix": "",
            "fuse_unk": false, "byte_fallback": false,
            "vocab": vocabulary(&[
                "!", "d", "e", "h", "l", "o", "r", "w", "\u{120}", "\u{c3}", "\u{a9}", "he", "ll", "hell", "hello", "or",
                "\u{120}w", "\u{120}wor", "ld", "\u{120}world", "\u{120}h",
            ]),
            "merges": [
                "h e", "l l", "he ll", "hell o", "o r", "\u{120} w", "\u{120}w or", "l d", "\u{120}wor ld", "\u{120} h",
            ],
        },
    })
}

/// WordPiece, as BERT has it.
pub(crate) fn word_piece() -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": special(0, &["[PAD]", "[UNK]", "[CLS]", "[SEP]"]),
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template([("[CLS]", 2), ("[SEP]", 3)], &[], 1),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": vocabulary(&[
                "[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", "un", "##aff", "##able", "ete", "!", ",", "##s",
            ]),
        },
    })
}

/// Unigram, as XLM-RoBERTa has it, with padding on the left.
pub(crate) fn unigram() -> Value {
    let spaces = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    let names = ["<s>", "<pad>", "</s>", "<unk>"];
    let scored = [
        ("<s>", 0.0),
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("\u{2581}", -2.0),
        ("\u{2581}hello", -4.0),
        ("\u{2581}world", -4.5),
        ("\u{2581}he", -5.0),
        ("llo", -5.5),
        ("o", -6.0),
        ("l", -6.2),
        ("w", -6.4),
        ("\u{2581}wor", -6.6),
        ("ld", -6.8),
        ("s", -7.0),
        ("r", -7.5),
        ("d", -7.6),
        ("e", -7.1),
        ("h", -7.2),
    ];
    json!({
        "version": "1.0", "truncation": null,
        "padding": {
            "strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": null, "pad_id": 1, "pad_type_id": 0,
            "pad_token": "<pad>",
        },
        "added_tokens": special(0, &names),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]},
        "pre_tokenizer": spaces, "post_processor": template([("<s>", 0), ("</s>", 2)], &["</s>"], 0), "decoder": spaces,
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": false, "vocab": scored},
    })
}

pub(crate) fn tokenizer(file: &Value) -> TextTokenizer {
    TextTokenizer::read(file.to_string().as_bytes()).unwrap()
}
