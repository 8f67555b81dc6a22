//! The pipeline from an ONNX graph to a compiled model, and how far the two differ.

use crate::calibrate::{self, CalibrationError, ReachRule, Statistics};
use crate::integer::{
    self, ChannelScales, InputOrder, LowerError, LowerOptions, LoweredModel, Precision, Site,
};
use crate::passes::{
    PrepareError, PrepareOptions, Prepared, divided, finer, own_units, prepare, smooth,
};
use std::collections::BTreeMap;
use tg_exec::engine::Engine;
use tg_exec::engine::values::Values;
use tg_exec::kernels::Cpu;
use tg_float::tgf::{self, Budget, RunError};
use tg_float::{FloatTensor, Graph, ValueId, convert};
use tg_ir::IntTensor;
use tg_ir::coding;
use tg_ir::{CheckedProgram, ElementType, ExecutableModel};

/// Most calibration inputs on which the float and the integer model are compared.
const COMPARED_MAX: usize = 64;
/// A precision is enough for any task if the output has this signal to noise ratio, in decibels.
const SNR_ENOUGH: f64 = 40.0;
/// It is enough where rows of the output choose among classes with this ratio,
const SNR_CLASSES: f64 = 25.0;
/// this expected loss of right answers: 0.2 points,
const LOSS_ENOUGH: f64 = 0.002;
/// and this divergence, in nats: a perplexity grows by half a per cent.
const DIVERGENCE_ENOUGH: f64 = 0.005;

/// Which precision activations get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrecisionChoice {
    /// The cheapest that measures well on the calibration inputs.
    #[default]
    Auto,
    /// This one.
    Fixed(Precision),
}

/// What a compilation may be told.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    /// Name of the model; empty for the name in the file.
    pub name: String,
    /// How far 8-bit activations reach.
    pub reach: ReachRule,
    /// Bits of activations.
    pub precision: PrecisionChoice,
    /// How much of the outliers of normalised activations goes into the weights that multiply them, from 0 to 1; none:
    /// they stay. See [`smooth`].
    pub smooth: Option<f64>,
    /// Shapes, bound inputs and the output.
    pub prepare: PrepareOptions,
    /// Per channel of an 8-bit image: `x = (v / 255 - mean) / std`. Empty: `x = v / 255`.
    pub mean: Vec<f32>,
    /// See `mean`.
    pub std: Vec<f32>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            reach: ReachRule::Greatest,
            precision: PrecisionChoice::Auto,
            smooth: None,
            prepare: PrepareOptions::default(),
            mean: Vec::new(),
            std: Vec::new(),
        }
    }
}

/// Why a model is not compiled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// The graph cannot be prepared.
    #[error("the model cannot be imported")]
    Prepare(#[from] PrepareError),
    /// The calibration is missing or does not fit.
    #[error("the model cannot be calibrated")]
    Calibration(#[from] CalibrationError),
    /// The model has no integer program.
    #[error("the model cannot be lowered to integers")]
    Lower(#[from] LowerError),
    /// An image normalisation that does not fit the input.
    #[error(
        "the image normalisation has {mean} means and {std} standard deviations; give one of each per channel ({channels}), finite, the deviations positive"
    )]
    Normalisation {
        /// Means given.
        mean: usize,
        /// Deviations given.
        std: usize,
        /// Channels of the input.
        channels: u32,
    },
}

/// One layer of the comparison between the float and the integer model.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerReport {
    /// The node's name.
    pub name: String,
    /// Its operator in the prepared graph.
    pub operator: String,
    /// Type of the integers.
    pub kind: ElementType,
    /// Real value of one unit.
    pub scale: f64,
    /// Signal to noise ratio in decibels: power of the float values over power of their difference.
    pub snr_db: f64,
    /// Share of activations at either end of their type.
    pub saturated: f64,
    /// Greatest difference of an activation that is not at an end, in units.
    pub units_off: f64,
}

