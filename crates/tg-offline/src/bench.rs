//! `tensorgrid bench prove`.

use crate::arguments::BenchArguments;
use crate::bundled::{self, Bundled};
use crate::measure::{Cost, Moment, peak_memory_mib, reset_peak_memory};
use crate::prove::random_seed;
use crate::suite;
use std::time::Instant;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_exec::IntTensor;
use tg_ir::coding::quantise;
use tg_proof::{ExpectedStatement, Modes, security, verify};
use tg_prover::{Masking, ProveRequest, ProvingModel, Stage};

/// What was measured for one model.
#[derive(Debug, Default)]
struct Row {
    name: &'static str,
    macs: u64,
    execute: Vec<Cost>,
    witness: Vec<Cost>,
    commit: Vec<Cost>,
    prove: Vec<Cost>,
    verify: Vec<Cost>,
    proof_bytes: usize,
    public_bytes: usize,
    register_ms: f64,
    peak_mib: Option<f64>,
    security_bits: f64,
    zk: bool,
}

/// Measures both built-in models, or the suite.
///
/// # Errors
/// If a model cannot be proved or verified, or a row not be written.
pub fn run(arguments: &BenchArguments, as_json: bool) -> Outcome {
    if arguments.suite {
        return suite::run(arguments, as_json);
    }
    let rows = Bundled::ALL
        .into_iter()
        .map(|model| measure(model, arguments.runs, arguments.zk))
        .collect::<Result<Vec<_>, _>>()?;
    if as_json {
        return Ok(json(&serde_json::Value::Array(
            rows.iter().map(row_json).collect(),
        ))?);
    }
    line(format_args!(
        "{:<14}{:>10}{:>11}{:>10}{:>10}{:>10}{:>11}{:>9}{:>9}{:>10}{:>9}",
        "model",
        "macs",
        "execute",
        "witness",
        "commit",
        "prove",
        "prove cpu",
        "verify",
        "ratio",
        "proof",
        "peak"
    ))?;
    for row in &rows {
        let ratio = median(&row.prove).wall_ms / median(&row.execute).wall_ms;
        line(format_args!(
            "{:<14}{:>10}{:>8.3} ms{:>7.2} ms{:>7.2} ms{:>7.2} ms{:>8.2} ms{:>6.2} ms{:>8.0}x{:>8.1}kB{:>9}",
            row.name,
            row.macs,
            median(&row.execute).wall_ms,
            median(&row.witness).wall_ms,
            median(&row.commit).wall_ms,
            median(&row.prove).wall_ms,
            median(&row.prove).cpu_ms,
            median(&row.verify).wall_ms,
            ratio,
            row.proof_bytes as f64 / 1e3,
            row.peak_mib
                .map_or("unknown".to_owned(), |mib| format!("{mib:.0} MiB")),
        ))?;
    }
    line(format_args!(
        "medians of {} runs on {} cores; prove includes execution, witness and commitment; zk: {}; >= {:.1} bits; \
         once per model: {}",
        arguments.runs,
        std::thread::available_parallelism().map_or(1, usize::from),
        arguments.zk,
        rows.iter()
            .map(|row| row.security_bits)
            .fold(f64::INFINITY, f64::min),
        rows.iter()
            .map(|row| format!(
                "{} registration {:.0} ms, {} bytes",
                row.name, row.register_ms, row.public_bytes
            ))
            .collect::<Vec<_>>()
            .join("; "),
    ))?;
    Ok(())
}

