//! The pipeline from an ONNX graph to a compiled model, and how far the two differ.

use crate::calibrate::{self, CalibrationError, ReachRule};
use crate::engine::Engine;
use crate::engine::values::Values;
use crate::execute::Tensor as Integers;
use crate::input;
use crate::integer::{self, InputOrder, LowerError, LowerOptions, LoweredModel, Precision, Site};
use crate::kernels::Cpu;
use crate::net::tgf::{self, Budget, RunError};
use crate::net::{Graph, Tensor, convert};
use crate::passes::{PrepareError, PrepareOptions, Prepared, prepare};
use tg_ir::{CompiledModel, ElementType};

/// Most calibration inputs on which the float and the integer model are compared.
const COMPARED_MAX: usize = 64;
/// A precision is enough if the output has this signal to noise ratio, in decibels,
const SNR_ENOUGH: f64 = 30.0;
/// and this share of compared inputs has the same greatest output.
const AGREEMENT_ENOUGH: f64 = 0.995;

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
    /// Share of compared inputs whose greatest output is the same element.
    pub agreement: f64,
    /// One entry per value that is found in the program; the last one is the output.
    pub layers: Vec<LayerReport>,
}

impl Report {
    /// Signal to noise ratio of the output, in decibels.
    #[must_use]
    pub fn output_snr_db(&self) -> f64 {
        self.layers
            .last()
            .map_or(f64::INFINITY, |layer| layer.snr_db)
    }
}

/// A compiled model beside what it was compiled from.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The integer model.
    pub model: CompiledModel,
    /// The float model, prepared.
    pub float: Prepared,
    /// How a row of the program's input holds the inputs of the float model.
    pub order: InputOrder,
    /// Where the output is found in the program's.
    pub output: Site,
    /// How far they differ.
    pub report: Report,
}

impl Compiled {
    /// The float model's output, in the order of the file, for reals in the program's storage order.
    ///
    /// # Errors
    /// If the float model cannot be executed.
    ///
    /// # Panics
    /// If the row is shorter than the program's input.
    pub fn float_output(&self, row: &[f32]) -> Result<Vec<f32>, RunError> {
        let tensors = self.order.tensors(row);
        let given: Vec<&Tensor> = tensors.iter().collect();
        let outputs = tgf::run(&self.float.graph, &given, &Budget::default())?;
        let first = outputs
            .first()
            .and_then(|tensor| convert::to_f32(tensor.data()));
        Ok(first.unwrap_or_default())
    }

    /// The integer model's output in the order of the file, from the program's.
    #[must_use]
    pub fn in_file_order(&self, output: &Integers) -> Vec<i32> {
        let values = output.widened();
        self.output.order.iter().map(|&at| values[at]).collect()
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

/// Calibrates, lowers and compares a prepared graph.
///
/// # Errors
/// As [`compile`].
pub fn compile_prepared(
    float: Prepared,
    calibration: &[Vec<f32>],
    options: &CompileOptions,
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
    let statistics = calibrate::observe(&float.graph, &inputs, options.reach)?;
    let compared = &calibration[..calibration.len().min(COMPARED_MAX)];
    let precisions: &[Precision] = match &options.precision {
        PrecisionChoice::Auto => &[Precision::Bits8, Precision::Mixed, Precision::Bits16],
        PrecisionChoice::Fixed(precision) => std::slice::from_ref(precision),
    };
    let mut best: Option<(LoweredModel, Report)> = None;
    let mut refusal = None;
    for &precision in precisions {
        let told = LowerOptions {
            name: if options.name.is_empty() {
                float.graph.name.clone()
            } else {
                options.name.clone()
            },
            precision,
            reach: options.reach,
            mean: options.mean.clone(),
            std: options.std.clone(),
        };
        let lowered = match integer::lower(&float, &statistics, &told) {
            Ok(lowered) => lowered,
            Err(error) => {
                refusal.get_or_insert(error);
                continue;
            }
        };
        let report = compare(
            &float,
            &order,
            &lowered,
            compared,
            (calibration.len(), precision),
        )?;
        let enough = report.output_snr_db() >= SNR_ENOUGH && report.agreement >= AGREEMENT_ENOUGH;
        let better = best
            .as_ref()
            .is_none_or(|(_, before)| report.output_snr_db() > before.output_snr_db());
        if better {
            best = Some((lowered, report));
        }
        if enough {
            break;
        }
    }
    let Some((lowered, report)) = best else {
        return Err(refusal.map_or(CompileError::Lower(LowerError::Empty), CompileError::Lower));
    };
    Ok(Compiled {
        model: lowered.model,
        float,
        order,
        output: lowered.output,
        report,
    })
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

#[derive(Clone, Copy, Default)]
struct Powers {
    signal: f64,
    noise: f64,
    saturated: u64,
    elements: u64,
}

fn compare(
    float: &Prepared,
    order: &InputOrder,
    lowered: &LoweredModel,
    rows: &[Vec<f32>],
    (calibrated_on, precision): (usize, Precision),
) -> Result<Report, CompileError> {
    let program = &lowered.model.program;
    let mut powers = vec![Powers::default(); lowered.sites.len()];
    let mut agreeing = 0usize;
    let mut engine = Engine::for_trace(&lowered.model, Cpu::new(1));
    for (index, row) in rows.iter().enumerate() {
        let tensors = order.tensors(row);
        let given: Vec<&Tensor> = tensors.iter().collect();
        let mut floats = tgf::run_all(&float.graph, &given, &Budget::default())
            .map_err(|source| CalibrationError::Input { index, source })?;
        for (input, tensor) in float.graph.inputs.iter().zip(&tensors) {
            floats.insert(input.value, tensor.clone());
        }
        let integers = input::encode(&program.input, row)
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
        let expected = floats
            .get(&lowered.output.value)
            .and_then(|t| convert::to_f32(t.data()));
        let got = trace.output().widened();
        let got: Vec<f32> = lowered
            .output
            .order
            .iter()
            .map(|&at| got[at] as f32)
            .collect();
        let class = crate::accuracy::float_class;
        agreeing += usize::from(expected.is_some_and(|floats| class(&floats) == class(&got)));
    }
    let layers = lowered.sites.iter().zip(&powers);
    let layers = layers.filter(|(_, powers)| powers.elements > 0);
    let producers = float.graph.producers();
    Ok(Report {
        calibrated_on,
        compared_on: rows.len(),
        precision,
        agreement: agreeing as f64 / rows.len().max(1) as f64,
        layers: layers
            .map(|(site, powers)| {
                let producer = producers.get(site.value.index()).copied().flatten();
                let node = producer.map(|index| &float.graph.nodes[index]);
                LayerReport {
                    name: node.map_or("input", |node| node.name.as_str()).to_owned(),
                    operator: node.map_or("Input", |node| node.op.as_str()).to_owned(),
                    kind: program.element_type(site.tensor),
                    scale: site.scale,
                    snr_db: 10.0 * (powers.signal / powers.noise.max(f64::MIN_POSITIVE)).log10(),
                    saturated: powers.saturated as f64 / powers.elements as f64,
                }
            })
            .collect(),
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
        powers.elements += 1;
    }
}
