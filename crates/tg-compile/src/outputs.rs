//! Which outputs of a graph one program gives: all of them, or all that have a program, and why the others have none.

use crate::compile::{CompileError, CompileOptions, Compiled, Takes, compile_taken};
use crate::passes::{self, KeptOutputs, Prepared, prepare};
use tg_float::Graph;
use tg_types::with_sources;

/// An output that is not in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name in the file.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Inputs for calibration, as reals in storage order, of a prepared graph: which inputs a graph has follows from what is kept
/// of it.
pub type Calibrate<'a, E> = dyn FnMut(&Prepared) -> Result<Vec<Vec<f32>>, E> + 'a;

/// Why no program was compiled.
#[derive(Debug)]
pub enum OutputsError<E> {
    /// The calibration inputs cannot be had.
    Calibration(E),
    /// The model is not compiled.
    Compile(CompileError),
}

impl<E> From<CompileError> for OutputsError<E> {
    fn from(error: CompileError) -> Self {
        Self::Compile(error)
    }
}

/// A compiled model, and whether it is one of those that are taken.
type Tried = (Compiled, bool);

/// One program of all outputs that are kept ([`KeptOutputs`]). If all outputs of the file are asked for and have no program that is
/// taken, then one of those that have, and the others are named. Which these are is found out by compiling each alone: a graph
/// of n outputs is compiled n + 2 times at most.
///
/// # Errors
/// If there is none, or the calibration inputs cannot be had.
pub fn compile_outputs<E>(
    graph: &Graph,
    options: &CompileOptions,
    calibrate: &mut Calibrate<'_, E>,
    takes: &Takes<'_>,
) -> Result<(Compiled, Vec<LeftOut>), OutputsError<E>> {
    let mut attempt = |keep: KeptOutputs| {
        let mut options = options.clone();
        options.prepare.keep = keep;
        let prepared = prepare(graph.clone(), &options.prepare).map_err(CompileError::from)?;
        let rows = calibrate(&prepared).map_err(OutputsError::Calibration)?;
        let compiled = compile_taken(prepared, &rows, &options, takes)?;
        let taken = refusal(&compiled).is_none();
        Ok((compiled, taken))
    };
    let whole = attempt(options.prepare.keep.clone());
    let names: Vec<String> = graph
        .outputs
        .iter()
        .map(|&value| graph.name_of(value).to_owned())
        .collect();
    let settled = matches!(whole, Ok((_, true)) | Err(OutputsError::Calibration(_)));
    if settled || options.prepare.keep != KeptOutputs::All || names.len() < 2 {
        return whole.map(|(compiled, _)| (compiled, Vec::new()));
    }
    some(&names, passes::scores(graph), whole, &mut attempt)
}

/// As many outputs as go together, once all of them do not.
fn some<E>(
    names: &[String],
    scores: usize,
    whole: Result<Tried, OutputsError<E>>,
    attempt: &mut dyn FnMut(KeptOutputs) -> Result<Tried, OutputsError<E>>,
) -> Result<(Compiled, Vec<LeftOut>), OutputsError<E>> {
    let named = |names: &[&String]| KeptOutputs::Named(names.iter().copied().cloned().collect());
    let mut alone = Vec::new();
    let mut left = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let reason = match attempt(named(&[name])) {
            Ok((compiled, true)) => {
                alone.push((index, name, compiled));
                continue;
            }
            Ok((compiled, false)) => refusal(&compiled).unwrap_or_default().to_owned(),
            Err(OutputsError::Compile(error)) => with_sources(&error),
            Err(error @ OutputsError::Calibration(_)) => return Err(error),
        };
        let name = name.clone();
        left.push(LeftOut { name, reason });
    }
    if alone.is_empty() {
        // None has a proof: what runs, runs.
        return match whole {
            Ok((compiled, _)) => Ok((compiled, Vec::new())),
            Err(error) => match attempt(KeptOutputs::Scores) {
                Ok((compiled, _)) => {
                    left.remove(scores.min(left.len() - 1));
                    Ok((compiled, left))
                }
                Err(_) => Err(error),
            },
        };
    }
    if alone.len() > 1 {
        let together: Vec<&String> = alone.iter().map(|(_, name, _)| *name).collect();
        if let Ok((compiled, true)) = attempt(named(&together)) {
            return Ok((compiled, left));
        }
    }
    // Those that do not go together: the scores, or the first.
    let place = alone.iter().position(|(index, ..)| *index == scores);
    let (index, _, compiled) = alone.swap_remove(place.unwrap_or(0));
    left.extend(alone.into_iter().map(|(_, name, _)| LeftOut {
        name: name.clone(),
        reason: format!(
            "together with `{}` it has no program with a proof",
            names[index]
        ),
    }));
    Ok((compiled, left))
}

/// Why a compiled model is not taken, if it is not.
fn refusal(compiled: &Compiled) -> Option<&str> {
    let report = &compiled.report;
    let mut reasons = report.left_out.iter();
    let own = reasons.find(|(precision, _)| *precision == report.precision);
    own.map(|(_, reason)| reason.as_str())
}
