//! YAML as nodes with their places, within limits.
//!
//! Every byte may be hostile: the file is bounded, depth is, and so is what aliases and merges stand for, counted before anything is walked.
//! A key that comes twice is refused, as SkyPilot does.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput, Tag};

use super::problem::{JobPlace, JobProblem};
use super::scalar::{PlainScalar, plain};

/// Most bytes of a job file.
pub const JOB_FILE_BYTES_MAX: usize = 1 << 20;

/// Most mappings and sequences inside each other.
const DEPTH_MAX: usize = 64;

/// Most nodes of a file with what its aliases stand for.
const NODES_MAX: usize = 50_000;

/// A node of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct JobNode {
    /// Where it begins.
    pub place: JobPlace,
    /// What it is.
    pub value: JobValue,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum JobValue {
    /// A scalar: what it is, and its characters.
    Scalar(PlainScalar, String),
    /// A sequence.
    List(Vec<Rc<JobNode>>),
    /// A mapping, in the order of the file.
    Map(Vec<JobEntry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEntry {
    /// The key's characters.
    pub key: String,
    /// Where the key is.
    pub place: JobPlace,
    /// The value.
    pub node: Rc<JobNode>,
}

impl JobNode {
    /// Whether nothing is said.
    pub const fn is_null(&self) -> bool {
        matches!(self.value, JobValue::Scalar(PlainScalar::Null, _))
    }

    /// What kind of node it is, for messages.
    pub const fn kind(&self) -> &'static str {
        match &self.value {
            JobValue::Scalar(PlainScalar::Null, _) => "nothing",
            JobValue::Scalar(PlainScalar::Bool(_), _) => "true or false",
            JobValue::Scalar(PlainScalar::Integer(_), _) => "a whole number",
            JobValue::Scalar(PlainScalar::Real(_), _) => "a number",
            JobValue::Scalar(PlainScalar::Text, _) => "text",
            JobValue::List(_) => "a list",
            JobValue::Map(_) => "a mapping",
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&JobEntry> {
        match &self.value {
            JobValue::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// The documents of a file.
///
/// # Errors
/// The first thing in it that is not taken.
pub(crate) fn documents(bytes: &[u8]) -> Result<Vec<Rc<JobNode>>, JobProblem> {
    let start = JobPlace { line: 1, column: 1 };
    if bytes.len() > JOB_FILE_BYTES_MAX {
        let text = format!(
            "the file has {} bytes, a job file at most {JOB_FILE_BYTES_MAX}",
            bytes.len()
        );
        let hint = "data belong in files of their own, which `input` names";
        return Err(JobProblem::new(start, text, hint));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|&&it| it == b'\n').count();
        let place = JobPlace { line, column: 1 };
        JobProblem::new(place, "the file is not text in UTF-8", "save it as UTF-8")
    })?;
    let mut loader = Loader {
        parser: Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)),
        anchored: HashMap::new(),
        nodes: 0,
    };
    let mut documents = Vec::new();
    loop {
        let (event, _) = loader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) => {
                let (event, place) = loader.next()?;
                documents.push(loader.node(event, place, 0)?);
            }
            _ => {}
        }
    }
}

/// Reads events into nodes.
struct Loader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Nodes that aliases may name, with how many nodes they are.
    anchored: HashMap<usize, (Rc<JobNode>, usize)>,
    /// Nodes so far, with those that aliases stand for.
    nodes: usize,
}

