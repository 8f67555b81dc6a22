//! Served models: a provider's description of a model that runs on a server of its own, outside the grid's rules.
//!
//! The card is all that the grid knows of such a model. Its digest is the model's id, so that name, prices and provider
//! cannot change under a lease; a provider that wants other prices registers another card. Nothing about the answers is
//! checked (ADR 31).

use crate::amount::Amount;
use crate::codec::{Decode as _, DecodeError, Encode as _};
use crate::digest::Digest;
use crate::domain::Domain;
use crate::id::{Address, ModelId, ProgramId};
use crate::label::Label;
use crate::time::TimestampMs;
use crate::{fields, tags};

/// What the file of a card begins with: what it is, and the version of its encoding.
const CARD_MAGIC: [u8; 9] = *b"TGserved\x01";

/// Bytes of the file of a card, at most.
pub const CARD_BYTES_MAX: usize = 256;

/// Most tokens of a context: far more than any model reads, and few enough that no price overflows.
pub const CARD_CONTEXT_MAX: u32 = 1 << 24;

/// Most that a million tokens may cost: a TGRID each.
pub const CARD_PRICE_MAX: Amount = Amount::from_tgrid(1_000_000);

/// Tokens that prices are said for.
pub const TOKENS_PER_PRICE: u64 = 1_000_000;

/// What a request of a served model asks for: a path of the OpenAI API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ServedCall {
    /// `/chat/completions`.
    Chat = 0,
    /// `/completions`.
    Completion = 1,
    /// `/embeddings`.
    Embedding = 2,
}

tags! { ServedCall: "served call" { Chat = 0, Completion = 1, Embedding = 2 } }

impl ServedCall {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Completion, Self::Embedding];

    /// The name users write.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completion => "completions",
            Self::Embedding => "embeddings",
        }
    }

    /// The path below the base of an OpenAI API.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completion => "/completions",
            Self::Embedding => "/embeddings",
        }
    }

    /// Its bit in [`ServedCard::calls`].
    #[must_use]
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Tokens of a request and of its answer, as the provider's server counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens that were written.
    pub completion: u32,
}

fields! { TokenUsage { prompt, completion } }

impl TokenUsage {
    /// Whether neither number is above the other's.
    #[must_use]
    pub const fn is_within(self, bound: Self) -> bool {
        self.prompt <= bound.prompt && self.completion <= bound.completion
    }

    /// The same, with no number above the bound's.
    #[must_use]
    pub fn cut_to(self, bound: Self) -> Self {
        Self {
            prompt: self.prompt.min(bound.prompt),
            completion: self.completion.min(bound.completion),
        }
    }
}

/// The public part of a served model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedCard {
    /// Who serves it: leases of the model are that provider's alone.
    pub provider: Address,
    /// What callers name it. Several providers may serve models of one name.
    pub name: Label,
    /// Tokens of prompt and answer together, at most.
    pub context: u32,
    /// What can be asked: a bit for each [`ServedCall`].
    pub calls: u8,
    /// Price of a million tokens of prompts.
    pub prompt_price: Amount,
    /// Price of a million tokens that are written.
    pub completion_price: Amount,
    /// When its provider made it: of its cards of one name the latest counts.
    pub issued: TimestampMs,
}

fields! { ServedCard { provider, name, context, calls, prompt_price, completion_price, issued } }

/// Why bytes are no card, or a card is none that the grid takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// They do not begin as a card does, or there are too many.
    #[error("the file is no card of a served model")]
    NoCard,
    /// They cannot be read.
    #[error("read the card of a served model")]
    Decode(#[from] DecodeError),
    /// The name is empty, or begins or ends with a space.
    #[error("the name of a served model is empty, or begins or ends with a space")]
    Name,
    /// The context is none that a model has.
    #[error("a context has 1 to {CARD_CONTEXT_MAX} tokens, not {got}")]
    Context {
        /// What the card says.
        got: u32,
    },
    /// It can be asked nothing, or what is not known.
    #[error("a served model can be asked for chat, completions or embeddings")]
    Calls,
    /// A price is more than a TGRID a token.
    #[error("a million tokens cost at most {CARD_PRICE_MAX} TGRID")]
    Price,
}

impl ServedCard {
    /// Whether a file begins as a card does.
    #[must_use]
    pub fn is_one(file: &[u8]) -> bool {
        file.starts_with(&CARD_MAGIC)
    }

    /// Reads a card and checks it.
    ///
    /// # Errors
    /// If the file is no card, or one that the grid does not take.
    pub fn read(file: &[u8]) -> Result<Self, CardError> {
        let body = file.strip_prefix(&CARD_MAGIC).ok_or(CardError::NoCard)?;
        if file.len() > CARD_BYTES_MAX {
            return Err(CardError::NoCard);
        }
        let card = Self::from_bytes(body)?;
        card.check()?;
        Ok(card)
    }

