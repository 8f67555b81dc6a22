//! Forms of files, `multipart/form-data` (RFC 7578), of a body that is whole in memory.

use std::ops::Range;

/// Most parts of a form: an upload has two.
const PARTS_MAX: usize = 16;

/// Most bytes of the head of a part.
const HEAD_BYTES_MAX: usize = 4_096;

/// Most bytes of a boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// Why a body is no form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormError {
    /// The header does not say that it is one.
    #[error("the body is multipart/form-data, and its content-type names the boundary")]
    ContentType,
    /// A part has no end, or the form none.
    #[error("the form is cut off or malformed")]
    Malformed,
    /// A part without a name.
    #[error("a part of the form has no name")]
    NoName,
    /// More parts than are taken.
    #[error("the form has more than {PARTS_MAX} parts")]
    Parts,
}

/// A part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FormPart {
    pub(super) name: String,
    pub(super) filename: Option<String>,
    /// Where its bytes are in the body.
    pub(super) data: Range<usize>,
}

/// The parts of a body with this content-type.
pub(super) fn parts(content_type: &str, body: &[u8]) -> Result<Vec<FormPart>, FormError> {
    let (kind, parameters) = content_type.split_once(';').ok_or(FormError::ContentType)?;
    let boundary = parameter(parameters, "boundary");
    let fits = |it: &String| (1..=BOUNDARY_BYTES_MAX).contains(&it.len());
    let boundary = boundary.filter(fits).ok_or(FormError::ContentType)?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(FormError::ContentType);
    }
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    // The first delimiter may begin the body.
    let mut at = match body.starts_with(&delimiter[2..]) {
        true => delimiter.len() - 2,
        false => find(body, &delimiter, 0).ok_or(FormError::Malformed)? + delimiter.len(),
    };
    let mut all = Vec::new();
    loop {
        let rest = &body[at..];
        if rest.starts_with(b"--") {
            return Ok(all);
        }
        if !rest.starts_with(b"\r\n") {
            return Err(FormError::Malformed);
        }
        if all.len() == PARTS_MAX {
            return Err(FormError::Parts);
        }
        // A head without lines ends at once.
        let head_end = find(body, b"\r\n\r\n", at).ok_or(FormError::Malformed)?;
        if head_end - at > HEAD_BYTES_MAX {
            return Err(FormError::Malformed);
        }
        let start = head_end + 4;
        let end = find(body, &delimiter, start).ok_or(FormError::Malformed)?;
        all.push(part(&body[at..head_end], start..end)?);
        at = end + delimiter.len();
    }
}

fn part(head: &[u8], data: Range<usize>) -> Result<FormPart, FormError> {
    let head = String::from_utf8_lossy(head);
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.trim().eq_ignore_ascii_case("content-disposition");
        is_it.then(|| value.split_once(';'))?
    });
    let (_, parameters) = disposition.ok_or(FormError::NoName)?;
    Ok(FormPart {
        name: parameter(parameters, "name").ok_or(FormError::NoName)?,
        filename: parameter(parameters, "filename"),
        data,
    })
}

/// A parameter of a header, quoted or not.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (key, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
}

/// A quoted string after its first quote, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

fn find(body: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = body.get(from..)?;
    let found = rest.windows(what.len()).position(|window| window == what);
    found.map(|at| from + at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=xyz";

    fn form(head: &str, data: &str) -> String {
        format!("--xyz\r\nContent-Disposition: {head}\r\n\r\n{data}\r\n--xyz--\r\n")
    }

    #[test]
    fn a_form_has_names_and_bytes() {
        let body = "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--xyz\r\n\
                    content-type: application/jsonl\r\ncontent-disposition: form-data; name=file; filename=\"a\\\"b;c.jsonl\"\r\n\r\n\
                    {}\r\n--xy\r\n\r\n--xyz--\r\n";
        let all = parts(TYPE, body.as_bytes()).unwrap();
        let shown: Vec<_> = all
            .iter()
            .map(|it| {
                (
                    it.name.as_str(),
                    it.filename.as_deref(),
                    &body[it.data.clone()],
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("purpose", None, "batch"),
                ("file", Some("a\"b;c.jsonl"), "{}\r\n--xy\r\n"),
            ]
        );
        let quoted = "multipart/form-data; charset=utf-8; boundary=\"xyz\"";
        assert_eq!(parts(quoted, body.as_bytes()).unwrap(), all);
        assert!(parts(TYPE, b"--xyz--").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let good = form("form-data; name=a", "x");
        assert!(parts(TYPE, good.as_bytes()).is_ok());
        for wrong in [
            "application/json",
            "multipart/form-data",
            "text/plain; boundary=xyz",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(parts(wrong, good.as_bytes()), Err(FormError::ContentType));
        }
        for end in 0..good.len() - 4 {
            assert!(parts(TYPE, &good.as_bytes()[..end]).is_err(), "{end}");
        }
        let unnamed = form("form-data", "x");
        assert_eq!(parts(TYPE, unnamed.as_bytes()), Err(FormError::NoName));
        let open = form("form-data; name=\"a", "x");
        assert_eq!(parts(TYPE, open.as_bytes()), Err(FormError::NoName));
        let one = "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n";
        let many = format!("{}--xyz--", one.repeat(PARTS_MAX + 1));
        assert_eq!(parts(TYPE, many.as_bytes()), Err(FormError::Parts));
        let long = form(&format!("form-data; name={}", "a".repeat(5_000)), "x");
        assert_eq!(parts(TYPE, long.as_bytes()), Err(FormError::Malformed));
    }

    /// Bytes of strangers: any of them give parts that lie in the body, or an error.
    #[test]
    fn changed_forms_are_parts_or_errors() {
        let body = form("form-data; name=\"a\"; filename=\"b\"", "data");
        let mut state = 7u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        let alphabet = b"\r\n-xyz\";= \\\xff";
        for _ in 0..20_000 {
            let mut body = body.clone().into_bytes();
            for _ in 0..=draw(3) {
                let at = draw(body.len());
                match draw(3) {
                    0 => body[at] = alphabet[draw(alphabet.len())],
                    1 => body.insert(at, alphabet[draw(alphabet.len())]),
                    _ => drop(body.remove(at)),
                }
            }
            for part in parts(TYPE, &body).unwrap_or_default() {
                assert!(body.get(part.data).is_some());
            }
        }
    }
}
