//! What a plain scalar of YAML is: null, true or false, a number or text.
//!
//! The words are those of YAML 1.1 as PyYAML reads them, and so SkyPilot: `yes` and `off` are booleans, `010` is 8. Numbers of base 60
//! (`1:30`) and dates are text here.

/// A scalar that is understood.
#[derive(Debug, Clone, PartialEq)]
pub enum PlainScalar {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a point.
    Real(f64),
    /// Anything else.
    Text,
}

/// What a plain scalar is.
pub(crate) fn plain(text: &str) -> PlainScalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return PlainScalar::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return PlainScalar::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return PlainScalar::Bool(false);
        }
        _ => {}
    }
    match integer(text) {
        Some(number) => PlainScalar::Integer(number),
        None => real(text).map_or(PlainScalar::Text, PlainScalar::Real),
    }
}

/// A whole number of base 2, 8, 10 or 16, with underscores.
fn integer(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let first = unsigned.chars().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    let digits = unsigned.replace('_', "");
    let (digits, base) = if let Some(digits) = digits.strip_prefix("0b") {
        (digits, 2)
    } else if let Some(digits) = digits.strip_prefix("0x") {
        (digits, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (&digits[1..], 8)
    } else {
        (digits.as_str(), 10)
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let number = i64::from_str_radix(digits, base).ok()?;
    Some(if text.starts_with('-') {
        -number
    } else {
        number
    })
}

/// A number with a point; an exponent needs its sign.
fn real(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(if text.starts_with('-') {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            });
        }
        ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, part) = mantissa.split_once('.')?;
    let is_digits = |text: &str| text.chars().all(|it| it.is_ascii_digit() || it == '_');
    let first = mantissa.trim_start_matches('.').chars().next();
    let is_number = is_digits(whole)
        && is_digits(part)
        && first.is_some_and(|it| it.is_ascii_digit())
        && exponent
            .is_none_or(|it| it.starts_with(['-', '+']) && it.len() > 1 && is_digits(&it[1..]));
    is_number.then(|| text.replace('_', "").parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_read_as_pyyaml_reads_them() {
        let check = |text: &str, expected: PlainScalar| assert_eq!(plain(text), expected, "{text}");
        for text in ["", "~", "null", "Null"] {
            check(text, PlainScalar::Null);
        }
        for (text, value) in [("yes", true), ("Off", false), ("TRUE", true), ("no", false)] {
            check(text, PlainScalar::Bool(value));
        }
        for (text, value) in [
            ("0", 0),
            ("-12", -12),
            ("1_000", 1_000),
            ("010", 8),
            ("0x1F", 31),
            ("0b101", 5),
            ("+7", 7),
        ] {
            check(text, PlainScalar::Integer(value));
        }
        for (text, value) in [
            ("1.5", 1.5),
            (".5", 0.5),
            ("-2.", -2.0),
            ("1.0e+3", 1_000.0),
        ] {
            check(text, PlainScalar::Real(value));
        }
        for text in [
            "y",
            "A100:8",
            "1:30",
            "1e3",
            "1.0e3",
            "0x",
            "09",
            "1.2.3",
            "_1",
            ".",
            "-",
            "0x-1",
            "2024-01-01",
            "99999999999999999999",
            "1,5",
        ] {
            check(text, PlainScalar::Text);
        }
    }
}
