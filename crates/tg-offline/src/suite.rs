//! `tensorgrid bench prove --suite`: known architectures with weights from a seed, one process each.

use crate::arguments::BenchArguments;
use crate::measure::{Cost, Moment, peak_memory_mib, reset_peak_memory};
use crate::prove::random_seed;
use crate::suite_page;
use crate::suite_rows::{ENTRIES, Entry, Figure, MASKED, Row};
use std::path::Path;
use std::process::Command;
use tg_compile::suite::random_input;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_exec::IntTensor;
use tg_proof::{
    ExpectedStatement, Modes, PlanError, PublicModel, SecurityReport, security, verify,
};
use tg_prover::{Masking, ProveRequest, ProvingModel, Stage};

/// The seed of every model and input.
const SEED: u64 = 1;
/// Rows whose proofs take longer than this are left out by `--quick`.
const QUICK_MS: f64 = 5_000.0;

/// Rows whose proofs take longer than this are run once, without a run that warms caches.
const ONCE_MS: f64 = 60_000.0;

/// Measures the suite, or one row of it in this process.
///
/// # Errors
/// If a model cannot be proved or verified, or a file not be written.
pub fn run(arguments: &BenchArguments, as_json: bool) -> Outcome {
    if let Some(index) = arguments.row {
        let row = measure(index, arguments.runs, arguments.zk)?;
        return Ok(json(
            &serde_json::to_value(row).or_fail(Exit::Failed, "write the row")?,
        )?);
    }
    let mut rows = Vec::new();
    for (index, (entry, target)) in ENTRIES.iter().enumerate() {
        if arguments.zk || arguments.quick && target.prove_ms >= QUICK_MS {
            continue;
        }
        say(format_args!("measuring {} ...", entry.name()));
        rows.push(measure_apart(index, arguments.runs, false)?);
    }
    for index in MASKED {
        let name = ENTRIES[index].0.name();
        say(format_args!("measuring {name} in zero knowledge ..."));
        rows.push(measure_apart(index, arguments.runs, true)?);
    }
    if let Some(path) = &arguments.write {
        let page = suite_page::page(&rows) + &by_hand(path);
        files::write(path, page.as_bytes())?;
    }
    if as_json {
        let value = serde_json::to_value(&rows).or_fail(Exit::Failed, "write the rows")?;
        return Ok(json(&value)?);
    }
    for zk in [false, true] {
        for text in suite_page::table(&rows, zk) {
            line(format_args!("{text}"))?;
        }
    }
    line(format_args!("{}", suite_page::machine()))?;
    Ok(())
}

/// The line of a page below which somebody wrote by hand.
const BY_HAND: &str = "<!-- written by hand from here on -->";

/// What stands by hand on a page that is there already: it stays.
fn by_hand(path: &Path) -> String {
    let page = std::fs::read_to_string(path).unwrap_or_default();
    page.find(BY_HAND)
        .map_or_else(String::new, |start| format!("\n{}", &page[start..]))
}

/// Measures a row in a process of its own, so that its memory is its own.
fn measure_apart(index: usize, runs: u32, zk: bool) -> Result<Row, Failure> {
    let doing = "measure a row in a process of its own";
    let program = std::env::current_exe().or_fail(Exit::Failed, doing)?;
    let output = Command::new(program)
        .args(["--json", "bench", "prove", "--suite"])
        .args(["--runs", &runs.to_string(), "--row", &index.to_string()])
        .args(zk.then_some("--zk"))
        .output()
        .or_fail(Exit::Failed, doing)?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(Exit::Failed, anyhow::anyhow!("{error}")));
    }
    serde_json::from_slice(&output.stdout).or_fail(Exit::Failed, doing)
}

