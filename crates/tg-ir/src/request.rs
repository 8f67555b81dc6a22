//! Requests to generate: what an order asks of a language model in the place of an input.
//!
//! A request is as long as the model's input, so that what a ledger knows of the model's inputs holds of it too: magic, version,
//! limit, stop token, [`Sampling`], the prompt, and zeros. No input begins as a request does: its first word, read as a
//! token, is above every vocabulary. One request has one encoding, whose digest an order names.

use crate::program::{Coding, Program, VOCABULARY_MAX};
use crate::sampling::Sampling;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

const MAGIC: [u8; 4] = *b"TGQ\0";
/// Version of the encoding.
pub const REQUEST_VERSION: u16 = 1;
/// Bytes of a token.
const TOKEN: usize = 4;

// Stops: an input that is read as a request.
const _: () = assert!(u32::from_le_bytes(MAGIC) > VOCABULARY_MAX);

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationRequest {
    /// The tokens it begins with, at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to write, at least one.
    pub limit: u32,
    /// The token after which nothing is written.
    pub stop: Option<u32>,
    /// How tokens are drawn.
    pub sampling: Sampling,
}

impl GenerationRequest {
    /// Whether bytes begin as a request does; no input of a model that takes tokens does.
    #[must_use]
    pub fn is_one(input: &[u8]) -> bool {
        input.starts_with(&MAGIC)
    }

    /// Whether what was ordered of a program is a request: bytes that begin as one are an input of a program that takes no tokens.
    #[must_use]
    pub fn is_for(program: &Program, input: &[u8]) -> bool {
        Self::is_taken_by(program) && Self::is_one(input)
    }

    /// Whether a program takes tokens, so that a request may be in the place of its input.
    #[must_use]
    pub const fn is_taken_by(program: &Program) -> bool {
        matches!(program.input.coding, Coding::Tokens(_))
    }

    /// The bytes that an order names in the place of an input of so many bytes; nothing if the prompt is too long for them.
    #[must_use]
    pub fn to_input(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut input = self.to_bytes();
        if input.len() > bytes {
            return None;
        }
        input.resize(bytes, 0);
        Some(input)
    }

    /// The request in the place of an input.
    ///
    /// # Errors
    /// If the bytes are not canonical.
    pub fn read(input: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(input);
        let request = Self::decode(&mut reader)?;
        let after = reader.raw(reader.remaining())?;
        match after.iter().find(|byte| **byte != 0) {
            Some(&byte) => Err(DecodeError::Invalid {
                field: "request padding",
                value: u64::from(byte),
            }),
            None => Ok(request),
        }
    }

    /// The longest prompt of a request to a program; nothing if it takes no tokens or its window is too small for any.
    #[must_use]
    pub fn prompt_max(program: &Program) -> Option<usize> {
        let one = Self {
            prompt: Vec::new(),
            limit: 1,
            stop: None,
            sampling: Sampling::greatest(),
        };
        let tokens = matches!(program.input.coding, Coding::Tokens(_));
        let room = program.input_bytes().checked_sub(one.to_bytes().len())?;
        (tokens && room >= TOKEN).then_some(room / TOKEN)
    }
}

impl Encode for GenerationRequest {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            prompt,
            limit,
            stop,
            sampling,
        } = self;
        writer.raw(&MAGIC);
        writer.u16(REQUEST_VERSION);
        writer.u32(*limit);
        writer.u8(u8::from(stop.is_some()));
        writer.u32(stop.unwrap_or(0));
        sampling.encode(writer);
        writer.count(prompt.len());
        prompt.iter().for_each(|token| writer.u32(*token));
    }
}

impl Decode for GenerationRequest {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let invalid = |field, value| DecodeError::Invalid { field, value };
        let magic = u32::from_le_bytes(reader.array()?);
        if magic != u32::from_le_bytes(MAGIC) {
            return Err(invalid("request magic", u64::from(magic)));
        }
        let version = reader.u16()?;
        if version != REQUEST_VERSION {
            return Err(invalid("request version", u64::from(version)));
        }
        let limit = reader.u32()?;
        let stop = match (reader.u8()?, reader.u32()?) {
            (0, 0) => None,
            (1, token) => Some(token),
            (tag, _) => return Err(invalid("stop token", u64::from(tag))),
        };
        let sampling = Sampling::decode(reader)?;
        let count = reader.count("prompt", reader.remaining() / TOKEN, TOKEN)?;
        let prompt: Result<Vec<u32>, DecodeError> = (0..count).map(|_| reader.u32()).collect();
        if limit == 0 || count == 0 {
            return Err(invalid("request without tokens", 0));
        }
        Ok(Self {
            prompt: prompt?,
            limit,
            stop,
            sampling,
        })
    }
}

/// The output of a generation: the tokens that were written, four bytes each, little-endian.
#[must_use]
pub fn written_bytes(tokens: &[u32]) -> Vec<u8> {
    tokens
        .iter()
        .flat_map(|token| token.to_le_bytes())
        .collect()
}

