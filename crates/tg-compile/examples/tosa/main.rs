//! Compares TGX-1 with Arm's TOSA integer reference, bit for bit.
//!
//! `cargo run --release -p tg-compile --example tosa -- DIR`, where DIR was written by
//! `xtask/python/dump_tosa_cases.py`. Each case becomes the TGX-1 program whose meaning is its operator; the fast
//! executor runs it, [`tg_ir::scalar`] gives every element of every node anew, and both must be what Arm's reference
//! model gave.
//!
//! **What TGX-1 admits**: signed values; tensors of at most three axes, or one image of four; activations of 8 and 16
//! bits (16 without -32768) and accumulators within the field bound; 16-bit multipliers with a shift in [2, 46], a
//! single rounding, results of 8 or 16 bits; biases of 24 bits; any zero points. A 16-bit result that TOSA saturates
//! to -32768 is -32767 here; such cases are counted apart. The others are refused, and counted by reason. A case that
//! is refused for its 32-bit values is tried again with narrower ones (`+narrowed`).

mod builder;
mod case;
mod elementwise;
mod linear;
mod movement;
mod pool;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tg_exec::{Trace, execute_tensor};
use tg_ir::op::{Extreme, Reduction, Relation};
use tg_ir::{ProgramError, TensorId, scalar};

use crate::builder::{Builder, Built, Handle, Refusal};
use crate::case::{Case, Kind};

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// Equal in every element.
    Equal,
    /// Equal but where TOSA saturates to -32768.
    Saturating,
    /// Not admitted.
    Refused(String),
    /// Different, or a program that is not well formed.
    Wrong(String),
}

fn build(case: &Case) -> Result<Built, Refusal> {
    let mut builder = Builder::default();
    let handle = node(&mut builder, case)?;
    debug_assert_eq!(
        handle.axes.iter().product::<u32>(),
        case.result.shape.iter().product::<u32>()
    );
    // A program's result is its last node's.
    let zero_nodes = handle.id == TensorId::INPUT;
    if zero_nodes {
        builder.add(&[(handle.id, 1)], 0);
    }
    builder.finish()
}

fn node(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    match case.operator.as_str() {
        "CONV2D" => linear::convolution(builder, case),
        "DEPTHWISE_CONV2D" => linear::depthwise(builder, case),
        "TRANSPOSE_CONV2D" => linear::transposed(builder, case),
        "MATMUL" => linear::matmul(builder, case, false),
        "MATMUL_T" => linear::matmul(builder, case, true),
        "MAX_POOL2D" | "MAX_POOL2D_ADAPTIVE" => pool::greatest(builder, case),
        "AVG_POOL2D" | "AVG_POOL2D_ADAPTIVE" => pool::mean(builder, case),
        "RESCALE" => elementwise::rescale(builder, case),
        "TABLE" => elementwise::table(builder, case),
        "CLAMP" => elementwise::clamp(builder, case),
        "ADD" => elementwise::sum(builder, case, 1),
        "SUB" => elementwise::sum(builder, case, -1),
        "MUL" => elementwise::product(builder, case),
        "MAXIMUM" | "LOGICAL_OR" => elementwise::extremum(builder, case, Extreme::Greater),
        "MINIMUM" | "LOGICAL_AND" => elementwise::extremum(builder, case, Extreme::Lesser),
        "EQUAL" => elementwise::compare(builder, case, Relation::Equal),
        "GREATER" => elementwise::compare(builder, case, Relation::Greater),
        "GREATER_EQUAL" => elementwise::compare(builder, case, Relation::GreaterOrEqual),
        "LOGICAL_XOR" => elementwise::exclusive_or(builder, case),
        "LOGICAL_NOT" => elementwise::not(builder, case),
        "SELECT" => elementwise::select(builder, case),
        "NEGATE" => elementwise::negate(builder, case),
        "BITWISE_NOT" => elementwise::complement(builder, case),
        "ABS" => elementwise::absolute(builder, case),
        "CAST" => elementwise::cast(builder, case),
        "REDUCE_SUM" => elementwise::reduce(builder, case, Reduction::Sum),
        "REDUCE_MAX" | "REDUCE_ANY" => elementwise::reduce(builder, case, Reduction::Greatest),
        "REDUCE_MIN" | "REDUCE_ALL" => elementwise::reduce(builder, case, Reduction::Least),
        "ARGMAX" => elementwise::argmax(builder, case),
        "RESHAPE" | "IDENTITY" => movement::reshape(builder, case),
        "SLICE" => movement::slice(builder, case),
        "TRANSPOSE" => movement::transpose(builder, case),
        "REVERSE" => movement::reverse(builder, case),
        "TILE" => movement::tile(builder, case),
        "PAD" => movement::pad(builder, case),
        "CONCAT" => movement::concat(builder, case),
        "GATHER" => movement::gather(builder, case),
        "SCATTER" => movement::scatter(builder, case),
        "RESIZE" => movement::resize(builder, case),
        _ => Err("no such operator in TGX-1"),
    }
}

