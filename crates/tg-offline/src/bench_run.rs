//! `tensorgrid bench run`: executions of the suite's models on this machine's processor and on a device, without proofs.

use crate::arguments::BenchRunArguments;
use crate::execution;
use std::collections::BTreeMap;
use std::time::Instant;
use tg_compile::suite::Architecture;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_cuda::{CpuAnswers, ExecutedOn, ExecutionDevice};
use tg_exec::execute_tensor;
use tg_ir::{ExecutableModel, IntTensor};

/// The seed of every model and input, that of `bench prove --suite`.
const SEED: u64 = 1;

/// Median milliseconds of executions whose outputs were asked for, and of those whose every tensor was.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    outputs: f64,
    trace: f64,
}

/// What was measured for one model.
#[derive(Debug)]
struct ModelTimes {
    name: &'static str,
    macs: u64,
    cpu: Times,
    /// Of the device; none where the model was executed on the CPU after all, with the reason.
    device: Result<Times, String>,
    /// The device's microseconds by operator, the longest first, if they were asked for.
    operators: Vec<(&'static str, f64)>,
}

/// Measures every model of the suite, on the CPU and on the device that is asked for.
///
/// # Errors
/// If the device cannot be used, or gives other bits than the CPU.
pub fn run(arguments: &BenchRunArguments, as_json: bool) -> Outcome {
    let device = execution::choose(arguments.device)?;
    let wanted = Architecture::ALL.into_iter().filter(|architecture| {
        let of_gpt2 = matches!(architecture, Architecture::Gpt2 | Architecture::Gpt2Of512);
        !(arguments.quick && of_gpt2)
    });
    let rows = wanted
        .map(|architecture| measure(architecture, &device, arguments))
        .collect::<Result<Vec<_>, _>>()?;
    let on = device.gpu().map(ToString::to_string);
    if as_json {
        let rows: Vec<_> = rows.iter().map(row_json).collect();
        let runs = arguments.runs;
        return Ok(json(
            &serde_json::json!({ "device": on, "runs": runs, "rows": rows }),
        )?);
    }
    line(format_args!(
        "{:<46}{:>14}{:>14}{:>14}{:>14}{:>14}{:>9}{:>12}",
        "model", "macs", "cpu", "cpu trace", "device", "device trace", "ratio", "device"
    ))?;
    for row in &rows {
        line(row_text(row))?;
        if !row.operators.is_empty() {
            let shares: Vec<String> = (row.operators.iter())
                .map(|(operator, us)| format!("{operator} {us:.1} us"))
                .collect();
            line(format_args!("    {}", shares.join(", ")))?;
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let on = on.unwrap_or_else(|| "none but the CPU".to_owned());
    line(format_args!(
        "medians of {} runs of one input each, transfers included; CPU: {cores} threads; device: {on}; trace: every tensor \
         is kept and read; ratio: cpu to device, outputs alone",
        arguments.runs
    ))?;
    Ok(())
}

fn measure(
    architecture: Architecture,
    device: &ExecutionDevice,
    arguments: &BenchRunArguments,
) -> Result<ModelTimes, Failure> {
    let runs = arguments.runs;
    let name = architecture.name();
    say(format_args!("measuring {name} ({runs} runs) ..."));
    let (model, input) = architecture.model(SEED);
    let model = model.checked().or_fail(Exit::Failed, "check the model")?;
    let cpu = times(&ExecutionDevice::cpu(), &model, &input, runs)?;
    let times_there = match device.gpu() {
        None => Err("the CPU".to_owned()),
        Some(_) => times(device, &model, &input, runs)?,
    };
    let operators = if arguments.by_operator {
        operators(device, &model, &input)?
    } else {
        Vec::new()
    };
    Ok(ModelTimes {
        name,
        macs: model.program.macs(),
        cpu: cpu.map_err(|reason| Failure::new(Exit::Failed, anyhow::anyhow!(reason)))?,
        device: times_there,
        operators,
    })
}

/// Microseconds of a device by operator, the longest first.
fn operators(
    device: &ExecutionDevice,
    model: &ExecutableModel,
    input: &IntTensor,
) -> Result<Vec<(&'static str, f64)>, Failure> {
    let times = device.node_times(model, input);
    let times = times.or_fail(Exit::Failed, "time the operators")?;
    let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
    for (node, time) in times.into_iter().flatten() {
        let operator = model.program.nodes[node].op.name();
        *sums.entry(operator).or_default() += time.as_secs_f64() * 1e6;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(sums)
}

/// Median times on a device, or why they are the CPU's. The first run, which uploads or packs the model, does not count,
/// and each answer is compared with the CPU's.
fn times(
    device: &ExecutionDevice,
    model: &ExecutableModel,
    input: &IntTensor,
    runs: u32,
) -> Result<Result<Times, String>, Failure> {
    const DOING: &str = "execute the model";
    let expected = execute_tensor(model, input.clone()).or_fail(Exit::Failed, DOING)?;
    let cpu = CpuAnswers::default();
    let (mut outputs, mut traces) = (Vec::new(), Vec::new());
    for _ in 0..=runs {
        let start = Instant::now();
        let answered = device
            .answer(model, input, &cpu)
            .or_fail(Exit::Failed, DOING)?;
        outputs.push(start.elapsed().as_secs_f64() * 1e3);
        if let ExecutedOn::CpuInstead { reason, .. } = answered.on {
            return Ok(Err(reason.to_string()));
        }
        if !answered.outputs.iter().eq(expected.outputs()) {
            return Err(other_bits());
        }
    }
    for _ in 0..=runs {
        let copy = input.clone();
        let start = Instant::now();
        let executed = device.execute(model, copy).or_fail(Exit::Failed, DOING)?;
        traces.push(start.elapsed().as_secs_f64() * 1e3);
        if executed.trace.tensors() != expected.tensors() {
            return Err(other_bits());
        }
    }
    let [outputs, trace] = [outputs, traces].map(|times| median(&times[1..]));
    Ok(Ok(Times { outputs, trace }))
}

fn other_bits() -> Failure {
    let text = "the device gave other bits than the CPU; `tensorgrid device --check` says in which operator";
    Failure::new(Exit::Failed, anyhow::anyhow!(text))
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn row_text(row: &ModelTimes) -> String {
    let Times { outputs, trace } = row.cpu;
    let start = format!(
        "{:<46}{:>14}{:>11.3} ms{:>11.3} ms",
        row.name, row.macs, outputs, trace
    );
    match &row.device {
        Err(reason) => format!("{start}   {reason}"),
        Ok(device) => {
            #[expect(clippy::cast_precision_loss, reason = "a rate of three digits")]
            let rate = 2.0 * row.macs as f64 / device.outputs / 1e9;
            format!(
                "{start}{:>11.3} ms{:>11.3} ms{:>8.2}x{:>7.2} Top/s",
                device.outputs,
                device.trace,
                outputs / device.outputs,
                rate
            )
        }
    }
}

fn row_json(row: &ModelTimes) -> serde_json::Value {
    let times =
        |times: &Times| serde_json::json!({ "outputs_ms": times.outputs, "trace_ms": times.trace });
    let (device, instead) = match &row.device {
        Ok(device) => (Some(times(device)), None),
        Err(reason) => (None, Some(reason)),
    };
    let operators: serde_json::Map<String, serde_json::Value> = (row.operators.iter())
        .map(|&(operator, us)| (operator.to_owned(), us.into()))
        .collect();
    serde_json::json!({
        "model": row.name, "macs": row.macs, "cpu": times(&row.cpu), "device": device, "instead": instead,
        "operators_us": operators,
    })
}