fn measure(index: usize, runs: u32, zk: bool) -> Result<Row, Failure> {
    let known = ENTRIES.get(index).map(|(entry, _)| *entry);
    let Some(entry @ Entry(architecture, batch)) = known else {
        let error = anyhow::anyhow!("row {index} of the suite has no model");
        return Err(Failure::new(Exit::Usage, error));
    };
    let load = suite_page::load();
    let (compiled, _) = architecture.model(SEED);
    let program = compiled.program.clone();
    let layers = compiled.weights.layers.iter();
    let parameters = layers.map(|l| l.weights.len() + l.bias.len()).sum();
    let start = Moment::now();
    let model = ProvingModel::new(compiled).or_fail(Exit::Failed, "commit the weights")?;
    let public = model
        .register()
        .or_fail(Exit::Failed, "prove the weights' range")?;
    let register = figure(&[start.cost()]);
    let start = Moment::now();
    public
        .verify_registration()
        .or_fail(Exit::Rejected, "check the registration")?;
    let registration_verify = figure(&[start.cost()]);
    reset_peak_memory();
    let mut runs_done = Runs::default();
    let inputs: Vec<IntTensor> = (0..batch as u64)
        .map(|index| random_input(&program, SEED + index))
        .collect();
    let mut left = 1 + runs;
    let mut first = true;
    while left > 0 {
        let of = (&model, &public, inputs.as_slice());
        let wall = runs_done.one(of, zk, first)?;
        // The first run warms caches and the allocator; long rows are run a few times only.
        if first {
            left = left.min(1 + few(wall));
        }
        if runs_done.prove.len() == 1 && wall >= ONCE_MS {
            break;
        }
        first = false;
        left -= 1;
    }
    let (report, estimated) = stated(&model, &public, batch, zk);
    Ok(Row {
        name: entry.name(),
        zk,
        parameters,
        macs: program.macs() * batch as u64,
        batch,
        runs: runs_done.prove.len(),
        security_bits: report.map_or(0.0, |report| report.bits),
        register,
        registration_verify,
        stages: runs_done
            .stages
            .iter()
            .map(|(name, times)| (name.clone(), figure(times)))
            .collect(),
        prove: figure(&runs_done.prove),
        verify: figure(&runs_done.verify),
        proof_bytes: runs_done.bytes,
        public_model_bytes: public.encode().len(),
        peak_mib: peak_memory_mib(),
        estimated_mib: estimated.map_or(0.0, |bytes| bytes as f64) / 1_048_576.0,
        load,
    })
}

/// The level of security and the memory that proofs are said to have.
fn stated(
    model: &ProvingModel,
    public: &PublicModel,
    batch: usize,
    zk: bool,
) -> (Option<SecurityReport>, Result<u64, PlanError>) {
    if zk {
        let modes = Modes::HIDDEN_INPUT;
        let report = security::report_zk(public, batch, modes);
        (report, model.memory_zk(batch, modes))
    } else {
        (security::report_batch(public, batch), model.memory(batch))
    }
}

/// Runs of a row whose first took so many milliseconds.
const fn few(wall_ms: f64) -> u32 {
    if wall_ms < 400.0 {
        1_000
    } else if wall_ms < 4_000.0 {
        7
    } else {
        3
    }
}

/// The times of all runs of a row, wall and CPU.
#[derive(Default)]
struct Runs {
    stages: Vec<(String, Vec<Cost>)>,
    prove: Vec<Cost>,
    verify: Vec<Cost>,
    bytes: usize,
}

impl Runs {
    /// Proves and verifies once and returns the milliseconds of the proof. A warming run is not kept.
    fn one(
        &mut self,
        (model, public, inputs): (&ProvingModel, &tg_proof::PublicModel, &[IntTensor]),
        zk: bool,
        warming: bool,
    ) -> Result<f64, Failure> {
        let mut marks: Vec<(&'static str, Moment)> = Vec::new();
        let masking = Masking::new(random_seed()?, Modes::HIDDEN_INPUT);
        let mut observe = |stage| {
            let name = stage_name(stage);
            if marks.last().is_none_or(|(last, _)| *last != name) {
                marks.push((name, Moment::now()));
            }
        };
        let mut request = ProveRequest::of(inputs.to_vec());
        if zk {
            request = request.masked(&masking);
        }
        let start = Moment::now();
        let proved = tg_prover::prove(model, request, &mut observe);
        let (file, _) = proved.or_fail(Exit::Failed, "prove")?;
        let prove = start.cost();
        let start = Moment::now();
        verify(public, &file, &ExpectedStatement::default()).or_fail(Exit::Rejected, "verify")?;
        let verified = start.cost();
        self.bytes = self.bytes.max(file.proof.len());
        if !warming || prove.wall_ms >= ONCE_MS {
            self.prove.push(prove);
            self.verify.push(verified);
            for pair in marks.windows(2) {
                let times = pair[0].1.until(&pair[1].1);
                match self.stages.iter_mut().find(|(name, _)| name == pair[0].0) {
                    Some((_, all)) => all.push(times),
                    None => self.stages.push((pair[0].0.to_owned(), vec![times])),
                }
            }
        }
        Ok(prove.wall_ms)
    }
}

const fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Execute => "execute",
        Stage::Witness => "witness",
        Stage::Commit => "commit",
        Stage::Nodes(..) => "nodes",
        Stage::Lookup => "lookup",
        Stage::OpenWitness => "open witness",
        Stage::OpenWeights => "open weights",
        Stage::Done => "done",
    }
}

