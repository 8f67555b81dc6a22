//! `cargo xtask market-judge --data DIR`: placements of the openb trace under the outside judge.
//!
//! `DIR` is the folder of the trace (`nodes_W_S.csv`, `arrivals_W_S.csv`, `fgd_published_allocation.csv`); the judge
//! is `judge_schedule.py`, looked for in `DIR/../../tools` or given by `--judge FILE`. Neither is part of the
//! repository. Without them, or without `python3`, nothing is checked and the output says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// Workloads of the published experiment that are placed.
const WORKLOADS: [&str; 3] = ["default", "gpuspec33", "multigpu20"];

/// Seeds of the published arrival orders.
const SEEDS: [&str; 2] = ["42", "43"];

/// Arrived demand, in per cent of capacity, at which shares are compared.
const ARRIVED: [&str; 5] = ["80", "90", "95", "100", "130"];

/// What a run is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folder of the trace.
    pub data: Option<PathBuf>,
    /// The judge.
    pub judge: Option<PathBuf>,
    /// The placement rule; `tensorgrid` if none.
    pub policy: Option<String>,
}

impl Options {
    /// Reads `--data DIR`, `--judge FILE` and `--policy NAME`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let value = rest
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            match word {
                "--data" => options.data = Some(PathBuf::from(value)),
                "--judge" => options.judge = Some(PathBuf::from(value)),
                "--policy" => options.policy = Some((*value).to_owned()),
                other => bail!(
                    "market-judge does not know `{other}`; it takes --data, --judge and --policy"
                ),
            }
        }
        Ok(options)
    }
}

/// Places every workload, has the placements judged, and prints ours beside the published ones.
///
/// # Errors
/// If the placements are invalid, or a program fails.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let Some(data) = &options.data else {
        println!("SKIPPED: market-judge needs --data DIR, the folder of the openb trace");
        return Ok(());
    };
    let judge = options
        .judge
        .clone()
        .unwrap_or_else(|| data.join("../../tools/judge_schedule.py"));
    if !data.join("nodes_default_42.csv").is_file() || !judge.is_file() {
        println!(
            "SKIPPED: no trace in {} or no judge at {}",
            data.display(),
            judge.display()
        );
        return Ok(());
    }
    if Command::new("python3").arg("--version").output().is_err() {
        println!("SKIPPED: market-judge needs python3");
        return Ok(());
    }
    let published = std::fs::read_to_string(data.join("fgd_published_allocation.csv"))
        .context("the published allocations cannot be read")?;
    let out = root.join("target/market");
    std::fs::create_dir_all(&out)?;
    let policy = options.policy.as_deref().unwrap_or("tensorgrid");
    for workload in WORKLOADS {
        let mut rows = Vec::new();
        for seed in SEEDS {
            let ours = judged(root, data, &judge, &out, (workload, seed, policy))?;
            let fgd = published_row(&published, workload, seed)?;
            rows.push((ours.shares.clone(), fgd));
            println!(
                "{workload:<11} seed {seed}: {}; 8-GPU jobs refused {}, needless refusals {}",
                line(&ours.shares, &rows[rows.len() - 1].1),
                ours.refused_8gpu,
                ours.needless
            );
            ensure!(
                ours.needless == 0,
                "a job was refused although a machine fitted"
            );
        }
        let (ours, fgd): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        println!(
            "{workload:<11} mean   : {}",
            line(&mean(&ours), &mean(&fgd))
        );
    }
    Ok(())
}

/// Mean of each column.
fn mean(rows: &[Vec<f64>]) -> Vec<f64> {
    (0..ARRIVED.len())
        .map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64)
        .collect()
}

fn line(ours: &[f64], fgd: &[f64]) -> String {
    let cells = ARRIVED.iter().zip(ours.iter().zip(fgd));
    cells
        .map(|(at, (ours, fgd))| format!("@{at} {ours:.2} (FGD {fgd:.2})"))
        .collect::<Vec<_>>()
        .join("  ")
}

struct Judged {
    shares: Vec<f64>,
    refused_8gpu: f64,
    needless: u64,
}

