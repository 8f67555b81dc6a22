//! Tier TGF-1 on an entry.

use anyhow::{Result, bail};
use tg_compile::passes::prepare;
use tg_float::{FloatTensor, Graph, tgf};
use tg_types::with_sources;

use crate::entry::{Entry, sample};
use crate::measure::{Score, Task, budget, floats, relative_error};

/// Greatest relative error allowed.
const ERROR_MAX: f64 = 1e-4;

/// What became of an entry.
enum Outcome {
    Ran(Score),
    Refused(String),
    Failed(String),
}

/// A row of the table, and whether the entry is as it must be.
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) within: bool,
    pub(crate) good: bool,
}

/// Runs the samples of an entry as the file has it; where TGF-1 lacks an operator of a quantised file, as the float
/// operators between `DequantizeLinear` and `QuantizeLinear` that stand for it.
fn run(entry: &Entry) -> Result<Outcome> {
    let graph = match entry.graph() {
        Ok(graph) => graph,
        Err(reason) => return Ok(Outcome::Refused(reason)),
    };
    let first = run_graph(entry, &graph)?;
    if !matches!(first, Outcome::Refused(_)) || !entry.is_quantised() {
        return Ok(first);
    }
    match prepare(graph, &entry.preparation()) {
        Ok(prepared) => run_graph(entry, &prepared.graph),
        Err(error) => Ok(Outcome::Refused(with_sources(&error))),
    }
}

fn run_graph(entry: &Entry, graph: &Graph) -> Result<Outcome> {
    let mut score = Score::default();
    for k in 0..entry.samples {
        let inputs: Vec<FloatTensor> = entry
            .inputs
            .iter()
            .map(|input| sample(input, k))
            .collect::<Result<_>>()?;
        let borrowed: Vec<&FloatTensor> = inputs.iter().collect();
        let got = match tgf::run(graph, &borrowed, &budget()) {
            Ok(got) => got,
            Err(error) => return Ok(Outcome::Refused(with_sources(&error))),
        };
        if let Err(error) = compare(entry, k, &got, &mut score) {
            return Ok(Outcome::Failed(format!("sample {k}: {error:#}")));
        }
    }
    Ok(Outcome::Ran(score))
}

fn compare(entry: &Entry, k: usize, got: &[FloatTensor], score: &mut Score) -> Result<()> {
    if got.len() != entry.outputs.len() {
        bail!("{} outputs for {}", got.len(), entry.outputs.len());
    }
    let labels = entry.labels_of(k)?;
    for (index, (got, expected)) in got.iter().zip(&entry.outputs).enumerate() {
        let expected = sample(expected, k)?;
        let (Some(ours), Some(theirs)) = (floats(got), floats(&expected)) else {
            if got.data() != expected.data() {
                bail!("output {index} differs");
            }
            continue;
        };
        if ours.len() != theirs.len() {
            bail!(
                "output {index} has {} elements for {}",
                ours.len(),
                theirs.len()
            );
        }
        if index == entry.scores() {
            let classes = expected.shape().last().copied().unwrap_or(1);
            score.add(&ours, &theirs, classes, &labels);
        } else {
            score.error = score.error.max(relative_error(&ours, &theirs));
        }
    }
    Ok(())
}

fn task_text(task: Task, score: &Score) -> String {
    match (task, score.task(task)) {
        (Task::Accuracy, Some([ours, theirs])) => format!("{ours:.2} % ({theirs:.2} %) right"),
        (Task::Perplexity, Some([ours, theirs])) => format!("perplexity {ours:.4} ({theirs:.4})"),
        _ => "random weights or a regression".to_owned(),
    }
}

/// The head of the table.
pub(crate) const HEAD: &str = "\
| model | written by | samples | greatest relative error | same top class | task: ours (onnxruntime's) |
|---|---|---|---|---|---|";

/// The row of an entry.
pub(crate) fn row(entry: &Entry) -> Result<Row> {
    let Entry {
        name,
        exporter,
        samples,
        ..
    } = entry;
    let refused = |text: String| Row {
        text,
        within: false,
        good: false,
    };
    Ok(match run(entry)? {
        Outcome::Ran(score) => {
            // One flipped rounding of a quantised model is a whole step: its errors are shown, not judged.
            let within = score.error <= ERROR_MAX;
            let good = within || entry.is_quantised();
            let mark = if good { "" } else { " **above 1e-4**" };
            let text = format!(
                "| {name} | {exporter} | {samples} | {:.1e}{mark} | {:.2} % | {} |",
                score.error,
                score.agreement(),
                task_text(entry.task, &score)
            );
            Row { text, within, good }
        }
        Outcome::Refused(reason) => refused(format!(
            "| {name} | {exporter} | 0 | refused: {reason} | | |"
        )),
        Outcome::Failed(reason) => refused(format!(
            "| {name} | {exporter} | {samples} | **wrong**: {reason} | | |"
        )),
    })
}