/// How far an output of the integer model is from the float model's.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputReport {
    /// Its name in the file.
    pub name: String,
    /// Signal to noise ratio in decibels; infinite if nothing was compared.
    pub snr_db: f64,
    /// Rows along its last axis that were compared.
    pub rows: usize,
    /// Share of these whose greatest element is the same.
    pub agreement: f64,
    /// Mean over these of what the float model's distribution gives its own choice, less what it gives the integer
    /// model's: the share of right answers that is lost if that distribution is right.
    pub loss: f64,
    /// Mean over these, in nats, of the divergence of the integer model's distribution over the elements of a row from
    /// the float model's: how much the logarithm of a perplexity grows if the float model is right about it.
    pub divergence: f64,
    /// Elements of a row that never reach half a unit, so that they are 0: the others are of a far greater range.
    pub vanishing: usize,
}

impl OutputReport {
    /// Whether the integer model does the task as well as the float model, as far as can be told without labels.
    ///
    /// Where a row of outputs chooses among classes (a task measures its greatest element or its distribution), that is
    /// by the expected loss of right answers and by the divergence of the distributions; else by noise alone.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        let chooses = self.loss <= LOSS_ENOUGH && self.divergence <= DIVERGENCE_ENOUGH;
        self.snr_db >= SNR_ENOUGH || self.snr_db >= SNR_CLASSES && self.rows > 0 && chooses
    }
}

/// What a compilation did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Calibration inputs.
    pub calibrated_on: usize,
    /// Of these, how many the layers were compared on.
    pub compared_on: usize,
    /// Bits of activations.
    pub precision: Precision,
    /// Scales of channels.
    pub scales: ChannelScales,
    /// The outputs, in order.
    pub outputs: Vec<OutputReport>,
    /// One entry per value that is found in the program; the outputs come last.
    pub layers: Vec<LayerReport>,
    /// Precisions that were left out as their programs were not taken, with the first reason of each.
    pub left_out: Vec<(Precision, String)>,
}

impl Report {
    /// Least signal to noise ratio of an output, in decibels.
    #[must_use]
    pub fn output_snr_db(&self) -> f64 {
        let outputs = self.outputs.iter().map(|output| output.snr_db);
        outputs.fold(f64::INFINITY, f64::min)
    }

    /// Whether every output is good enough.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.outputs.iter().all(OutputReport::is_enough)
    }

    /// Rows of outputs that were compared.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.outputs.iter().map(|output| output.rows).sum()
    }

    /// The greatest [`OutputReport::divergence`] of an output.
    #[must_use]
    pub fn divergence(&self) -> f64 {
        let outputs = self.outputs.iter().map(|output| output.divergence);
        outputs.fold(0.0, f64::max)
    }

    /// The greatest [`OutputReport::loss`] of an output.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let outputs = self.outputs.iter().map(|output| output.loss);
        outputs.fold(0.0, f64::max)
    }

    /// The least [`OutputReport::agreement`] of an output that chooses.
    #[must_use]
    pub fn agreement(&self) -> f64 {
        let choosing = self.outputs.iter().filter(|output| output.rows > 0);
        let least = choosing.map(|output| output.agreement);
        least.fold(1.0, f64::min)
    }

    /// Whether the integer model is nearer to the float model than another: of several outputs more are good enough; else by
    /// the divergence of its choices where it makes some, else by noise.
    fn is_nearer_than(&self, other: &Self) -> bool {
        let enough = |report: &Self| report.outputs.iter().filter(|own| own.is_enough()).count();
        if self.outputs.len() > 1 && enough(self) != enough(other) {
            enough(self) > enough(other)
        } else if self.rows() > 0 {
            self.divergence() < other.divergence()
        } else {
            self.output_snr_db() > other.output_snr_db()
        }
    }
}

/// A compiled model beside what it was compiled from.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The integer model.
    pub model: ExecutableModel,
    /// The float model, prepared.
    pub float: Prepared,
    /// How a row of the program's input holds the inputs of the float model.
    pub order: InputOrder,
    /// Where the outputs are found in the program, in order.
    pub outputs: Vec<Site>,
    /// How far they differ.
    pub report: Report,
}

impl Compiled {
    /// The float model's outputs, in the order of the file, for reals in the program's storage order.
    ///
    /// # Errors
    /// If the float model cannot be executed.
    ///
    /// # Panics
    /// If the row is shorter than the program's input.
    pub fn float_outputs(&self, row: &[f32]) -> Result<Vec<Vec<f32>>, RunError> {
        let tensors = self.order.tensors(row);
        let given: Vec<&FloatTensor> = tensors.iter().collect();
        let outputs = tgf::run(&self.float.graph, &given, &Budget::default())?;
        let reals = outputs.iter().map(|tensor| convert::to_f32(tensor.data()));
        Ok(reals.map(Option::unwrap_or_default).collect())
    }

