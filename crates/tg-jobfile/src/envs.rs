//! `$NAME` and `${NAME}`: replaced by what `envs` and the command line say, by SkyPilot's rule.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::problem::{Findings, JobProblem};
use super::scalar::{PlainScalar, plain};
use super::yaml::{JobEntry, JobNode, JobValue, shown};

/// Most bytes that all texts of a job have after replacement.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Values of names.
#[derive(Debug, Default)]
pub(crate) struct JobEnvs {
    values: BTreeMap<String, String>,
    secrets: BTreeSet<String>,
    used: BTreeSet<String>,
    written: usize,
}

impl JobEnvs {
    /// Reads `envs`; what the command line says goes before it, and is needed where the file says nothing.
    pub(crate) fn read(
        (envs, secrets): (Option<&JobNode>, Option<&JobNode>),
        given: &[(String, String)],
        findings: &mut Findings,
    ) -> Self {
        let mut read = Self::default();
        read.secrets
            .extend(entries(secrets).iter().map(|it| it.key.clone()));
        for (name, value) in given {
            read.values.insert(name.clone(), value.clone());
        }
        match envs.map(|node| &node.value) {
            None | Some(JobValue::Map(_) | JobValue::Scalar(PlainScalar::Null, _)) => {}
            Some(_) => {
                let place = envs.map(|node| node.place).unwrap_or_default();
                let text = "`envs` is not a mapping from names to texts";
                findings.problem(JobProblem::new(place, text, "as `NAME: value`"));
            }
        }
        for entry in entries(envs) {
            if !is_name(&entry.key) {
                let text = format!("`{}` is no name of a variable", shown(&entry.key));
                let hint = "names have letters, digits and underscores";
                findings.problem(JobProblem::new(entry.place, text, hint));
            }
            if read.values.contains_key(&entry.key) {
                continue;
            }
            match value(&entry.node) {
                Some(Some(value)) => {
                    read.values.insert(entry.key.clone(), value);
                }
                Some(None) => {
                    let text = format!("`{}` has no value", shown(&entry.key));
                    let hint = format!(
                        "--env {}=VALUE, or \"\" in the file for an empty one",
                        shown(&entry.key)
                    );
                    findings.problem(JobProblem::new(entry.place, text, hint));
                }
                None => {
                    let text =
                        format!("`{}` is {}, not text", shown(&entry.key), entry.node.kind());
                    findings.problem(JobProblem::new(entry.place, text, "as `NAME: value`"));
                }
            }
        }
        read
    }

    /// A node in which names are replaced. `is_text`: a name without a value may be meant as it is.
    pub(crate) fn replaced(
        &mut self,
        node: &Rc<JobNode>,
        is_text: bool,
        findings: &mut Findings,
    ) -> Rc<JobNode> {
        let value = match &node.value {
            JobValue::Scalar(_, text) if !text.contains('$') => return Rc::clone(node),
            JobValue::Scalar(PlainScalar::Text, text) => {
                let text = self.replaced_text(text, (node, is_text), findings);
                JobValue::Scalar(kind_of(&text), text)
            }
            JobValue::Scalar(..) => return Rc::clone(node),
            JobValue::List(items) => JobValue::List(
                items
                    .iter()
                    .map(|item| self.replaced(item, is_text, findings))
                    .collect(),
            ),
            JobValue::Map(entries) => JobValue::Map(
                entries
                    .iter()
                    .map(|entry| JobEntry {
                        node: self.replaced(
                            &entry.node,
                            is_text || matches!(entry.key.as_str(), "text" | "text_pair"),
                            findings,
                        ),
                        ..entry.clone()
                    })
                    .collect(),
            ),
        };
        Rc::new(JobNode {
            place: node.place,
            value,
        })
    }

