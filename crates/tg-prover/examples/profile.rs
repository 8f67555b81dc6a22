//! Where the time of a proof goes: `profile NAME [RUNS]`, one line per stage.
#![allow(
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a tool"
)]

use std::collections::BTreeMap;
use std::time::Instant;
use tg_compile::suite::Architecture;
use tg_exec::IntTensor;
use tg_proof::messages::{self, GadgetProof, InferenceProof, Pushforwards};
use tg_proof::{ExpectedStatement, Parts, PublicModel, verify};
use tg_prover::{ProveRequest, ProvingModel, Stage, prove};

/// CPU seconds of this process.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|f| f.parse().unwrap())
        .collect();
    (fields[0] + fields[1]) / 100.0
}

fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap_or_default().to_owned()
}

/// The bytes of a proof by part; what the nodes send also by operator.
fn parts(proof: &InferenceProof) -> BTreeMap<String, usize> {
    let mut parts = BTreeMap::new();
    let mut add = |name: &str, bytes: Vec<u8>| {
        *parts.entry(name.to_owned()).or_default() += bytes.len();
    };
    for node in &proof.nodes {
        let name = match &node.gadget {
            GadgetProof::Products(_) => "products",
            GadgetProof::Map(_) => "map",
            GadgetProof::Mul(_) => "mul",
            GadgetProof::MatMul(_) => "matmul",
            GadgetProof::Parameter(_) => "parameter",
            GadgetProof::Embed(_) => "embed",
            GadgetProof::Requantise(_) => "requantise",
            GadgetProof::Maximum(_) => "maximum",
            GadgetProof::Staged(_) => "staged",
            GadgetProof::Chosen(_) => "embed computed",
            GadgetProof::Trees(_) => "trees",
            GadgetProof::Output(_) => "output",
        };
        add(&format!("node {name}"), messages::encode(&node.gadget));
        add("node merge", messages::encode(&node.merge));
    }
    let mut openings = vec![
        ("witness", proof.witness_opening.as_ref()),
        ("weights", proof.weights_opening.as_ref()),
    ];
    if let Some(lookup) = &proof.lookup {
        add(
            "lookup pushforwards",
            messages::encode(&lookup.pushforwards),
        );
        add("lookup sum", messages::encode(&lookup.gkr));
        add("lookup columns", messages::encode(&lookup.columns));
        if let Pushforwards::Committed(committed) = &lookup.pushforwards {
            openings.push(("pushforwards", Some(&committed.opening)));
        }
    }
    for (name, opening) in openings {
        if let Some(opening) = opening {
            add(&format!("opening of {name}"), messages::encode(opening));
        }
    }
    let sections = &proof.sections;
    add("witness anchors", messages::encode(&sections.anchors));
    add("lookup sum", messages::encode(&sections.sums));
    for opening in &sections.openings {
        add("opening of witness", messages::encode(opening));
    }
    parts
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let runs: usize = arguments.next().map_or(3, |n| n.parse().unwrap());
    for architecture in Architecture::ALL {
        if !architecture.name().starts_with(&wanted) {
            continue;
        }
        let start = Instant::now();
        let (compiled, input) = architecture.model(1);
        println!("== {} build {:?}", architecture.name(), start.elapsed());
        let (start, c) = (Instant::now(), cpu());
        if std::env::var_os("PLAN").is_some() {
            let shape = tg_proof::model::ProofShape::new(compiled.program.check().unwrap());
            println!("{:?}", shape.map(|shape| shape_of(&shape)));
            continue;
        }
        let model = ProvingModel::new(compiled).unwrap();
        println!("commit weights {:?} cpu {:.2}", start.elapsed(), cpu() - c);
        let (start, c) = (Instant::now(), cpu());
        let public = model.register().unwrap();
        println!("register {:?} cpu {:.2}", start.elapsed(), cpu() - c);
        describe(&public);
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        for run in 0..runs {
            measure(run, &model, &public, &input);
        }
        println!("{}", peak());
    }
}

/// The sizes of what is committed, and what a verifier does.
fn shape_of(shape: &tg_proof::model::ProofShape) -> String {
    let sections = shape.sections.iter();
    let vars: Vec<usize> = sections.map(|(scheme, _)| scheme.num_variables()).collect();
    let tables = shape.plan.witness.iter();
    let cells: usize = tables
        .clone()
        .map(|t| t.columns << t.chunk.column_vars())
        .sum();
    let columns: usize = tables.map(|table| table.columns).sum();
    let sums: Vec<usize> = shape.plan.sum_vars().collect();
    format!(
        "witness {vars:?} of {cells} cells in {columns} columns, sums {sums:?}, {:?}",
        shape.plan.cost
    )
}

/// Checks a registration, and prints the sizes of what is committed and the levels of security.
fn describe(public: &PublicModel) {
    let start = Instant::now();
    public.verify_registration().unwrap();
    println!(
        "verify registration {:?}, {} bytes",
        start.elapsed(),
        public.encode().len()
    );
    let security = tg_proof::security::report(public).unwrap().bits;
    let registration = tg_proof::security::registration_report(public).unwrap();
    let shape = tg_proof::model::ProofShape::new(public.program().check().unwrap()).unwrap();
    let entries: Vec<usize> = shape.plan.tables.iter().map(|table| table.len()).collect();
    println!(
        "{} tables of {} entries {entries:?}, weights 2^{}",
        entries.len(),
        entries.iter().sum::<usize>(),
        shape
            .weights
            .as_ref()
            .map_or(0, |own| own.scheme.num_variables())
    );
    println!("{}", shape_of(&shape));
    println!(
        "security {security:.2}, registration {:.2}",
        registration.bits
    );
}

/// One proof: the time of each stage, and in the first run the bytes of each part.
fn measure(run: usize, model: &ProvingModel, public: &PublicModel, input: &IntTensor) {
    let c = cpu();
    let start = Instant::now();
    let mut at = (Instant::now(), cpu());
    let mut stage = String::new();
    let mut line = String::new();
    let request = ProveRequest::of(vec![input.clone()]);
    let (file, _) = prove(model, request, &mut |now| {
        let name = match now {
            Stage::Nodes(..) => "Nodes".to_owned(),
            other => format!("{other:?}"),
        };
        if name != stage {
            if !stage.is_empty() {
                let took = at.0.elapsed().as_secs_f64() * 1e3;
                line += &format!(" {stage} {took:.1} ({:.2} s)", cpu() - at.1);
            }
            stage = name;
            at = (Instant::now(), cpu());
        }
    })
    .unwrap();
    let (took, c) = (start.elapsed(), cpu() - c);
    let start = Instant::now();
    verify(public, &file, &ExpectedStatement::default()).unwrap();
    println!(
        "run {run}: prove {:.1} ms cpu {:.2} s verify {:.2} ms {} bytes |{line}",
        took.as_secs_f64() * 1e3,
        c,
        start.elapsed().as_secs_f64() * 1e3,
        file.proof.len()
    );
    if run == 0 {
        let proof: InferenceProof = messages::decode_inference(&file.proof, Parts::ALL).unwrap();
        for (part, bytes) in parts(&proof) {
            println!("{bytes:>9} bytes {part}");
        }
    }
}
