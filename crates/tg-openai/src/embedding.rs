//! Vectors of texts: what models give them, and how the outputs become vectors of length 1.
//!
//! A model whose only output is one vector for a text gives it as it is; of hidden states, one for each token, the mean over the
//! tokens of the text is taken, special tokens among them and padding not. Either is divided by its length, as OpenAI's are.

use tg_api::OpenAiError;
use tg_ir::{Coding, Program, causality};
use tg_text::{PadRule, TextTokens};

use super::known::{KnownModel, TextCoding};
use super::refusal::{of_tokens, too_long};
use tg_input::tokens;

/// What a model's output is to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VectorKind {
    /// One vector.
    Own,
    /// A vector for each token.
    Hidden,
}

/// How a model gives vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VectorRule {
    kind: VectorKind,
    /// Tokens of an input.
    tokens: usize,
    /// Tokens are below it.
    vocabulary: u32,
    /// Elements of a vector.
    elements: usize,
}

/// The tokens of a text with what the model is given.
#[derive(Debug)]
pub(super) struct TextInput {
    pub(super) bytes: Vec<u8>,
    /// 1 for each token of the text, 0 for padding.
    mask: Vec<u32>,
}

impl TextInput {
    /// Tokens that are no padding.
    pub(super) fn tokens(&self) -> u64 {
        self.mask.iter().map(|&it| u64::from(it)).sum()
    }
}

impl VectorRule {
    /// That of a model.
    ///
    /// # Errors
    /// Says why it gives no vectors.
    pub(super) fn of(known: &KnownModel, name: &str) -> Result<Self, OpenAiError> {
        let rule = match known.generator {
            Some(_) => Err("it writes text".to_owned()),
            None => Self::of_program(known.model.program()),
        };
        rule.map_err(|why| {
            let text = format!("`{name}` gives no vector of a text: {why}");
            OpenAiError::invalid("model", text)
        })
    }

    /// That of a program that writes no text.
    ///
    /// # Errors
    /// Says why it gives no vectors.
    pub(super) fn of_program(program: &Program) -> Result<Self, String> {
        // Tokens may be coded as scaled numbers: then the program or its input says that they are tokens.
        let is_coded = matches!(program.input.coding, Coding::Tokens(_));
        if !is_coded && program.tokenizer.is_none() && !tokens::names_tokens(program) {
            return Err("it takes numbers, not the tokens of a text".to_owned());
        }
        let (tokens, vocabulary) =
            tokens::token_limits(program).map_err(|error| error.to_string())?;
        Self::of_output(program, tokens, vocabulary)
    }

    fn of_output(program: &Program, tokens: usize, vocabulary: usize) -> Result<Self, String> {
        let outputs = program.signature.as_ref().map(|it| it.outputs.as_slice());
        let port = match outputs {
            Some([port]) => port,
            Some(all) => return Err(format!("it has {} outputs, and one is taken", all.len())),
            None => return Err("it does not say what its output is".to_owned()),
        };
        if !port.labels.is_empty() {
            return Err("its output is scores of named classes".to_owned());
        }
        let all = port.shape.iter().map(|&axis| axis as usize);
        let all = all.product::<usize>();
        let elements = port.shape.last().map_or(1, |&axis| axis as usize);
        if elements < 2 || port.is_whole_number() {
            return Err("its output is a number".to_owned());
        }
        let kind = match all / elements {
            1 => VectorKind::Own,
            rows if rows == tokens && elements == vocabulary => {
                return Err("its output is scores of tokens".to_owned());
            }
            rows if rows == tokens => VectorKind::Hidden,
            _ => {
                let shape = &port.shape;
                return Err(format!(
                    "its output has the shape {shape:?}, which is neither a vector nor one for each of {tokens} tokens"
                ));
            }
        };
        Ok(Self {
            kind,
            tokens,
            vocabulary: u32::try_from(vocabulary).unwrap_or(u32::MAX),
            elements,
        })
    }