impl<'a> Loader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, JobPlace), JobProblem> {
        let Some(next) = self.parser.next_event() else {
            return Ok((Event::StreamEnd, JobPlace::default()));
        };
        let (event, span) = next.map_err(|error| {
            let text = format!("this is not YAML: {}", error.info());
            let hint = "indent by spaces, close quotes and brackets, and put text with `: ` or ` #` in quotes";
            JobProblem::new(place_of(error.marker()), text, hint)
        })?;
        Ok((event, place_of(&span.start)))
    }

    /// Counts nodes against the limit.
    fn count(&mut self, nodes: usize, place: JobPlace) -> Result<(), JobProblem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let text =
            format!("the file has more than {NODES_MAX} values, with what aliases stand for");
        Err(JobProblem::new(place, text, "a job needs a few dozen"))
    }

    /// The node that an event begins.
    fn node(
        &mut self,
        event: Event<'a>,
        place: JobPlace,
        depth: usize,
    ) -> Result<Rc<JobNode>, JobProblem> {
        let before = self.nodes;
        if depth > DEPTH_MAX {
            let text = format!("more than {DEPTH_MAX} lists and mappings are inside each other");
            return Err(JobProblem::new(place, text, "a job needs four"));
        }
        self.count(1, place)?;
        let (value, anchor) = match event {
            Event::Alias(anchor) => return self.alias(anchor, place),
            Event::Scalar(text, style, anchor, tag) => {
                let kind = kind_of(&text, style, tag.as_deref(), place)?;
                (JobValue::Scalar(kind, text.into_owned()), anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), &["seq"], place)?;
                (JobValue::List(self.list(depth)?), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), &["map", "set"], place)?;
                (JobValue::Map(self.map(depth)?), anchor)
            }
            _ => return Err(JobProblem::new(place, "a value is missing", "name one")),
        };
        let node = Rc::new(JobNode { place, value });
        if anchor != 0 {
            let nodes = self.nodes.saturating_sub(before);
            self.anchored.insert(anchor, (Rc::clone(&node), nodes));
        }
        Ok(node)
    }

    /// What an alias stands for, at the place of the alias.
    fn alias(&mut self, anchor: usize, place: JobPlace) -> Result<Rc<JobNode>, JobProblem> {
        let Some((node, nodes)) = self.anchored.get(&anchor) else {
            let text = "an alias stands for something that contains it";
            return Err(JobProblem::new(place, text, "write the value out"));
        };
        let (node, nodes) = (Rc::clone(node), *nodes);
        self.count(nodes, place)?;
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Rc<JobNode>>, JobProblem> {
        let mut items = Vec::new();
        loop {
            let (event, place) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(event, place, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<JobEntry>, JobProblem> {
        let mut entries: Vec<JobEntry> = Vec::new();
        let mut seen: HashMap<String, JobPlace> = HashMap::new();
        let mut merged = None;
        loop {
            let (event, place) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.node(event, place, depth + 1)?;
            let JobValue::Scalar(_, text) = &key.value else {
                let text = format!("a key is {}", key.kind());
                return Err(JobProblem::new(place, text, "keys are text"));
            };
            if let Some(first) = seen.insert(text.clone(), place) {
                let text = format!(
                    "`{}` is said twice, first in line {}",
                    shown(text),
                    first.line
                );
                return Err(JobProblem::new(place, text, "keep one of them"));
            }
            let (event, at) = self.next()?;
            let node = self.node(event, at, depth + 1)?;
            if is_merge {
                merged = Some((node, place));
                continue;
            }
            entries.push(JobEntry {
                key: text.clone(),
                place,
                node,
            });
        }
        if let Some((node, place)) = merged {
            self.merge(&mut entries, (&node, place))?;
        }
        Ok(entries)
    }

    /// Adds the entries of the mapping, or the mappings, under `<<` whose keys are not there.
    fn merge(
        &mut self,
        entries: &mut Vec<JobEntry>,
        (merged, place): (&JobNode, JobPlace),
    ) -> Result<(), JobProblem> {
        let sources = match &merged.value {
            JobValue::List(items) => items.iter().map(Rc::as_ref).collect(),
            _ => vec![merged],
        };
        let mut known: std::collections::HashSet<String> =
            entries.iter().map(|entry| entry.key.clone()).collect();
        for source in sources {
            let JobValue::Map(added) = &source.value else {
                let text = format!("`<<` names {}, not a mapping", source.kind());
                return Err(JobProblem::new(place, text, "`<<: *NAME` of a mapping"));
            };
            self.count(added.len(), place)?;
            for entry in added {
                if known.insert(entry.key.clone()) {
                    entries.push(entry.clone());
                }
            }
        }
        Ok(())
    }
}

fn place_of(mark: &Marker) -> JobPlace {
    JobPlace {
        line: mark.line().max(1),
        column: mark.col() + 1,
    }
}

/// A text of a file, cut for a message, with no character that would move a terminal's cursor.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut cut: String = text
        .chars()
        .take(SHOWN)
        .collect::<String>()
        .escape_debug()
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        cut.push_str("..");
    }
    cut
}

/// What a scalar is: quoted text is text, and a tag decides.
fn kind_of(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: JobPlace,
) -> Result<PlainScalar, JobProblem> {
    refuse_tag(tag, &["str", "int", "float", "bool", "null"], place)?;
    match tag {
        Some(tag) if tag.suffix == "str" || !tag.is_yaml_core_schema() => Ok(PlainScalar::Text),
        Some(_) => Ok(plain(text)),
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None => Ok(PlainScalar::Text),
    }
}

/// Refuses tags that are not those of a value's kind.
fn refuse_tag(tag: Option<&Tag>, taken: &[&str], place: JobPlace) -> Result<(), JobProblem> {
    let Some(tag) = tag else {
        return Ok(());
    };
    let is_plain =
        tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty();
    let is_core = tag.is_yaml_core_schema() && taken.contains(&tag.suffix.as_str());
    if is_plain || is_core {
        return Ok(());
    }
    let text = format!("the tag `{}` is not taken", shown(&tag.to_string()));
    Err(JobProblem::new(place, text, "leave the tag out"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn refused(text: &str) -> JobProblem {
        documents(text.as_bytes()).unwrap_err()
    }

    fn one(text: &str) -> Rc<JobNode> {
        let documents = documents(text.as_bytes()).unwrap();
        assert_eq!(documents.len(), 1, "{text}");
        Rc::clone(&documents[0])
    }

    fn text_of(node: &JobNode) -> &str {
        match &node.value {
            JobValue::Scalar(_, text) => text,
            _ => "",
        }
    }

    #[test]
    fn nodes_have_their_places() {
        let node = one("a: 1\nb:\n  - x\n  - {c: y}\n");
        let JobValue::List(items) = &node.get("b").unwrap().node.value else {
            panic!("not a list");
        };
        assert_eq!(items[0].place.to_string(), "3:5");
        let entry = items[1].get("c").unwrap();
        assert_eq!(entry.place.to_string(), "4:6");
        assert_eq!(entry.node.place.to_string(), "4:9");
    }

    #[test]
    fn aliases_and_merges_are_what_they_stand_for() {
        let node = one("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\n");
        let of = |block: &str, key: &str| {
            let block = &node.get(block).unwrap().node;
            text_of(&block.get(key).unwrap().node).to_owned()
        };
        assert_eq!((of("b", "x"), of("b", "y")), ("1".into(), "3".into()));
        assert_eq!((of("c", "x"), of("c", "y")), ("1".into(), "2".into()));
    }

    #[test]
    fn hostile_files_are_refused_soon() {
        let start = std::time::Instant::now();
        let refuse = |text: &str, words: &str| {
            let problem = refused(text);
            assert!(problem.text.contains(words), "{problem:?}");
        };
        refuse("a: 1\nb: 2\na: 3\n", "`a` is said twice, first in line 1");
        refuse("{a: 1, a: 1}", "said twice");
        refuse("&a [*a]", "contains it");
        refuse("? [a]\n: b", "a key is a list");
        refuse("a: !!python/object:os.system x", "tag");
        refuse("a: !Ref x", "tag");
        refuse("a: [", "not YAML");
        refuse("a: *b", "not YAML");
        refuse(&"- ".repeat(200), "inside each other");
        refuse(&"[".repeat(100), "inside each other");
        refuse(&"[".repeat(1 << 20), "");
        refuse(&" ".repeat((1 << 20) + 1), "bytes");
        refuse(&format!("[{}]", "a,".repeat(500_000)), "more than 50000");
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..30 {
            let alias = format!("*a{},", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
        }
        refuse(&bomb, "more than 50000");
        let big = format!(
            "a: &a {}\nb: [{}]",
            "x".repeat(500_000),
            "*a,".repeat(100_000)
        );
        refuse(&big, "more than 50000");
        let merges = format!("a: &a {{b: 1}}\nc: {{<<: [{}]}}", "*a,".repeat(30_000));
        refuse(&merges, "more than 50000");
        assert!(documents(&[b'a', 0xff]).is_err());
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    #[test]
    fn quotes_and_tags_make_text() {
        for text in ["'1'", "\"yes\"", "!!str 1", "! 1", "|\n  1"] {
            let node = one(text);
            let is_text = matches!(&node.value, JobValue::Scalar(PlainScalar::Text, _));
            assert!(is_text, "{text}: {node:?}");
        }
        assert!(one("~").is_null());
        assert_eq!(documents(b"").unwrap(), Vec::new());
        assert_eq!(documents(b"---\na: 1\n---\nb: 1\n").unwrap().len(), 2);
    }
}
