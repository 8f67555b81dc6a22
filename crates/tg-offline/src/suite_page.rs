//! What the benchmark suite prints and writes: a table for the terminal, `docs/BENCHMARKS.md`.

use crate::suite_rows::{ENTRIES, Row, Target};
use std::fmt::Write;
use std::process::Command;
use tg_exec::kernels::SimdLevel;

/// Cores, processor, instructions and load of this machine, in one line.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim())
        .to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = load().map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let level = SimdLevel::best();
    format!("{cores} cores of {model} ({level}; prover built for {BUILT_FOR}), load {load}")
}

/// What the field arithmetic of this build is made of.
const BUILT_FOR: &str = if cfg!(target_feature = "avx512f") {
    "avx512"
} else if cfg!(target_feature = "avx2") {
    "avx2"
} else if cfg!(target_feature = "neon") {
    "neon"
} else {
    "no vectors"
};

/// The load of the last minute.
pub(crate) fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The commit that is checked out, if there is one.
fn commit() -> String {
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

fn time(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.2} ms")
    } else if ms < 1_000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1e3)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn megabytes(mib: Option<f64>) -> String {
    mib.map_or("unknown".to_owned(), |mib| {
        format!("{:.0} MB", mib * 1.048_576)
    })
}

/// Lines for the terminal: of proofs in the clear, or of those in zero knowledge.
pub(crate) fn table(rows: &[Row], zk: bool) -> Vec<String> {
    if rows.iter().all(|row| row.zk != zk) {
        return Vec::new();
    }
    let heads = [
        "register", "witness", "commit", "prove", "least", "CPU", "kernel", "verify", "proof",
        "peak", "bits",
    ];
    let mut head = format!("{:<30}", if zk { "zk: true" } else { "model" });
    heads
        .iter()
        .for_each(|name| head.push_str(&format!("{name:>10}")));
    let mut lines = vec![head];
    for (entry, target) in &ENTRIES {
        let name = entry.name();
        let Some(row) = rows.iter().find(|row| row.name == name && row.zk == zk) else {
            continue;
        };
        let cells = [
            time(row.register.wall_ms),
            time(row.stage("witness").wall_ms),
            time(row.stage("commit").wall_ms),
            time(row.prove.wall_ms),
            time(row.prove.least_wall_ms),
            time(row.prove.cpu_ms),
            percent(row.prove.system_share),
            time(row.verify.wall_ms),
            format!("{:.0} kB", row.proof_bytes as f64 / 1e3),
            megabytes(row.peak_mib),
            format!("{:.1}", row.security_bits),
        ];
        let mut text = format!("{name:<30}");
        cells
            .iter()
            .for_each(|cell| text.push_str(&format!("{cell:>10}")));
        let missed = missed(row, target);
        // The targets are for proofs in the clear.
        if !missed.is_empty() && !zk {
            text.push_str(&format!("  above its target: {}", missed.join(", ")));
        }
        lines.push(text);
    }
    lines
}

/// The columns in which a row is above what it is held to. Time is compared by the least run: the machine may be
/// shared.
fn missed(row: &Row, target: &Target) -> Vec<&'static str> {
    let checks = [
        ("prove", row.prove.least_wall_ms > target.prove_ms),
        ("verify", row.verify.least_wall_ms > target.verify_ms),
        ("proof", row.proof_bytes as f64 / 1e3 > target.proof_kb),
        (
            "peak",
            row.peak_mib
                .is_some_and(|mib| mib * 1.048_576 > target.peak_mb),
        ),
    ];
    checks
        .into_iter()
        .filter_map(|(name, above)| above.then_some(name))
        .collect()
}

