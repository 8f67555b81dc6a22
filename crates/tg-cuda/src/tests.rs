//! Every operator on random tensors, and whole random models, on the emulated device and on GPUs.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "check/cases.rs"]
mod cases;
#[path = "../../tg-exec/tests/it/vectors.rs"]
mod vectors;

use super::device::{Loaded, code_for};
use super::emulator::{Device, Emulator};
use super::engine::find;
use super::kernels;
use super::plan::{Address, Keep, Plan, Region};
use super::probe::{DeviceInfo, probe};
use cases::Case;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use tg_exec::execute::{IntTensor, execute_tensor};
use tg_exec::sample;
use tg_ir::{
    CompiledModel, ElementType, LinearWeights, Op, Program, Shape, TensorId, Window, scalar,
};

/// A line on the error stream, once, also where the harness captures what tests print.
pub(crate) fn say(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap().insert(line.to_owned()) {
        writeln!(std::io::stderr(), "{line}").unwrap();
    }
}

/// What runs the kernels.
#[derive(Clone)]
enum Machine {
    Emulator(&'static Emulator),
    Gpu(DeviceInfo),
}

/// Its memory.
enum Memory {
    Emulated(Device),
    OnGpu(Loaded),
}

impl Machine {
    /// The emulated devices, with tensor cores and without, and every GPU; what there is not is said.
    fn all() -> Vec<Self> {
        let emulated = [true, false].into_iter().filter_map(Emulator::get);
        let found = probe();
        for missing in &found.missing {
            say(&format!("SKIPPED: nothing runs on a GPU: {missing}"));
        }
        let gpus = found.usable().map(|gpu| find(gpu.ordinal).unwrap());
        emulated
            .map(Self::Emulator)
            .chain(gpus.map(Self::Gpu))
            .collect()
    }

    fn load(&self, plan: &Plan) -> Memory {
        match self {
            Self::Emulator(_) => Memory::Emulated(Device::new(plan)),
            Self::Gpu(device) => {
                let code = code_for(device.capability_number()).unwrap();
                Memory::OnGpu(Loaded::new(device, &code, plan).unwrap())
            }
        }
    }

    fn run(&self, plan: &Plan, memory: &mut Memory, seed: u64, wanted: impl Fn(usize) -> bool) {
        match (self, memory) {
            (Self::Emulator(emulator), Memory::Emulated(device)) => {
                emulator.run(plan, device, seed, wanted);
            }
            (_, Memory::OnGpu(loaded)) => loaded.run(wanted).unwrap(),
            (Self::Gpu(_), Memory::Emulated(_)) => unreachable!("memory of the same machine"),
        }
    }
}

impl Memory {
    fn write(&mut self, address: Address, tensor: &IntTensor) {
        match self {
            Self::Emulated(device) => device.write(address, &tensor.to_bytes()),
            Self::OnGpu(loaded) => loaded.write(address, &tensor.to_bytes()).unwrap(),
        }
    }

    fn bytes(&self, address: Address, length: usize) -> Vec<u8> {
        match self {
            Self::Emulated(device) => device.read(address, length).to_vec(),
            Self::OnGpu(loaded) => loaded.read(address, length).unwrap(),
        }
    }

    fn read(&self, program: &Program, id: TensorId, address: Address) -> IntTensor {
        let kind = program.element_type(id);
        let length = program.shape(id).elements() * kind.bytes();
        IntTensor::from_bytes(kind, &self.bytes(address, length)).unwrap()
    }

    /// All tensors' memory.
    fn arena(&self, plan: &Plan) -> Vec<u8> {
        let start = Address {
            region: Region::Arena,
            offset: 0,
        };
        self.bytes(start, plan.arena_bytes)
    }
}

/// Runs the last node of a case and compares every element with the scalar semantics; the kernels it took.
fn check(case: Case, machine: &Machine, seed: u64) -> BTreeSet<&'static str> {
    let (model, tensors) = case.finish();
    let CompiledModel { program, weights } = &model;
    let last = program.nodes.len() - 1;
    let multiprocessors = if seed.is_multiple_of(2) { 1 } else { 10_000 };
    let plan = Plan::of(&model, Keep::Trace, multiprocessors);
    let mut memory = machine.load(&plan);
    for id in program.nodes[last].op.inputs() {
        let tensor = tensors[id.index()].as_ref().unwrap();
        memory.write(plan.tensors[id.index()].unwrap(), tensor);
    }
    let before = memory.arena(&plan);
    machine.run(&plan, &mut memory, seed, |node| node == last);
    let output = TensorId::of_node(last);
    let address = plan.tensors[output.index()].unwrap();
    let got = memory.read(program, output, address);
    let widened: Vec<Vec<i32>> = tensors
        .iter()
        .map(|tensor| tensor.as_ref().map_or(Vec::new(), IntTensor::widened))
        .collect();
    let elements = 0..program.shape(output).elements();
    let expected: Vec<i32> = elements
        .map(|element| scalar::element(program, weights, last, element, &widened))
        .collect();
    assert_eq!(got.widened(), expected, "{:?}", program.nodes[last]);
    // Nothing beside the output is written.
    if !matches!(program.nodes[last].op, Op::Trees { .. }) {
        let bytes = expected.len() * program.element_type(output).bytes();
        let end = address.offset + bytes;
        let after = memory.arena(&plan);
        assert_eq!(address.region, Region::Arena);
        assert_eq!(after[..address.offset], before[..address.offset]);
        assert_eq!(after[end..], before[end..]);
    }
    plan.launches
        .iter()
        .filter(|launch| launch.node == last)
        .map(|launch| launch.kernel)
        .collect()
}

