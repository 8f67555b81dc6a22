//! Searches for the model that costs a validator most, by processor time and by bytes held: of its registration, of evidence
//! about it, and of its files. `cargo run --release -p tg-node --example hardest -- SECONDS [SEED] [FOLDER]` prints the worst
//! ten by either measure, and writes them to `FOLDER/hardest.txt`; `-- show GENES` measures one of them again. It fails if
//! one costs more than it may. Without a seed it takes the day: every night searches elsewhere. The worst ten that were
//! found are kept as tests (`kept`).
//!
//! A candidate is a list of genes ([`program`]), or a kept file with bytes changed. The worst so far are changed
//! at random, and what costs more by either measure takes their place.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a search for people to read"
)]
mod allocations;
#[cfg(test)]
mod kept;
mod measure;
mod program;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use measure::{Effort, Phase, declared, of_program, of_proof, of_public};
use program::{Gene, Numbers, changed, drawn, program};
use tg_proof::ProofFile;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// What nobody may cost a validator.
const TIME: f64 = 0.5;
/// 64 MiB.
const BYTES: f64 = 67_108_864.0;
/// Kept of either measure.
const KEPT: usize = 24;
/// Work of proofs that are always made, and of those that are made of programs which declare more than others before.
const WORK_USUAL: u64 = 2_000_000_000;
const WORK_MAX: u64 = 60_000_000_000;

/// Kept files whose bytes are changed: public models, and proofs with their model.
const MODELS: [&[u8]; 3] = [
    include_bytes!("../../../tg-proof/tests/data/mlp-digits.tgv"),
    include_bytes!("../../../tg-proof/tests/data/large-tables.tgv"),
    include_bytes!("../../../tg-proof/tests/data/private.tgv"),
];
const PROOFS: [(usize, &[u8]); 3] = [
    (
        0,
        include_bytes!("../../../tg-proof/tests/data/mlp-digits.proof"),
    ),
    (
        1,
        include_bytes!("../../../tg-proof/tests/data/large-tables.proof"),
    ),
    (
        0,
        include_bytes!("../../../tg-proof/tests/data/mlp-digits-committed.proof"),
    ),
];

#[derive(Debug, Clone)]
enum Candidate {
    Genes(Vec<Gene>),
    Model(usize, u64),
    Proof(usize, u64),
}

#[derive(Debug, Clone)]
struct Found {
    candidate: Candidate,
    phases: Vec<Phase>,
    /// Steps and bytes that the program declares.
    declared: [u64; 2],
}

impl Found {
    fn time(&self) -> f64 {
        let times = self.phases.iter().map(|phase| phase.time.as_secs_f64());
        times.fold(0.0, f64::max)
    }

    /// Most bytes taken over bytes declared.
    fn undeclared(&self) -> f64 {
        let phases = self.phases.iter();
        let shares = phases.filter_map(|phase| Some(phase.bytes as f64 / phase.declared? as f64));
        shares.fold(0.0, f64::max)
    }

    fn bytes(&self) -> f64 {
        let bytes = self.phases.iter().map(|phase| phase.bytes as f64);
        bytes.fold(0.0, f64::max)
    }
}

/// Bytes with some changed: tags, lengths, repeated and missing parts.
fn havoc(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() as u64) as usize;
        let end = (at + 1 + numbers.below(64) as usize).min(bytes.len());
        match numbers.below(6) {
            0 => bytes[at] = numbers.next().to_le_bytes()[0],
            1 => bytes[at] = [0, 1, 2, 127, 255][numbers.below(5) as usize],
            2 => {
                let value = 1u32 << numbers.below(24);
                for (byte, new) in bytes[at..end].iter_mut().zip(value.to_le_bytes()) {
                    *byte = new;
                }
            }
            3 => {
                // A part many times: lists of nothing.
                let part = bytes[at..end].repeat(1 + numbers.below(4_096) as usize);
                bytes.splice(at..at, part);
            }
            4 => bytes[at..].fill([0, 1][numbers.below(2) as usize]),
            _ => bytes.extend(std::iter::repeat_n(0, numbers.below(1 << 19) as usize)),
        }
    }
    bytes
}

/// Offers what was found to each list; whether one of them took it.
fn offer_to(lists: &mut [Worst], found: &Found) -> bool {
    let mut is_taken = false;
    for list in lists {
        is_taken |= list.offer(found);
    }
    is_taken
}

fn measured(candidate: Candidate, worst: &mut [Worst]) -> Found {
    let mut found = Found {
        phases: Vec::new(),
        declared: [0; 2],
        candidate,
    };
    found.phases = match &found.candidate {
        Candidate::Genes(genes) => {
            let (program, weights) = program(genes);
            let mut work_max = WORK_USUAL;
            if let Some([steps, bytes, _]) = declared(&program) {
                found.declared = [steps, bytes];
                if offer_to(&mut worst[3..], &found) {
                    work_max = WORK_MAX;
                }
            }
            of_program(&program, weights, Effort { work_max })
        }
        Candidate::Model(which, seed) => of_public(&havoc(MODELS[*which], *seed)),
        Candidate::Proof(which, seed) => {
            let (model, bytes) = PROOFS[*which];
            let mut file = ProofFile::read(bytes).unwrap();
            file.proof = havoc(&file.proof, *seed);
            of_proof(MODELS[model], &file)
        }
    };
    found
}

/// The worst so far by one measure.
struct Worst {
    found: Vec<Found>,
    by: fn(&Found) -> f64,
}