/// The whole page.
pub(crate) fn page(rows: &[Row]) -> String {
    let mut text = String::from(HEAD);
    push(
        &mut text,
        &format!("Machine: {}. Commit {}.\n", machine(), commit()),
    );
    push(
        &mut text,
        "| model | prove | least | CPU | verify | proof | peak | held to | above |",
    );
    push(&mut text, "|---|---|---|---|---|---|---|---|---|");
    for (entry, target) in &ENTRIES {
        let name = entry.name();
        let held = format!(
            "{} / {} / {:.0} kB / {:.0} MB",
            time(target.prove_ms),
            time(target.verify_ms),
            target.proof_kb,
            target.peak_mb
        );
        match rows.iter().find(|row| row.name == name && !row.zk) {
            Some(row) => {
                let above = missed(row, target).join(", ");
                push(
                    &mut text,
                    &format!(
                        "| {name} | {} | {} | {} | {} | {:.0} kB | {} | {held} | {above} |",
                        time(row.prove.wall_ms),
                        time(row.prove.least_wall_ms),
                        time(row.prove.cpu_ms),
                        time(row.verify.wall_ms),
                        row.proof_bytes as f64 / 1e3,
                        megabytes(row.peak_mib),
                    ),
                );
            }
            None => push(
                &mut text,
                &format!("| {name} | not measured | | | | | | {held} | |"),
            ),
        }
    }
    let all = rows;
    let (masked, rows): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.zk);
    in_zero_knowledge(&mut text, &masked, &rows);
    in_the_kernel(&mut text, all);
    once(&mut text, &rows);
    stages(&mut text, &rows);
    text.push_str(PEERS);
    text
}

/// The rows whose proofs hide input and activations.
fn in_zero_knowledge(text: &mut String, rows: &[&Row], clear: &[&Row]) {
    push(text, ZERO_KNOWLEDGE);
    push(
        text,
        "| model | prove | least | CPU | of the clear one's | verify | proof | more | peak | bits | runs |",
    );
    push(text, "|---|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let beside = clear.iter().find(|it| it.name == row.name);
        let [times, more] = beside.map_or_else(Default::default, |clear| {
            let more = row.proof_bytes as f64 - clear.proof_bytes as f64;
            let times = row.prove.cpu_ms / clear.prove.cpu_ms;
            [format!("{times:.2} x"), format!("{:.0} kB", more / 1e3)]
        });
        push(
            text,
            &format!(
                "| {} | {} | {} | {} | {times} | {} | {:.0} kB | {more} | {} | {:.1} | {} |",
                row.name,
                time(row.prove.wall_ms),
                time(row.prove.least_wall_ms),
                time(row.prove.cpu_ms),
                time(row.verify.wall_ms),
                row.proof_bytes as f64 / 1e3,
                megabytes(row.peak_mib),
                row.security_bits,
                row.runs,
            ),
        );
    }
}

/// How much of the time of proofs is the kernel's.
fn in_the_kernel(text: &mut String, rows: &[Row]) {
    push(text, KERNEL);
    push(
        text,
        "| model | CPU | of it kernel | page faults | runs | load then |",
    );
    push(text, "|---|---|---|---|---|---|");
    for row in rows {
        let load = row
            .load
            .map_or("unknown".to_owned(), |load| format!("{load:.1}"));
        let zk = if row.zk { ", zk" } else { "" };
        push(
            text,
            &format!(
                "| {}{zk} | {} | {} | {:.0} | {} | {load} |",
                row.name,
                time(row.prove.cpu_ms),
                percent(row.prove.system_share),
                row.prove.faults,
                row.runs,
            ),
        );
    }
}

/// What is paid once per model.
fn once(text: &mut String, rows: &[&Row]) {
    push(
        text,
        "\n## Once per model\nCommitting the weights and proving that each is in its range (register), and checking that.\n",
    );
    push(
        text,
        "| model | parameters | multiply-accumulates | register | CPU | check | public model | load then |",
    );
    push(text, "|---|---|---|---|---|---|---|---|");
    for row in rows {
        let load = row
            .load
            .map_or("unknown".to_owned(), |load| format!("{load:.1}"));
        push(
            text,
            &format!(
                "| {} | {} | {} | {} | {} | {} | {:.0} kB | {load} |",
                row.name,
                row.parameters,
                row.macs,
                time(row.register.wall_ms),
                time(row.register.cpu_ms),
                time(row.registration_verify.wall_ms),
                row.public_model_bytes as f64 / 1e3,
            ),
        );
    }
}

