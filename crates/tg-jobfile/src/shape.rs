//! What a field of a job file is: what becomes of it, what its value may be and how that is read, which flag of the command it is, and
//! what the JSON Schema says of it.

use serde_json::{Map, Value, json};
use tg_types::Amount;

use super::problem::JobProblem;
use super::scalar::PlainScalar;
use super::yaml::{JobNode, JobValue, shown};

/// What the value of a field may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldShape {
    /// Text; numbers are taken as they are written.
    Text,
    /// True or false.
    Boolean,
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// An amount of TGRID.
    Amount,
    /// A time: seconds, or a number with s, m, h or d.
    Seconds(u64, u64),
    /// One of some words, in whatever case.
    Word(fn() -> Vec<&'static str>),
    /// One of some words, or something else that fits, of a pattern.
    WordOr(fn() -> Vec<&'static str>, fn(&str) -> bool, &'static str),
    /// Text that a function takes; its examples are for the schema.
    Parsed(fn(&str) -> Result<(), String>, &'static [&'static str]),
    /// One, or a list of them.
    Several(&'static Self),
    /// A number or text that is read elsewhere, by its pattern.
    Quantity(&'static str),
    /// Accelerators: text, a list of texts, or a mapping from names to counts.
    Accelerators,
    /// A mapping from names to texts; nothing stands for text that the command line gives.
    Texts,
    /// Text, or a block of fields.
    TextOr(&'static JobBlock),
    /// Text, a list of texts, or a block of fields.
    TextsOr(&'static JobBlock),
    /// Files: one, a list, or a mapping from the inputs' names.
    Files,
    /// A block of fields.
    Block(&'static JobBlock),
    /// A list of blocks.
    Blocks(&'static JobBlock),
    /// Anything.
    Any,
}

impl FieldShape {
    /// The values of a scalar field, or of a list of them, as a command line takes them.
    ///
    /// # Errors
    /// If the node is something else.
    pub(crate) fn read(self, node: &JobNode) -> Result<Vec<String>, JobProblem> {
        if let (Self::Several(inner), JobValue::List(items)) = (self, &node.value) {
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                values.extend(inner.read(item)?);
            }
            return Ok(values);
        }
        let JobValue::Scalar(kind, text) = &node.value else {
            return Err(self.wrong(node));
        };
        if *kind == PlainScalar::Null {
            return Err(self.wrong(node));
        }
        self.read_scalar(kind, text)
            .map(|value| vec![value])
            .map_err(|reason| {
                let said = format!("`{}` is not {}", shown(text), self.expected());
                let said = if reason.is_empty() {
                    said
                } else {
                    format!("{said}: {reason}")
                };
                JobProblem::new(node.place, said, self.hint())
            })
    }

    fn read_scalar(self, kind: &PlainScalar, text: &str) -> Result<String, String> {
        let none = String::new;
        match self {
            Self::Text if matches!(kind, PlainScalar::Bool(_)) => {
                Err("true and false are no text, put it in quotes".to_owned())
            }
            Self::Text => Ok(text.to_owned()),
            Self::Boolean => match kind {
                PlainScalar::Bool(value) => Ok(value.to_string()),
                _ => match text {
                    "true" | "false" => Ok(text.to_owned()),
                    _ => Err(none()),
                },
            },
            Self::Whole(least, most) => {
                let number = match kind {
                    PlainScalar::Integer(number) => u64::try_from(*number).map_err(|_| none())?,
                    _ => text.parse::<u64>().map_err(|_| none())?,
                };
                let is_within = (least..=most).contains(&number);
                is_within.then(|| number.to_string()).ok_or_else(none)
            }
            Self::Number(least, most) => {
                let number = match kind {
                    PlainScalar::Integer(number) => *number as f64,
                    PlainScalar::Real(number) => *number,
                    _ => text.parse::<f64>().map_err(|_| none())?,
                };
                let is_within = (least..=most).contains(&number);
                is_within.then(|| number.to_string()).ok_or_else(none)
            }
            Self::Amount => {
                let amount: Amount = text.parse().map_err(|error| format!("{error}"))?;
                Ok(amount.to_string())
            }
            Self::Seconds(least, most) => {
                let seconds = seconds(text).ok_or_else(none)?;
                let is_within = (least..=most).contains(&seconds);
                is_within.then(|| seconds.to_string()).ok_or_else(none)
            }
            Self::Word(words) => {
                let found = words().into_iter().find(|it| it.eq_ignore_ascii_case(text));
                found.map(str::to_owned).ok_or_else(none)
            }
            Self::WordOr(words, fits, _) => {
                let lower = text.to_ascii_lowercase();
                let is_known = words().contains(&lower.as_str()) || fits(&lower);
                is_known.then_some(lower).ok_or_else(none)
            }
            Self::Parsed(parse, _) => parse(text).map(|()| text.to_owned()),
            Self::Several(inner) => inner.read_scalar(kind, text),
            _ => Ok(text.to_owned()),
        }
    }

    fn wrong(self, node: &JobNode) -> JobProblem {
        let text = format!("here is {}, not {}", node.kind(), self.expected());
        JobProblem::new(node.place, text, self.hint())
    }

    /// What is expected, for messages.
    fn expected(self) -> String {
        match self {
            Self::Text | Self::Any => "text".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Amount => "an amount of TGRID".to_owned(),
            Self::Seconds(least, most) => format!("a time from {least} to {most} seconds"),
            Self::Word(words) | Self::WordOr(words, ..) => {
                format!("one of {}", words().join(", "))
            }
            Self::Parsed(_, examples) => format!("like {}", examples.join(", ")),
            Self::Several(inner) => format!("{}, or a list of them", inner.expected()),
            Self::Quantity(_) => "a number".to_owned(),
            Self::Accelerators => {
                "text, a list of texts, or a mapping from names to counts".to_owned()
            }
            Self::Texts => "a mapping from names to texts".to_owned(),
            Self::TextOr(block) => format!("text, or the fields of `{}`", block.name),
            Self::TextsOr(block) => format!("text, a list, or the fields of `{}`", block.name),
            Self::Files => "a file, a list of them, or a mapping from inputs to files".to_owned(),
            Self::Block(block) => format!("the fields of `{}`", block.name),
            Self::Blocks(block) => format!("a list with the fields of `{}`", block.name),
        }
    }

    fn hint(self) -> String {
        match self {
            Self::Seconds(..) => "as 300, 90s, 10m, 2h or 1d".to_owned(),
            Self::Amount => "as 0.05".to_owned(),
            Self::Block(block) | Self::Blocks(block) => {
                format!("its fields are {}", block.names().join(", "))
            }
            _ => format!("write {}", self.expected()),
        }
    }

    /// What the JSON Schema says.
    pub(crate) fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Whole(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Self::Number(least, most) => {
                json!({ "type": "number", "minimum": least, "maximum": most })
            }
            Self::Amount => json!({
                "type": ["number", "string"], "minimum": 0, "pattern": "^([0-9]+(\\.[0-9]+)?|\\$.*)$",
            }),
            Self::Seconds(least, most) => json!({
                "type": ["integer", "string"], "minimum": least, "maximum": most,
                "pattern": "^([0-9]+[smhd]?|\\$.*)$",
            }),
            Self::Word(words) => json!({ "enum": words() }),
            Self::WordOr(words, _, pattern) => json!({
                "anyOf": [{ "enum": words() }, { "type": "string", "pattern": pattern }],
            }),
            Self::Parsed(_, examples) => {
                json!({ "type": ["number", "string"], "examples": examples })
            }
            Self::Several(inner) => json!({
                "anyOf": [inner.schema(), { "type": "array", "items": inner.schema() }],
            }),
            Self::Quantity(pattern) => json!({
                "type": ["number", "string"], "minimum": 0, "pattern": pattern,
            }),
            Self::Accelerators => json!({ "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                { "type": "object", "additionalProperties": { "type": ["number", "null"] } },
            ]}),
            Self::Texts => json!({
                "type": "object", "propertyNames": { "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$" },
                "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
            }),
            Self::TextOr(block) => {
                json!({ "anyOf": [{ "type": "string" }, block.schema()] })
            }
            Self::TextsOr(block) => json!({ "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                block.schema(),
            ]}),
            Self::Files => json!({ "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                { "type": "object", "additionalProperties": { "type": "string" } },
            ]}),
            Self::Block(block) => block.schema(),
            Self::Blocks(block) => json!({ "type": "array", "items": block.schema() }),
            Self::Any => json!({}),
        }
    }
}

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is used.
    Used,
    /// It is the flag of a command.
    Flag(&'static str),
    /// It is accepted and changes nothing here, because of this.
    Nothing(&'static str),
    /// It is refused: why, and what to do instead.
    Refused(&'static str, &'static str),
}

/// A field that is known.
#[derive(Debug)]
pub(crate) struct FieldRule {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it.
    pub fate: Fate,
    /// What its value may be.
    pub shape: FieldShape,
    /// What it is, in a sentence.
    pub about: &'static str,
}

impl FieldRule {
    /// A field that is read by name.
    pub(crate) const fn used(name: &'static str, shape: FieldShape, about: &'static str) -> Self {
        let fate = Fate::Used;
        Self {
            name,
            fate,
            shape,
            about,
        }
    }

    /// A field that is a flag.
    pub(crate) const fn flag(
        name: &'static str,
        flag: &'static str,
        shape: FieldShape,
        about: &'static str,
    ) -> Self {
        let fate = Fate::Flag(flag);
        Self {
            name,
            fate,
            shape,
            about,
        }
    }

    /// A field that changes nothing, because of this.
    pub(crate) const fn nothing(name: &'static str, because: &'static str) -> Self {
        Self {
            name,
            fate: Fate::Nothing(because),
            shape: FieldShape::Any,
            about: because,
        }
    }

    /// A field that is refused: why, and what to do instead.
    pub(crate) const fn refused(
        name: &'static str,
        because: &'static str,
        instead: &'static str,
    ) -> Self {
        Self {
            name,
            fate: Fate::Refused(because, instead),
            shape: FieldShape::Any,
            about: because,
        }
    }

    fn schema(&self) -> Value {
        let (mut value, about) = match self.fate {
            Fate::Used | Fate::Flag(_) => (self.shape.schema(), self.about.to_owned()),
            Fate::Nothing(because) => (json!({}), format!("Changes nothing here: {because}.")),
            // Nothing may be said, which `null` says too.
            Fate::Refused(because, instead) => (
                json!({ "type": "null" }),
                format!("Refused: {because}; {instead}."),
            ),
        };
        value["description"] = about.into();
        value
    }
}

/// A block of fields.
#[derive(Debug)]
pub(crate) struct JobBlock {
    /// Its name.
    pub name: &'static str,
    /// Its fields.
    pub rules: &'static [FieldRule],
    /// The block that a field of another one belongs into.
    pub elsewhere: fn(&str) -> Option<&'static str>,
}

impl JobBlock {
    /// The names of the fields that do something.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let rules = self.rules.iter();
        let used = rules.filter(|it| matches!(it.fate, Fate::Used | Fate::Flag(_)));
        used.map(|it| it.name).collect()
    }

    /// What the JSON Schema says.
    pub(crate) fn schema(&self) -> Value {
        let fields = self.rules.iter();
        let fields = fields.map(|rule| (rule.name.to_owned(), rule.schema()));
        let fields: Map<String, Value> = fields.collect();
        json!({ "type": "object", "additionalProperties": false, "properties": fields })
    }
}

