//! Tokens of language models: what they are, how they are drawn, and the text of those that were written.

use tg_ir::sampling::NUCLEUS_ALL;
use tg_ir::{Generator, Program, Sampling};
use tg_text::TextTokenizer;
use tg_types::digest::hex;

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
        return Ok(Sampling::greatest());
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
    let keep = top_k.unwrap_or(generator.ranks);
    if keep == 1 {
        return Ok(Sampling::greatest());
    }
    Ok(Sampling {
        keep,
        rescale,
        nucleus: nucleus.max(1),
        seed,
    })
}

/// How tokens are drawn, in words, for scores whose unit has a real value.
pub fn rule(sampling: &Sampling, unit: f32) -> String {
    if sampling.keep == 1 {
        return "always the token with the greatest score (temperature 0)".to_owned();
    }
    format!(
        "drawn at temperature {:.3} (top-k {}, top-p {:.4}) by seed {}",
        sampling.temperature(f64::from(unit)),
        sampling.keep,
        top_p(sampling),
        hex(&sampling.seed)
    )
}

/// The same as JSON.
pub fn rule_json(sampling: &Sampling, unit: f32) -> serde_json::Value {
    serde_json::json!({
        "temperature": sampling.temperature(f64::from(unit)), "top_k": sampling.keep,
        "top_p": top_p(sampling), "seed": hex(&sampling.seed),
    })
}

/// The share of weight that stays.
fn top_p(sampling: &Sampling) -> f64 {
    f64::from(sampling.nucleus) / f64::from(NUCLEUS_ALL)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const GENERATOR: Generator = Generator {
        window: 8,
        vocabulary: 16,
        ranks: 4,
        unit: 0.5,
    };

    fn drawn(temperature: f64, top_k: Option<u32>) -> Sampling {
        sampling(&GENERATOR, (temperature, 0.5, top_k), [7; 32]).unwrap()
    }

    /// However it is said that nothing is to be drawn, it is one request.
    #[test]
    fn what_draws_nothing_is_said_in_one_way() {
        let greatest = Sampling::greatest();
        assert_eq!(drawn(0.0, None), greatest);
        assert_eq!(drawn(0.8, Some(1)), greatest);
        let one = Generator {
            ranks: 1,
            ..GENERATOR
        };
        let of_one = sampling(&one, (0.8, 1.0, None), [7; 32]);
        assert_eq!(of_one, Ok(greatest));
        assert!(rule(&greatest, 0.5).contains("temperature 0"));
    }

    #[test]
    fn every_parameter_of_the_draws_is_told() {
        let told = rule(&drawn(0.8, Some(3)), GENERATOR.unit);
        let expected = format!(
            "drawn at temperature 0.800 (top-k 3, top-p 0.5000) by seed {}",
            "07".repeat(32)
        );
        assert_eq!(told, expected);
        let json = rule_json(&drawn(0.8, Some(3)), GENERATOR.unit);
        assert_eq!(json["top_p"], 0.5);
    }
}