/// Where the time of a proof goes.
fn stages(text: &mut String, rows: &[&Row]) {
    const STAGES: [&str; 7] = [
        "execute",
        "witness",
        "commit",
        "nodes",
        "lookup",
        "open witness",
        "open weights",
    ];
    push(
        text,
        "\n## Where the time goes\nMedian CPU time of each stage, and the level of security reached.\n",
    );
    push(
        text,
        &format!("| model | {} | runs | bits |", STAGES.join(" | ")),
    );
    push(text, "|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let cells: Vec<String> = STAGES
            .iter()
            .map(|stage| time(row.stage(stage).cpu_ms))
            .collect();
        push(
            text,
            &format!(
                "| {} | {} | {} | {:.1} |",
                row.name,
                cells.join(" | "),
                row.runs,
                row.security_bits
            ),
        );
    }
}

fn push(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{line}");
}

const HEAD: &str = "# Benchmarks

Written by `tensorgrid bench prove --suite --write docs/BENCHMARKS.md`. Models are built from a seed: known
architectures, bell-shaped random weights of 8 bits, requantisations calibrated on one input. `zk: false`. A row runs in
its own process, on all cores; `prove` holds execution, witness and commitment of the activations; medians, and the
least run beside them because the machine may be shared; a proof of over a minute is made once. Peak is the highest resident set, the model and its registration
included. The transformers have 8 bits where something is multiplied and 16 elsewhere; GPT-2's output layer has
the embedding's weights, as one tensor; it gives the most likely of 50,257 tokens after each of 16, or the scores of all of them after the last
of 512. BERT gives the states after its last layer, ViT-Tiny scores of 1,000 classes. Security is composed and at least 100 bits (Johnson bound,
no conjecture). A machine with other work (see the loads) stretches wall
times, which are what a row is held to; CPU time is then the figure to compare.

";

const ZERO_KNOWLEDGE: &str = "
## In zero knowledge
`zk: true`, the input hidden, the output public, the weights not hidden ([PROOF.md](PROOF.md#zero-knowledge)).
Beside the CPU time its ratio to that of the proof in the clear, and beside the proof what it has more than that one.
";

const KERNEL: &str = "
## Time in the kernel
Its share of the CPU time of all proofs of a row together, and the page faults of one proof. The share is told from the rest by
what runs at ticks of the clock, so it is rough where a row takes a few milliseconds, and threads that wait for each other on a
machine with other work are in the kernel, too.
";

const PEERS: &str = "
## Published figures of others
Not measured in this run. Other machines, other statements: read the sources before comparing.

| system | model | prove | verify | proof | machine | source |
|---|---|---|---|---|---|---|
| DeepProve | CNN 264k / dense 4M | 1.24 / 2.34 s | 0.60 / 0.52 s | not given | not given | its README, 2025 |
| EZKL, by DeepProve | CNN 264k / dense 4M | 196.6 / 126.8 s | 312.5 / 1.1 s | not given | not given | same, which calls the comparison unfair |
| zkPyTorch with Expander | VGG-16 CIFAR, 15.2M | 2.2 s | not given | not given | 1 core | ePrint 2025/535, table 1 |
| zkCNN | VGG-16 CIFAR, 15M | 88.3 s | 59 ms | 341 kB | EPYC 7R32 | second-hand |
| Bionetta UltraGroth, public weights | ResNet-18 | 14.1 s | 10-20 ms | 0.9 kB | Xeon E5-2665, 16 threads | its paper, table 4; set-up per circuit |
| EZKL, by Bionetta | LeNet-5 / ResNet-18 | 535 / 6,840 s | 2.0 / 25 s | 127-478 kB | same | same |
| zkCNN, by Bionetta | LeNet-5 | 1.05 s | 0.3 s | 38 kB | same | same |
| Jolt Atlas | nanoGPT 0.25M, 4 layers | 2.29 s | 0.127 s | not given | Apple M3 | its README, August 2026 |
| DeepProve | GPT-2 124M, 512 tokens | 176 s | 1.65 s | 24.3 MiB | Ryzen 9 7950X3D, 16 cores | ePrint 2026/1112, table 2 |

Measured earlier on 2 cores of an AMD EPYC with DeepProve's public code: CNN 264k 2.6 s, verify 0.22 s, 12.3 MB; dense
4M 2.9 s, 0.25 s, 12.3 MB, 1.1 GB.
";