/// Seconds of a text: a whole number, with a unit or without, as `90`, `90s`, `10m`, `2h`, `1d`.
#[must_use]
pub fn seconds(text: &str) -> Option<u64> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(*unit));
    let (digits, factor) = match unit {
        Some((unit, factor)) => (text.strip_suffix(*unit)?.trim_end(), *factor),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::yaml::documents;
    use super::*;

    fn read(shape: FieldShape, text: &str) -> Result<Vec<String>, JobProblem> {
        shape.read(&documents(text.as_bytes()).unwrap()[0])
    }

    #[test]
    fn values_are_read_or_refused_with_what_is_expected() {
        let takes = |shape: FieldShape, text: &str, expected: &[&str]| {
            assert_eq!(read(shape, text).unwrap(), expected, "{text}");
        };
        let refuses = |shape: FieldShape, text: &str, words: &str| {
            let problem = read(shape, text).unwrap_err();
            assert!(problem.text.contains(words), "{text}: {problem:?}");
        };
        takes(FieldShape::Text, "abc", &["abc"]);
        takes(FieldShape::Text, "010", &["010"]);
        refuses(FieldShape::Text, "yes", "quotes");
        takes(FieldShape::Boolean, "on", &["true"]);
        refuses(FieldShape::Boolean, "1", "true or false");
        takes(FieldShape::Whole(1, 8), "010", &["8"]);
        refuses(FieldShape::Whole(1, 8), "9", "from 1 to 8");
        refuses(FieldShape::Whole(1, 8), "-1", "from 1 to 8");
        takes(FieldShape::Amount, "0.05", &["0.05"]);
        refuses(FieldShape::Amount, "-1", "TGRID");
        refuses(FieldShape::Amount, "[1]", "a list");
        takes(FieldShape::Seconds(1, 604_800), "10m", &["600"]);
        takes(FieldShape::Seconds(1, 604_800), "300", &["300"]);
        refuses(FieldShape::Seconds(1, 604_800), "8d", "604800");
        refuses(
            FieldShape::Seconds(1, 604_800),
            "99999999999999999999d",
            "604800",
        );
        takes(
            FieldShape::Several(&FieldShape::Whole(0, 9)),
            "[1, 2]",
            &["1", "2"],
        );
        takes(FieldShape::Several(&FieldShape::Whole(0, 9)), "3", &["3"]);
        refuses(FieldShape::Number(0.0, 1.0), ".nan", "from 0 to 1");
    }
}