    /// The first of them.
    ///
    /// # Errors
    /// Those of [`Self::float_outputs`].
    ///
    /// # Panics
    /// As [`Self::float_outputs`].
    pub fn float_output(&self, row: &[f32]) -> Result<Vec<f32>, RunError> {
        let mut outputs = self.float_outputs(row)?;
        Ok(if outputs.is_empty() {
            Vec::new()
        } else {
            outputs.swap_remove(0)
        })
    }

    /// Where the first output is found in the program.
    ///
    /// # Panics
    /// Never: a program has an output.
    #[must_use]
    pub fn output(&self) -> &Site {
        self.outputs.first().expect("a program has an output")
    }

    /// The integer model's first output in the order of the file, from the program's.
    #[must_use]
    pub fn in_file_order(&self, output: &IntTensor) -> Vec<i32> {
        let values = output.widened();
        self.output().order.iter().map(|&at| values[at]).collect()
    }
}

/// Prepares, calibrates, lowers and compares.
///
/// Calibration inputs are reals in storage order (row, column, channel).
///
/// # Errors
/// If the model, its calibration or an option does not fit; the error names the node or field.
pub fn compile(
    graph: Graph,
    calibration: &[Vec<f32>],
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    compile_prepared(prepare(graph, &options.prepare)?, calibration, options)
}

/// The reason why a program is not taken, if it is not.
pub type Takes<'a> = dyn Fn(CheckedProgram<'_>) -> Result<(), String> + 'a;

/// Calibrates, lowers and compares a prepared graph.
///
/// # Errors
/// As [`compile`].
pub fn compile_prepared(
    float: Prepared,
    calibration: &[Vec<f32>],
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    compile_taken(float, calibration, options, &|_| Ok(()))
}

/// As [`compile_prepared`], of the programs that are taken: `takes` gives the reason why one is not. If none is taken, the
/// best program is the result, and [`Report::left_out`] names its precision.
///
/// # Errors
/// As [`compile`].
pub fn compile_taken(
    float: Prepared,
    calibration: &[Vec<f32>],
    options: &CompileOptions,
    takes: &Takes<'_>,
) -> Result<Compiled, CompileError> {
    let (shape, order) = integer::input_order(&float)?;
    check_normalisation(options, shape.channels)?;
    let mut inputs = Vec::with_capacity(calibration.len());
    for (index, row) in calibration.iter().enumerate() {
        if row.len() != shape.elements() {
            return Err(CompileError::Calibration(CalibrationError::Length {
                index,
                expected: shape.elements(),
                got: row.len(),
            }));
        }
        inputs.push(order.tensors(row));
    }
    if let Some(first) = inputs.first() {
        fixed_shapes(&float, first)?;
    }
    let plain = Calibrated::of(float, &inputs, options)?;
    let auto = if discontinuous(&plain.float) || divided(&plain.float.graph).is_some() {
        &DEAREST_FIRST
    } else {
        &CHEAPEST_FIRST
    };
    let precisions: &[Precision] = match &options.precision {
        PrecisionChoice::Auto => auto,
        PrecisionChoice::Fixed(precision) => std::slice::from_ref(precision),
    };
    let mut search = ProgramSearch {
        order: &order,
        compared: &calibration[..calibration.len().min(COMPARED_MAX)],
        calibrated_on: calibration.len(),
        options,
        takes,
        best: None,
        left_out: Vec::new(),
        refusal: None,
    };
    let is_enough = search.run(&plain, Weighing::Plain, candidates(precisions))?;
    let mut weighed = None;
    if !is_enough
        && precisions.contains(&Precision::Bits16)
        && let Some(finer) = plain.finer(&inputs, options)?
    {
        let wide = std::iter::once((Precision::Bits16, ChannelScales::Shifts));
        search.run(&finer, Weighing::Finer, wide)?;
        weighed = Some(finer);
    }
    let (lowered, report, weighing) = search.finish()?;
    let calibrated = match (weighing, weighed) {
        (Weighing::Finer, Some(finer)) => finer,
        _ => plain,
    };
    Ok(Compiled {
        model: lowered.model,
        float: calibrated.float,
        order,
        outputs: lowered.outputs,
        report,
    })
}

