//! The fields of a block of a job file: which are used, and what is said of the others.

use super::nearest::nearest;
use super::problem::{Findings, JobPlace, JobProblem};
use super::shape::{Fate, FieldRule, FieldShape, JobBlock};
use super::yaml::{JobEntry, JobNode, JobValue, shown};

impl JobBlock {
    /// The fields of a block that are used; what becomes of the others is told.
    pub(crate) fn walk<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a JobEntry>,
        findings: &mut Findings,
    ) -> BlockFields<'a> {
        let mut used = Vec::new();
        for entry in entries {
            let rule = self.rules.iter().find(|rule| rule.name == entry.key);
            let Some(rule) = rule else {
                findings.problem(self.unknown(entry));
                continue;
            };
            if entry.node.is_null() {
                continue;
            }
            match rule.fate {
                Fate::Used | Fate::Flag(_) => used.push((rule, entry)),
                Fate::Nothing(because) => {
                    let text =
                        format!("`{}` changes nothing here: {because}", self.path(rule.name));
                    findings.note(entry.place, text);
                }
                Fate::Refused(because, instead) => {
                    let text = format!("`{}` is refused: {because}", self.path(rule.name));
                    findings.problem(JobProblem::new(entry.place, text, instead));
                }
            }
        }
        BlockFields(used)
    }

    /// The same of a node, which must be a mapping; of nothing there are no fields.
    pub(crate) fn walk_node<'a>(
        &self,
        node: &'a JobNode,
        findings: &mut Findings,
    ) -> BlockFields<'a> {
        match &node.value {
            JobValue::Map(entries) => self.walk(entries, findings),
            _ if node.is_null() => BlockFields(Vec::new()),
            _ => {
                let text = format!("`{}` is {}, not a mapping", self.name, node.kind());
                let hint = format!("its fields are {}", self.names().join(", "));
                findings.problem(JobProblem::new(node.place, text, hint));
                BlockFields(Vec::new())
            }
        }
    }

    /// A field as it is named in messages.
    fn path(&self, field: &str) -> String {
        if self.name == "job" {
            return field.to_owned();
        }
        format!("{}.{field}", self.name)
    }

    fn unknown(&self, entry: &JobEntry) -> JobProblem {
        let text = format!("`{}` has no field `{}`", self.name, shown(&entry.key));
        let elsewhere = (self.elsewhere)(&entry.key).filter(|block| *block != self.name);
        let near = nearest(&entry.key, self.rules.iter().map(|rule| rule.name));
        let hint = match (near, elsewhere) {
            (Some(near), None) => format!("did you mean `{near}`?"),
            (_, Some("job")) => {
                format!("`{}` stands at the left margin, in no block", entry.key)
            }
            (_, Some(block)) => format!("it belongs into `{block}`"),
            (None, None) => format!("its fields are {}", self.names().join(", ")),
        };
        JobProblem::new(entry.place, text, hint)
    }
}

/// The fields of one block that are used, in the order of the file.
#[derive(Debug)]
pub(crate) struct BlockFields<'a>(Vec<(&'static FieldRule, &'a JobEntry)>);

impl<'a> BlockFields<'a> {
    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&'a JobNode> {
        self.entry(name).map(|entry| entry.node.as_ref())
    }

    /// The field with its key's place.
    pub(crate) fn entry(&self, name: &str) -> Option<&'a JobEntry> {
        let found = self.0.iter().find(|(rule, _)| rule.name == name);
        found.map(|(_, entry)| *entry)
    }

    /// The text of a field.
    pub(crate) fn one(&self, name: &str, findings: &mut Findings) -> Option<String> {
        let (rule, entry) = self.0.iter().find(|(rule, _)| rule.name == name)?;
        let read = findings.take(rule.shape.read(&entry.node))?;
        read.into_iter().next()
    }

    /// The fields that are flags, as a command line has them.
    pub(crate) fn flags(&self, findings: &mut Findings) -> Vec<JobFlag> {
        let mut flags = Vec::new();
        for (rule, entry) in &self.0 {
            let Fate::Flag(flag) = rule.fate else {
                continue;
            };
            let Some(values) = findings.take(rule.shape.read(&entry.node)) else {
                continue;
            };
            let value = values.join(",");
            let word = match (rule.shape, value.as_str()) {
                (FieldShape::Boolean, "false") => continue,
                (FieldShape::Boolean, _) => format!("--{flag}"),
                _ => format!("--{flag}={value}"),
            };
            flags.push(JobFlag {
                place: entry.place,
                field: rule.name,
                flag,
                word,
            });
        }
        flags
    }
}

/// A flag of the command that a job file stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFlag {
    /// Where it comes from.
    pub place: JobPlace,
    /// The field that it is.
    pub field: &'static str,
    /// The flag's name, without dashes.
    pub flag: &'static str,
    /// The word of the command line.
    pub word: String,
}
