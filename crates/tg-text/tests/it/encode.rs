//! Tokens of texts and texts of tokens; numbers by hand, and the same from Python.

use crate::files::{bpe, tokenizer, unigram, word_piece};
use serde_json::{Value, json};
use tg_text::{Text, TextError, TextLength, TextTokens};

fn check(file: &Value, texts: &[(&str, &[u32], &str)]) {
    let tokenizer = tokenizer(file);
    for (text, ids, back) in texts {
        let tokens = tokenizer.encode(Text::of(text), TextLength::Own).unwrap();
        assert_eq!(tokens.ids, *ids, "{text}");
        assert_eq!(tokens.mask, vec![1; ids.len()], "{text}");
        assert_eq!((tokens.cut, tokens.padding), (0, 0), "{text}");
        assert_eq!(tokenizer.decode(&tokens.ids).unwrap(), *back, "{text}");
    }
}

#[test]
fn each_kind_gives_the_tokens_of_its_authors() {
    check(
        &bpe(),
        &[
            ("hello world!", &[14, 19, 0], "hello world!"),
            ("hello hello", &[14, 8, 14], "hello hello"),
            (
                "\u{e9} he<|endoftext|>world",
                &[9, 10, 8, 11, 21, 7, 15, 18],
                "\u{e9} heworld",
            ),
        ],
    );
    check(
        &word_piece(),
        &[
            ("Hello, World!", &[2, 4, 11, 5, 10, 3], "hello, world!"),
            (
                "Unaffable \u{e9}t\u{e9}s zzz",
                &[2, 6, 7, 8, 9, 12, 1, 3],
                "unaffable etes",
            ),
            ("[CLS] hello", &[2, 2, 4, 3], "hello"),
        ],
    );
    check(
        &unigram(),
        &[
            ("hello world", &[0, 5, 6, 2], "hello world"),
            (
                "  hello   worlds \u{338f}",
                &[0, 5, 6, 14, 4, 3, 2],
                "hello worlds ",
            ),
            ("hellowor", &[0, 5, 11, 9, 15, 2], "hellowor"),
        ],
    );
}

fn encoded(file: &Value, text: (&str, Option<&str>), length: TextLength) -> TextTokens {
    let (first, second) = text;
    let text = Text { first, second };
    tokenizer(file).encode(text, length).unwrap()
}