/// What is tried by itself, in this order.
const CHEAPEST_FIRST: [Precision; 3] = [Precision::Bits8, Precision::Mixed, Precision::Bits16];
/// The same where a few rows do not show what 8 bits lose: at a jump, or of features that reach differently far.
const DEAREST_FIRST: [Precision; 3] = [Precision::Bits16, Precision::Bits8, Precision::Mixed];

/// Whether a graph compares reals with thresholds of several places, as the nodes of trees do.
fn discontinuous(prepared: &Prepared) -> bool {
    let Prepared { graph, facts, .. } = prepared;
    let relations = ["Less", "LessOrEqual", "Greater", "GreaterOrEqual"];
    let threshold = |value: ValueId| {
        let constant = graph.constants.get(&value);
        constant.is_some_and(|tensor| tensor.dtype().is_float() && tensor.len() > 1)
    };
    let computed = |value: ValueId| {
        let float = facts.get(&value).is_some_and(|fact| fact.dtype.is_float());
        float && !graph.constants.contains_key(&value)
    };
    graph.nodes.iter().any(|node| {
        relations.iter().any(|relation| node.is(relation))
            && node.reads().any(threshold)
            && node.reads().any(computed)
    })
}

/// A prepared graph, and what its values take.
struct Calibrated {
    float: Prepared,
    statistics: BTreeMap<ValueId, Statistics>,
}

impl Calibrated {
    /// With the passes that need to know it.
    fn of(
        mut float: Prepared,
        inputs: &[Vec<FloatTensor>],
        options: &CompileOptions,
    ) -> Result<Self, CompileError> {
        let mut statistics = calibrate::observe(&float.graph, inputs, options.reach)?;
        if let Some(strength) = options.smooth {
            let peaks = statistics
                .iter()
                .map(|(&value, found)| (value, found.peaks().to_vec()))
                .collect();
            if smooth(&mut float, &peaks, strength.clamp(0.0, 1.0)) > 0 {
                statistics = calibrate::observe(&float.graph, inputs, options.reach)?;
            }
        }
        let peaks = match float.graph.inputs.as_slice() {
            [only] => statistics.get(&only.value).map(Statistics::peaks),
            _ => None,
        };
        if peaks.is_some_and(|peaks| own_units(&mut float, peaks)) {
            statistics = calibrate::observe(&float.graph, inputs, options.reach)?;
        }
        Ok(Self { float, statistics })
    }

    /// With weights of 16 bits where they need it, if any do.
    fn finer(
        &self,
        inputs: &[Vec<FloatTensor>],
        options: &CompileOptions,
    ) -> Result<Option<Self>, CompileError> {
        let Some(float) = finer(&self.float, &self.statistics) else {
            return Ok(None);
        };
        let statistics = calibrate::observe(&float.graph, inputs, options.reach)?;
        Ok(Some(Self { float, statistics }))
    }
}

/// How many bits weights have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weighing {
    /// 8.
    Plain,
    /// 16 where they need it, see [`finer`].
    Finer,
}

/// Whether every value has on an input the shape that it was found to have: one that depends on what an input holds has no
/// program.
fn fixed_shapes(float: &Prepared, tensors: &[FloatTensor]) -> Result<(), CompileError> {
    let given: Vec<&FloatTensor> = tensors.iter().collect();
    let values = tgf::run_all(&float.graph, &given, &Budget::default())
        .map_err(|source| CalibrationError::Input { index: 0, source })?;
    for node in &float.graph.nodes {
        let differs = |value: ValueId| {
            let found = values.get(&value).map(FloatTensor::shape);
            let known = float.facts.get(&value).map(|fact| fact.shape.as_slice());
            found.is_some() && found != known
        };
        if node.gives().any(differs) {
            return Err(CompileError::Lower(LowerError::Unsupported {
                node: node.name.clone(),
                operator: node.op.clone(),
                inputs: String::new(),
                reason: "the shape of its result depends on what an input holds; give that input a value (`--bind`)",
            }));
        }
    }
    Ok(())
}

