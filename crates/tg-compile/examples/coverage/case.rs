//! One node test: its graph, its tensors, and what comes of it.

use crate::attempt::{Attempt, Given, Program};
use crate::cost::ProofCost;
use std::fs;
use std::path::PathBuf;
use tg_compile::integer::Precision;
use tg_compile::passes::PrepareOptions;
use tg_float::{DType, FloatTensor, Graph, Input, ValueId};
use tg_ir::signature::PORTS_MAX;
use tg_onnx::{ReadLimits, read};
use tg_types::with_sources;

/// Bytes that a tensor may take.
const BYTES_MAX: usize = 1 << 30;

/// Which inputs are constants of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// None: all of them are given with each request.
    None,
    /// Those that are not floats: indices, shapes, conditions.
    Integers,
    /// All but the first one of floats, as weights are in a model.
    Parameters,
}

impl Bound {
    const ALL: [Self; 3] = [Self::None, Self::Integers, Self::Parameters];

    /// How the outcome of a proved case is written.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "proved",
            Self::Integers => "proved-integers-bound",
            Self::Parameters => "proved-parameters-bound",
        }
    }

    fn keeps(self, input: &Input, first: Option<ValueId>) -> bool {
        match self {
            Self::None => true,
            Self::Integers => input.dtype.is_some_and(DType::is_float),
            Self::Parameters => Some(input.value) == first,
        }
    }
}

/// How a case ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Every output is proved and the proof verified: by one program, or by several, with the reason.
    Proved(Bound, Option<String>, ProofCost),
    /// No program, or none that can be proved.
    Refused(String),
    /// A program whose answer is too far from the expected one; it is not proved.
    Poor(String),
    /// A proof that does not verify, a graph that a pass changed, a panic.
    Wrong(String),
}

/// A node test on disk.
#[derive(Debug)]
pub(crate) struct NodeTest {
    pub(crate) name: String,
    path: PathBuf,
    graph: Result<Graph, String>,
}

impl NodeTest {
    pub(crate) fn new(path: PathBuf) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(path.join("model.onnx")).unwrap_or_default();
        let graph = read(&bytes, Some(&path), &ReadLimits::default());
        Self {
            name: name.into_owned(),
            graph: graph.map_err(|error| with_sources(&error)),
            path,
        }
    }

    /// Whether it is one that counts: an input is a float32 tensor.
    pub(crate) fn reads_floats(&self) -> bool {
        match &self.graph {
            Ok(graph) => graph
                .inputs
                .iter()
                .any(|input| input.dtype == Some(DType::F32)),
            // Whether it would count is not known: it does.
            Err(_) => true,
        }
    }

    /// Distinct operators, in order of their names.
    pub(crate) fn operators(&self) -> String {
        let Ok(graph) = &self.graph else {
            return "-".to_owned();
        };
        let mut names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            "-".to_owned()
        } else {
            names.join(",")
        }
    }

    /// Tensors `NAME_0.pb`, `NAME_1.pb`, ... of the first data set.
    fn tensors(&self, name: &str) -> Result<Vec<FloatTensor>, String> {
        let mut tensors = Vec::new();
        loop {
            let file = format!("test_data_set_0/{name}_{}.pb", tensors.len());
            let Ok(bytes) = fs::read(self.path.join(file)) else {
                return Ok(tensors);
            };
            let tensor = tg_onnx::read::read_tensor(&bytes, BYTES_MAX);
            let (_, tensor) = tensor
                .map_err(|error| format!("the {name} is not read: {}", with_sources(&error)))?;
            tensors.push(tensor);
        }
    }

    /// Compiles, proves and verifies every output, with more and more inputs bound.
    #[expect(clippy::print_stderr, reason = "this is a command line tool")]
    pub(crate) fn judge(&self, verbose: bool) -> Verdict {
        let graph = match &self.graph {
            Ok(graph) => graph,
            Err(reason) => return Verdict::Refused(reason.clone()),
        };
        let (inputs, outputs) = match (self.tensors("input"), self.tensors("output")) {
            (Ok(inputs), Ok(outputs)) => (inputs, outputs),
            (Err(reason), _) | (_, Err(reason)) => return Verdict::Refused(reason),
        };
        let mut last = Verdict::Refused("it has no inputs".to_owned());
        let mut tried: Option<usize> = None;
        for bound in Bound::ALL {
            let (program, given) = bind(graph, &inputs, bound);
            if tried == Some(given.len()) {
                continue;
            }
            tried = Some(given.len());
            let asked = Asked {
                given: &given,
                calibration: &[],
                options: PrepareOptions::default(),
                precision: None,
            };
            let verdict = all_outputs(&program, &asked, &outputs, bound);
            if verbose {
                eprintln!("{} {bound:?}: {verdict:?}", self.name);
            }
            match verdict {
                Verdict::Proved(..) | Verdict::Wrong(_) => return verdict,
                Verdict::Poor(_) | Verdict::Refused(_) => last = verdict,
            }
        }
        last
    }
}

