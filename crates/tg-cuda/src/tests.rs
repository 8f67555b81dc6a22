//! Every operator on random tensors, and whole random models, on the emulated device and on GPUs.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../tg-exec/tests/it/vectors.rs"]
mod vectors;

use super::check::cases::{self, Case};
use super::check::{FamilyResult, FaultKind, check_families, check_named, expected, names};
use super::device::Gpu;
use super::emulator::{Device, EmulatedDevice, Emulator};
use super::engine::{DeviceEngine, Unfit};
use super::execution::{CpuAnswers, ExecutedOn, ExecutionDevice, ExecutionError, InsteadReason};
use super::kernel_device::KernelDevice;
use super::kernels;
use super::plan::{Keep, Plan};
use super::probe::{DriverFailure, probe};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tg_exec::execute::{ExecuteError, execute_tensor};
use tg_exec::sample;
use tg_ir::IntTensor;
use tg_ir::{
    CompiledModel, ExecutableModel, InputSpec, LinearWeights, Node, Op, Program, Shape, TensorId,
    Weights, Window, scalar,
};

/// A line on the error stream, once, also where the harness captures what tests print.
pub(crate) fn say(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap().insert(line.to_owned()) {
        writeln!(std::io::stderr(), "{line}").unwrap();
    }
}

/// Every GPU; what there is not is said.
fn gpus() -> Vec<Gpu> {
    let found = probe();
    for missing in &found.missing {
        say(&format!("SKIPPED: nothing runs on a GPU: {missing}"));
    }
    let usable = found.usable();
    usable.map(|gpu| Gpu::open(gpu.ordinal).unwrap()).collect()
}

/// The emulated devices and every GPU.
fn devices() -> Vec<Box<dyn KernelDevice>> {
    let mut devices: Vec<Box<dyn KernelDevice>> = Vec::new();
    for device in EmulatedDevice::both() {
        devices.push(Box::new(device));
    }
    for gpu in gpus() {
        devices.push(Box::new(gpu));
    }
    devices
}

/// Runs a family of the check on every device; the expected kernels must have been reached.
fn check(name: &str, kernels: &[&str]) {
    let results: Vec<FamilyResult> = (devices().iter())
        .map(|device| check_named(&**device, name))
        .collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for result in &results {
        assert_eq!(result.fault, None);
        assert!(result.programs > 0 && result.elements > 0);
        seen.extend(&result.kernels);
    }
    for kernel in kernels {
        assert!(kernels::NAMES.contains(kernel));
        assert!(
            seen.contains(kernel) || results.is_empty(),
            "{kernel} was not reached"
        );
    }
}

#[test]
fn convolution_kernels_equal_the_scalar_meaning() {
    let all = [
        "tg_conv_direct",
        "tg_gemm_gather",
        "tg_gemm_large",
        "tg_gemm_small",
    ];
    check("convolutions", &all);
    check("greatest sums", &["tg_gemm_gather"]);
}

#[test]
fn product_kernels_equal_the_scalar_meaning() {
    check("dense layers", &["tg_dense"]);
    let all = ["tg_gemm_gather", "tg_gemm_large", "tg_gemm_small"];
    check("matrix products", &all);
    check("long products", &["tg_gemm_gather", "tg_gemm_small"]);
}

#[test]
fn element_kernels_equal_the_scalar_meaning() {
    check("embeddings", &["tg_embed"]);
    check("weighted sums", &["tg_add"]);
    check("requantisations", &["tg_requantise"]);
    check("pairwise", &["tg_pairwise"]);
    check("pooling", &["tg_pool"]);
}

#[test]
fn row_kernels_equal_the_scalar_meaning() {
    check("reductions", &["tg_reduce", "tg_reduce_row"]);
    check("ranking", &["tg_rank"]);
    check("softmax", &["tg_softmax"]);
    check("normalisations", &["tg_norm"]);
    check("decision trees", &["tg_tree_leaves", "tg_tree_sums"]);
}

#[test]
fn movement_kernels_equal_the_scalar_meaning() {
    check(
        "movements",
        &["tg_concat", "tg_gather", "tg_pad", "tg_view"],
    );
}

#[test]
fn whole_programs_equal_the_scalar_meaning() {
    check("whole programs", &[]);
}