/// A program that was found.
struct BestProgram {
    lowered: LoweredModel,
    report: Report,
    weighing: Weighing,
    taken: bool,
}

/// The look for a program: the first candidate that is taken and enough, or the nearest one that is taken, or the nearest one.
struct ProgramSearch<'a> {
    order: &'a InputOrder,
    compared: &'a [Vec<f32>],
    calibrated_on: usize,
    options: &'a CompileOptions,
    takes: &'a Takes<'a>,
    best: Option<BestProgram>,
    left_out: Vec<(Precision, String)>,
    refusal: Option<LowerError>,
}

impl ProgramSearch<'_> {
    /// Tries candidates in order; whether one is enough, with which it ends.
    fn run(
        &mut self,
        calibrated: &Calibrated,
        weighing: Weighing,
        candidates: impl Iterator<Item = (Precision, ChannelScales)>,
    ) -> Result<bool, CompileError> {
        for candidate in candidates {
            if self.step(calibrated, weighing, candidate)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(
        &mut self,
        Calibrated { float, statistics }: &Calibrated,
        weighing: Weighing,
        (precision, scales): (Precision, ChannelScales),
    ) -> Result<bool, CompileError> {
        let options = self.options;
        let told = LowerOptions {
            name: if options.name.is_empty() {
                float.graph.name.clone()
            } else {
                options.name.clone()
            },
            precision,
            scales,
            reach: options.reach,
            mean: options.mean.clone(),
            std: options.std.clone(),
        };
        let lowered = match integer::lower(float, statistics, &told) {
            Ok(lowered) => lowered,
            Err(error) => {
                self.refusal.get_or_insert(error);
                return Ok(false);
            }
        };
        let about = (self.calibrated_on, precision, scales);
        let report = compare(float, self.order, &lowered, self.compared, about)?;
        let reason = (self.takes)(lowered.model.checked_program()).err();
        let taken = reason.is_none();
        if let Some(reason) = reason
            && self.left_out.iter().all(|(other, _)| *other != precision)
        {
            self.left_out.push((precision, reason));
        }
        let enough = taken && report.is_enough();
        let better = match &self.best {
            None => true,
            Some(best) if taken != best.taken => taken,
            Some(best) => report.is_nearer_than(&best.report),
        };
        if enough || better {
            self.best = Some(BestProgram {
                lowered,
                report,
                weighing,
                taken,
            });
        }
        Ok(enough)
    }

    /// The best program.
    fn finish(self) -> Result<(LoweredModel, Report, Weighing), CompileError> {
        let refusal = self.refusal.unwrap_or(LowerError::Empty);
        let best = self.best.ok_or(CompileError::Lower(refusal))?;
        let mut report = best.report;
        let mut left_out = self.left_out;
        // Other scales of the same precision may have been taken.
        left_out.retain(|(precision, _)| !(best.taken && *precision == report.precision));
        report.left_out = left_out;
        Ok((best.lowered, report, best.weighing))
    }
}

/// What is tried, cheapest first: each precision with few pairs to a requantisation, then with many.
fn candidates(precisions: &[Precision]) -> impl Iterator<Item = (Precision, ChannelScales)> {
    let scales = |&precision: &Precision| match precision {
        Precision::Bits8 | Precision::Mixed => {
            [Some(ChannelScales::Shifts), Some(ChannelScales::Clusters)]
        }
        // A clamp to 16 bits takes powers of two.
        Precision::Bits16 => [Some(ChannelScales::Shifts), None],
    };
    let each = move |precision: &Precision| {
        let own = *precision;
        scales(precision)
            .into_iter()
            .flatten()
            .map(move |scales| (own, scales))
    };
    precisions.iter().flat_map(each)
}

fn check_normalisation(options: &CompileOptions, channels: u32) -> Result<(), CompileError> {
    let CompileOptions { mean, std, .. } = options;
    let full = mean.is_empty() || mean.len() == channels as usize;
    let finite = mean.iter().chain(std).all(|value| value.is_finite());
    let positive = std.iter().all(|&value| value > 0.0);
    if full && mean.len() == std.len() && finite && positive {
        return Ok(());
    }
    Err(CompileError::Normalisation {
        mean: mean.len(),
        std: std.len(),
        channels,
    })
}

fn layer_reports(float: &Prepared, lowered: &LoweredModel, powers: &[Powers]) -> Vec<LayerReport> {
    let program = &lowered.model.program;
    let producers = float.graph.producers();
    let layers = lowered.sites.iter().zip(powers);
    layers
        .filter(|(_, powers)| powers.elements > 0)
        .map(|(site, powers)| {
            let producer = producers.get(site.value.index()).copied().flatten();
            let node = producer.map(|index| &float.graph.nodes[index]);
            LayerReport {
                name: node.map_or("input", |node| node.name.as_str()).to_owned(),
                operator: node.map_or("Input", |node| node.op.as_str()).to_owned(),
                kind: program.element_type(site.tensor),
                scale: site.scale,
                snr_db: powers.snr_db(),
                saturated: powers.saturated as f64 / powers.elements as f64,
                units_off: powers.units_off,
            }
        })
        .collect()
}

/// Elements of a row of the output, if there is more than one: the length of its last axis.
fn classes(float: &Prepared, output: ValueId) -> Option<usize> {
    float.shape(output).last().copied().filter(|&n| n > 1)
}

/// Rows of outputs that were compared.
#[derive(Debug, Clone, Default)]
struct Rows {
    count: usize,
    agreeing: usize,
    loss: f64,
    divergence: f64,
    /// The greatest magnitude of each element of a row.
    reach: Vec<f64>,
    /// Rows that are no distributions.
    free: usize,
}

impl Rows {
    fn add(&mut self, classes: usize, expected: &[f32], got: &[f64]) {
        for (expected, got) in expected
            .chunks_exact(classes)
            .zip(got.chunks_exact(classes))
        {
            let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x)).collect();
            let greatest = |row: &[f64]| {
                (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
            };
            let (own, chosen) = (greatest(&expected), greatest(got));
            let (p, q) = distributions(&expected, got);
            self.count += 1;
            self.free += usize::from(!is_distribution(&expected));
            self.reach.resize(classes, 0.0);
            for (reach, x) in self.reach.iter_mut().zip(&expected) {
                *reach = reach.max(x.abs());
            }
            self.agreeing += usize::from(own == chosen);
            self.loss += (p[own] - p[chosen]).max(0.0);
            self.divergence += p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum::<f64>();
        }
    }
}

