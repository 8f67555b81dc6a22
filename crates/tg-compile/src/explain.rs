//! What a compilation did, as text and as an object: the graph before and after, what each tensor holds, its bound and its cost.

use crate::compile::Compiled;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use tg_exec::range;
use tg_float::Graph;
use tg_ir::op;
use tg_ir::{
    Coding, ElementType, FIELD_BOUND, InputSpec, Op, Program, Requantise, TensorId, bounds,
};

/// Operators and how often each occurs, by name.
#[must_use]
pub fn operators(graph: &Graph) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in &graph.nodes {
        *counts.entry(node.op.clone()).or_default() += 1;
    }
    counts
}

/// What one execution costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Multiply-accumulates.
    pub macs: u64,
    /// Elements that are looked up in a table or rounded.
    pub lookups: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// Weights and biases.
    pub parameters: u64,
}

/// The cost of one node.
#[must_use]
pub fn cost_of(program: &Program, node: usize) -> Cost {
    let description = &program.nodes[node];
    let elements = description.shape.elements() as u64;
    let kind = program.element_type(TensorId::of_node(node));
    let looked_up = matches!(
        description.op,
        Op::Requantise(_) | Op::Softmax(_) | Op::Norm(_) | Op::MaxPool(_)
    );
    Cost {
        macs: program.reduction(node) as u64 * elements,
        lookups: if looked_up { elements } else { 0 },
        tensor_bytes: elements * kind.bytes() as u64,
        parameters: if program.weights_owner(node) == node {
            program.weights_of(node) as u64
        } else {
            0
        } + if description.op.has_bias() {
            u64::from(description.shape.channels)
        } else {
            0
        },
    }
}

/// The cost of a program.
#[must_use]
pub fn cost(program: &Program) -> Cost {
    (0..program.nodes.len())
        .map(|node| cost_of(program, node))
        .fold(Cost::default(), |sum, one| Cost {
            macs: sum.macs + one.macs,
            lookups: sum.lookups + one.lookups,
            tensor_bytes: sum.tensor_bytes + one.tensor_bytes,
            parameters: sum.parameters + one.parameters,
        })
}

/// The whole report: the graph as the file has it, prepared, and the program node by node.
///
/// # Panics
/// Never: a string takes any text.
#[must_use]
pub fn report(before: &BTreeMap<String, usize>, compiled: &Compiled) -> String {
    let mut text = String::new();
    let written = write(&mut text, before, compiled);
    written.expect("a string takes any text");
    text
}

/// The same as an object: `file` and `prepared` (operators and how often each occurs), `graph`, `program` (nodes with what they read,
/// hold and cost) and `measured`.
#[must_use]
pub fn json(before: &BTreeMap<String, usize>, compiled: &Compiled) -> Value {
    let (float, program, report) = (&compiled.float, &compiled.model.program, &compiled.report);
    let graph = float.graph.nodes.iter().map(|node| {
        let shape = node.gives().next().map(|value| float.shape(value).to_vec());
        json!({"name": node.name, "operator": node.op, "shape": shape})
    });
    let known = bounds::magnitudes(program, program.nodes.len());
    let reached = range::intervals(&compiled.model);
    let nodes = program.nodes.iter().enumerate().map(|(index, node)| {
        let tensor = TensorId::of_node(index);
        let inputs = node.op.inputs();
        let inputs: Vec<usize> = inputs.iter().map(|id| id.index()).collect();
        json!({
            "tensor": tensor.index(),
            "name": node.name,
            "operator": node.op.name(),
            "inputs": inputs,
            "shape": node.shape.to_string(),
            "type": kind_name(program.element_type(tensor)),
            "unit": node.scale,
            "within": range::hull(&reached[tensor.index()]),
            "bound": known[tensor.index()],
            "cost": cost_json(cost_of(program, index)),
        })
    });
    let layers = report.layers.iter().map(|layer| {
        json!({
            "name": layer.name,
            "operator": layer.operator,
            "type": kind_name(layer.kind),
            "snr_db": layer.snr_db,
            "saturated": layer.saturated,
            "units_off": layer.units_off,
        })
    });
    json!({
        "file": before,
        "prepared": operators(&float.graph),
        "graph": graph.collect::<Vec<_>>(),
        "program": {
            "input": {
                "shape": program.input.shape.to_string(),
                "type": kind_name(program.input.element_type()),
                "unit": units(&program.input),
            },
            "nodes": nodes.collect::<Vec<_>>(),
            "cost": cost_json(cost(program)),
        },
        "measured": {
            "inputs": report.compared_on,
            "calibration_inputs": report.calibrated_on,
            "snr_db": report.output_snr_db(),
            "agreement": report.agreement(),
            "rows": report.rows(),
            "layers": layers.collect::<Vec<_>>(),
        },
    })
}

/// The unit of an input, or that of each channel.
fn units(input: &InputSpec) -> Value {
    match &input.coding {
        Coding::PerChannel(units) => json!(units),
        _ => json!(input.scale),
    }
}

fn cost_json(cost: Cost) -> Value {
    json!({
        "multiply_accumulates": cost.macs,
        "lookups": cost.lookups,
        "tensor_bytes": cost.tensor_bytes,
        "parameters": cost.parameters,
    })
}