/// The tests above run every family, and the families have every operator.
#[test]
fn every_operator_is_in_the_check() {
    let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
    let text = without_spaces(include_str!("tests.rs"));
    for name in names() {
        let call = without_spaces(&format!("check(\"{name}\""));
        assert!(text.contains(&call), "{name}");
    }
    let mut operators = BTreeSet::new();
    for seed in 0..150 {
        let models = [
            sample::random_model(seed).0,
            sample::wide::random_program(seed).0,
        ];
        let nodes = models.iter().flat_map(|model| &model.program.nodes);
        operators.extend(nodes.map(|node| node.op.name()));
    }
    // The list of the protocol's vectors, less the input.
    assert_eq!(operators.len(), 24, "{operators:?}");
}

/// What a device is compared with is what the operators mean.
#[test]
fn the_cpu_gives_the_scalar_semantics_in_every_case() {
    let makers = [
        cases::conv,
        cases::dense,
        cases::matmul,
        cases::bounds,
        cases::embed,
        cases::add,
        cases::requantise,
        cases::pairwise,
        cases::pool,
        cases::reduce,
        cases::rank,
        cases::softmax,
        cases::norm,
        cases::trees,
        cases::movement,
    ];
    for make in makers {
        for seed in 0..60 {
            let mut case = Case::new(seed);
            make(&mut case);
            let (model, tensors) = case.finish();
            let CompiledModel { program, weights } = &model;
            let widened: Vec<Vec<i32>> = (tensors.iter())
                .map(|tensor| tensor.as_ref().map_or(Vec::new(), IntTensor::widened))
                .collect();
            let last = program.nodes.len() - 1;
            let elements = 0..program.shape(program.output()).elements();
            let scalar: Vec<i32> = elements
                .map(|element| scalar::element(program, weights, last, element, &widened))
                .collect();
            let got = expected(&model, &tensors).widened();
            assert_eq!(got, scalar, "{:?}", program.nodes[last]);
        }
    }
}

/// A kernel that is wrong in the last bit of some elements: the operator is named, and families without it pass.
#[test]
fn a_device_that_computes_one_operator_wrongly_is_refused_by_name() {
    // The rounding of the quotient is left out.
    let changed = kernels::SOURCE.replace("* 32767u + sum / 2) / sum", "* 32767u) / sum");
    let Some(emulator) = Emulator::of_changed(&changed) else {
        return;
    };
    let device = EmulatedDevice::new(emulator);
    let names = ["softmax", "normalisations", "ranking", "whole programs"];
    let results = names.map(|name| check_named(&device, name));
    for result in &results {
        let is_wrong = ["softmax", "whole programs"].contains(&result.name);
        assert_eq!(result.fault.is_some(), is_wrong, "{result:?}");
        if let Some(fault) = &result.fault {
            assert_eq!((fault.operator, fault.family), ("Softmax", result.name));
            let FaultKind::Unequal { expected, got, .. } = fault.kind else {
                panic!("{fault:?}");
            };
            assert_eq!(got, expected - 1);
            let text = fault.to_string();
            assert!(text.starts_with("Softmax, program "), "{text}");
        }
    }
}

/// A kernel that writes beside its output is refused although all that it should write is right.
#[test]
fn a_kernel_that_writes_beside_its_output_is_refused() {
    let from = "p.out[first + c] = (i16)floor_divided(centred * unit + root / 2, root);";
    let to = [from, "if (first + c == 0) p.out[-1] = 1;"].concat();
    let Some(emulator) = Emulator::of_changed(&kernels::SOURCE.replace(from, &to)) else {
        return;
    };
    let result = check_named(&EmulatedDevice::new(emulator), "normalisations");
    let fault = result.fault.unwrap();
    assert_eq!((fault.operator, fault.kind), ("Norm", FaultKind::Beside));
}

/// After a failure of the driver nothing more is asked of the device.
#[test]
fn the_check_ends_where_the_device_is_lost() {
    for device in EmulatedDevice::both() {
        let results = check_families(&device.lost_after(50));
        let names: Vec<&str> = results.iter().map(|result| result.name).collect();
        assert_eq!(names, ["convolutions", "dense layers"]);
        let fault = results[1].fault.as_ref().unwrap();
        assert_eq!(fault.operator, "Dense");
        assert_eq!(fault.kind, FaultKind::Driver(launch_failure()));
    }
}

