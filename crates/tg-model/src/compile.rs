//! The pipeline from a float graph to a compiled model, and how far the two differ.

use crate::calibrate::{self, CalibrationError, ReachRule};
use crate::execute::execute;
use crate::fuse::fuse;
use crate::graph::FloatGraph;
use crate::input;
use crate::lower::{self, LowerError, Lowered, Naming, Site};
use crate::onnx::ImportError;
use crate::reference::{storage_shape, to_file_order};
use tg_ir::{CompiledModel, ElementType};

/// Most calibration inputs on which the float and the integer model are compared.
const COMPARED_MAX: usize = 64;

/// What a compilation may be told.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    /// Name of the model; empty for the name in the file.
    pub name: String,
    /// How far activations reach.
    pub reach: ReachRule,
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
            mean: Vec::new(),
            std: Vec::new(),
        }
    }
}

/// Why a model is not compiled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// A node cannot be fused.
    #[error("the model cannot be imported")]
    Import(#[from] ImportError),
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
    /// Its operator in the file.
    pub operator: String,
    /// Real value of one unit.
    pub scale: f64,
    /// Signal to noise ratio in decibels: power of the float values over power of their difference.
    pub snr_db: f64,
    /// Share of activations at either end of 8 bits.
    pub saturated: f64,
}

/// What a compilation did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Calibration inputs.
    pub calibrated_on: usize,
    /// Of these, how many the layers were compared on.
    pub compared_on: usize,
    /// One entry per computed value.
    pub layers: Vec<LayerReport>,
}

/// A compiled model beside what it was compiled from.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The integer model.
    pub model: CompiledModel,
    /// The float model, fused.
    pub float: FloatGraph,
    /// How far they differ.
    pub report: Report,
}

/// Fuses, calibrates, lowers and compares.
///
/// Calibration inputs are reals in storage order (row, column, channel).
///
/// # Errors
/// If the model, its calibration or an option does not fit; the error names the node or field.
pub fn compile(
    graph: FloatGraph,
    calibration: &[Vec<f32>],
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let shape = storage_shape(&graph.input);
    check_normalisation(options, shape.map_or(0, |shape| shape.channels))?;
    let graph = fuse(graph)?;
    let reach = calibrate::reach(&graph, calibration, options.reach)?;
    let naming = Naming {
        name: if options.name.is_empty() {
            graph.name.clone()
        } else {
            options.name.clone()
        },
        mean: options.mean.clone(),
        std: options.std.clone(),
    };
    let lowered = lower::lower(&graph, &reach, naming)?;
    let compared = &calibration[..calibration.len().min(COMPARED_MAX)];
    let report = Report {
        calibrated_on: calibration.len(),
        compared_on: compared.len(),
        layers: compare(&graph, &lowered, compared)?,
    };
    Ok(Compiled {
        model: lowered.model,
        float: graph,
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
    graph: &FloatGraph,
    lowered: &Lowered,
    inputs: &[Vec<f32>],
) -> Result<Vec<LayerReport>, CompileError> {
    let program = &lowered.model.program;
    let mut powers = vec![Powers::default(); lowered.sites.len()];
    for (index, row) in inputs.iter().enumerate() {
        let floats = graph
            .run(&to_file_order(row, program.input.shape))
            .map_err(|source| CalibrationError::Input { index, source })?;
        let quantised = input::quantise(&program.input, row);
        let trace = execute(&lowered.model, &quantised).expect("the input has the model's shape");
        for (site, powers) in lowered.sites.iter().zip(&mut powers) {
            let integers = trace.tensor(site.tensor).widened();
            let activations = program.element_type(site.tensor) == ElementType::I8;
            accumulate(powers, site, &floats[site.value.0], &integers, activations);
        }
    }
    let layers = lowered.sites.iter().zip(&powers);
    Ok(layers
        .map(|(site, powers)| {
            let node = &graph.nodes[site.value.0 - 1];
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            let saturated = powers.saturated as f64 / powers.elements.max(1) as f64;
            LayerReport {
                name: node.name.clone(),
                operator: node.operator.clone(),
                scale: site.scale,
                snr_db: 10.0 * (powers.signal / powers.noise.max(f64::MIN_POSITIVE)).log10(),
                saturated,
            }
        })
        .collect())
}

fn accumulate(powers: &mut Powers, site: &Site, floats: &[f32], integers: &[i32], i8s: bool) {
    for (&integer, &element) in integers.iter().zip(site.order.iter()) {
        let float = f64::from(floats[element as usize]);
        let error = float - f64::from(integer) * site.scale;
        powers.signal += float * float;
        powers.noise += error * error;
        powers.saturated += u64::from(i8s && (integer == 127 || integer == -128));
        powers.elements += 1;
    }
}
