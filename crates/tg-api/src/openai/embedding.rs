//! Requests of `/embeddings` and their answers.

use serde_json::{Value, json};

use super::error::OpenAiError;
use super::fields::BodyFields;
use super::port::{EmbeddingOrder, Embeddings};
use super::request;

/// Most texts of a request: each is a job, and all of one request are ordered before it is answered.
const INPUTS_MAX: usize = 128;

/// How vectors are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VectorFormat {
    /// Numbers.
    Floats,
    /// Base64 of little-endian floats of 32 bits.
    Base64,
}

/// Reads a request.
pub(super) fn read(body: Value) -> Result<(EmbeddingOrder, VectorFormat), OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let missing = || OpenAiError::invalid("model", "`model` is missing");
    let model = fields.text("model")?.ok_or_else(missing)?;
    let input = fields.take("input").unwrap_or_default();
    let inputs = request::prompts("input", input, INPUTS_MAX)?;
    let format = match fields.text("encoding_format")?.as_deref() {
        None | Some("float") => VectorFormat::Floats,
        Some("base64") => VectorFormat::Base64,
        Some(_) => {
            let message = "`encoding_format` is float or base64";
            return Err(OpenAiError::invalid("encoding_format", message));
        }
    };
    let mut ours = request::ours(&mut fields)?;
    let (mode, max_price) = request::terms(&mut ours)?;
    ours.finish()?;
    fields.finish()?;
    let order = EmbeddingOrder {
        model,
        inputs,
        mode,
        max_price,
    };
    Ok((order, format))
}

/// The answer.
pub(super) fn answer(model: &str, embeddings: &Embeddings, format: VectorFormat) -> Value {
    let Embeddings {
        vectors,
        tokens,
        jobs,
        model: id,
        price,
        mode,
    } = embeddings;
    let vector = |vector: &Vec<f32>| match format {
        VectorFormat::Floats => json!(vector),
        VectorFormat::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
            json!(base64(&bytes))
        }
    };
    let item = |(index, it): (usize, &Vec<f32>)| json!({ "object": "embedding", "index": index, "embedding": vector(it) });
    let data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
    let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let receipts = jobs.iter().map(|job| format!("/v1/jobs/{job}/receipt"));
    json!({
        "object": "list", "data": data, "model": model,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
        "tensorgrid": {
            "jobs": jobs, "model": id.to_string(), "price": price.to_string(), "verify": mode,
            "receipts": receipts.collect::<Vec<_>>(),
        },
    })
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit)) & 63;
            match digit as usize <= group.len() {
                true => text.push(char::from(DIGITS[place as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::openai::port::CompletionPrompt;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&1.0f32.to_le_bytes()), "AACAPw==");
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let base = json!({"model": "m", "input": ["a", [1, 2]]});
        let (order, format) = read(base.clone()).unwrap();
        assert_eq!(order.inputs[1], CompletionPrompt::Tokens(vec![1, 2]));
        assert_eq!(format, VectorFormat::Floats);
        for (name, value, param) in [
            ("dimensions", json!(256), "dimensions"),
            ("encoding_format", json!("int8"), "encoding_format"),
            ("input", json!([]), "input"),
            ("input", json!(vec!["a"; INPUTS_MAX + 1]), "input"),
            ("input", json!(1), "input"),
            ("model", json!(null), "model"),
            ("stream", json!(true), "stream"),
        ] {
            let mut body = base.clone();
            body[name] = value;
            let error = read(body).unwrap_err();
            assert_eq!((error.status, error.param.as_deref()), (400, Some(param)));
        }
        assert!(read(json!([])).is_err());
    }
}