fn write(text: &mut String, before: &BTreeMap<String, usize>, compiled: &Compiled) -> fmt::Result {
    writeln!(text, "file:     {}", listed(before))?;
    writeln!(
        text,
        "prepared: {}",
        listed(&operators(&compiled.float.graph))
    )?;
    for node in &compiled.float.graph.nodes {
        let shape = node
            .gives()
            .next()
            .map(|value| compiled.float.shape(value).to_vec());
        writeln!(
            text,
            "  {:<40} {:<20} {:?}",
            node.name,
            node.op,
            shape.unwrap_or_default()
        )?;
    }
    write_program(text, compiled)?;
    write_measurement(text, compiled)
}

fn write_program(text: &mut String, compiled: &Compiled) -> fmt::Result {
    let program = &compiled.model.program;
    writeln!(
        text,
        "program:  input {} {:?}, one unit is {}",
        program.input.shape,
        program.input.element_type(),
        match &program.input.coding {
            Coding::PerChannel(units) => {
                let least = units.iter().copied().fold(f32::INFINITY, f32::min);
                let greatest = units.iter().copied().fold(0f32, f32::max);
                format!("{least:e} to {greatest:e}, its own for each channel")
            }
            _ => format!("{:e}", program.input.scale),
        }
    )?;
    let known = bounds::magnitudes(program, program.nodes.len());
    let reached = range::intervals(&compiled.model);
    for (index, node) in program.nodes.iter().enumerate() {
        let tensor = TensorId::of_node(index);
        let [low, high] = range::hull(&reached[tensor.index()]);
        let inputs: Vec<String> = node
            .op
            .inputs()
            .iter()
            .map(|id| format!("t{}", id.index()))
            .collect();
        let cost = cost_of(program, index);
        writeln!(
            text,
            "  t{:<4} {:<11} {:<14} {:>14} {:<4} unit {:<10.3e} in [{low}, {high}], |a| <= {} <= {FIELD_BOUND}{} {}",
            tensor.index(),
            node.op.name(),
            inputs.join(","),
            node.shape.to_string(),
            kind_name(program.element_type(tensor)),
            node.scale,
            known[tensor.index()],
            detail(&node.op),
            node.name,
        )?;
        if cost.macs > 0 {
            writeln!(
                text,
                "        {} multiply-accumulates, {} parameters",
                cost.macs, cost.parameters
            )?;
        }
    }
    let all = cost(program);
    writeln!(
        text,
        "cost:     {} multiply-accumulates, {} look-ups, {} bytes of tensors, {} parameters",
        all.macs, all.lookups, all.tensor_bytes, all.parameters
    )
}

fn write_measurement(text: &mut String, compiled: &Compiled) -> fmt::Result {
    let report = &compiled.report;
    writeln!(
        text,
        "measured: on {} of {} calibration inputs; activations of {}, scales of channels {}: output {:.1} dB, {:.1} % of {} rows with the same greatest output, {:.2} points expected to be lost, {:.4} nats apart",
        report.compared_on,
        report.calibrated_on,
        report.precision,
        report.scales,
        report.output_snr_db(),
        100.0 * report.agreement(),
        report.rows(),
        100.0 * report.loss(),
        report.divergence()
    )?;
    for output in report.outputs.iter().filter(|_| report.outputs.len() > 1) {
        writeln!(
            text,
            "  output {}: {:.1} dB, {:.1} % of {} rows with the same greatest element",
            output.name,
            output.snr_db,
            100.0 * output.agreement,
            output.rows
        )?;
    }
    for layer in &report.layers {
        writeln!(
            text,
            "  {:<40} {:<20} {:<4} {:>6.1} dB, {:.2} % at an end, else up to {:.1} units off",
            layer.name,
            layer.operator,
            kind_name(layer.kind),
            layer.snr_db,
            100.0 * layer.saturated,
            layer.units_off
        )?;
    }
    Ok(())
}

fn listed(counts: &BTreeMap<String, usize>) -> String {
    let each: Vec<String> = counts
        .iter()
        .map(|(op, count)| format!("{count} {op}"))
        .collect();
    each.join(", ")
}

const fn kind_name(kind: ElementType) -> &'static str {
    match kind {
        ElementType::I8 => "i8",
        ElementType::I16 => "i16",
        ElementType::I32 => "i32",
    }
}

fn detail(op: &Op) -> String {
    match op {
        Op::Requantise(op::Unary { how, .. }) => {
            let Requantise {
                pairs,
                clamp,
                table,
                ..
            } = how;
            let rescales: Vec<String> = pairs
                .iter()
                .map(|pair| format!("{}/2^{}", pair.multiplier(), pair.shift()))
                .collect();
            let table = table
                .as_ref()
                .map_or(String::new(), |t| format!(", table of {}", t.len()));
            format!(
                "; x {} to [{}, {}]{table};",
                rescales.join(" "),
                clamp[0],
                clamp[1]
            )
        }
        Op::Softmax(op::Unary { how, .. }) => match how.causal {
            Some(offset) => format!("; causal + {offset};"),
            None => String::new(),
        },
        _ => ";".to_owned(),
    }
}