/// Medians and the least of wall and CPU times; what the kernel did, of all runs together.
fn figure(times: &[Cost]) -> Figure {
    let median = |which: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = times.iter().map(which).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let sum = |which: fn(&Cost) -> f64| times.iter().map(which).sum::<f64>();
    let least = times
        .iter()
        .map(|time| time.wall_ms)
        .fold(f64::INFINITY, f64::min);
    let cpu = sum(|cost| cost.cpu_ms);
    Figure {
        wall_ms: median(|cost| cost.wall_ms),
        cpu_ms: median(|cost| cost.cpu_ms),
        least_wall_ms: if least.is_finite() { least } else { 0.0 },
        system_share: if cpu > 0.0 {
            sum(|cost| cost.system_ms) / cpu
        } else {
            0.0
        },
        faults: median(|cost| cost.faults),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_stands_on_a_page_by_hand_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        assert_eq!(by_hand(&path), "");
        std::fs::write(&path, "# Rows\n").unwrap();
        assert_eq!(by_hand(&path), "");
        let below = format!("{BY_HAND}\n## More\n");
        std::fs::write(&path, format!("# Rows\n{below}")).unwrap();
        assert_eq!(by_hand(&path), format!("\n{below}"));
    }

    #[test]
    fn medians_and_least_are_of_each_column() {
        let cost = |[wall_ms, cpu_ms, system_ms, faults]: [f64; 4]| Cost {
            wall_ms,
            cpu_ms,
            system_ms,
            faults,
        };
        let all = [
            [5.0, 1.0, 0.5, 7.0],
            [1.0, 9.0, 3.0, 2.0],
            [3.0, 4.0, 0.0, 3.0],
        ];
        let got = figure(&all.map(cost));
        let Figure {
            wall_ms,
            cpu_ms,
            least_wall_ms,
            system_share,
            faults,
        } = got;
        assert_eq!((wall_ms, cpu_ms, least_wall_ms), (3.0, 4.0, 1.0));
        assert_eq!((system_share, faults), (0.25, 3.0));
        assert_eq!(figure(&[]).wall_ms, 0.0);
    }

    /// The second row is measured, and its page holds what was measured.
    #[test]
    fn a_row_is_measured_and_written() {
        let row = measure(1, 2, false).unwrap();
        assert_eq!((row.runs, row.batch, row.parameters), (2, 1, 2_410));
        assert!(row.proof_bytes > 10_000 && row.prove.wall_ms > 0.0);
        assert!(row.security_bits >= 100.0);
        assert!(row.stage("lookup").wall_ms > 0.0);
        let masked = measure(1, 1, true).unwrap();
        assert!(masked.zk && masked.proof_bytes > row.proof_bytes);
        assert!(masked.security_bits >= 100.0);
        let page = suite_page::page(&[row, masked]);
        assert!(page.contains("MLP 64-32-10") && page.contains("not measured"));
        assert_eq!(page.matches("| MLP 64-32-10 |").count(), 5);
        assert!(page.contains("| MLP 64-32-10, zk |"));
        assert!(measure(ENTRIES.len(), 1, false).is_err());
    }
}
