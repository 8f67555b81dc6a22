//! How likely the tokens of a text were, of the scores that its proof shows.
//!
//! A model that writes gives the greatest few of its scores at each position ([`Generator::ranks`]), and a proof of what it wrote has
//! them. The probabilities are those of these tokens alone: `exp(s_j u) / sum_k exp(s_k u)` over the scores s that are given, u being
//! the real value of a score's unit, before temperature and nucleus. Where the model gives fewer scores than its vocabulary has tokens
//! they are upper bounds of the probabilities among all tokens.

use tg_api::{CompletionOrder, OpenAiError, TextLogprobs, TokenLogprob, WrittenLogprob};
use tg_ir::{GenerationRequest, Generator};
use tg_sdk::dto::ModeDto;
use tg_sdk::verify::RankedScore;

use super::known::TextCoding;

/// Tokens that were written, the scores that each was drawn from, and the text that is shown of them.
pub(super) type ScoredText = (Vec<u32>, Vec<Vec<RankedScore>>, String);

/// Refuses log probabilities of what is not proved: there is nothing to take them from.
pub(super) fn refuse_unproved(order: &CompletionOrder) -> Result<(), OpenAiError> {
    if order.logprobs.is_none() || order.mode == ModeDto::Proof {
        return Ok(());
    }
    let text = "`logprobs` are listed of texts that are proved: add `\"tensorgrid\": {\"verify\": \"proof\"}`. What providers hand in \
                otherwise is the tokens alone, and the scores that they were drawn from would be their word";
    Err(OpenAiError {
        code: "unsupported_parameter".to_owned(),
        ..OpenAiError::invalid("logprobs", text)
    })
}

/// Log probabilities of the tokens that a text has, with so many of the likeliest in the place of each.
pub(super) fn listed(
    (generator, coding, request): (&Generator, &TextCoding, &GenerationRequest),
    (tokens, scores, text): ScoredText,
    top: u32,
) -> Result<TextLogprobs, OpenAiError> {
    let ended = request.stop.is_some() && tokens.last().copied() == request.stop;
    // A token that ends a text is not shown.
    let own = &tokens[..tokens.len() - usize::from(ended)];
    let whole = |count: usize| coding.text(&request.prompt, &own[..count]);
    let is_cut = text.len() < whole(own.len())?.len();
    let mut before = request.prompt.last().copied();
    let mut listed = Vec::new();
    for (index, (&token, row)) in own.iter().zip(&scores).enumerate() {
        let begun = whole(index)?;
        // What comes after a string that ended the text is not shown. A letter of several bytes may lack some of them.
        if is_cut && begun.trim_end_matches(char::REPLACEMENT_CHARACTER).len() >= text.len() {
            break;
        }
        let logprobs = logprobs(row, f64::from(generator.unit));
        let named = |place: usize| -> Result<TokenLogprob, OpenAiError> {
            let token = row[place].token;
            let (text, bytes) = shown(coding, before, token)?;
            Ok(TokenLogprob {
                text,
                bytes,
                logprob: logprobs[place],
            })
        };
        let place = row.iter().position(|it| it.token == token);
        let place = place.ok_or_else(|| {
            let text = "the proof has no score of a token that was written".to_owned();
            OpenAiError::unavailable(text)
        })?;
        let likeliest = 0..row.len().min(top as usize);
        listed.push(WrittenLogprob {
            token: named(place)?,
            offset: begun.chars().count(),
            top: likeliest.map(named).collect::<Result<_, _>>()?,
        });
        before = Some(token);
    }
    Ok(TextLogprobs {
        tokens: listed,
        among: generator.ranks,
        vocabulary: generator.vocabulary,
    })
}

/// Natural logarithms of the probabilities of tokens whose scores are given, the greatest first.
fn logprobs(row: &[RankedScore], unit: f64) -> Vec<f64> {
    let greatest = row.first().map_or(0, |it| it.score);
    let below: Vec<f64> = row
        .iter()
        .map(|it| (f64::from(it.score) - f64::from(greatest)) * unit)
        .collect();
    let sum: f64 = below.iter().map(|it| it.exp()).sum();
    below.iter().map(|it| it - sum.ln()).collect()
}

/// What a token is in a text after another one, and its bytes where they are known.
fn shown(
    coding: &TextCoding,
    before: Option<u32>,
    token: u32,
) -> Result<(String, Option<Vec<u8>>), OpenAiError> {
    if let (TextCoding::Bytes, Ok(byte)) = (coding, u8::try_from(token)) {
        let text = match byte.is_ascii() {
            true => char::from(byte).to_string(),
            // As OpenAI writes what is no letter by itself.
            false => format!("bytes:\\x{byte:02x}"),
        };
        return Ok((text, Some(vec![byte])));
    }
    let text = coding.text(before.as_slice(), &[token])?;
    // A part of a letter: which of its bytes is not known here.
    let is_whole = !text.contains(char::REPLACEMENT_CHARACTER);
    let bytes = is_whole.then(|| text.as_bytes().to_vec());
    Ok((text, bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_ir::Sampling;

    const GENERATOR: Generator = Generator {
        window: 16,
        vocabulary: 256,
        ranks: 2,
        unit: 0.5,
    };

    fn row(pairs: [(u8, i32); 2]) -> Vec<RankedScore> {
        let ranked = pairs.map(|(token, score)| RankedScore {
            token: u32::from(token),
            score,
        });
        ranked.to_vec()
    }

    #[test]
    fn probabilities_are_those_of_the_scores_and_sum_to_one() {
        let found = logprobs(&row([(0, 7), (1, 5)]), 0.5);
        // A score that is 2 units of 0.5 below the other is e times less likely.
        let expected = [1.0 / (1.0 + (-1.0_f64).exp()), 1.0 / (1.0 + 1.0_f64.exp())];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.exp() - expected).abs() < 1e-12);
        }
        // However far scores are from each other, nothing is lost to infinity.
        let far = logprobs(&row([(0, i32::MAX), (1, i32::MIN)]), 1.0);
        assert_eq!(far[0], 0.0);
        assert!(far[1].is_finite());
    }

    #[test]
    fn tokens_of_what_is_shown_are_listed() {
        let request = GenerationRequest {
            prompt: vec![65],
            limit: 4,
            stop: None,
            sampling: Sampling::greatest(),
        };
        let tokens: Vec<u32> = "a\u{e9}b".bytes().map(u32::from).collect();
        let scores: Vec<Vec<RankedScore>> = "a\u{e9}b"
            .bytes()
            .map(|byte| row([(byte, 3), (b'z', 1)]))
            .collect();
        let of = |text: &str, top| {
            let scored = (tokens.clone(), scores.clone(), text.to_owned());
            listed((&GENERATOR, &TextCoding::Bytes, &request), scored, top).unwrap()
        };
        let all = of("a\u{e9}b", 2);
        let texts: Vec<&str> = all.tokens.iter().map(|it| it.token.text.as_str()).collect();
        assert_eq!(texts, ["a", "bytes:\\xc3", "bytes:\\xa9", "b"]);
        assert_eq!(all.tokens[1].token.bytes, Some(vec![0xc3]));
        let offsets: Vec<usize> = all.tokens.iter().map(|it| it.offset).collect();
        assert_eq!(offsets, [0, 1, 2, 2]);
        assert_eq!(all.tokens[0].top[1].text, "z");
        assert_eq!((all.among, all.vocabulary), (2, 256));
        // The text was cut before `b`, and none of the likeliest was asked for.
        let cut = of("a\u{e9}", 0);
        assert_eq!(cut.tokens.len(), 3);
        assert!(cut.tokens[0].top.is_empty());
    }
}
