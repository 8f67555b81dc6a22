//! The check of a device: programs for every operator, run there and on the CPU, and compared bit by bit.
//!
//! - [`cases`]: one operator on random tensors, with attributes of all kinds and values at the ends of their ranges. The
//!   device runs that node alone, so that a fault is the operator's own, and may write nothing beside its output.
//! - Whole programs, with their requantisations fused into the products that they read, with every tensor kept and with
//!   the output only.
//!
//! Programs are drawn from seeds and are the same everywhere.

pub(crate) mod cases;

use super::engine::{DeviceEngine, OpenError, RunError, Unfit};
use super::kernel_device::{KernelDevice, LoadError, LoadedPlan};
use super::plan::{Address, Keep, NoKernel, Plan, Region};
use super::probe::DriverFailure;
use cases::Case;
use std::collections::BTreeSet;
use tg_exec::engine::run_node;
use tg_exec::execute::execute_tensor;
use tg_exec::kernels::Cpu;
use tg_exec::sample;
use tg_ir::IntTensor;
use tg_ir::{CompiledModel, ExecutableModel, TensorId};

/// What a device did with the programs of a family of operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyResult {
    /// The family.
    pub name: &'static str,
    /// The operators in its programs, by [`Op::name`].
    pub operators: BTreeSet<&'static str>,
    /// Programs that were run.
    pub programs: u64,
    /// Elements that were compared.
    pub elements: u64,
    /// The first fault; the family's other programs are not run after it.
    pub fault: Option<Fault>,
    /// The kernels that were run for the nodes under test.
    pub kernels: BTreeSet<&'static str>,
}

/// What is wrong with a device, and in which operator it shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operator}, program {seed} of `{family}`: {kind}")]
pub struct Fault {
    /// The family.
    pub family: &'static str,
    /// The operator, by [`Op::name`].
    pub operator: &'static str,
    /// The program's seed.
    pub seed: u64,
    /// What happened.
    pub kind: FaultKind,
}

/// What is wrong with an operator on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// A result of other bits.
    #[error("element {element} is {got}, and {expected} on the CPU")]
    Unequal {
        /// The first such element.
        element: usize,
        /// The CPU's.
        expected: i32,
        /// The device's.
        got: i32,
    },
    /// Bytes that were written beside the output.
    #[error("memory beside the output was written")]
    Beside,
    /// There is no kernel.
    #[error("there is no kernel")]
    NoKernel,
    /// The device has too little memory for a small program.
    #[error("{0}")]
    Unfit(Unfit),
    /// The driver failed, after which the device gives no more results.
    #[error("{0}")]
    Driver(DriverFailure),
}

/// Programs of one operator, or of some that share their kernels.
struct Family {
    name: &'static str,
    make: fn(&mut Case),
    programs: u64,
}

/// The families, in the order of the report. As many programs as reach every kernel of a family (the tests count them).
const FAMILIES: [Family; 16] = [
    family("convolutions", cases::conv, 40),
    family("dense layers", cases::dense, 20),
    family("matrix products", cases::matmul, 24),
    family("long products", cases::long_product, 24),
    family("greatest sums", cases::bounds, 6),
    family("embeddings", cases::embed, 15),
    family("weighted sums", cases::add, 15),
    family("requantisations", cases::requantise, 60),
    family("pairwise", cases::pairwise, 60),
    family("pooling", cases::pool, 40),
    family("reductions", cases::reduce, 40),
    family("ranking", cases::rank, 30),
    family("softmax", cases::softmax, 40),
    family("normalisations", cases::norm, 40),
    family("decision trees", cases::trees, 20),
    family("movements", cases::movement, 60),
];

/// Why an input is always taken.
const DRAWN: &str = "the check draws inputs that its programs take";

/// Name and number of the whole programs.
const WHOLE: (&str, u64) = ("whole programs", 150);

const fn family(name: &'static str, make: fn(&mut Case), programs: u64) -> Family {
    Family {
        name,
        make,
        programs,
    }
}

/// The names of all families.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let single = FAMILIES.iter().map(|family| family.name);
    single.chain([WHOLE.0])
}

