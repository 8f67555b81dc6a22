//! What is wrong with a job file, and what of it changes nothing here, each with its place.

use std::fmt;

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JobPlace {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for JobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a job file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobProblem {
    /// Where.
    pub place: JobPlace,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub hint: String,
}

impl JobProblem {
    /// A problem with what to do about it.
    pub fn new(place: JobPlace, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            place,
            text: text.into(),
            hint: hint.into(),
        }
    }
}

/// Something in a job file that is accepted and said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobNote {
    /// Where.
    pub place: JobPlace,
    /// What.
    pub text: String,
}

/// All that was found while a job file was read, in the order of its lines.
#[derive(Debug, Default)]
pub struct Findings {
    problems: Vec<JobProblem>,
    notes: Vec<JobNote>,
}

/// Problems and notes that are kept; what comes after them is left out.
const FINDINGS_MAX: usize = 100;

impl Findings {
    /// Adds a problem, unless it is there already: what alternatives share is read for each of them.
    pub fn problem(&mut self, problem: JobProblem) {
        if self.problems.len() < FINDINGS_MAX && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Adds a note, unless it is there already.
    pub fn note(&mut self, place: JobPlace, text: impl Into<String>) {
        let text = text.into();
        let note = JobNote { place, text };
        if self.notes.len() < FINDINGS_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The value of a reading; its problem is kept if it failed.
    pub fn take<T>(&mut self, read: Result<T, JobProblem>) -> Option<T> {
        read.map_err(|problem| self.problem(problem)).ok()
    }

    /// Whether nothing is wrong.
    pub const fn is_fine(&self) -> bool {
        self.problems.is_empty()
    }

    /// Problems and notes, each in the order of the lines.
    pub fn into_sorted(mut self) -> (Vec<JobProblem>, Vec<JobNote>) {
        self.problems.sort_by_key(|it| it.place);
        self.notes.sort_by_key(|it| it.place);
        (self.problems, self.notes)
    }
}