/// Places one workload and asks the judge.
fn judged(
    root: &Path,
    data: &Path,
    judge: &Path,
    out: &Path,
    (workload, seed, policy): (&str, &str, &str),
) -> Result<Judged> {
    let nodes = data.join(format!("nodes_{workload}_{seed}.csv"));
    let arrivals = data.join(format!("arrivals_{workload}_{seed}.csv"));
    let placements = out.join(format!("{workload}_{seed}_{policy}.csv"));
    let mut simulation = process::optimised_example(root, "tg-lab", "simulate");
    let simulation = simulation.args([&nodes, &arrivals]).args([policy, "1"]);
    let simulation = simulation.arg(&placements);
    process::run(
        simulation.stdout(std::process::Stdio::null()),
        "the simulation failed",
    )?;
    let answer = Command::new("python3")
        .arg(judge)
        .args([&nodes, &arrivals, &placements])
        .args(["--needless", "--json"])
        .output()
        .context("python3 cannot be started")?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    ensure!(answer.status.success(), "the judge refused: {text}");
    let shares = ARRIVED
        .iter()
        .map(|at| number(&text, "alloc_at", at))
        .collect::<Result<_>>()?;
    Ok(Judged {
        shares,
        refused_8gpu: number(&text, "rejected", "8gpu").unwrap_or(0.0),
        needless: number(&text, "needless_rejections", "")? as u64,
    })
}

/// The number at `object.key` (or at `object`) of the judge's flat JSON.
fn number(text: &str, object: &str, key: &str) -> Result<f64> {
    let mut rest = text
        .split_once(&format!("\"{object}\":"))
        .with_context(|| format!("the judge says nothing of {object}"))?
        .1;
    if !key.is_empty() {
        let end = rest.find('}').unwrap_or(rest.len());
        rest = rest[..end]
            .split_once(&format!("\"{key}\":"))
            .with_context(|| format!("the judge says nothing of {object}.{key}"))?
            .1;
    }
    let rest = rest.trim_start();
    let end = rest
        .find(|it: char| !it.is_ascii_digit() && it != '.' && it != '-')
        .unwrap_or(rest.len());
    rest[..end].parse().context("the judge's number is none")
}

/// FGD's published shares for `workload` and `seed`.
fn published_row(text: &str, workload: &str, seed: &str) -> Result<Vec<f64>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().context("no header")?.split(',').collect();
    let name = format!("openb_pod_list_{workload}");
    let row: Vec<&str> = lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .find(|row| row.len() > 4 && row[0] == name && row[1] == "06-FGD" && row[3] == seed)
        .context("FGD's row is not there")?;
    let cell = |at: &&str| -> Result<f64> {
        let column = header.iter().position(|it| it == at);
        let column = column.with_context(|| format!("no column {at}"))?;
        row.get(column)
            .context("a short row")?
            .parse()
            .context("a published share is no number")
    };
    ARRIVED.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = Options::parse(&["--data", "d", "--policy", "fgd"]).ok();
        let expected = Options {
            data: Some(PathBuf::from("d")),
            judge: None,
            policy: Some("fgd".to_owned()),
        };
        assert_eq!(read, Some(expected));
        assert!(Options::parse(&["--data"]).is_err());
        assert!(Options::parse(&["--dada", "x"]).is_err());
    }

    #[test]
    fn the_judges_numbers_are_found() {
        let text = r#"{"alloc_at": {"80": 79.99, "95": 95.01}, "rejected": {"8gpu": 9, "cpu": 1}, "needless_rejections": 0}"#;
        let check = |object, key, expected: f64| {
            assert_eq!(number(text, object, key).ok(), Some(expected));
        };
        check("alloc_at", "95", 95.01);
        check("rejected", "8gpu", 9.0);
        check("needless_rejections", "", 0.0);
        assert!(number(text, "rejected", "2gpu").is_err());
    }

    #[test]
    fn published_rows_are_found() {
        let text = "workload,sc_policy,tune,seed,total_gpus,80,90,95,100,130\n\
                    openb_pod_list_default,05-BestFit,1.3,42,6212,1,1,1,1,1\n\
                    openb_pod_list_default,06-FGD,1.3,42,6212,79.99,89.98,94.92,95.14,95.29\n";
        let row = published_row(text, "default", "42").ok();
        assert_eq!(row, Some(vec![79.99, 89.98, 94.92, 95.14, 95.29]));
        assert!(published_row(text, "default", "43").is_err());
    }
}