    /// Whether the grid takes it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), CardError> {
        let Self {
            provider: _,
            name,
            context,
            calls,
            prompt_price,
            completion_price,
            issued: _,
        } = self;
        let known = ServedCall::ALL.iter().fold(0, |bits, it| bits | it.bit());
        if name.as_str().is_empty() || name.as_str().trim() != name.as_str() {
            return Err(CardError::Name);
        }
        if *context == 0 || *context > CARD_CONTEXT_MAX {
            return Err(CardError::Context { got: *context });
        }
        if *calls == 0 || *calls & !known != 0 {
            return Err(CardError::Calls);
        }
        if *prompt_price.max(completion_price) > CARD_PRICE_MAX {
            return Err(CardError::Price);
        }
        Ok(())
    }

    /// The file: what is registered, and what validators hold.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        [&CARD_MAGIC[..], &self.to_bytes()].concat()
    }

    /// The model's id.
    #[must_use]
    pub fn model_id(&self) -> ModelId {
        ModelId::new(*Digest::of(Domain::ServedModel, &self.file()).as_bytes())
    }

    /// What stands for the program of a served model: the address of its provider after twelve zero bytes.
    #[must_use]
    pub fn program_id(&self) -> ProgramId {
        let mut bytes = [0; 32];
        bytes[12..].copy_from_slice(self.provider.as_bytes());
        ProgramId::new(bytes)
    }

    /// Whether a request of this kind can be asked.
    #[must_use]
    pub const fn serves(&self, call: ServedCall) -> bool {
        self.calls & call.bit() != 0
    }

    /// What tokens cost: each of the two sums rounded up to a base unit.
    #[must_use]
    pub fn price(&self, usage: TokenUsage) -> Amount {
        let of = |price: Amount, tokens: u32| {
            // Cannot overflow below [`CARD_PRICE_MAX`].
            let price = price.checked_mul_div_ceil(u64::from(tokens), TOKENS_PER_PRICE);
            price.unwrap_or(Amount::MAX)
        };
        of(self.prompt_price, usage.prompt)
            .saturating_add(of(self.completion_price, usage.completion))
    }

    /// What the largest request costs at most: a prompt that fills the context, and an answer that does.
    #[must_use]
    pub fn largest_price(&self) -> Amount {
        self.price(TokenUsage {
            prompt: self.context,
            completion: self.context,
        })
    }
}

/// The provider that an id of [`ServedCard::program_id`] stands for.
#[must_use]
pub fn provider_of_program(program: &ProgramId) -> Address {
    let mut bytes = [0; 20];
    bytes.copy_from_slice(&program.as_bytes()[12..]);
    Address::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> ServedCard {
        ServedCard {
            provider: Address::new([7; 20]),
            name: Label::lossy("llama-3.1-8b"),
            context: 8_192,
            calls: ServedCall::Chat.bit() | ServedCall::Embedding.bit(),
            prompt_price: Amount::from_tgrid(2),
            completion_price: Amount::from_tgrid(6),
            issued: TimestampMs::new(5),
        }
    }

    #[test]
    fn a_card_is_read_back_and_nothing_else_is() {
        let file = card().file();
        assert_eq!(ServedCard::read(&file), Ok(card()));
        for cut in 0..file.len() {
            assert!(ServedCard::read(&file[..cut]).is_err(), "{cut}");
        }
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 1;
            let read = ServedCard::read(&other);
            assert!(read.is_err() || read.is_ok_and(|it| it.file() == other));
        }
        assert_eq!(
            ServedCard::read(&[&file[..], &[0]].concat()),
            Err(CardError::Decode(DecodeError::Trailing { extra: 1 }))
        );
        assert!(ServedCard::is_one(&file) && !ServedCard::is_one(b"TGserve"));
        assert_eq!(provider_of_program(&card().program_id()), card().provider);
        let dearer = ServedCard {
            prompt_price: Amount::from_tgrid(3),
            ..card()
        };
        assert_ne!(dearer.model_id(), card().model_id());
    }

    #[test]
    fn what_the_grid_does_not_take_is_refused_by_its_field() {
        let above = Amount::new(CARD_PRICE_MAX.get() + 1);
        for (wrong, error) in [
            (
                ServedCard {
                    name: Label::lossy(""),
                    ..card()
                },
                CardError::Name,
            ),
            (
                ServedCard {
                    name: Label::lossy(" a"),
                    ..card()
                },
                CardError::Name,
            ),
            (
                ServedCard {
                    context: 0,
                    ..card()
                },
                CardError::Context { got: 0 },
            ),
            (
                ServedCard {
                    context: CARD_CONTEXT_MAX + 1,
                    ..card()
                },
                CardError::Context {
                    got: CARD_CONTEXT_MAX + 1,
                },
            ),
            (ServedCard { calls: 0, ..card() }, CardError::Calls),
            (ServedCard { calls: 8, ..card() }, CardError::Calls),
            (
                ServedCard {
                    completion_price: above,
                    ..card()
                },
                CardError::Price,
            ),
        ] {
            assert_eq!(ServedCard::read(&wrong.file()), Err(error));
        }
        let dearest = ServedCard {
            context: CARD_CONTEXT_MAX,
            prompt_price: CARD_PRICE_MAX,
            completion_price: CARD_PRICE_MAX,
            ..card()
        };
        let all = u64::from(CARD_CONTEXT_MAX) * 2;
        assert_eq!(dearest.largest_price(), Amount::from_tgrid(all));
    }

    #[test]
    fn tokens_are_priced_to_the_unit() {
        let usage = TokenUsage {
            prompt: 3,
            completion: 5,
        };
        // 3 * 2 / 10^6 + 5 * 6 / 10^6 TGRID.
        assert_eq!(card().price(usage).to_string(), "0.000036");
        let odd = ServedCard {
            prompt_price: Amount::new(1),
            completion_price: Amount::new(1_000_001),
            ..card()
        };
        // Each sum is rounded up: one unit, and six.
        assert_eq!(odd.price(usage), Amount::new(1 + 6));
        assert_eq!(odd.price(TokenUsage::default()), Amount::ZERO);
        let bound = TokenUsage {
            prompt: 2,
            completion: 9,
        };
        assert!(!usage.is_within(bound));
        assert!(usage.cut_to(bound).is_within(bound));
    }
}