    /// The input of a text or of tokens.
    ///
    /// # Errors
    /// If it is no text of the model, or too long for it.
    pub(super) fn input(
        &self,
        known: &KnownModel,
        (coding, given): (&TextCoding, &tg_api::CompletionPrompt),
    ) -> Result<TextInput, OpenAiError> {
        let program = known.model.program();
        let ids = coding.tokens("input", given, self.vocabulary)?;
        if ids.len() > self.tokens {
            let (got, most) = (ids.len(), self.tokens);
            let text = format!("the model takes {most} tokens, the input has {got}");
            return Err(too_long("input", &text));
        }
        let rule = padding(program, coding);
        let tokens = TextTokens::given(ids);
        let tokens = match rule {
            Some(rule) => tokens.padded(self.tokens, rule),
            None if tokens.ids.len() < self.tokens => {
                let text = format!(
                    "the model looks at padding as at tokens, and what it is padded with is not known: give {} tokens",
                    self.tokens
                );
                return Err(OpenAiError::invalid("input", text));
            }
            None => tokens,
        };
        let mask = tokens.mask.clone();
        let reals = tokens::token_input(program, tokens);
        let reals = reals.map_err(|error| of_tokens("input", error))?;
        let bytes = known.model.stored_input(&reals);
        let bytes = bytes.map_err(|error| OpenAiError::invalid("input", error.to_string()))?;
        Ok(TextInput { bytes, mask })
    }

    /// The vector of a text, of what the model gave.
    ///
    /// # Errors
    /// If the output has another number of elements than the model says.
    pub(super) fn vector(&self, reals: &[f64], input: &TextInput) -> Result<Vec<f32>, OpenAiError> {
        let rows: Vec<&[f64]> = reals.chunks_exact(self.elements).collect();
        let taken: Vec<&[f64]> = match self.kind {
            VectorKind::Own => rows,
            VectorKind::Hidden => {
                let shown = rows.into_iter().zip(&input.mask);
                shown
                    .filter(|(_, mask)| **mask == 1)
                    .map(|(row, _)| row)
                    .collect()
            }
        };
        if taken.is_empty() {
            let text = "the model gave no vector";
            return Err(OpenAiError::unavailable(text.to_owned()));
        }
        let mut sum = vec![0.0; self.elements];
        for row in taken {
            sum.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += value);
        }
        // The mean has the same direction.
        let length = sum.iter().map(|it| it * it).sum::<f64>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
        let unit = sum.iter().map(|it| (it * scale) as f32).collect();
        Ok(unit)
    }
}

/// How inputs are filled up: as the tokenizer says, else with token 0 where the model does not look at it.
fn padding(program: &Program, coding: &TextCoding) -> Option<PadRule> {
    if let TextCoding::Tokenizer(held) = coding
        && let Some(rule) = held.tokenizer.padding()
    {
        return Some(rule);
    }
    let blind = tokens::is_masked(program) || causality::check(program).is_ok();
    blind.then_some(PadRule::of_token(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn rule(kind: VectorKind) -> VectorRule {
        VectorRule {
            kind,
            tokens: 3,
            vocabulary: 9,
            elements: 2,
        }
    }

    #[test]
    fn hidden_states_are_averaged_over_the_text_and_have_length_1() {
        let input = TextInput {
            bytes: Vec::new(),
            mask: vec![1, 1, 0],
        };
        let hidden = [3.0, 0.0, 3.0, 8.0, 100.0, 100.0];
        let vector = rule(VectorKind::Hidden).vector(&hidden, &input).unwrap();
        assert_eq!(vector, [0.6, 0.8]);
        let own = rule(VectorKind::Own).vector(&[0.0, -2.0], &input).unwrap();
        assert_eq!(own, [0.0, -1.0]);
        let none = rule(VectorKind::Own).vector(&[0.0, 0.0], &input).unwrap();
        assert_eq!(none, [0.0, 0.0]);
        assert!(rule(VectorKind::Hidden).vector(&[], &input).is_err());
        assert_eq!(input.tokens(), 2);
    }
}
