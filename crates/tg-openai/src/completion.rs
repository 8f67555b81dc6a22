//! Texts that models write.

use tg_api::{CompletionOrder, OpenAiError, PieceSender, TextPiece};
use tg_ir::{GenerationRequest, Generator};
use tg_types::Digest;

use super::known::TextCoding;
use super::refusal::too_long;
use tg_console::keys;
use tg_console::tokens::sampling;

/// What is asked of a model.
pub(super) fn request(
    order: &CompletionOrder,
    generator: &Generator,
    coding: &TextCoding,
) -> Result<GenerationRequest, OpenAiError> {
    if let TextCoding::Numbers(error) = coding
        && !order.stops.is_empty()
    {
        // They are looked for in a text, and there is none.
        return Err(error.clone());
    }
    let prompt = coding.tokens("prompt", &order.prompt, generator.vocabulary)?;
    let length = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
    let room = generator.window.saturating_sub(length);
    let limit = order.tokens_max.unwrap_or(room).min(room);
    if limit == 0 {
        let window = generator.window;
        let text = format!("the model's window is {window} tokens, the prompt has {length}");
        return Err(too_long("messages", &text));
    }
    let top_k = order.top_k.map(|keep| keep.min(generator.ranks));
    let sampling = sampling(
        generator,
        (order.temperature, order.top_p, top_k),
        seed(order.seed)?,
    );
    Ok(GenerationRequest {
        prompt,
        limit,
        stop: stop_token(&order.stops, coding),
        sampling: sampling.map_err(|text| OpenAiError::invalid("temperature", text))?,
    })
}

/// The token after which a model computes nothing: of bytes the one that is the only string to stop at, else the one that ends
/// a text.
fn stop_token(stops: &[String], coding: &TextCoding) -> Option<u32> {
    match (coding, stops) {
        (TextCoding::Bytes, [text]) => match text.as_bytes() {
            [byte] => Some(u32::from(*byte)),
            _ => None,
        },
        _ => coding.end(),
    }
}

/// The request of a choice: that of the first with the choice's own seed, see [`choice_seed`]; where nothing is drawn, that of the first.
pub(super) fn of_choice(request: &GenerationRequest, index: u32) -> GenerationRequest {
    let mut own = request.clone();
    let seed = choice_seed(&request.sampling.seed, index);
    own.sampling = request.sampling.seeded(seed);
    own
}

/// The seed of a choice: that of its request for the first, and the BLAKE3 hash of it and the index (four bytes, little-endian) for the
/// others. So the first choice is what a request for one gives, and each of the others can be asked for again by its draws.
fn choice_seed(seed: &[u8; 32], index: u32) -> [u8; 32] {
    match index {
        0 => *seed,
        _ => *Digest::of_blob(&[&seed[..], &index.to_le_bytes()].concat()).as_bytes(),
    }
}

/// What a caller reads of tokens that were written, in pieces for a stream, and whether the text ended by itself or at a string that was
/// asked for.
pub(super) fn shown(
    order: &CompletionOrder,
    request: &GenerationRequest,
    (coding, tokens): (&TextCoding, &[u32]),
) -> Result<(Vec<String>, bool), OpenAiError> {
    let ended = request.stop.is_some() && tokens.last().copied() == request.stop;
    let own = &tokens[..tokens.len() - usize::from(ended)];
    let text = coding.text(&request.prompt, own)?;
    let found = order
        .stops
        .iter()
        .filter_map(|stop| text.find(stop.as_str()));
    let cut = found.min();
    let text = &text[..cut.unwrap_or(text.len())];
    let pieces = match coding {
        TextCoding::Bytes => text.chars().map(String::from).collect(),
        TextCoding::Tokenizer(_) | TextCoding::Numbers(_) => words(text),
    };
    Ok((pieces, ended || cut.is_some()))
}

/// A text that is asked for, and what its tokens are.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedText<'a> {
    pub(super) order: &'a CompletionOrder,
    pub(super) request: &'a GenerationRequest,
    pub(super) coding: &'a TextCoding,
}