fn launch_failure() -> DriverFailure {
    DriverFailure {
        operation: "run the kernels",
        name: "CUDA_ERROR_LAUNCH_FAILED".to_owned(),
    }
}

#[test]
fn executions_on_a_device_have_the_bits_of_the_cpu() {
    for device in devices() {
        let info = device.info().clone();
        let device = ExecutionDevice::of(device);
        assert_eq!(device.gpu(), Some(&info));
        for seed in 0..40 {
            let (model, input) = sample::wide::random_program(seed);
            let expected =
                execute_tensor(&model.clone().checked().unwrap(), input.clone()).unwrap();
            for _ in 0..2 {
                let executed = device
                    .execute(&model.clone().checked().unwrap(), input.clone())
                    .unwrap();
                assert_eq!(executed.trace, expected, "seed {seed}");
                assert_eq!(executed.on, ExecutedOn::Gpu(Box::new(info.clone())));
            }
            let wrong =
                device.execute(&model.clone().checked().unwrap(), IntTensor::I8(Vec::new()));
            assert!(matches!(wrong, Err(ExecutionError::Input(_))), "{wrong:?}");
        }
    }
}

/// Running again uploads nothing, also after another model; a run for outputs alone has a memory of its own.
#[test]
fn a_device_holds_the_models_that_were_used_last() {
    for device in EmulatedDevice::both() {
        let loads = device.loads();
        let device = ExecutionDevice::of(Box::new(device));
        let models: Vec<(ExecutableModel, IntTensor)> = (1..=18)
            .map(|seed| {
                let (model, input) = sample::wide::random_program(seed);
                (model.checked().unwrap(), input)
            })
            .collect();
        let run = |index: usize| {
            let (model, input) = &models[index];
            device.execute(model, input.clone()).unwrap();
            loads()
        };
        assert_eq!([run(0), run(0), run(0)], [1, 1, 1]);
        assert_eq!([run(1), run(1), run(0)], [2, 2, 2]);
        let (model, input) = &models[0];
        let cpu = CpuAnswers::default();
        let answered = device.answer(model, input, &cpu).unwrap();
        let expected = execute_tensor(model, input.clone()).unwrap();
        assert!(answered.outputs.iter().eq(expected.outputs()));
        assert!(matches!(answered.on, ExecutedOn::Gpu(_)));
        assert_eq!([loads(), run(0)], [3, 3]);
        let times = device.node_times(model, input).unwrap().unwrap();
        assert_eq!(times.len(), model.program.nodes.len());
        assert_eq!(loads(), 3);
        // The second model was used longest ago, then the first one: sixteen are held.
        let more = (2..16).map(run).max();
        assert_eq!(more, Some(17));
        assert_eq!([run(0), run(1)], [17, 18]);
    }
}

/// What a program needs is taken from those that were used longest ago.
#[test]
fn models_give_way_to_what_does_not_fit_beside_them() {
    for mut device in EmulatedDevice::both() {
        let loads = device.loads();
        let models: Vec<(ExecutableModel, IntTensor)> = [16, 16, 48]
            .into_iter()
            .zip(1..)
            .map(|(rows, more)| {
                let (model, input) = product(rows, 64, 64 + more);
                (model.checked().unwrap(), input)
            })
            .collect();
        let bytes = |index: usize| {
            let (model, _) = &models[index];
            Plan::of(model, Keep::Trace, 4).unwrap().bytes()
        };
        // The last one leaves room for one of the others.
        device.info.memory_bytes = bytes(2) + bytes(1);
        let device = ExecutionDevice::of(Box::new(device));
        let run = |index: usize| {
            let (model, input) = &models[index];
            let executed = device.execute(model, input.clone()).unwrap();
            let expected = execute_tensor(model, input.clone()).unwrap();
            assert_eq!(executed.trace, expected);
            assert!(matches!(executed.on, ExecutedOn::Gpu(_)));
            loads()
        };
        assert_eq!([run(0), run(1), run(2)], [1, 2, 3]);
        assert_eq!([run(1), run(2), run(0)], [3, 3, 4]);
        // What never fits drives nobody out.
        let (large, input) = product(2_048, 64, 64);
        let executed = device.execute(&large.checked().unwrap(), input).unwrap();
        assert!(matches!(executed.on, ExecutedOn::CpuInstead { .. }));
        assert_eq!(run(0), 4);
    }
}

