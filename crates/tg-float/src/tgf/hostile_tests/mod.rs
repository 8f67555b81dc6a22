//! Nodes of strangers: whatever they ask for, an evaluation ends with a result or a reason, within its budget.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::too_many_lines,
    reason = "tests; some are tables of cases"
)]

mod tables;

use super::tests::node;
use super::{Budget, OpError, evaluate, is_known};
use crate::fuzz::{below, pick, tensor_of};
use crate::graph::{Attribute, Node};
use crate::tensor::{DType, Data, FloatTensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tables::{FAMILIES, Family, TEMPLATES, TEXTS};
use tg_exec::sample::Numbers;

fn integer(draws: &mut Numbers) -> i64 {
    match below(draws, 12) {
        0 => draws.next() as i64,
        1 => pick(
            draws,
            &[
                i64::MIN,
                i64::MAX,
                1 << 31,
                (1 << 31) - 1,
                1 << 62,
                1 << 20,
                -1 << 40,
            ],
        ),
        2 => below(draws, 40) as i64 - 5,
        _ => below(draws, 5) as i64 - 1,
    }
}

fn float(draws: &mut Numbers) -> f32 {
    match below(draws, 8) {
        0 => f32::from_bits(draws.next() as u32),
        1 => pick(
            draws,
            &[f32::NAN, f32::INFINITY, -f32::INFINITY, 1e38, -0.0, 1e-40],
        ),
        _ => (below(draws, 9) as f32 - 3.0) * 0.5,
    }
}

fn attribute(draws: &mut Numbers, kind: u8) -> Attribute {
    let count = below(draws, 5);
    let text = |draws: &mut Numbers| pick(draws, TEXTS).as_bytes().to_vec();
    match kind {
        b'i' => Attribute::Int(integer(draws)),
        b'f' => Attribute::Float(float(draws)),
        b'I' => Attribute::Ints((0..count).map(|_| integer(draws)).collect()),
        b'F' => Attribute::Floats((0..count).map(|_| float(draws)).collect()),
        b't' => Attribute::Text(text(draws)),
        _ => Attribute::Texts((0..count).map(|_| text(draws)).collect()),
    }
}

/// A node of an operator with any attributes, and inputs whose shapes go together now and then.
fn case(
    draws: &mut Numbers,
    (domain, ops, attributes): Family,
    op: &str,
) -> (Node, Vec<Option<FloatTensor>>) {
    assert!(ops.contains(&op));
    let count = 1 + below(draws, 6);
    let mut node = node(
        op,
        pick(draws, &[1, 8, 9, 10, 11, 13, 18, 21]),
        &[],
        count,
        1 + below(draws, 4),
    );
    node.domain = domain.to_owned();
    for _ in 0..below(draws, 1 + attributes.len().min(6)) {
        let named = pick(draws, attributes);
        let own = attribute(draws, named.as_bytes()[0]);
        node.attributes.insert(named[2..].to_owned(), own);
    }
    let base: Vec<usize> = (0..below(draws, 6)).map(|_| size(draws)).collect();
    let main = match below(draws, 5) {
        0 => pick(draws, &DType::ALL).0,
        1 => pick(
            draws,
            &[
                DType::I64,
                DType::U8,
                DType::I8,
                DType::F64,
                DType::F16,
                DType::I32,
            ],
        ),
        _ => DType::F32,
    };
    let mut inputs = Vec::new();
    for index in 0..count {
        if index > 0 && below(draws, 8) == 0 {
            inputs.push(None);
            node.inputs[index] = None;
            continue;
        }
        let (dtype, shape) = match below(draws, 5) {
            _ if index == 0 => (main, base.clone()),
            0 => (
                DType::I64,
                (0..below(draws, 3)).map(|_| size(draws)).collect(),
            ),
            1 => (DType::I64, vec![base.len()]),
            2 => (main, (0..below(draws, 5)).map(|_| size(draws)).collect()),
            3 => (main, base[base.len().min(below(draws, 3))..].to_vec()),
            _ => (main, base.clone()),
        };
        let dtype = if below(draws, 12) == 0 {
            pick(draws, &DType::ALL).0
        } else {
            dtype
        };
        inputs.push(Some(tensor_of(draws, dtype, shape)));
    }
    (node, inputs)
}

fn size(draws: &mut Numbers) -> usize {
    pick(draws, &[0, 1, 1, 2, 2, 2, 3, 3, 4, 5])
}

/// The family of an operator.
fn family_of(op: &str) -> Family {
    *FAMILIES
        .iter()
        .find(|family| family.1.contains(&op))
        .unwrap()
}

/// The kind of an attribute, as its family says.
fn kind_of(family: Family, name: &str) -> u8 {
    let named = family.2.iter().find(|own| &own[2..] == name);
    named
        .unwrap_or_else(|| panic!("{name} is not an attribute of {:?}", family.1))
        .as_bytes()[0]
}

fn parsed(kind: u8, text: &str) -> Attribute {
    let list: Vec<&str> = text.split(',').collect();
    match kind {
        b'i' => Attribute::Int(text.parse().unwrap()),
        b'f' => Attribute::Float(text.parse().unwrap()),
        b'I' => Attribute::Ints(list.iter().map(|one| one.parse().unwrap()).collect()),
        b'F' => Attribute::Floats(list.iter().map(|one| one.parse().unwrap()).collect()),
        b't' => Attribute::Text(text.as_bytes().to_vec()),
        _ => Attribute::Texts(list.iter().map(|one| one.as_bytes().to_vec()).collect()),
    }
}

/// An input: its sizes, of any values; `K` and `F` are its values.
fn operand(draws: &mut Numbers, text: &str) -> Option<FloatTensor> {
    let (kind, sizes) = text.split_once(' ').unwrap_or((text, ""));
    let list = |sizes: &str| -> Vec<i64> {
        sizes
            .split(',')
            .filter(|one| !one.is_empty())
            .map(|one| one.parse().unwrap())
            .collect()
    };
    let values = list(sizes);
    let mut shape: Vec<usize> = values.iter().map(|&size| size as usize).collect();
    let changed = below(draws, 12);
    if changed < shape.len() {
        shape[changed] = size(draws);
    }
    let mut values = values;
    if changed < values.len() {
        values[changed] = integer(draws);
    }
    let dtype = match kind {
        "-" => return None,
        "K" => return Some(FloatTensor::vector(values)),
        "F" => {
            return Some(FloatTensor::vector(
                values.iter().map(|&v| v as f32).collect::<Vec<_>>(),
            ));
        }
        "f" => DType::F32,
        "d" => DType::F64,
        "B" => DType::U8,
        "b" => DType::Bool,
        "i" => DType::I32,
        _ => DType::I64,
    };
    let tensor = tensor_of(draws, dtype, shape.clone());
    if dtype != DType::I64 || below(draws, 4) == 0 {
        return Some(tensor);
    }
    // Places, mostly.
    let places = (0..tensor.len()).map(|_| below(draws, 2) as i64).collect();
    Some(FloatTensor::new(shape, Data::I64(places)).unwrap())
}

/// A mutation of a template.
fn mutation(draws: &mut Numbers, template: &str) -> (Node, Vec<Option<FloatTensor>>) {
    let parts: Vec<&str> = template.split('|').collect();
    let (op, operands, attributes) = (parts[0], &parts[1..parts.len() - 1], parts[parts.len() - 1]);
    let family = family_of(op);
    let mut node = node(
        op,
        pick(draws, &[21, 21, 21, 13, 9]),
        &[],
        operands.len(),
        1 + below(draws, 4),
    );
    node.domain = family.0.to_owned();
    for pair in attributes.split_whitespace() {
        let (name, text) = pair.split_once('=').unwrap();
        let own = parsed(kind_of(family, name), text);
        node.attributes.insert(name.to_owned(), own);
    }
    for _ in 0..below(draws, 3) {
        let named = pick(draws, family.2);
        let own = attribute(draws, named.as_bytes()[0]);
        node.attributes.insert(named[2..].to_owned(), own);
    }
    let inputs: Vec<_> = operands.iter().map(|text| operand(draws, text)).collect();
    for (slot, input) in node.inputs.iter_mut().zip(&inputs) {
        if input.is_none() {
            *slot = None;
        }
    }
    (node, inputs)
}

/// What the budget allows takes less than this, whatever it is: generous, since tests run beside others.
const TIME_MAX: Duration = Duration::from_secs(5);

/// What a node does within a budget; what is wrong with that goes to `failures`. Whether it has a result.
fn try_node(
    seed: u64,
    node: &Node,
    inputs: &[Option<FloatTensor>],
    failures: &mut Vec<String>,
) -> bool {
    let budget = Budget {
        bytes: 1 << 22,
        iterations: 64,
        work: 1 << 28,
    };
    assert!(is_known(node), "{}", node.op);
    let given: Vec<Option<&FloatTensor>> = inputs.iter().map(Option::as_ref).collect();
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| evaluate(node, &given, &budget)));
    let took = start.elapsed();
    if took > TIME_MAX {
        failures.push(format!("{} takes {took:?}, seed {seed}: {node:?}", node.op));
    }
    match result {
        Err(_) => {
            failures.push(format!(
                "{} panics, seed {seed}: {node:?} {inputs:?}",
                node.op
            ));
            false
        }
        Ok(Ok(results)) => {
            let bytes: usize = results.iter().map(FloatTensor::bytes).sum();
            if bytes > 2 * budget.bytes {
                failures.push(format!("{} gives {bytes} bytes, seed {seed}", node.op));
            }
            true
        }
        Ok(Err(_)) => false,
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Calls `make` with every seed of a case and tries what it makes. `TENSORGRID_FUZZ_ROUNDS` makes it longer,
/// `TENSORGRID_FUZZ_SEED` repeats a failure.
fn try_seeds(
    name: &str,
    number: usize,
    failures: &mut Vec<String>,
    mut make: impl FnMut(&mut Numbers) -> (Node, Vec<Option<FloatTensor>>),
) {
    let rounds = variable("TENSORGRID_FUZZ_ROUNDS");
    let only = variable("TENSORGRID_FUZZ_SEED");
    let seeds = (0..rounds.unwrap_or(400)).map(|round| (number as u64) << 32 | round);
    let mut good = 0;
    for seed in seeds.filter(|seed| only.is_none_or(|only| only == *seed)) {
        let (node, inputs) = make(&mut Numbers::new(seed));
        good += u64::from(try_node(seed, &node, &inputs, failures));
    }
    if let Some(rounds) = rounds {
        println!("{name}: {good} of {rounds} have a result");
    }
}

fn report(failures: &[String]) {
    let shown = failures.iter().take(12).cloned().collect::<Vec<_>>();
    assert!(
        failures.is_empty(),
        "{} failures: {}",
        failures.len(),
        shown.join("\n")
    );
}

#[test]
fn no_node_panics_or_exceeds_its_budget() {
    let mut failures = Vec::new();
    for (number, &family) in FAMILIES.iter().enumerate() {
        for &op in family.1 {
            try_seeds(op, number, &mut failures, |draws| case(draws, family, op));
        }
    }
    report(&failures);
}

#[test]
fn nodes_changed_a_little_do_not_either() {
    let mut failures = Vec::new();
    for (number, template) in TEMPLATES.iter().enumerate() {
        try_seeds(template, 1_000 + number, &mut failures, |draws| {
            mutation(draws, template)
        });
    }
    report(&failures);
}

/// Texts are as large as they are: a small tensor repeated often is many bytes.
#[test]
fn repeated_texts_are_counted_by_their_bytes() {
    let text = FloatTensor::vector(vec!["a".repeat(1 << 16)]);
    let node = node("Expand", 13, &[], 2, 1);
    let shape = FloatTensor::vector(vec![1i64 << 16]);
    let error = evaluate(&node, &[Some(&text), Some(&shape)], &Budget::default()).unwrap_err();
    assert!(matches!(error, OpError::Memory { .. }), "{error}");
}

/// Each of these was a panic, or ran for hours.
#[test]
fn what_was_found_stays_refused() {
    let eval = |node: &Node, inputs: &[&FloatTensor]| {
        let inputs: Vec<Option<&FloatTensor>> = inputs.iter().map(|&tensor| Some(tensor)).collect();
        evaluate(
            node,
            &inputs,
            &Budget {
                work: 1 << 32,
                bytes: 1 << 28,
                iterations: 8,
            },
        )
    };
    let f = |shape: &[usize]| {
        FloatTensor::of(shape.to_vec(), vec![0f32; shape.iter().product()]).unwrap()
    };
    let l = |values: &[i64]| FloatTensor::vector(values.to_vec());
    // An axis sliced twice moved the first element twice.
    let slice = node("Slice", 13, &[], 4, 1);
    assert!(
        eval(
            &slice,
            &[&f(&[10]), &l(&[5, 5]), &l(&[10, 10]), &l(&[0, 0])]
        )
        .is_err()
    );
    // A list of axes as long as one likes.
    let axes: Vec<i64> = (0..1 << 20).collect();
    assert!(eval(&node("Unsqueeze", 13, &[], 2, 1), &[&f(&[1]), &l(&axes)]).is_err());
    // Zero points at the end of the range.
    let lowest = FloatTensor::of(vec![1, 1], vec![i64::MIN]).unwrap();
    let one = FloatTensor::scalar(1i64);
    let product = node("MatMulInteger", 10, &[], 4, 1);
    assert!(eval(&product, &[&lowest, &lowest, &one, &one]).is_ok());
    // A third factor of more rows than the product, or more axes.
    let gemm = node("Gemm", 13, &[], 3, 1);
    let ints = |shape: &[usize]| {
        FloatTensor::of(shape.to_vec(), vec![1i64; shape.iter().product()]).unwrap()
    };
    for c in [[2, 5].as_slice(), &[1, 1, 4, 5]] {
        assert!(eval(&gemm, &[&ints(&[4, 3]), &ints(&[3, 5]), &ints(c)]).is_err());
    }
    // A result that names a letter twice, and sums over nothing.
    let einsum = |text: &str, ins| {
        node(
            "Einsum",
            12,
            &[("equation", Attribute::Text(text.into()))],
            ins,
            1,
        )
    };
    assert!(eval(&einsum("i,i->ii", 2), &[&f(&[3]), &f(&[3])]).is_err());
    let empty = eval(&einsum("ij,jk->ik", 2), &[&f(&[3, 0]), &f(&[0, 2])]).unwrap();
    assert_eq!(empty[0].shape(), [3, 2]);
    // Groups, parts and heads of nothing.
    let many = |name: &'static str| [(name, Attribute::Int(i64::MAX))];
    let turned = node("ConvTranspose", 11, &many("group"), 2, 1);
    assert!(eval(&turned, &[&f(&[1, 0, 4]), &f(&[0, 2, 3])]).is_err());
    let deformed = node("DeformConv", 19, &many("offset_group"), 3, 1);
    assert!(eval(&deformed, &[&f(&[1, 0, 3, 3]), &f(&[2, 0, 2, 2]), &f(&[0])]).is_err());
    let rotary = node("RotaryEmbedding", 23, &many("num_heads"), 3, 1);
    assert!(eval(&rotary, &[&f(&[1, 1, 0]), &f(&[1, 1]), &f(&[1, 1])]).is_err());
    // A convolution that rounds its output up as pools do.
    let up = node(
        "Conv",
        11,
        &[
            ("ceil_mode", Attribute::Int(1)),
            ("strides", Attribute::Ints(vec![2, 2])),
        ],
        2,
        1,
    );
    assert!(eval(&up, &[&f(&[1, 1, 6, 6]), &f(&[1, 1, 3, 3])]).is_err());
    // A kernel that lies in the padding, as large as both may be: no memory that would bound it.
    let side = 1 << 23;
    let pool = node(
        "AveragePool",
        19,
        &[
            ("kernel_shape", Attribute::Ints(vec![side])),
            ("pads", Attribute::Ints(vec![side, side])),
        ],
        1,
        1,
    );
    let error = eval(&pool, &[&f(&[1, 1, 1])]).unwrap_err();
    assert!(error.shortage().is_some(), "{error}");
    // More parts than outputs.
    let mut sizes = vec![0i64; 1 << 16];
    sizes[0] = 2;
    assert!(eval(&node("Split", 13, &[], 2, 1), &[&f(&[2]), &l(&sizes)]).is_err());
}
