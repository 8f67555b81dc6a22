//! Texts as inputs of models of tokens: `--text`, `--text-pair` and `--tokenizer`.
//!
//! A tokenizer is the one that is named, or the `tokenizer.json` of the folder that is the model. A program that was compiled with one
//! names its digest, and takes texts by that one alone.

use crate::models;
use crate::models::Brought;
use clap::Args;
use std::path::{Path, PathBuf};
use tg_compile::passes::Prepared;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, say};
use tg_float::graph::Input;
use tg_float::{DType, Dim, FloatTensor, Graph};
use tg_input::tokens::{
    IDS, KINDS, MASK, TokenInputs, TokensError, is_masked, length, role, rows, token_input,
    token_limits, vocabulary,
};
use tg_input::{Expected, ROWS_MAX};
use tg_ir::{Program, causality, coding};
use tg_text::{FILE_BYTES_MAX, Text, TextLength, TextTokenizer, TextTokens};

/// Largest file of texts.
const TEXTS_BYTES_MAX: u64 = 64 << 20;

/// An input as text.
#[derive(Debug, Clone, Args)]
pub struct TextArguments {
    /// The input as text, for models of tokens: input_ids, attention_mask and token_type_ids are made of it.
    #[arg(long, conflicts_with = "inputs", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// The second text of a pair.
    #[arg(
        long,
        value_name = "TEXT",
        requires = "text",
        allow_hyphen_values = true
    )]
    pub text_pair: Option<String>,
    /// What makes tokens of the text, a file of Hugging Face tokenizers; by default the tokenizer.json of a folder.
    #[arg(long, value_name = "tokenizer.json", requires = "text")]
    pub tokenizer: Option<PathBuf>,
}

impl TextArguments {
    /// The text that is given, if one is.
    pub fn given(&self) -> Option<Text<'_>> {
        let first = self.text.as_deref()?;
        let second = self.text_pair.as_deref();
        Some(Text { first, second })
    }
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text.into()))
}

/// Reads a tokenizer's file.
///
/// # Errors
/// If it is not one that is taken.
pub fn read(path: &Path) -> Result<TextTokenizer, Failure> {
    let bytes = files::read(path, FILE_BYTES_MAX as u64)?;
    TextTokenizer::read(&bytes).or_fail(Exit::Usage, format!("read {}", path.display()))
}

/// The tokenizer of a program: the one that is named, if it is the one that the program was compiled with.
///
/// # Errors
/// If none is named, or another one.
pub fn of_program(program: &Program, named: Option<&Path>) -> Result<TextTokenizer, Failure> {
    let hint = "--tokenizer FOLDER/tokenizer.json";
    let Some(path) = named else {
        let text = match program.tokenizer {
            Some(digest) => format!(
                "--text needs the tokenizer that the program was compiled with; its BLAKE3 digest is {digest}"
            ),
            None => "--text needs the tokenizer of the model".to_owned(),
        };
        return Err(usage(text).hint(hint));
    };
    let tokenizer = read(path)?;
    match program.tokenizer {
        Some(digest) if digest != tokenizer.digest() => {
            let text = format!(
                "{} has the BLAKE3 digest {}, and the program was compiled with the tokenizer {digest}: it may make other tokens",
                path.display(),
                tokenizer.digest(),
            );
            return Err(
                usage(text).hint("give the tokenizer.json that the model was compiled with")
            );
        }
        Some(_) => {}
        None => say(
            "the program names no tokenizer: whether this one is its model's is not checked; `model compile` with --tokenizer names it",
        ),
    }
    Ok(tokenizer)
}

/// The tokenizer of a model as people bring it: the one that is named, or that of the folder.
///
/// # Errors
/// If the named one is not taken, or the model takes no tokens.
pub fn of_model(brought: &Brought, named: Option<&Path>) -> Result<Option<TextTokenizer>, Failure> {
    let inputs = &brought.graph.inputs;
    let takes = inputs.iter().any(|input| {
        let whole = input.dtype.is_none_or(DType::is_integer);
        whole && role(inputs.len(), &input.name) == IDS
    });
    if named.is_some() && !takes {
        return Err(usage("the model takes no tokens: leave --tokenizer out"));
    }
    let tokenizer = match (named, &brought.tokenizer) {
        (Some(path), _) => Some(read(path)?),
        (None, Some(path)) if takes => match read(path) {
            Ok(tokenizer) => Some(tokenizer),
            Err(failure) => {
                say(format_args!(
                    "the tokenizer of the folder is left out: {:#}",
                    failure.error
                ));
                None
            }
        },
        (None, _) => None,
    };
    Ok(tokenizer.map(|mut tokenizer| {
        if let Some(pad) = brought.tokens.pad {
            tokenizer.pad_otherwise(pad);
        }
        tokenizer
    }))
}