#[test]
fn pairs_have_their_kinds_and_are_cut_the_longest_first() {
    let pair = ("hello world hello world", Some("unaffable"));
    let whole = encoded(&word_piece(), pair, TextLength::Own);
    assert_eq!(whole.ids, [2, 4, 5, 4, 5, 3, 6, 7, 8, 3]);
    assert_eq!(whole.kinds, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    let cut = encoded(&word_piece(), pair, TextLength::AtMost(8));
    assert_eq!(cut.ids, [2, 4, 5, 4, 3, 6, 7, 3]);
    assert_eq!(cut.kinds, [0, 0, 0, 0, 0, 1, 1, 1]);
    assert_eq!(cut.cut, 2);
    let pair = ("hello world hello", Some("worlds o"));
    let cut = encoded(&unigram(), pair, TextLength::Exactly(8));
    assert_eq!(cut.ids, [0, 5, 6, 2, 2, 6, 14, 2]);
    // Without a processor that knows of kinds the second text is of the second one.
    let pair = ("hello", Some("hello world world"));
    for length in [TextLength::Own, TextLength::AtMost(3)] {
        let tokens = encoded(&bpe(), pair, length);
        let kinds = [0, 1, 1, 1];
        assert_eq!(tokens.kinds, kinds[..tokens.ids.len()]);
    }
}

#[test]
fn short_texts_are_padded_as_the_file_says() {
    let right = encoded(&word_piece(), ("hello", None), TextLength::Exactly(5));
    assert_eq!(right.ids, [2, 4, 3, 0, 0]);
    assert_eq!(right.mask, [1, 1, 1, 0, 0]);
    assert_eq!(right.padding, 2);
    let left = encoded(&unigram(), ("hello", None), TextLength::Exactly(5));
    assert_eq!(left.ids, [1, 1, 0, 5, 2]);
    assert_eq!(left.mask, [0, 0, 1, 1, 1]);
    // GPT-2 fills up with the end of a text.
    let ended = encoded(&bpe(), ("hello", None), TextLength::Exactly(3));
    assert_eq!(ended.ids, [14, 21, 21]);
    // A length in the file is not the model's.
    let mut file = word_piece();
    file["padding"] = json!({
        "strategy": {"Fixed": 1u64 << 60}, "direction": "Right", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 1,
        "pad_token": "[PAD]",
    });
    file["truncation"] =
        json!({"direction": "Left", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    let whole = encoded(&file, ("hello world", None), TextLength::Own);
    assert_eq!(whole.ids, [2, 4, 5, 3]);
    // Its side is.
    let cut = encoded(&file, ("hello world", None), TextLength::AtMost(3));
    assert_eq!(cut.ids, [2, 5, 3]);
    let padded = encoded(&file, ("hello", None), TextLength::Exactly(4));
    assert_eq!(padded.kinds, [0, 0, 0, 1]);
}

#[test]
fn what_gives_no_tokens_is_refused() {
    let refused = |file: &Value, text: &str, length| {
        tokenizer(file).encode(Text::of(text), length).unwrap_err()
    };
    assert_eq!(refused(&bpe(), "", TextLength::Own), TextError::Empty);
    assert_eq!(refused(&bpe(), "Q", TextLength::Own), TextError::NoTokens);
    assert_eq!(
        refused(&word_piece(), "hello", TextLength::Exactly(2)),
        TextError::NoRoom {
            special: 2,
            length: 2
        }
    );
    let long = "a".repeat(tg_text::TEXT_BYTES_MAX + 1);
    assert!(matches!(
        refused(&bpe(), &long, TextLength::Own),
        TextError::TooLong { .. }
    ));
    let mut file = bpe();
    file["added_tokens"] = json!([]);
    assert_eq!(
        refused(&file, "hello", TextLength::Exactly(2)),
        TextError::NoPadding {
            tokens: 1,
            length: 2
        }
    );
    let mut otherwise = tokenizer(&file);
    otherwise.pad_otherwise(7);
    let padded = otherwise.encode(Text::of("hello"), TextLength::Exactly(2));
    assert_eq!(padded.unwrap().ids, [14, 7]);
    assert_eq!(
        tokenizer(&bpe()).decode(&[22]),
        Err(TextError::Unknown { id: 22 })
    );
    let mut file = word_piece();
    file["model"]["unk_token"] = json!("[GONE]");
    let failed = refused(&file, "zzz", TextLength::Own);
    assert!(matches!(failed, TextError::Failed { .. }), "{failed:?}");
}

#[test]
fn the_digest_is_that_of_the_bytes() {
    let bytes = bpe().to_string();
    let digest = tokenizer(&bpe()).digest();
    assert_eq!(digest, tg_types::Digest::of_blob(bytes.as_bytes()));
}

#[test]
fn what_ends_a_text_goes_by_its_name_and_given_tokens_are_padded() {
    let bpe = tokenizer(&bpe());
    assert_eq!(bpe.end(), Some(21));
    assert_eq!(bpe.id("<|endoftext|>"), bpe.end());
    let word_piece = tokenizer(&word_piece());
    assert_eq!((word_piece.end(), word_piece.id("nothing")), (None, None));
    let rule = word_piece.padding().unwrap();
    let padded = TextTokens::given(vec![2, 4, 3]).padded(5, rule);
    assert_eq!(padded.ids, [2, 4, 3, rule.id, rule.id]);
    assert_eq!((padded.mask, padded.padding), (vec![1, 1, 1, 0, 0], 2));
}