impl Rows {
    /// What was compared of an output.
    fn report(&self, name: &str, powers: &Powers, unit: f64) -> OutputReport {
        let count = self.count.max(1) as f64;
        let reach = self.reach.iter().filter(|_| self.free > 0);
        let vanishing = reach.filter(|&&reach| reach > 0.0 && reach < unit / 2.0);
        OutputReport {
            name: name.to_owned(),
            snr_db: powers.snr_db(),
            rows: self.count,
            agreement: self.agreeing as f64 / count,
            loss: self.loss / count,
            divergence: self.divergence / count,
            vanishing: vanishing.count(),
        }
    }
}

/// Probabilities below this are taken as this.
const LEAST_PROBABILITY: f64 = 1e-6;

/// Whether a row is of probabilities that sum to one.
fn is_distribution(row: &[f64]) -> bool {
    let total: f64 = row.iter().sum();
    let within = row.iter().all(|p| (0.0..=1.0 + 1e-6).contains(p));
    within && (total - 1.0).abs() < 1e-3
}

/// Two rows as distributions: as they are if the first is one, else their softmax.
fn distributions(expected: &[f64], got: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let is_one = is_distribution(expected);
    let distribution = |row: &[f64]| -> Vec<f64> {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raise = |x: &f64| if is_one { x.max(0.0) } else { (x - most).exp() };
        let raised: Vec<f64> = row.iter().map(raise).collect();
        let sum: f64 = raised.iter().sum();
        raised
            .iter()
            .map(|x| (x / sum).max(LEAST_PROBABILITY))
            .collect()
    };
    (distribution(expected), distribution(got))
}

#[derive(Clone, Copy, Default)]
struct Powers {
    signal: f64,
    noise: f64,
    saturated: u64,
    elements: u64,
    units_off: f64,
}

