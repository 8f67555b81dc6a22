//! Tokens of language models: what they are, how they are drawn, and the text of those that were written.

use tg_ir::sampling::NUCLEUS_ALL;
use tg_ir::{Generator, Program, Sampling};
use tg_text::TextTokenizer;

use crate::outcome::{Exit, Failure, OrFail};

/// Tokens of a vocabulary of bytes.
const BYTES: u32 = 256;

/// How tokens are drawn at a temperature, of a share of the weight, among so many; what is wrong with that, else.
///
/// # Errors
/// What of it is out of its range, or more than the model gives.
pub fn sampling(
    generator: &Generator,
    (temperature, top_p, top_k): (f64, f64, Option<u32>),
    seed: [u8; 32],
) -> Result<Sampling, String> {
    if temperature == 0.0 {
        return Ok(Sampling {
            seed,
            ..Sampling::greatest()
        });
    }
    let unit = f64::from(generator.unit);
    let rescale = (temperature > 0.0)
        .then(|| Sampling::rescale(unit, temperature))
        .flatten();
    let Some(rescale) = rescale else {
        return Err(format!(
            "a temperature of {temperature}: of the order of 1 for this model, or 0 for the greatest score always"
        ));
    };
    if !(0.0..=1.0).contains(&top_p) {
        return Err(format!("top-p {top_p}: a share, 0 to 1"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^16"
    )]
    let nucleus = (top_p * f64::from(NUCLEUS_ALL)).round() as u32;
    Ok(Sampling {
        keep: top_k.unwrap_or(generator.ranks),
        rescale,
        nucleus: nucleus.max(1),
        seed,
    })
}

/// Whether a program's tokens are bytes.
pub const fn takes_bytes(program: &Program, generator: &Generator) -> bool {
    generator.vocabulary == BYTES && program.tokenizer.is_none()
}

/// The text of tokens that were written after others.
///
/// # Errors
/// If one is no token of the tokenizer.
pub fn written(
    tokenizer: &TextTokenizer,
    prompt: &[u32],
    written: &[u32],
) -> Result<String, Failure> {
    let text = |tokens: &[u32]| {
        let text = tokenizer.decode(tokens);
        text.or_fail(Exit::Failed, "make text of the tokens")
    };
    // Together, as the first token of a text may have lost its space.
    let whole = text(&[prompt, written].concat())?;
    match whole.strip_prefix(&text(prompt)?) {
        Some(rest) => Ok(rest.to_owned()),
        None => text(written),
    }
}