/// Runs a generator many times on every machine; the expected kernels must have been reached.
fn check_many(make: fn(&mut Case), cases: u64, expected: &[&str]) {
    let mut seen = BTreeSet::new();
    let machines = Machine::all();
    if machines.is_empty() {
        return;
    }
    for (part, machine) in (0..).zip(&machines) {
        for seed in 0..cases {
            let mut case = Case::new(part * 1_000 + seed);
            make(&mut case);
            seen.extend(check(case, machine, seed));
        }
    }
    for kernel in expected {
        assert!(kernels::NAMES.contains(kernel));
        assert!(seen.contains(kernel), "{kernel} was not reached");
    }
}

#[test]
fn convolutions() {
    let all = [
        "tg_conv_direct",
        "tg_gemm_gather",
        "tg_gemm_large",
        "tg_gemm_small",
    ];
    check_many(cases::conv, 40, &all);
}

#[test]
fn vectors_times_matrices() {
    check_many(cases::dense, 20, &["tg_dense"]);
}

#[test]
fn products_of_matrices() {
    check_many(
        cases::matmul,
        24,
        &["tg_gemm_gather", "tg_gemm_large", "tg_gemm_small"],
    );
}

#[test]
fn element_by_element() {
    check_many(cases::embed, 15, &["tg_embed"]);
    check_many(cases::add, 15, &["tg_add"]);
    check_many(cases::requantise, 60, &["tg_requantise"]);
    check_many(cases::pairwise, 60, &["tg_pairwise"]);
    check_many(cases::pool, 40, &["tg_pool"]);
}

#[test]
fn rows() {
    check_many(cases::reduce, 40, &["tg_reduce", "tg_reduce_row"]);
    check_many(cases::rank, 30, &["tg_rank"]);
    check_many(cases::softmax, 40, &["tg_softmax"]);
    check_many(cases::norm, 40, &["tg_norm"]);
    check_many(cases::trees, 20, &["tg_tree_leaves", "tg_tree_sums"]);
}

#[test]
fn movements() {
    check_many(
        cases::movement,
        60,
        &["tg_concat", "tg_gather", "tg_pad", "tg_view"],
    );
}

/// The greatest sums that are admitted, in every number format: nothing saturates on the way.
#[test]
fn sums_at_the_bound() {
    for machine in Machine::all() {
        check_bounds(&machine);
    }
}

fn check_bounds(machine: &Machine) {
    for (limit, depth) in [(128, 65_022u32), (4_000, 2_064)] {
        let mut case = Case::new(1);
        let kind = if limit == 128 {
            ElementType::I8
        } else {
            ElementType::I16
        };
        let input = case.tensor(kind, Shape::new(1, 2, depth), limit);
        let least = vec![-limit; 2 * depth as usize];
        *case.tensors.last_mut().unwrap() = Some(IntTensor::of(kind, &least));
        let layer = LinearWeights {
            weights: [vec![127; depth as usize], vec![-127; depth as usize]].concat(),
            bias: vec![-8_290_687, 8_290_687],
        };
        let op = Op::conv(input, Window::new([1, 1], [1, 1], [0; 4]));
        case.push(op, Shape::new(1, 2, 2), Some(layer));
        check(case, machine, 0);
    }
}

/// A whole model with its requantisations fused, with all tensors kept and with the output only.
fn check_model(model: &CompiledModel, input: &IntTensor, machine: &Machine, seed: u64) {
    let program = &model.program;
    let expected = execute_tensor(model, input.clone()).unwrap();
    for keep in [Keep::Trace, Keep::Output] {
        let plan = Plan::of(model, keep, 4);
        let mut memory = machine.load(&plan);
        memory.write(plan.tensors[0].unwrap(), input);
        machine.run(&plan, &mut memory, seed, |_| true);
        let wanted = match keep {
            Keep::Trace => 0..program.nodes.len() + 1,
            Keep::Output => program.nodes.len()..program.nodes.len() + 1,
        };
        for index in wanted {
            let id = TensorId(u32::try_from(index).unwrap());
            let got = memory.read(program, id, plan.tensors[index].unwrap());
            assert_eq!(
                &got,
                expected.tensor(id),
                "tensor {index}, {keep:?}: {program:?}"
            );
        }
    }
}

#[test]
fn whole_models() {
    for (part, machine) in (0..).zip(Machine::all()) {
        for seed in 0..150 {
            let seed = part * 1_000 + seed;
            let (model, input) = sample::random_model(seed);
            check_model(&model, &IntTensor::I8(input), &machine, seed);
            let (model, input) = sample::wide::random_program(seed);
            check_model(&model, &input, &machine, seed);
        }
    }
}

#[test]
fn the_document_is_what_the_kernels_do() {
    vectors::check_document(&mut check_vector);
}

/// A vector of the protocol document, on the emulated devices.
fn check_vector(model: &CompiledModel, node: usize, tensors: &[IntTensor], expected: &IntTensor) {
    for emulator in [true, false].into_iter().filter_map(Emulator::get) {
        let plan = Plan::of(model, Keep::Trace, 1);
        let mut device = Device::new(&plan);
        for (address, tensor) in plan.tensors.iter().zip(tensors) {
            device.write(address.unwrap(), &tensor.to_bytes());
        }
        emulator.run(&plan, &mut device, 1, |other| other == node);
        let bytes = expected.to_bytes();
        let got = device.read(plan.tensors[node + 1].unwrap(), bytes.len());
        assert_eq!(got, bytes, "{:?}", model.program.nodes[node]);
    }
}