/// How much of a run over the whole window an answer took, as a part and a whole: the positions of a request's prompt and of what was
/// written, all of it for other inputs. What an endpoint is paid for an answer is in proportion.
///
/// Stops: an input of a program that takes no tokens (`takes_tokens` is false) which begins as a request does, and is run whole.
#[must_use]
pub fn answered_share(takes_tokens: bool, input: &[u8], answer: &[u8]) -> (u64, u64) {
    let request = GenerationRequest::read(input).ok().filter(|_| takes_tokens);
    let Some(request) = request else {
        return (1, 1);
    };
    let whole = (input.len() / TOKEN).max(1) as u64;
    let part = (request.prompt.len() + answer.len() / TOKEN) as u64;
    (part.clamp(1, whole), whole)
}

/// The tokens of such an output; nothing if the bytes are none, or too many for a window of so many positions.
#[must_use]
pub fn written_tokens(bytes: &[u8], window: u32) -> Option<Vec<u32>> {
    let (words, rest) = bytes.as_chunks::<TOKEN>();
    let fits = rest.is_empty() && !words.is_empty() && words.len() < window as usize;
    fits.then(|| words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::InputSpec;
    use crate::rescale::Rescale;

    fn request() -> GenerationRequest {
        GenerationRequest {
            prompt: vec![5, 6, 7],
            limit: 9,
            stop: Some(10),
            sampling: Sampling {
                keep: 4,
                rescale: Rescale::new(23_637, 16).expect("in range"),
                nucleus: 60_000,
                seed: [8; 32],
            },
        }
    }

    #[test]
    fn a_request_has_one_encoding() {
        let input = request().to_input(128).expect("room");
        assert_eq!(input.len(), 128);
        assert!(GenerationRequest::is_one(&input));
        assert_eq!(GenerationRequest::read(&input), Ok(request()));
        let length = request().to_bytes().len();
        assert_eq!(request().to_input(length - 1), None);
        // Every other byte is another request or none.
        for at in 0..input.len() {
            for change in [1, 0x80] {
                let mut other = input.clone();
                other[at] ^= change;
                assert_ne!(GenerationRequest::read(&other), Ok(request()), "{at}");
                if at >= length {
                    assert!(GenerationRequest::read(&other).is_err(), "padding {at}");
                }
            }
        }
        for cut in 0..length {
            assert!(GenerationRequest::read(&input[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_request_without_prompt_or_limit_is_none() {
        for change in [
            |request: &mut GenerationRequest| request.prompt.clear(),
            |request: &mut GenerationRequest| request.limit = 0,
            |request: &mut GenerationRequest| request.sampling.keep = 0,
        ] {
            let mut request = request();
            change(&mut request);
            assert!(GenerationRequest::read(&request.to_bytes()).is_err());
        }
    }

    /// The golden bytes: a change of them is a change of what orders name.
    #[test]
    fn the_encoding_is_pinned() {
        let digest = tg_types::Digest::of_blob(&request().to_bytes());
        assert_eq!(digest.to_string(), GOLDEN);
    }

    const GOLDEN: &str = "0xe32fbc2fcf02afaeec512c4485288d8170a8deb359962c032e28173ab3fd1b54";

    #[test]
    fn only_what_was_written_costs_a_part_of_a_run() {
        let input = request().to_input(128).expect("room");
        let answer = written_bytes(&[1, 2]);
        assert_eq!(answered_share(true, &input, &answer), (5, 32));
        // A picture whose first pixels are the beginning of a request.
        assert_eq!(answered_share(false, &input, &answer), (1, 1));
        let mut damaged = input;
        damaged[127] = 1;
        assert!(GenerationRequest::is_one(&damaged));
        assert_eq!(answered_share(true, &damaged, &answer), (1, 1));
        assert_eq!(answered_share(true, &[0; 128], &answer), (1, 1));
        assert_eq!(answered_share(true, &[], &[]), (1, 1));
    }

    #[test]
    fn what_was_written_is_read_back() {
        let bytes = written_bytes(&[1, 70_000]);
        assert_eq!(written_tokens(&bytes, 3), Some(vec![1, 70_000]));
        assert_eq!(written_tokens(&bytes, 2), None);
        assert_eq!(written_tokens(&bytes[1..], 9), None);
        assert_eq!(written_tokens(&[], 9), None);
    }

    #[test]
    fn the_longest_prompt_fits() {
        let mut input = InputSpec::scaled(crate::Shape::new(1, 64, 1), 1.0);
        let program = |input: &InputSpec| Program {
            name: String::new(),
            input: input.clone(),
            nodes: Vec::new(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: tg_types::Digest::default(),
        };
        assert_eq!(GenerationRequest::prompt_max(&program(&input)), None);
        input.coding = Coding::Tokens(256);
        let most = GenerationRequest::prompt_max(&program(&input)).expect("room");
        let with = |count| {
            let prompt = vec![1; count];
            let request = GenerationRequest {
                prompt,
                ..request()
            };
            request.to_input(256)
        };
        assert!(with(most).is_some() && with(most + 1).is_none());
    }
}