/// A text on its way: sent as far as it cannot change any more.
#[derive(Debug)]
pub(super) struct LiveText<'a> {
    text: AskedText<'a>,
    /// The choice that it is, and where its pieces go.
    choice: usize,
    pieces: Option<PieceSender>,
    tokens: Vec<u32>,
    sent: usize,
}

impl<'a> LiveText<'a> {
    /// Nothing is sent before the end where strings end the text: one may begin in what was written.
    pub(super) fn new(text: AskedText<'a>, (choice, pieces): (usize, Option<PieceSender>)) -> Self {
        let is_whole =
            text.order.stops.is_empty() && !matches!(text.coding, TextCoding::Numbers(_));
        Self {
            text,
            choice,
            pieces: pieces.filter(|_| is_whole),
            tokens: Vec::new(),
            sent: 0,
        }
    }

    /// Whether nothing was sent.
    pub(super) const fn is_silent(&self) -> bool {
        self.sent == 0
    }

    /// Takes tokens, four bytes each.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<4>();
        self.tokens
            .extend(words.iter().map(|it| u32::from_le_bytes(*it)));
        let request = self.text.request;
        let is_asked = self.tokens.len() <= request.limit as usize;
        // What is more than was asked for is not looked at: each look reads all of it.
        let Some(pieces) = self.pieces.as_ref().filter(|_| is_asked) else {
            return;
        };
        let ended = request.stop.is_some() && self.tokens.last().copied() == request.stop;
        let own = &self.tokens[..self.tokens.len() - usize::from(ended)];
        let Ok(text) = self.text.coding.text(&request.prompt, own) else {
            return;
        };
        // A letter of several bytes may lack some of them.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        if let Some(new) = whole.get(self.sent..).filter(|it| !it.is_empty()) {
            // Nobody may read any more.
            let _gone = pieces.send(TextPiece {
                choice: self.choice,
                text: new.to_owned(),
            });
            self.sent = whole.len();
        }
    }
}

/// A text in words, each with the space before it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut after_space = false;
    for letter in text.chars() {
        let is_space = letter.is_whitespace();
        match words.last_mut() {
            Some(word) if !is_space || after_space => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        after_space = is_space;
    }
    words
}

/// 32 bytes of a caller's number, or drawn ones.
fn seed(given: Option<i64>) -> Result<[u8; 32], OpenAiError> {
    match given {
        Some(seed) => Ok(*Digest::of_blob(&seed.to_le_bytes()).as_bytes()),
        None => keys::draw().map_err(|failure| {
            OpenAiError::unavailable(format!("draw a seed: {:#}", failure.error))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds of choices are a part of what a caller can repeat: these are pinned.
    #[test]
    fn the_first_choice_has_the_seed_of_the_request_and_the_others_their_own() {
        let seed = [7; 32];
        assert_eq!(choice_seed(&seed, 0), seed);
        let second = Digest::new(choice_seed(&seed, 1));
        assert_eq!(second.to_string(), SECOND);
        assert_ne!(choice_seed(&seed, 1), choice_seed(&seed, 2));
        assert_ne!(choice_seed(&[8; 32], 1), choice_seed(&seed, 1));
    }

    const SECOND: &str = "0x1e263c6a5685ab61a5e12283ba074f89d22932c01bc890ec3baaa3027822ab8b";

    #[test]
    fn words_keep_their_spaces_and_lose_nothing() {
        for (text, expected) in [
            ("", &[][..]),
            ("ab", &["ab"]),
            (" ab cd", &[" ab", " cd"]),
            ("ab  cd\n", &["ab", "  cd", "\n"]),
            ("\u{e9}t\u{e9}\u{3000}x", &["\u{e9}t\u{e9}", "\u{3000}x"]),
        ] {
            assert_eq!(words(text), expected);
            assert_eq!(words(text).concat(), text);
        }
    }
}