impl Worst {
    fn offer(&mut self, found: &Found) -> bool {
        let value = (self.by)(found);
        if value == 0.0 {
            return false;
        }
        // Of candidates that cost the same one is enough.
        if self
            .found
            .iter()
            .any(|known| ((self.by)(known) / value - 1.0).abs() < 0.002)
        {
            return false;
        }
        let place = self.found.partition_point(|known| (self.by)(known) > value);
        self.found.insert(place, found.clone());
        self.found.truncate(KEPT);
        place < 10
    }

    fn draw(&self, numbers: &mut Numbers) -> Option<&Candidate> {
        let place = numbers.below(self.found.len().max(1) as u64) as usize;
        self.found.get(place).map(|found| &found.candidate)
    }
}

fn next(worst: &[Worst; 5], numbers: &mut Numbers) -> Candidate {
    let seed = numbers.next();
    match numbers.below(16) {
        0 => Candidate::Model(numbers.below(3) as usize, seed),
        1 => Candidate::Proof(numbers.below(3) as usize, seed),
        2 => Candidate::Genes(drawn(numbers)),
        kind => match worst[kind as usize % 5].draw(numbers) {
            Some(Candidate::Genes(genes)) => {
                let genes = genes.clone();
                Candidate::Genes(changed(&genes, numbers))
            }
            _ => Candidate::Genes(drawn(numbers)),
        },
    }
}

fn line(found: &Found) -> String {
    let dearest = |by: fn(&Phase) -> f64| {
        let phases = found.phases.iter();
        let most = phases.max_by(|a, b| by(a).total_cmp(&by(b)));
        most.map_or(String::new(), |phase| {
            format!("{}: {}", phase.what, phase.verdict)
        })
    };
    format!(
        "{:.3} s ({}) | {:.1} MiB ({}), {:.2} of what is declared | declared {} {} | {}",
        found.time(),
        dearest(|phase| phase.time.as_secs_f64()),
        found.bytes() / 1_048_576.0,
        dearest(|phase| phase.bytes as f64),
        found.undeclared(),
        found.declared[0],
        found.declared[1],
        match &found.candidate {
            Candidate::Genes(genes) => {
                let genes = genes.iter().map(|gene| u32::from_be_bytes(*gene));
                let genes: Vec<String> = genes.map(|gene| format!("{gene:08x}")).collect();
                genes.join(" ")
            }
            other => format!("{other:?}"),
        }
    )
}

/// Measures one candidate and prints all about it.
fn show(genes: &[Gene]) {
    let (program, weights) = program(genes);
    println!("{:?}", declared(&program));
    println!(
        "{:?}",
        program
            .check()
            .map(|program| tg_proof::plan::Plan::new(program).map(|plan| plan.cost))
    );
    let effort = Effort { work_max: u64::MAX };
    for phase in of_program(&program, weights, effort) {
        println!("{phase:?}");
    }
}

/// Searches for some time; prints what costs more than it may and what is among the worst, and gives the worst by time, by
/// bytes, by bytes over what is declared, and by what they declare of both, and how many cost more than they may.
fn search(seconds: u64, seed: u64) -> ([Worst; 5], u64) {
    let by: [fn(&Found) -> f64; 5] = [
        Found::time,
        Found::bytes,
        Found::undeclared,
        |found| found.declared[0] as f64,
        |found| found.declared[1] as f64,
    ];
    let mut worst = by.map(|by| Worst {
        found: Vec::new(),
        by,
    });
    let mut numbers = Numbers(seed);
    let (start, mut tried, mut admitted, mut above) = (Instant::now(), 0u64, 0u64, 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let candidate = next(&worst, &mut numbers);
        let mut found = measured(candidate, &mut worst);
        if found.time() > TIME {
            // Other work on the machine may have been in the way: the lesser counts.
            let again = measured(found.candidate.clone(), &mut worst);
            if again.time() < found.time() {
                found.phases = again.phases;
            }
        }
        tried += 1;
        admitted += u64::from(found.phases.len() > 1);
        let is_above = found.time() > TIME || found.bytes() > BYTES || found.undeclared() > 1.0;
        above += u64::from(is_above);
        if offer_to(&mut worst[..3], &found) || is_above {
            let mark = if is_above { "ABOVE " } else { "" };
            println!(
                "{:>6} {tried} {mark}{}",
                start.elapsed().as_secs(),
                line(&found)
            );
        }
    }
    println!("{tried} candidates, {admitted} admitted, {above} above, {seconds} s, seed {seed}");
    (worst, above)
}

/// Days since 1970.
fn day() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() / 86_400)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|first| first == "show").is_some() {
        let genes = arguments.map(|gene| u32::from_str_radix(&gene, 16).unwrap().to_be_bytes());
        show(&genes.collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    let seconds: u64 = arguments.next().map_or(60, |text| text.parse().unwrap());
    let seed = arguments.next().map(|text| text.parse().unwrap());
    let folder = arguments.next();
    let (worst, above) = search(seconds, seed.unwrap_or_else(day));
    let mut report = String::new();
    for (name, worst) in ["time", "bytes", "share"].iter().zip(&worst) {
        for found in worst.found.iter().take(10) {
            report.push_str(&format!("{name} | {}\n", line(found)));
        }
    }
    print!("{report}");
    if let Some(folder) = folder {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join("hardest.txt"), report).unwrap();
    }
    if above == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