/// The graph with some inputs as constants, and the tensors of the others with their names.
fn bind(graph: &Graph, inputs: &[FloatTensor], bound: Bound) -> (Graph, Given) {
    let mut graph = graph.clone();
    let float = |input: &&Input| input.dtype == Some(DType::F32);
    let first = graph.inputs.iter().find(float).map(|input| input.value);
    let mut given = Vec::new();
    let all = std::mem::take(&mut graph.inputs);
    for (input, tensor) in all.into_iter().zip(inputs) {
        // An empty tensor has nothing to give.
        if bound.keeps(&input, first) && !tensor.is_empty() {
            given.push((input.name.clone(), tensor.clone()));
            graph.inputs.push(input);
        } else {
            graph.constants.insert(input.value, tensor.clone());
        }
    }
    (graph, given)
}

/// What every program of a graph is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) given: &'a Given,
    /// See [`Program::calibration`].
    pub(crate) calibration: &'a [Given],
    pub(crate) options: PrepareOptions,
    /// See [`Program::precision`].
    pub(crate) precision: Option<Precision>,
}

/// Proves all outputs by one program; where that does not do, each by one of its own.
pub(crate) fn all_outputs(
    graph: &Graph,
    asked: &Asked<'_>,
    expected: &[FloatTensor],
    bound: Bound,
) -> Verdict {
    let program = |graph: Graph, expected| Program {
        graph,
        given: asked.given,
        calibration: asked.calibration,
        expected,
        options: asked.options.clone(),
        precision: asked.precision,
    };
    let several = (2..=PORTS_MAX).contains(&graph.outputs.len());
    let mut together = "more outputs than a program has".to_owned();
    if several && expected.len() == graph.outputs.len() {
        match program(graph.clone(), expected).prove() {
            Attempt::Proved(cost) => return Verdict::Proved(bound, None, cost),
            Attempt::Wrong(reason) => return Verdict::Wrong(format!("all outputs: {reason}")),
            Attempt::Refused(reason) | Attempt::Poor(reason) => together = reason,
        }
    }
    let mut poor = None;
    let mut all: Option<ProofCost> = None;
    for (index, &output) in graph.outputs.iter().enumerate().take(expected.len()) {
        let mut graph = graph.clone();
        graph.outputs = vec![output];
        match program(graph, &expected[index..=index]).prove() {
            Attempt::Proved(cost) => all = Some(all.map_or(cost, |all| all.and(cost))),
            Attempt::Poor(reason) => poor = Some(reason),
            Attempt::Refused(reason) => return Verdict::Refused(reason),
            Attempt::Wrong(reason) => return Verdict::Wrong(format!("output {index}: {reason}")),
        }
    }
    let apart = (graph.outputs.len() > 1).then_some(together);
    let proved = Verdict::Proved(bound, apart, all.unwrap_or_default());
    poor.map_or(proved, Verdict::Poor)
}