/// Runs every family; the list ends at one in which the driver fails.
pub(crate) fn check_families(device: &dyn KernelDevice) -> Vec<FamilyResult> {
    let mut results = Vec::new();
    for family in FAMILIES.iter().map(Some).chain([None]) {
        let result = match family {
            Some(family) => check_family(device, family),
            None => check_whole(device),
        };
        let is_lost =
            (result.fault.as_ref()).is_some_and(|fault| matches!(fault.kind, FaultKind::Driver(_)));
        results.push(result);
        if is_lost {
            break;
        }
    }
    results
}

/// Runs one family by its name.
#[cfg(test)]
pub(crate) fn check_named(device: &dyn KernelDevice, name: &str) -> FamilyResult {
    match FAMILIES.iter().find(|family| family.name == name) {
        Some(family) => check_family(device, family),
        None => {
            assert_eq!(name, WHOLE.0, "a family");
            check_whole(device)
        }
    }
}

fn check_family(device: &dyn KernelDevice, family: &Family) -> FamilyResult {
    let mut result = FamilyResult::new(family.name);
    for seed in 0..family.programs {
        let mut case = Case::new(seed);
        (family.make)(&mut case);
        let (model, tensors) = case.finish();
        let operator = last_operator(&model);
        result.programs += 1;
        result.operators.insert(operator);
        if let Err(kind) = check_node(device, (&model, &tensors), seed, &mut result) {
            result.fault = Some(Fault {
                family: family.name,
                operator,
                seed,
                kind,
            });
            break;
        }
    }
    result
}

impl FamilyResult {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            operators: BTreeSet::new(),
            programs: 0,
            elements: 0,
            fault: None,
            kernels: BTreeSet::new(),
        }
    }
}

fn last_operator(model: &CompiledModel) -> &'static str {
    let last = model.program.nodes.last().expect("a program has nodes");
    last.op.name()
}

/// Runs the last node of a program on given tensors and compares its output with the CPU's.
fn check_node(
    device: &dyn KernelDevice,
    (model, tensors): (&CompiledModel, &[Option<IntTensor>]),
    seed: u64,
    result: &mut FamilyResult,
) -> Result<(), FaultKind> {
    let program = &model.program;
    let last = program.nodes.len() - 1;
    // Kernels are chosen by how many blocks fill a device: both ways are taken.
    let multiprocessors = if seed.is_multiple_of(2) { 1 } else { 10_000 };
    let plan = Plan::of(model, Keep::Trace, multiprocessors)?;
    let mut loaded = device.load(&plan)?;
    let place = |id: TensorId| plan.tensors[id.index()].expect("every tensor is kept");
    for id in program.nodes[last].op.inputs() {
        let tensor = tensors[id.index()].as_ref().expect("an input was drawn");
        loaded.write(place(id), &tensor.to_bytes())?;
    }
    let before = arena(&*loaded, &plan)?;
    loaded.run_node(last)?;
    let output = TensorId::of_node(last);
    let expected = expected(model, tensors);
    let bytes = expected.to_bytes();
    let got = loaded.read(place(output), bytes.len())?;
    compare(&expected, &got)?;
    let mut after = arena(&*loaded, &plan)?;
    // What the node writes is its output, and memory of its own.
    for (offset, length) in [(place(output).offset, bytes.len())]
        .into_iter()
        .chain(plan.scratch.iter().copied())
    {
        let written = offset..offset + length;
        after[written.clone()].copy_from_slice(&before[written]);
    }
    if after != before {
        return Err(FaultKind::Beside);
    }
    result.elements += expected.len() as u64;
    let launches = plan.launches.iter();
    let launches = launches.filter(|launch| launch.node == last);
    result.kernels.extend(launches.map(|launch| launch.kernel));
    Ok(())
}

/// What the CPU gives for the last node of a program. Tensors that the node does not read are absent.
pub(crate) fn expected(model: &CompiledModel, tensors: &[Option<IntTensor>]) -> IntTensor {
    let last = model.program.nodes.len() - 1;
    let absent = IntTensor::I8(Vec::new());
    let tensors: Vec<IntTensor> = (tensors.iter())
        .map(|tensor| tensor.clone().unwrap_or_else(|| absent.clone()))
        .collect();
    run_node(model, &Cpu::default(), last, &tensors)
}

