//! A tokenizer, from its file to tokens and back.

use crate::contained::contained;
use crate::layout::{self, AddedLayout, LayoutError};
use crate::tokens::{PadRule, TextLength, TextTokens};
use tg_types::Digest;
use tokenizers::{
    EncodeInput, Encoding, PostProcessor as _, Tokenizer, TruncationDirection, TruncationParams,
    TruncationStrategy, truncate_encodings,
};

/// Largest text that is made tokens of, and largest text that tokens are made into.
pub const TEXT_BYTES_MAX: usize = 256 << 10;
/// What tokenizers call the token that fills up, where their file has no rule: BERT's, RoBERTa's and T5's, Llama's, GPT-2's.
const PAD_NAMES: [&str; 6] = [
    "[PAD]",
    "<pad>",
    "<|pad|>",
    "<|finetune_right_pad_id|>",
    "<|endoftext|>",
    "</s>",
];

/// What tokenizers call the token that ends a text, the one that ends a turn of a conversation first.
const END_NAMES: [&str; 9] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "</s>",
    "<eos>",
    "[EOS]",
];

/// A text, or a pair of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// The text, or the first one.
    pub first: &'a str,
    /// The second one of a pair.
    pub second: Option<&'a str>,
}

impl<'a> Text<'a> {
    /// One text.
    #[must_use]
    pub const fn of(first: &'a str) -> Self {
        let second = None;
        Self { first, second }
    }
}

/// Why a file is no tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// It is refused before it is read.
    #[error("the tokenizer is not taken")]
    Layout(#[from] LayoutError),
    /// The library refuses it.
    #[error("the tokenizer cannot be read: {problem}")]
    Read {
        /// Why, in the library's words.
        problem: String,
    },
    /// An added token that the reader would give another number: its row of the embedding would be another.
    #[error(
        "the tokenizer's `added_tokens` give {token:?} the number {stated}, and it would be read as {read}: the numbers have to go on \
         from the model's vocabulary without gaps"
    )]
    Added {
        /// The token.
        token: String,
        /// Its number in the file.
        stated: u32,
        /// As read.
        read: u32,
    },
}

/// Why a text gives no tokens, or tokens no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A text of no bytes.
    #[error("the text is empty")]
    Empty,
    /// A text that gives no token at all.
    #[error("the tokenizer makes no tokens of the text")]
    NoTokens,
    /// More bytes than are taken.
    #[error("the text has {bytes} bytes, at most {TEXT_BYTES_MAX} are taken")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// Fewer tokens than the special ones that belong to every text.
    #[error(
        "the tokenizer adds {special} special tokens to every text, and the model takes {length} tokens"
    )]
    NoRoom {
        /// Special tokens.
        special: usize,
        /// Tokens that are taken.
        length: usize,
    },
    /// Too few tokens, and nothing to fill up with.
    #[error(
        "the text has {tokens} tokens, the model takes {length}, and the tokenizer has no padding: give the file a section `padding`, \
         or a text of {length} tokens"
    )]
    NoPadding {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens that are taken.
        length: usize,
    },
    /// The library fails at it.
    #[error("the tokenizer fails: {problem}")]
    Failed {
        /// Why, in the library's words.
        problem: String,
    },
    /// A number that is no token.
    #[error("{id} is no token of the tokenizer")]
    Unknown {
        /// The number.
        id: u32,
    },
}

/// A tokenizer of a file.
#[derive(Debug, Clone)]
pub struct TextTokenizer {
    tokenizer: Tokenizer,
    digest: Digest,
    padding: Option<PadRule>,
    /// Which end of a text that is too long is cut.
    cut: TruncationDirection,
}

