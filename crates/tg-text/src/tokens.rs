//! Tokens of a text, cut or padded to what a model takes.

use tokenizers::{Encoding, PaddingDirection, PaddingParams};

/// How many tokens a text may or must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLength {
    /// As many as it has.
    Own,
    /// At most so many: more are cut.
    AtMost(usize),
    /// So many: more are cut, and padding fills up fewer.
    Exactly(usize),
}

impl TextLength {
    /// The most tokens that are taken.
    #[must_use]
    pub const fn limit(self) -> Option<usize> {
        match self {
            Self::Own => None,
            Self::AtMost(limit) | Self::Exactly(limit) => Some(limit),
        }
    }
}

/// Where padding goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadSide {
    /// Before the text.
    Left,
    /// After it.
    Right,
}

/// How a text that is too short is filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PadRule {
    /// The token.
    pub id: u32,
    /// Its kind, in `token_type_ids`.
    pub kind: u32,
    /// Where.
    pub side: PadSide,
}

impl PadRule {
    /// After the text, of kind 0.
    #[must_use]
    pub const fn of_token(id: u32) -> Self {
        let side = PadSide::Right;
        Self { id, kind: 0, side }
    }

    pub(crate) const fn of_file(params: &PaddingParams) -> Self {
        Self {
            id: params.pad_id,
            kind: params.pad_type_id,
            side: match params.direction {
                PaddingDirection::Left => PadSide::Left,
                PaddingDirection::Right => PadSide::Right,
            },
        }
    }
}

/// Tokens of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextTokens {
    /// The tokens, with the special ones.
    pub ids: Vec<u32>,
    /// 1 for each, 0 for padding: `attention_mask`.
    pub mask: Vec<u32>,
    /// Which text of a pair each belongs to: `token_type_ids`.
    pub kinds: Vec<u32>,
    /// How many were left out, because there are too many.
    pub cut: usize,
    /// How many of them are padding.
    pub padding: usize,
}

impl TextTokens {
    pub(crate) fn of(encoding: &Encoding, cut: usize) -> Self {
        Self {
            ids: encoding.get_ids().to_vec(),
            mask: encoding.get_attention_mask().to_vec(),
            kinds: encoding.get_type_ids().to_vec(),
            cut,
            padding: 0,
        }
    }

    /// Tokens that somebody gives, all of one text.
    #[must_use]
    pub fn given(ids: Vec<u32>) -> Self {
        let (mask, kinds) = (vec![1; ids.len()], vec![0; ids.len()]);
        Self {
            ids,
            mask,
            kinds,
            ..Self::default()
        }
    }

    /// Filled up to so many.
    #[must_use]
    pub fn padded(mut self, length: usize, rule: PadRule) -> Self {
        let missing = length.saturating_sub(self.ids.len());
        for (list, value) in [
            (&mut self.ids, rule.id),
            (&mut self.mask, 0),
            (&mut self.kinds, rule.kind),
        ] {
            match rule.side {
                PadSide::Right => list.resize(list.len() + missing, value),
                PadSide::Left => {
                    list.splice(0..0, std::iter::repeat_n(value, missing));
                }
            }
        }
        self.padding = missing;
        self
    }
}
