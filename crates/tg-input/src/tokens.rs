//! Tokens of texts as inputs of programs, by the names that transformers gives them.

use tg_float::{DType, FloatTensor};
use tg_ir::{Coding, ElementType, InputSpec, Program};
use tg_text::TextTokens;

use crate::form::{Expected, InputError, NamedInput};
use crate::read::read_tensors;

/// What transformers calls the input of tokens.
pub const IDS: &str = "input_ids";
/// What it calls the input that says which tokens are looked at.
pub const MASK: &str = "attention_mask";
/// What it calls the input that says which text of a pair a token belongs to.
pub const KINDS: &str = "token_type_ids";

/// Why tokens are not the input of a program.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The program takes numbers.
    #[error("the model takes numbers, not the tokens of a text")]
    Numbers,
    /// It takes an input that no text gives.
    #[error(
        "the model takes `{}`, which no text gives: `{IDS}`, `{MASK}` and `{KINDS}` are, of whole numbers", .0.escape_debug()
    )]
    Untaken(String),
    /// They do not fit its shape.
    #[error("take the tokens of the text")]
    Input(#[from] InputError),
    /// There are none.
    #[error("the text gives no input")]
    Nothing,
}

/// What an input of a model is: its name, or tokens if it is the only one.
pub const fn role(inputs: usize, name: &str) -> &str {
    if inputs == 1 { IDS } else { name }
}

/// Tokens of texts, and what models take beside them.
#[derive(Debug)]
pub struct TokenInputs {
    shape: Vec<usize>,
    ids: Vec<i64>,
    mask: Vec<i64>,
    kinds: Vec<i64>,
}

impl TokenInputs {
    /// Tokens of texts, which have as many each.
    pub fn of(rows: &[TextTokens]) -> Self {
        let length = rows.first().map_or(0, |row| row.ids.len());
        let all = |list: fn(&TextTokens) -> &[u32]| {
            let values = rows.iter().flat_map(list);
            values.map(|&value| i64::from(value)).collect()
        };
        Self {
            shape: vec![rows.len(), length],
            ids: all(|row| &row.ids),
            mask: all(|row| &row.mask),
            kinds: all(|row| &row.kinds),
        }
    }

    /// What is given beside tokens of which nothing else is known.
    pub fn usual(tokens: &FloatTensor) -> Self {
        Self {
            shape: tokens.shape().to_vec(),
            ids: Vec::new(),
            mask: vec![1; tokens.len()],
            kinds: vec![0; tokens.len()],
        }
    }

    /// The input of this name, if it is one of tokens.
    fn values(&self, name: &str) -> Option<&[i64]> {
        match name {
            IDS => Some(&self.ids),
            MASK => Some(&self.mask),
            KINDS => Some(&self.kinds),
            _ => None,
        }
    }

    /// The same as a tensor.
    fn tensor(&self, name: &str) -> Option<FloatTensor> {
        let values = self.values(name)?;
        FloatTensor::of(self.shape.clone(), values.to_vec()).ok()
    }

    /// The same as a tensor of the type that an input of a graph has.
    pub fn of_type(&self, name: &str, dtype: Option<DType>) -> Option<FloatTensor> {
        match dtype {
            None | Some(DType::I64) => self.tensor(name),
            Some(DType::I32) => {
                let values = self.values(name)?.iter();
                let values: Option<Vec<i32>> =
                    values.map(|&value| i32::try_from(value).ok()).collect();
                FloatTensor::of(self.shape.clone(), values?).ok()
            }
            Some(_) => None,
        }
    }
}

/// How many tokens a program takes, and below which number they are.
///
/// # Errors
/// If it takes none.
pub fn token_limits(program: &Program) -> Result<(usize, usize), TokensError> {
    let vocabulary = vocabulary(&program.input)?;
    let named = NamedInput::all_of(program);
    let length = length(Expected::of_spec(&program.input, &named))?;
    Ok((length, vocabulary))
}

/// Whether a program takes an input that says which tokens are padding.
pub fn is_masked(program: &Program) -> bool {
    takes(program, MASK)
}

/// Whether a program calls an input tokens.
pub fn names_tokens(program: &Program) -> bool {
    takes(program, IDS)
}

fn takes(program: &Program, name: &str) -> bool {
    let named = NamedInput::all_of(program);
    named.iter().any(|input| input.name == name)
}

/// The input of a program as reals in storage order, of as many tokens as it takes.
///
/// # Errors
/// If the program takes what tokens do not give.
pub fn token_input(program: &Program, tokens: TextTokens) -> Result<Vec<f32>, TokensError> {
    let named = NamedInput::all_of(program);
    let expected = Expected::of_spec(&program.input, &named);
    let mut rows = rows(&TokenInputs::of(&[tokens]), expected)?;
    rows.pop().ok_or(TokensError::Nothing)
}

/// Tokens of a program are below this.
///
/// # Errors
/// If the input is of numbers.
pub fn vocabulary(spec: &InputSpec) -> Result<usize, TokensError> {
    let greatest = match &spec.coding {
        Coding::Tokens(vocabulary) => return Ok(*vocabulary as usize),
        Coding::Ranks(_) | Coding::PerChannel(_) => return Err(TokensError::Numbers),
        Coding::Scaled(ElementType::I8) => i8::MAX.into(),
        Coding::Scaled(_) => i16::MAX,
    };
    // Beyond what it holds a scaled input would be another token.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a scale is finite and above 0; more than any index is the greatest one"
    )]
    let whole = (f64::from(greatest) * f64::from(spec.scale)).floor() as usize;
    Ok(whole.saturating_add(1))
}

/// How many tokens an input takes.
///
/// # Errors
/// If no input has one row of tokens.
pub fn length(expected: Expected<'_>) -> Result<usize, TokensError> {
    match expected.inputs {
        [] => Ok(expected.shape.elements()),
        inputs => {
            let role = |input: &&NamedInput| role(inputs.len(), &input.name) == IDS;
            let ids = inputs.iter().find(role);
            ids.map(|input| input.places.len())
                .ok_or_else(|| TokensError::Untaken(inputs[0].name.clone()))
        }
    }
}

/// Texts as rows of a model's inputs.
///
/// # Errors
/// If the model takes other inputs than these.
pub fn rows(tokens: &TokenInputs, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, TokensError> {
    let count = expected.inputs.len();
    let mut tensors = Vec::with_capacity(count);
    for input in expected.inputs {
        let tensor = tokens.tensor(role(count, &input.name));
        let tensor = tensor.ok_or_else(|| TokensError::Untaken(input.name.clone()))?;
        tensors.push((Some(input.name.as_str()), tensor));
    }
    if expected.inputs.is_empty() {
        let tensor = tokens.tensor(IDS);
        tensors.extend(tensor.map(|tensor| (None, tensor)));
    }
    Ok(read_tensors(&tensors, expected)?)
}