fn measure(bundled: Bundled, runs: u32, zk: bool) -> Result<Row, Failure> {
    say(format_args!(
        "measuring {} ({runs} runs) ...",
        bundled.name()
    ));
    let compiled = bundled.compile()?;
    let digits = bundled::unseen_digits()?;
    let macs = compiled.model.program.macs();
    reset_peak_memory();
    let model =
        ProvingModel::of_checked(compiled.model).or_fail(Exit::Failed, "commit the weights")?;
    let start = Instant::now();
    let public = model
        .register()
        .or_fail(Exit::Failed, "prove the weights' range")?;
    let register_ms = start.elapsed().as_secs_f64() * 1e3;
    public
        .verify_registration()
        .or_fail(Exit::Rejected, "check the registration")?;
    let report = if zk {
        security::report_zk(&public, 1, Modes::HIDDEN_INPUT)
    } else {
        security::report(&public)
    };
    let mut row = Row {
        name: bundled.name(),
        macs,
        public_bytes: public.encode().len(),
        register_ms,
        security_bits: report.map_or(0.0, |report| report.bits),
        zk,
        ..Row::default()
    };
    for run in 0..=runs {
        let digit = &digits[run as usize % digits.len()];
        let input = quantise(&model.compiled().program.input, &bundled.input(digit));
        let measured = measure_once(&model, &public, &input, zk)?;
        // The first run warms caches and the allocator.
        if run > 0 {
            let [execute, witness, commit, prove, verify] = measured.0;
            row.execute.push(execute);
            row.witness.push(witness);
            row.commit.push(commit);
            row.prove.push(prove);
            row.verify.push(verify);
            row.proof_bytes = row.proof_bytes.max(measured.1);
        }
    }
    row.peak_mib = peak_memory_mib();
    Ok(row)
}

/// Execution, witness, commitment, whole proof, verification; and the proof's bytes.
fn measure_once(
    model: &ProvingModel,
    public: &tg_proof::PublicModel,
    input: &[i8],
    zk: bool,
) -> Result<([Cost; 5], usize), Failure> {
    let start = Moment::now();
    tg_exec::execute(model.compiled(), input).or_fail(Exit::Failed, "execute the model")?;
    let execute = start.cost();
    let (mut witness, mut commit) = (Cost::default(), Cost::default());
    let mut stage = Moment::now();
    let start = Moment::now();
    let mut observe = |now| {
        match now {
            Stage::Commit => witness = stage.cost(),
            Stage::Nodes(1, _) => commit = stage.cost(),
            _ => {}
        }
        if matches!(now, Stage::Witness | Stage::Commit) {
            stage = Moment::now();
        }
    };
    let masking = Masking::new(random_seed()?, Modes::HIDDEN_INPUT);
    let mut request = ProveRequest::of(vec![IntTensor::I8(input.to_vec())]);
    if zk {
        request = request.masked(&masking);
    }
    let proved = tg_prover::prove(model, request, &mut observe);
    let (file, _) = proved.or_fail(Exit::Failed, "prove")?;
    let whole = start.cost();
    let start = Moment::now();
    verify(public, &file, &ExpectedStatement::default()).or_fail(Exit::Rejected, "verify")?;
    Ok((
        [execute, witness, commit, whole, start.cost()],
        file.proof.len(),
    ))
}

fn row_json(row: &Row) -> serde_json::Value {
    let cost = |costs: &[Cost]| {
        let Cost {
            wall_ms,
            cpu_ms,
            system_ms,
            faults,
        } = median(costs);
        serde_json::json!({
            "wall_ms": wall_ms, "cpu_ms": cpu_ms, "system_ms": system_ms, "page_faults": faults,
        })
    };
    serde_json::json!({
        "model": row.name, "macs": row.macs, "zk": row.zk, "security_bits": row.security_bits,
        "execute": cost(&row.execute), "witness": cost(&row.witness), "commit": cost(&row.commit),
        "prove": cost(&row.prove), "verify": cost(&row.verify),
        "ratio_to_execution": median(&row.prove).wall_ms / median(&row.execute).wall_ms,
        "proof_bytes": row.proof_bytes, "public_model_bytes": row.public_bytes,
        "registration_ms": row.register_ms, "peak_mib": row.peak_mib, "runs": row.prove.len(),
    })
}

/// The cost with the median wall time.
fn median(costs: &[Cost]) -> Cost {
    let mut sorted = costs.to_vec();
    sorted.sort_by(|a, b| a.wall_ms.total_cmp(&b.wall_ms));
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