/// What blocks leave behind that divide a sum among them does not disturb the next run.
#[test]
fn divided_sums_are_the_same_in_every_run() {
    let (model, input) = product(70, 1_024, 70);
    let model = model.checked().unwrap();
    let expected = execute_tensor(&model, input.clone()).unwrap();
    for mut device in EmulatedDevice::both() {
        device.info.multiprocessors = 132;
        let plan = Plan::of(&model, Keep::Output, 132).unwrap();
        assert_eq!(
            plan.launches[0].grid,
            [2, 2, 4],
            "four blocks, each in four parts"
        );
        let mut engine = DeviceEngine::new(&device, &model, Keep::Output).unwrap();
        for _ in 0..3 {
            assert_eq!(engine.outputs(&input).unwrap(), [expected.output().clone()]);
        }
    }
}

/// Outputs alone are those of the trace, on the CPU too.
#[test]
fn answers_are_the_outputs_of_the_trace() {
    let device = ExecutionDevice::cpu();
    let (model, input) = product(4, 4, 4);
    let model = model.checked().unwrap();
    let expected = execute_tensor(&model, input.clone()).unwrap();
    let cpu = CpuAnswers::default();
    for _ in 0..2 {
        let answered = device.answer(&model, &input, &cpu).unwrap();
        assert!(answered.outputs.iter().eq(expected.outputs()));
        assert_eq!(answered.on, ExecutedOn::Cpu);
    }
    let wrong = device.answer(&model, &IntTensor::I8(vec![0; 3]), &cpu);
    assert!(matches!(wrong, Err(ExecutionError::Input(_))));
}

#[test]
fn a_program_that_does_not_fit_the_device_is_executed_on_the_cpu() {
    for mut device in EmulatedDevice::both() {
        device.info.memory_bytes = 1_000;
        let info = device.info.clone();
        let device = ExecutionDevice::of(Box::new(device));
        let (model, input) = product(64, 64, 64);
        let expected = execute_tensor(&model.clone().checked().unwrap(), input.clone()).unwrap();
        let executed = device
            .execute(&model.clone().checked().unwrap(), input)
            .unwrap();
        assert_eq!(executed.trace, expected);
        let text = executed.on.to_string();
        let start = "the CPU instead of cuda:0 (emulated): it needs ";
        assert!(text.starts_with(start), "{text}");
        let ExecutedOn::CpuInstead { device, reason } = executed.on else {
            panic!("{text}");
        };
        let InsteadReason::Unfit(Unfit::Memory { need, free }) = *reason else {
            panic!("{text}");
        };
        assert_eq!(*device, info);
        // Weights, input and sums.
        assert!(need > 64 * 64 * 6 && free == 1_000, "{text}");
    }
}

#[test]
fn a_program_with_an_operator_without_kernel_is_executed_on_the_cpu_whole() {
    let changed = kernels::SOURCE.replace("tg_gemm_gather", "tg_absent");
    let Some(emulator) = Emulator::of_changed(&changed) else {
        return;
    };
    let device = EmulatedDevice::new(emulator);
    let fault = check_named(&device, "convolutions").fault.unwrap();
    assert_eq!((fault.operator, fault.kind), ("Conv", FaultKind::NoKernel));
    let device = ExecutionDevice::of(Box::new(device));
    let (model, input) = product(4, 4, 3);
    let expected = execute_tensor(&model.clone().checked().unwrap(), input.clone()).unwrap();
    let executed = device.execute(&model.checked().unwrap(), input).unwrap();
    assert_eq!(executed.trace, expected);
    let text = executed.on.to_string();
    let words = "the operator Conv of node `product` has no kernel";
    assert!(text.ends_with(words), "{text}");
    // Other programs still run on the device.
    let (model, input) = product(4, 64, 64);
    let executed = device.execute(&model.checked().unwrap(), input).unwrap();
    assert!(matches!(executed.on, ExecutedOn::Gpu(_)));
}