fn judge(case: &Case) -> Outcome {
    let built = match build(case) {
        Ok(built) => built,
        Err(reason) => return Outcome::Refused(reason.to_owned()),
    };
    let program = &built.model.program;
    match program.validate() {
        Ok(()) => {}
        Err(ProgramError::Bound(_)) => {
            return Outcome::Refused("sums that may leave the field bound".to_owned());
        }
        Err(error) => return Outcome::Wrong(format!("the program is refused: {error}")),
    }
    if let Err(error) = built.model.weights.check(program) {
        return Outcome::Wrong(format!("the weights are refused: {error}"));
    }
    let model = match built.model.clone().checked() {
        Ok(model) => model,
        Err(error) => return Outcome::Wrong(format!("the model is refused: {error}")),
    };
    let trace = match execute_tensor(&model, built.input.clone()) {
        Ok(trace) => trace,
        Err(error) => return Outcome::Wrong(format!("execution fails: {error}")),
    };
    if let Some(difference) = differs_from_scalar(&built, &trace) {
        return Outcome::Wrong(difference);
    }
    compare(case, &trace.output().widened())
}

/// The first element of any node where the executor and the definition differ.
fn differs_from_scalar(built: &Built, trace: &Trace) -> Option<String> {
    let program = &built.model.program;
    let mut tensors: Vec<Vec<i32>> = vec![built.input.widened()];
    for (node, description) in program.nodes.iter().enumerate() {
        let executed = trace.tensor(TensorId::of_node(node)).widened();
        for (element, &got) in executed.iter().enumerate() {
            let defined = scalar::element(program, &built.model.weights, node, element, &tensors);
            if got != defined {
                return Some(format!(
                    "{}: element {element} is {got} in the executor and {defined} by definition",
                    description.name
                ));
            }
        }
        tensors.push(executed);
    }
    None
}

fn compare(case: &Case, got: &[i32]) -> Outcome {
    let expected = &case.result.elements;
    if got.len() != expected.len() {
        return Outcome::Wrong(format!("{} elements for {}", got.len(), expected.len()));
    }
    let is_i16 = case.result.kind == Kind::I16;
    let mut saturated = false;
    for (element, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        if i64::from(got) == expected {
            continue;
        }
        if is_i16 && expected == i64::from(i16::MIN) && got == -i32::from(i16::MAX) {
            saturated = true;
            continue;
        }
        return Outcome::Wrong(format!(
            "element {element} is {got}, the reference gives {expected}"
        ));
    }
    if saturated {
        Outcome::Saturating
    } else {
        Outcome::Equal
    }
}

/// How many cases of an operator came out how.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    equal: usize,
    saturating: usize,
    narrowed: usize,
    refused: usize,
    wrong: usize,
    reasons: BTreeMap<String, usize>,
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn run(folder: &Path) -> Result<bool> {
    let list = folder.join("cases.txt");
    let names = std::fs::read_to_string(&list)
        .with_context(|| format!("`{}` cannot be read", list.display()))?;
    let names: Vec<&str> = names.lines().collect();
    let narrowed: std::collections::BTreeSet<&str> = names
        .iter()
        .filter_map(|name| name.strip_suffix("+narrowed"))
        .collect();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for name in names.iter().filter(|name| !name.ends_with("+narrowed")) {
        let read = |name: &str| {
            Case::read(&folder.join("cases").join(name)).with_context(|| format!("case {name}"))
        };
        let case = read(name)?;
        let mut outcome = judge(&case);
        let mut is_narrowed = false;
        if matches!(outcome, Outcome::Refused(_)) && narrowed.contains(name) {
            let again = judge(&read(&format!("{name}+narrowed"))?);
            is_narrowed = !matches!(again, Outcome::Refused(_));
            if is_narrowed {
                outcome = again;
            }
        }
        let tally = tallies.entry(case.operator).or_default();
        match outcome {
            Outcome::Equal if is_narrowed => tally.narrowed += 1,
            Outcome::Equal => tally.equal += 1,
            Outcome::Saturating => tally.saturating += 1,
            Outcome::Refused(reason) => {
                tally.refused += 1;
                *tally.reasons.entry(reason).or_default() += 1;
            }
            Outcome::Wrong(how) => {
                tally.wrong += 1;
                println!("WRONG {name}: {how}");
            }
        }
    }
    report(&tallies);
    if let Ok(left_out) = std::fs::read_to_string(folder.join("left_out.txt")) {
        let total: usize = left_out
            .lines()
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok())
            .sum();
        println!(
            "left out: {total} tests of operators on shapes and block-scaled types, constants, and CONV3D"
        );
    }
    let compared = tallies
        .values()
        .any(|tally| tally.equal + tally.narrowed > 0);
    if !compared {
        bail!("no case was compared");
    }
    Ok(tallies.values().all(|tally| tally.wrong == 0))
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn report(tallies: &BTreeMap<String, Tally>) {
    println!(
        "| operator | equal | equal, narrowed | equal but for -32768 | refused | wrong | why refused |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut all = Tally::default();
    for (operator, tally) in tallies {
        println!("{}", row(operator, tally));
        all.equal += tally.equal;
        all.saturating += tally.saturating;
        all.narrowed += tally.narrowed;
        all.refused += tally.refused;
        all.wrong += tally.wrong;
    }
    println!("{}", row("all", &all));
}

fn row(operator: &str, tally: &Tally) -> String {
    let Tally {
        equal,
        saturating,
        narrowed,
        refused,
        wrong,
        reasons,
    } = tally;
    let reasons: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} ({count})"))
        .collect();
    format!(
        "| {operator} | {equal} | {narrowed} | {saturating} | {refused} | {wrong} | {} |",
        reasons.join("; ")
    )
}

#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: tosa DIR");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