    fn replaced_text(
        &mut self,
        text: &str,
        (node, is_text): (&JobNode, bool),
        findings: &mut Findings,
    ) -> String {
        let mut made = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            made.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some((name, length)) = reference(rest) else {
                made.push('$');
                rest = &rest[1..];
                continue;
            };
            match self.values.get(name) {
                Some(value) if self.written + made.len() + value.len() <= TEXT_BYTES_MAX => {
                    made.push_str(value);
                    self.used.insert(name.to_owned());
                }
                Some(_) => {
                    let text = format!(
                        "the texts of the job have more than {TEXT_BYTES_MAX} bytes once `${name}` is replaced"
                    );
                    findings.problem(JobProblem::new(node.place, text, "put it into a file"));
                    return made;
                }
                None => {
                    made.push_str(&rest[..length]);
                    self.unknown(name, (node, is_text), findings);
                }
            }
            rest = &rest[length..];
        }
        made.push_str(rest);
        self.written += made.len();
        made
    }

    fn unknown(&self, name: &str, (node, is_text): (&JobNode, bool), findings: &mut Findings) {
        let name = shown(name);
        if self.secrets.contains(name.as_str()) {
            let text = format!("`{name}` is a secret, and what a job says is read by everybody");
            let hint = "secrets are not replaced: a job has no place for one";
            findings.problem(JobProblem::new(node.place, text, hint));
        } else if is_text {
            let text = format!("`${name}` has no value and is left as it is");
            findings.note(node.place, text);
        } else {
            let text = format!("`${name}` has no value");
            let hint = format!("name it under `envs`, or give --env {name}=VALUE");
            findings.problem(JobProblem::new(node.place, text, hint));
        }
    }

    /// Says which values reached nothing.
    pub(crate) fn tell_unused(&self, envs: Option<&JobNode>, findings: &mut Findings) {
        for entry in entries(envs) {
            if !self.used.contains(&entry.key) {
                let name = shown(&entry.key);
                let text = format!(
                    "`envs.{name}` changes nothing here: no `${name}` is in the file, and no command runs that could read it"
                );
                findings.note(entry.place, text);
            }
        }
    }
}

fn entries(node: Option<&JobNode>) -> &[JobEntry] {
    match node.map(|node| &node.value) {
        Some(JobValue::Map(entries)) => entries,
        _ => &[],
    }
}

/// What a scalar is as the value of a variable, as Python writes it; nothing within, if it says nothing.
fn value(node: &JobNode) -> Option<Option<String>> {
    let JobValue::Scalar(kind, text) = &node.value else {
        return None;
    };
    Some(match kind {
        PlainScalar::Null => None,
        PlainScalar::Bool(true) => Some("True".to_owned()),
        PlainScalar::Bool(false) => Some("False".to_owned()),
        PlainScalar::Integer(number) => Some(number.to_string()),
        PlainScalar::Real(_) | PlainScalar::Text => Some(text.clone()),
    })
}

/// A text that was put together is read again where it is a number or a truth value: `$PRICE` may be one.
fn kind_of(text: &str) -> PlainScalar {
    match plain(text) {
        PlainScalar::Null | PlainScalar::Bool(_) => PlainScalar::Text,
        kind => kind,
    }
}

/// The name that a text begins with as `$NAME` or `${NAME}`, and how many bytes that takes.
fn reference(text: &str) -> Option<(&str, usize)> {
    let after = text.strip_prefix('$')?;
    let inner = after.strip_prefix('{').unwrap_or(after);
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let name = &inner[..inner.find(|it| !is_part(it)).unwrap_or(inner.len())];
    if !is_name(name) {
        return None;
    }
    let begin = text.len() - inner.len() + name.len();
    // A closing brace belongs to it, as in SkyPilot's own pattern.
    let end = begin + usize::from(text[begin..].starts_with('}'));
    Some((name, end))
}

/// Whether a text is a name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    let mut all = text.chars();
    all.next()
        .is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && all.all(|it| it.is_ascii_alphanumeric() || it == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_skypilot_finds_them() {
        let check = |text: &str, expected: Option<(&str, usize)>| {
            assert_eq!(reference(text), expected, "{text}");
        };
        check("$A", Some(("A", 2)));
        check("${A_1}/x", Some(("A_1", 6)));
        check("$A}", Some(("A", 3)));
        check("${A", Some(("A", 3)));
        check("$1", None);
        check("$", None);
        check("$$A", None);
        check("${}", None);
    }
}