/// No tokenizer where a text needs one.
pub fn missing() -> Failure {
    usage("a text needs the tokenizer of the model, and there is no tokenizer.json beside it")
        .hint("--tokenizer FOLDER/tokenizer.json")
}

/// Tokens of a text, below a vocabulary.
fn encoded(
    tokenizer: &TextTokenizer,
    text: Text<'_>,
    (length, vocabulary): (TextLength, Option<usize>),
) -> Result<TextTokens, Failure> {
    let tokens = tokenizer.encode(text, length);
    let tokens = tokens.or_fail(Exit::Usage, "make tokens of the text")?;
    let beyond = |id: &&u32| vocabulary.is_some_and(|all| **id as usize >= all);
    if let Some(id) = tokens.ids.iter().find(beyond) {
        let name = tokenizer.name(*id).unwrap_or_default();
        let all = vocabulary.unwrap_or_default();
        return Err(usage(format!(
            "the text has the token {id} (\"{}\"), and the model's tokens are below {all}",
            name.escape_debug()
        ))
        .hint("the tokenizer is that of another model"));
    }
    Ok(tokens)
}

/// Says if tokens of a text are left out.
fn tell_cut(tokens: &TextTokens) {
    if tokens.cut > 0 {
        say(format_args!(
            "the text has {} tokens, the model takes {}: {} are left out",
            tokens.ids.len() + tokens.cut,
            tokens.ids.len(),
            tokens.cut
        ));
    }
}

/// What transformers gives an input of whole numbers that is left out beside others: all tokens are looked at, all are of one kind.
pub fn left_out<'a>(
    input: &Input,
    mut given: impl Iterator<Item = (&'a Input, &'a FloatTensor)>,
) -> Option<FloatTensor> {
    let (_, tokens) = given.find(|(other, _)| other.name == IDS)?;
    let name = input.name.as_str();
    let value = match name {
        MASK => 1,
        KINDS => 0,
        _ => return None,
    };
    let filled = TokenInputs::usual(tokens).of_type(name, input.dtype)?;
    say(format_args!(
        "no file is given for `{name}`: it is {value} everywhere"
    ));
    Some(filled)
}

/// The inputs of a graph of a text.
///
/// # Errors
/// If the text gives no tokens, or the model takes other inputs.
pub fn graph_inputs(
    graph: &Graph,
    tokenizer: &TextTokenizer,
    text: Text<'_>,
    (vocabulary, positions): (Option<usize>, Option<usize>),
) -> Result<Vec<FloatTensor>, Failure> {
    let count = graph.inputs.len();
    let mut all = graph.inputs.iter();
    let ids = all.find(|input| role(count, &input.name) == IDS);
    let axes = ids.and_then(|input| input.shape.as_ref());
    let length = match (axes.and_then(|axes| axes.last()), positions) {
        (Some(Dim::Known(length)), _) => TextLength::Exactly(*length),
        (_, Some(positions)) => TextLength::AtMost(positions),
        _ => TextLength::Own,
    };
    let tokens = encoded(tokenizer, text, (length, vocabulary))?;
    tell_cut(&tokens);
    let tokens = TokenInputs::of(&[tokens]);
    let one = |input: &Input| {
        let given = tokens.of_type(role(count, &input.name), input.dtype);
        given.ok_or_else(|| untaken(TokensError::Untaken(input.name.clone())))
    };
    graph.inputs.iter().map(one).collect()
}

/// A failure of a model that takes what no text gives.
fn untaken(error: TokensError) -> Failure {
    let hinted = matches!(error, TokensError::Untaken(_));
    let failure = Failure::new(Exit::Usage, error);
    match hinted {
        true => failure.hint("give its inputs as files: NAME=FILE.npy for each"),
        false => failure,
    }
}

/// The input of a program as reals in storage order: a text, or files.
///
/// # Errors
/// If they are no input of this program.
pub fn inputs(
    program: &Program,
    (arguments, paths): (&TextArguments, &[PathBuf]),
) -> Result<Vec<f32>, Failure> {
    let Some(text) = arguments.given() else {
        let reals = models::inputs(paths, program)?;
        tell_beyond(program, &reals);
        return Ok(reals);
    };
    let tokenizer = of_program(program, arguments.tokenizer.as_deref())?;
    let (length, vocabulary) = token_limits(program).map_err(untaken)?;
    let length = TextLength::Exactly(length);
    let tokens = encoded(&tokenizer, text, (length, Some(vocabulary)))?;
    tell_cut(&tokens);
    if tokens.padding > 0 && !is_masked(program) && causality::check(program).is_err() {
        say(format_args!(
            "the model takes no `{MASK}`: it looks at the {} tokens of padding as at the text",
            tokens.padding
        ));
    }
    token_input(program, tokens).map_err(untaken)
}