/// The failure is an error once, so that whoever has a deadline decides; then the CPU executes.
#[test]
fn a_device_that_is_lost_ends_one_execution_and_the_cpu_takes_the_next() {
    for device in EmulatedDevice::both() {
        let device = ExecutionDevice::of(Box::new(device.lost_after(1)));
        let (model, input) = product(8, 32, 16);
        let first = device
            .execute(&model.clone().checked().unwrap(), input.clone())
            .unwrap();
        assert!(matches!(first.on, ExecutedOn::Gpu(_)));
        let error = device
            .execute(&model.clone().checked().unwrap(), input.clone())
            .unwrap_err();
        assert_eq!(error.to_string(), "cuda:0 (emulated) is lost");
        let ExecutionError::Lost { failure, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(failure, launch_failure());
        let next = device
            .execute(&model.clone().checked().unwrap(), input)
            .unwrap();
        assert_eq!(next.trace, first.trace);
        let ExecutedOn::CpuInstead { reason, .. } = next.on else {
            panic!("{:?}", next.on);
        };
        assert_eq!(*reason, InsteadReason::Lost(launch_failure()));
    }
}

#[test]
fn the_cpu_executes_by_itself() {
    let device = ExecutionDevice::cpu();
    let (model, input) = product(4, 4, 4);
    let expected = execute_tensor(&model.clone().checked().unwrap(), input.clone()).unwrap();
    let executed = device
        .execute(&model.clone().checked().unwrap(), input)
        .unwrap();
    assert_eq!((executed.trace, executed.on), (expected, ExecutedOn::Cpu));
    let error = device
        .execute(&model.checked().unwrap(), IntTensor::I8(vec![0; 3]))
        .unwrap_err();
    let [expected, got] = [16, 3];
    let wrong = ExecuteError::InputLength { expected, got };
    assert_eq!(error, ExecutionError::Input(wrong));
    assert_eq!(device.to_string(), "the CPU");
}

#[test]
fn the_document_is_what_the_kernels_do() {
    vectors::check_document(&mut check_vector);
}

/// A vector of the protocol document, on the emulated devices.
fn check_vector(model: &CompiledModel, node: usize, tensors: &[IntTensor], expected: &IntTensor) {
    for emulator in [true, false].into_iter().filter_map(Emulator::get) {
        let plan = Plan::of(model, Keep::Trace, 1).unwrap();
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

/// A convolution that is a matrix product of `rows` x `depth` by `depth` x `columns`.
fn product(rows: u32, depth: u32, columns: u32) -> (CompiledModel, IntTensor) {
    let mut numbers = sample::Numbers::new(7);
    let count = (columns * depth) as usize;
    let layer = LinearWeights {
        weights: (0..count).map(|_| numbers.activation().max(-127)).collect(),
        bias: vec![0; columns as usize],
    };
    let weights = Weights {
        layers: vec![layer],
    };
    let shape = Shape::new(rows, 1, depth);
    let input = (0..shape.elements())
        .map(|_| numbers.activation())
        .collect();
    let program = Program {
        name: "product".to_owned(),
        input: InputSpec::scaled(shape, 1.0),
        nodes: vec![Node {
            name: "product".to_owned(),
            op: Op::conv(TensorId::INPUT, Window::new([1, 1], [1, 1], [0; 4])),
            shape: Shape::new(rows, 1, columns),
            scale: 1.0,
        }],
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
        weights_root: weights.root(),
    };
    (CompiledModel { program, weights }, IntTensor::I8(input))
}

/// Prints the rate of a large product on every GPU, with input and output on their way.
#[test]
fn the_rate_of_a_large_product() {
    for gpu in gpus() {
        let (rows, depth, columns) = (4_096, 4_096, 4_096);
        let (model, input) = product(rows, depth, columns);
        let model = model.checked().unwrap();
        let expected = execute_tensor(&model, input.clone()).unwrap();
        let mut engine = DeviceEngine::new(&gpu, &model, Keep::Output).unwrap_or_else(|error| {
            panic!("{error}");
        });
        let mut least = Duration::MAX;
        for _ in 0..10 {
            let start = Instant::now();
            assert_eq!(engine.outputs(&input).unwrap(), [expected.output().clone()]);
            least = least.min(start.elapsed());
        }
        let operations = 2.0 * f64::from(rows) * f64::from(depth) * f64::from(columns);
        let rate = operations / least.as_secs_f64() / 1e12;
        let name = &gpu.info().name;
        say(&format!(
            "{name}: {rate:.2} Tera-operations of i8 per second, transfers included"
        ));
    }
}