impl Powers {
    /// Signal over noise, in decibels; infinite if nothing was compared.
    fn snr_db(&self) -> f64 {
        if self.elements == 0 {
            return f64::INFINITY;
        }
        10.0 * (self.signal / self.noise.max(f64::MIN_POSITIVE)).log10()
    }
}

fn compare(
    float: &Prepared,
    order: &InputOrder,
    lowered: &LoweredModel,
    rows: &[Vec<f32>],
    (calibrated_on, precision, scales): (usize, Precision, ChannelScales),
) -> Result<Report, CompileError> {
    let program = &lowered.model.program;
    let mut powers = vec![Powers::default(); lowered.sites.len()];
    let mut compared = vec![Rows::default(); lowered.outputs.len()];
    let mut engine = Engine::for_trace(&lowered.model, Cpu::new(1));
    for (index, row) in rows.iter().enumerate() {
        let tensors = order.tensors(row);
        let given: Vec<&FloatTensor> = tensors.iter().collect();
        let mut floats = tgf::run_all(&float.graph, &given, &Budget::default())
            .map_err(|source| CalibrationError::Input { index, source })?;
        for (input, tensor) in float.graph.inputs.iter().zip(&tensors) {
            floats.insert(input.value, tensor.clone());
        }
        let integers = coding::encode(&program.input, row)
            .map_err(|source| CalibrationError::Encode { index, source })?;
        let trace = engine
            .trace(Values::from(&integers))
            .expect("an encoded row is an input of the program");
        for (site, powers) in lowered.sites.iter().zip(&mut powers) {
            let values = trace.tensor(site.tensor).widened();
            let Some(expected) = floats
                .get(&site.value)
                .and_then(|t| convert::to_f32(t.data()))
            else {
                continue;
            };
            accumulate(
                powers,
                site,
                &expected,
                &values,
                program.element_type(site.tensor),
            );
        }
        for (output, compared) in lowered.outputs.iter().zip(&mut compared) {
            let expected = floats.get(&output.value);
            let expected = expected.and_then(|tensor| convert::to_f32(tensor.data()));
            let got = trace.tensor(output.tensor).widened();
            let real = |&at: &usize| (f64::from(got[at]) - output.zero as f64) * output.scale;
            let got: Vec<f64> = output.order.iter().map(real).collect();
            if let (Some(classes), Some(expected)) = (classes(float, output.value), expected) {
                compared.add(classes, &expected, &got);
            }
        }
    }
    // The outputs are the last sites.
    let last = powers.len() - lowered.outputs.len();
    let outputs = float.output_names.iter().zip(&powers[last..]).zip(compared);
    let outputs = outputs.zip(&lowered.outputs);
    let outputs =
        outputs.map(|(((name, powers), rows), output)| rows.report(name, powers, output.scale));
    Ok(Report {
        calibrated_on,
        compared_on: rows.len(),
        precision,
        scales,
        outputs: outputs.collect(),
        layers: layer_reports(float, lowered, &powers),
        left_out: Vec::new(),
    })
}