/// Says that an input reaches beyond those that the program was calibrated on, where its coding says how far these reached.
fn tell_beyond(program: &Program, reals: &[f32]) {
    let beyond = coding::cut_off(&program.input, reals);
    if beyond > 0 {
        say(format_args!(
            "note: the input is outside of the range seen at calibration: {beyond} of its {} values are cut off at its ends; calibrate on such \
             inputs too, or scale them",
            reals.len()
        ));
    }
}

/// Calibration inputs of a file with a text in each line.
///
/// # Errors
/// If a text gives no tokens, or the model takes other inputs.
pub fn calibration(
    path: &Path,
    prepared: &Prepared,
    (tokenizer, vocabulary): (Option<&TextTokenizer>, Option<usize>),
) -> Result<Vec<Vec<f32>>, Failure> {
    let doing = || format!("read the texts of {}", path.display());
    let tokenizer = tokenizer.ok_or_else(missing)?;
    let bytes = files::read(path, TEXTS_BYTES_MAX)?;
    let texts = String::from_utf8(bytes).or_fail(Exit::Usage, doing())?;
    let (shape, order) = tg_compile::integer::input_order(prepared)
        .or_fail(Exit::Usage, "read the shape of the model's input")?;
    let named = models::named_inputs(&order, prepared);
    let expected = Expected {
        shape,
        mean: &[],
        std: &[],
        numbers: true,
        inputs: &named,
    };
    let length = TextLength::Exactly(length(expected).map_err(untaken)?);
    let lines = texts.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.take(ROWS_MAX + 1).collect();
    if lines.is_empty() || lines.len() > ROWS_MAX {
        let text = format!("{}: 1 to {ROWS_MAX} lines with a text are taken", doing());
        return Err(usage(text));
    }
    let one = |(index, line): (usize, &&str)| {
        let tokens = encoded(tokenizer, Text::of(line), (length, vocabulary));
        tokens.map_err(|failure| Failure {
            error: failure
                .error
                .context(format!("{}: text {}", doing(), index + 1)),
            ..failure
        })
    };
    let each = lines.iter().enumerate().map(one);
    let tokens: Vec<TextTokens> = each.collect::<Result<_, _>>()?;
    let cut = tokens.iter().filter(|tokens| tokens.cut > 0).count();
    if cut > 0 {
        say(format_args!(
            "{cut} of {} texts have more tokens than the model takes, and are cut",
            tokens.len()
        ));
    }
    rows(&TokenInputs::of(&tokens), expected).map_err(untaken)
}

/// Tokens of a prompt, all of them.
///
/// # Errors
/// If the text gives no tokens of the model.
pub fn prompt(
    tokenizer: &TextTokenizer,
    prompt: &str,
    vocabulary: u32,
) -> Result<Vec<u32>, Failure> {
    let limits = (TextLength::Own, Some(vocabulary as usize));
    Ok(encoded(tokenizer, Text::of(prompt), limits)?.ids)
}

/// Whether a file of calibration is one of texts.
pub fn is_texts(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| end.eq_ignore_ascii_case("txt")) && path.is_file()
}

/// Lets a program name the tokenizer that it is compiled with.
///
/// # Errors
/// If the program takes no tokens, and the tokenizer was asked for.
pub fn name(program: &mut Program, tokenizer: &TextTokenizer) -> Outcome {
    vocabulary(&program.input).map_err(untaken)?;
    program.tokenizer = Some(tokenizer.digest());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_left_out_is_filled_beside_tokens_and_of_whole_numbers_alone() {
        let tokens = FloatTensor::of(vec![1, 3], vec![5i64, 6, 7]).unwrap();
        let filled = |name: &str, dtype| {
            let value = Graph::default().fresh(name);
            let (name, shape) = (name.to_owned(), None);
            let input = Input {
                value,
                name,
                dtype,
                shape,
            };
            let ids = Graph::default().fresh("input_ids");
            let ids = Input {
                value: ids,
                name: "input_ids".to_owned(),
                dtype: None,
                shape: None,
            };
            left_out(&input, [(&ids, &tokens)].into_iter())
        };
        let ones = FloatTensor::of(vec![1, 3], vec![1i64; 3]).unwrap();
        assert_eq!(filled("attention_mask", Some(DType::I64)), Some(ones));
        let zeros = FloatTensor::of(vec![1, 3], vec![0i64; 3]).unwrap();
        assert_eq!(filled("token_type_ids", None), Some(zeros));
        assert_eq!(filled("attention_mask", Some(DType::F32)), None);
        assert_eq!(filled("pixel_values", Some(DType::I64)), None);
    }
}