impl TextTokenizer {
    /// Reads the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    /// Says which field is not taken, or what the library says of it.
    pub fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let added = layout::check(bytes)?;
        let read = contained(|| Tokenizer::from_bytes(bytes));
        let mut tokenizer = read.map_err(|problem| TokenizerError::Read { problem })?;
        check_added(&tokenizer, &added)?;
        let padding = tokenizer.get_padding().map(PadRule::of_file);
        let named = || {
            PAD_NAMES
                .iter()
                .find_map(|name| tokenizer.token_to_id(name))
        };
        let padding = padding.or_else(|| named().map(PadRule::of_token));
        let cut = tokenizer.get_truncation().map(|cut| cut.direction);
        // How long a text may be is the model's matter: a length in the file would be room that the library makes.
        tokenizer.with_padding(None);
        let _none = tokenizer.with_truncation(None);
        Ok(Self {
            tokenizer,
            digest: Digest::of_blob(bytes),
            padding,
            cut: cut.unwrap_or_default(),
        })
    }

    /// Plain BLAKE3 of the file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Fills up with this token where the file says nothing of padding.
    pub fn pad_otherwise(&mut self, id: u32) {
        self.padding.get_or_insert(PadRule::of_token(id));
    }

    /// The token of a number, for messages.
    #[must_use]
    pub fn name(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// The number of a token, if there is one of that name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<u32> {
        self.tokenizer.token_to_id(name)
    }

    /// The token that ends a text, by the names that tokenizers give it: the file itself does not say which one it is.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        END_NAMES.iter().find_map(|name| self.id(name))
    }

    /// How texts that are too short are filled up, if the file says so or has a token for it.
    #[must_use]
    pub const fn padding(&self) -> Option<PadRule> {
        self.padding
    }

    /// Tokens of a text, with the special ones that the file adds.
    ///
    /// # Errors
    /// If the text is empty or too long, or cannot be brought to this length.
    pub fn encode(&self, text: Text<'_>, length: TextLength) -> Result<TextTokens, TextError> {
        let Text { first, second } = text;
        let bytes = first.len() + second.map_or(0, str::len);
        if bytes > TEXT_BYTES_MAX {
            return Err(TextError::TooLong { bytes });
        }
        if first.is_empty() || second.is_some_and(str::is_empty) {
            return Err(TextError::Empty);
        }
        let whole = encoded(&self.tokenizer, text)?;
        let tokens = whole.get_ids().len();
        let tokens = match length.limit().filter(|&limit| limit < tokens) {
            None => TextTokens::of(&whole, 0),
            Some(limit) => {
                let cut = self.cut_to(text, limit)?;
                TextTokens::of(&cut, tokens - cut.get_ids().len())
            }
        };
        match length {
            TextLength::Exactly(length) if tokens.ids.len() < length => {
                let tokens_given = tokens.ids.len();
                let rule = self.padding.ok_or(TextError::NoPadding {
                    tokens: tokens_given,
                    length,
                })?;
                Ok(tokens.padded(length, rule))
            }
            _ if tokens.ids.is_empty() => Err(TextError::NoTokens),
            _ => Ok(tokens),
        }
    }

    /// Tokens of a text that has its special tokens in it by their names, as a chat template writes it.
    ///
    /// # Errors
    /// If the text is empty or too long, or gives no tokens.
    pub fn encode_whole(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let bytes = text.len();
        if bytes > TEXT_BYTES_MAX {
            return Err(TextError::TooLong { bytes });
        }
        if text.is_empty() {
            return Err(TextError::Empty);
        }
        let encoded = contained(|| self.tokenizer.encode_fast(text, false));
        let encoded = encoded.map_err(|problem| TextError::Failed { problem })?;
        match encoded.get_ids() {
            [] => Err(TextError::NoTokens),
            ids => Ok(ids.to_vec()),
        }
    }

    /// Tokens of a text of which as much is left out as has to be, special tokens kept.
    fn cut_to(&self, text: Text<'_>, limit: usize) -> Result<Encoding, TextError> {
        let processor = self.tokenizer.get_post_processor();
        let special = processor.map_or(0, |it| it.added_tokens(text.second.is_some()));
        let Some(room) = limit.checked_sub(special).filter(|room| *room > 0) else {
            let length = limit;
            return Err(TextError::NoRoom { special, length });
        };
        let params = TruncationParams {
            direction: self.cut,
            max_length: room,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let cut = || {
            let first = self.tokenizer.encode_fast(text.first, false)?;
            let second = text.second.map(|second| {
                let mut second = self.tokenizer.encode_fast(second, false)?;
                second.set_type_ids(vec![1; second.get_ids().len()]);
                Ok::<_, tokenizers::Error>(second)
            });
            let (mut first, mut second) = truncate_encodings(first, second.transpose()?, &params)?;
            // What was cut off comes in pieces: a template would be applied to each pair of them.
            first.take_overflowing();
            if let Some(second) = &mut second {
                second.take_overflowing();
            }
            self.tokenizer.post_process(first, second, true)
        };
        contained(cut).map_err(|problem| TextError::Failed { problem })
    }

    /// Text of tokens, without special ones.
    ///
    /// # Errors
    /// If one is no token of the file, or the text is too long.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TextError> {
        let mut bytes = 0usize;
        for &id in tokens {
            let token = self.tokenizer.id_to_token(id);
            bytes += token.ok_or(TextError::Unknown { id })?.len();
            if bytes > TEXT_BYTES_MAX {
                return Err(TextError::TooLong { bytes });
            }
        }
        let decoded = contained(|| self.tokenizer.decode(tokens, true));
        decoded.map_err(|problem| TextError::Failed { problem })
    }
}

/// Compares the numbers of added tokens with those that the library gives them.
fn check_added(tokenizer: &Tokenizer, added: &[AddedLayout]) -> Result<(), TokenizerError> {
    for AddedLayout { id, content } in added {
        let read = tokenizer.token_to_id(content);
        if let Some(read) = read.filter(|read| read != id) {
            return Err(TokenizerError::Added {
                token: content.chars().take(64).collect(),
                stated: *id,
                read,
            });
        }
    }
    Ok(())
}

fn encoded(tokenizer: &Tokenizer, text: Text<'_>) -> Result<Encoding, TextError> {
    let input = match text.second {
        None => EncodeInput::Single(text.first.into()),
        Some(second) => EncodeInput::Dual(text.first.into(), second.into()),
    };
    let encoded = contained(|| tokenizer.encode_fast(input, true));
    encoded.map_err(|problem| TextError::Failed { problem })
}