fn accumulate(
    powers: &mut Powers,
    site: &Site,
    floats: &[f32],
    integers: &[i32],
    kind: ElementType,
) {
    let ends = match kind {
        ElementType::I8 => [-128, 127],
        ElementType::I16 => [-32_767, 32_767],
        ElementType::I32 => [i32::MIN, i32::MAX],
    };
    for (&at, &float) in site.order.iter().zip(floats) {
        let (integer, float) = (integers[at], f64::from(float));
        if !float.is_finite() {
            continue;
        }
        let error = float - (f64::from(integer) - site.zero as f64) * site.scale;
        powers.signal += float * float;
        powers.noise += error * error;
        powers.saturated += u64::from(ends.contains(&integer));
        if !ends.contains(&integer) {
            powers.units_off = powers.units_off.max((error / site.scale).abs());
        }
        powers.elements += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn rows_are_measured_as_distributions() {
        let mut rows = Rows::default();
        // Logits: the same, then a choice that the float model gives e^-1 of its own.
        rows.add(2, &[3.0, 2.0], &[5.0, 4.0]);
        assert_eq!((rows.count, rows.agreeing), (1, 1));
        assert!(rows.loss.abs() < 1e-12 && rows.divergence.abs() < 1e-12);
        rows.add(2, &[3.0, 2.0], &[0.0, 1.0]);
        let [own, other] = [1.0, (-1.0f64).exp()].map(|x| x / (1.0 + (-1.0f64).exp()));
        assert_eq!((rows.count, rows.agreeing), (2, 1));
        assert!((rows.loss - (own - other)).abs() < 1e-9);
        let expected = own * (own / other).ln() + other * (other / own).ln();
        assert!((rows.divergence - expected).abs() < 1e-9);
        // Probabilities are no logits.
        let mut rows = Rows::default();
        rows.add(2, &[0.75, 0.25], &[0.25, 0.75]);
        assert!((rows.loss - 0.5).abs() < 1e-9);
        assert!((rows.divergence - 0.5 * 3f64.ln()).abs() < 1e-9);
    }

    /// Elements below half a unit on every input are counted, but not probabilities.
    #[test]
    fn elements_of_a_far_smaller_range_are_counted() {
        let mut rows = Rows::default();
        rows.add(3, &[1e-3, 900.0, 0.0], &[0.0, 900.0, 0.0]);
        rows.add(3, &[-2.0, 1_000.0, 0.0], &[0.0, 1_000.0, 0.0]);
        let of = |rows: &Rows, unit| rows.report("y", &Powers::default(), unit).vanishing;
        assert_eq!([of(&rows, 8.0), of(&rows, 4.0)], [1, 0]);
        let mut rows = Rows::default();
        rows.add(2, &[1e-3, 0.999], &[0.0, 1.0]);
        assert_eq!(of(&rows, 0.1), 0);
    }

    fn report(snr_db: f64, rows: usize, loss: f64, divergence: f64) -> Report {
        Report {
            calibrated_on: 8,
            compared_on: 8,
            precision: Precision::Bits8,
            scales: ChannelScales::Shifts,
            outputs: vec![OutputReport {
                name: String::new(),
                snr_db,
                rows,
                agreement: 1.0,
                loss,
                divergence,
                vanishing: 0,
            }],
            left_out: Vec::new(),
            layers: Vec::new(),
        }
    }

    #[test]
    fn enough_is_by_the_task_where_there_is_one() {
        let check = |snr, rows, loss, divergence, expected| {
            let enough = report(snr, rows, loss, divergence).is_enough();
            assert_eq!(enough, expected, "{snr} {rows} {loss} {divergence}");
        };
        // Classes: 8 bits at 28 dB do if the task does not suffer, whatever the decibels.
        check(28.0, 100, 0.0005, 0.001, true);
        check(28.0, 100, 0.004, 0.001, false);
        check(28.0, 100, 0.0005, 0.02, false);
        check(20.0, 100, 0.0, 0.0, false);
        // Reals: noise alone.
        check(28.0, 0, 0.0, 0.0, false);
        check(39.0, 0, 0.0, 0.0, false);
        check(41.0, 0, 0.0, 0.0, true);
        check(41.0, 100, 0.01, 0.1, true);
    }

    #[test]
    fn the_nearest_is_by_the_task_where_there_is_one() {
        let (quiet, right) = (report(22.0, 9, 0.0, 0.02), report(21.0, 9, 0.0, 0.01));
        assert!(right.is_nearer_than(&quiet) && !quiet.is_nearer_than(&right));
        let (quiet, loud) = (report(22.0, 0, 0.0, 0.0), report(21.0, 0, 0.0, 0.0));
        assert!(quiet.is_nearer_than(&loud) && !loud.is_nearer_than(&quiet));
    }

    #[test]
    fn candidates_go_from_cheap_to_dear() {
        let all = [Precision::Bits8, Precision::Mixed, Precision::Bits16];
        let tried: Vec<_> = candidates(&all).collect();
        assert_eq!(tried.len(), 5);
        assert_eq!(tried[0], (Precision::Bits8, ChannelScales::Shifts));
        assert_eq!(tried[1], (Precision::Bits8, ChannelScales::Clusters));
        assert_eq!(tried[4], (Precision::Bits16, ChannelScales::Shifts));
    }
}