/// The memory of all tensors.
fn arena(loaded: &dyn LoadedPlan, plan: &Plan) -> Result<Vec<u8>, DriverFailure> {
    let start = Address {
        region: Region::Arena,
        offset: 0,
    };
    loaded.read(start, plan.arena_bytes)
}

fn compare(expected: &IntTensor, got: &[u8]) -> Result<(), FaultKind> {
    let got = IntTensor::from_bytes(expected.element_type(), got).expect("whole elements");
    if got == *expected {
        return Ok(());
    }
    let (expected, got) = (expected.widened(), got.widened());
    let mut pairs = expected.iter().zip(&got);
    let element = pairs
        .position(|(expected, got)| expected != got)
        .expect("tensors of one length differ somewhere");
    Err(FaultKind::Unequal {
        element,
        expected: expected[element],
        got: got[element],
    })
}

fn check_whole(device: &dyn KernelDevice) -> FamilyResult {
    let (name, programs) = WHOLE;
    let mut result = FamilyResult::new(name);
    for seed in 0..programs {
        let (model, input) = sample::random_model(seed);
        for (model, input) in [
            (model, IntTensor::I8(input)),
            sample::wide::random_program(seed),
        ] {
            let operators = model.program.nodes.iter().map(|node| node.op.name());
            result.operators.extend(operators);
            result.programs += 1;
            let model = model.checked().expect(DRAWN);
            if let Err((operator, kind)) = check_program(device, &model, &input, &mut result) {
                result.fault = Some(Fault {
                    family: name,
                    operator,
                    seed,
                    kind,
                });
                return result;
            }
        }
    }
    result
}

/// Runs a whole program with every tensor kept and with the output only, and compares what is kept. A fault shows in the
/// first operator whose output differs.
fn check_program(
    device: &dyn KernelDevice,
    model: &ExecutableModel,
    input: &IntTensor,
    result: &mut FamilyResult,
) -> Result<(), (&'static str, FaultKind)> {
    let last = last_operator(model);
    let expected = execute_tensor(model, input.clone()).expect(DRAWN);
    let engine = |keep| {
        DeviceEngine::new(device, model, keep).map_err(|error| match error {
            OpenError::Unfit(Unfit::NoKernel(missing)) => (missing.operator, FaultKind::NoKernel),
            OpenError::Unfit(unfit) => (last, FaultKind::Unfit(unfit)),
            OpenError::Driver(failure) => (last, FaultKind::Driver(failure)),
        })
    };
    let trace = engine(Keep::Trace)?.trace(input);
    let trace = trace.map_err(|error| (last, FaultKind::from(error)))?;
    for (index, node) in model.program.nodes.iter().enumerate() {
        let id = TensorId::of_node(index);
        let got = trace.tensor(id).to_bytes();
        compare(expected.tensor(id), &got).map_err(|kind| (node.op.name(), kind))?;
        result.elements += expected.tensor(id).len() as u64;
    }
    let outputs = engine(Keep::Output)?.outputs(input);
    let outputs = outputs.map_err(|error| (last, FaultKind::from(error)))?;
    let mut pairs = expected.outputs().zip(outputs);
    pairs.try_for_each(|(expected, output)| {
        compare(expected, &output.to_bytes()).map_err(|kind| (last, kind))
    })
}

impl From<NoKernel> for FaultKind {
    fn from(_: NoKernel) -> Self {
        Self::NoKernel
    }
}

impl From<DriverFailure> for FaultKind {
    fn from(failure: DriverFailure) -> Self {
        Self::Driver(failure)
    }
}

impl From<LoadError> for FaultKind {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::NoKernel(missing) => missing.into(),
            LoadError::Driver(failure) => failure.into(),
        }
    }
}

impl From<RunError> for FaultKind {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(error) => unreachable!("{DRAWN}: {error}"),
            RunError::Driver(failure) => failure.into(),
        }
    }
}
