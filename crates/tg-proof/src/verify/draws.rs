//! What a proof draws outside its openings, from public shapes alone: how much each draw may let pass.
//!
//! The walk notes what it draws as it goes ([`DrawTally`]), and a verifier that is built with debug assertions, as every test
//! is, compares: no place may draw more than is listed for it here.

use crate::algebra::layout::{TensorLayout, log2_ceil};
use crate::algebra::numbers::exp2;
use crate::argument::ajtai;
use crate::plan::{MapPlan, NodePlan, Plan};
use tg_ir::op;
use tg_ir::{Op, Program, TensorId};

/// Challenges that are drawn for one purpose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DrawCharge {
    /// Where the walk draws them; nothing if it is not the walk that does.
    pub(super) place: Option<usize>,
    /// What they show.
    pub(super) label: String,
    /// Where the bound comes from.
    pub(super) source: &'static str,
    /// Degree of the polynomial that would have to vanish at what is drawn.
    pub(super) degree: f64,
}

impl DrawCharge {
    fn new(place: usize, label: impl Into<String>, source: &'static str, degree: f64) -> Self {
        let (place, label) = (Some(place), label.into());
        Self {
            place,
            label,
            source,
            degree,
        }
    }
}

/// Sums of the degrees of what a walk drew: per node, then for the output, the input and the salts of the statement.
#[derive(Debug)]
pub(super) struct DrawTally {
    degrees: Vec<usize>,
    place: usize,
}

impl DrawTally {
    /// Of a walk over so many nodes that has not begun: what it draws first is the output's point.
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            degrees: vec![0; nodes + 3],
            place: nodes,
        }
    }

    /// What is drawn from now on is a node's, or the input's or the salts' of the statement.
    pub(super) const fn come_to(&mut self, place: usize) {
        self.place = place;
    }

    /// Notes a draw.
    pub(super) fn note(&mut self, degree: usize) {
        self.degrees[self.place] += degree;
    }

    /// The first place at which more was drawn than is listed: the place, what was drawn, what is listed.
    pub(super) fn unlisted(&self, program: &Program, plan: &Plan) -> Option<(usize, usize, f64)> {
        let mut listed = vec![0.0; self.degrees.len()];
        for draw in draws(program, plan) {
            if let Some(place) = draw.place {
                listed[place] += draw.degree;
            }
        }
        let places = self.degrees.iter().zip(listed).enumerate();
        let places = places.map(|(place, (&drawn, listed))| (place, drawn, listed));
        places
            .into_iter()
            .find(|&(_, drawn, listed)| drawn as f64 > listed)
    }
}

/// The place of the statement's input in a program of so many nodes.
pub(super) const fn of_input(nodes: usize) -> usize {
    nodes + 1
}

/// The place of the statement's salts.
pub(super) const fn of_salts(nodes: usize) -> usize {
    nodes + 2
}

/// Every challenge drawn outside the openings: what it shows, where the bound comes from, and the degree of the
/// polynomial that would have to vanish.
pub(super) fn draws(program: &Program, plan: &Plan) -> Vec<DrawCharge> {
    let nodes = program.nodes.len();
    let outputs = plan.layouts[nodes].vars() as f64;
    let mut draws = vec![DrawCharge::new(
        nodes,
        "output point",
        "Schwartz-Zippel",
        outputs,
    )];
    let mut readers = vec![0usize; program.nodes.len() + 1];
    for input in program.nodes.iter().flat_map(|node| node.op.inputs()) {
        readers[input.index()] += 1;
    }
    for (node, description) in program.nodes.iter().enumerate() {
        let label = |what: &str| format!("{what} of node {node} `{}`", description.name);
        let readers = readers[node + 1];
        if readers > 1 {
            let degree = readers as f64 + 2.0 * plan.layouts[node + 1].vars() as f64;
            draws.push(DrawCharge::new(
                node,
                label("claim merge"),
                "sumcheck, LFKN 1992",
                degree,
            ));
        }
        if let Some((what, source, degree)) = gadget_draws(program, plan, node) {
            draws.push(DrawCharge::new(node, label(what), source, degree));
        }
        if let NodePlan::Gadget(gadget) | NodePlan::Chosen { gadget, .. } = &plan.nodes[node] {
            let source = "sumchecks of degree 3, zero-checks and readers; Schwartz-Zippel";
            let degree = gadget.staged.error_degree();
            draws.push(DrawCharge::new(node, label("stages"), source, degree));
        }
        if let NodePlan::Trees(trees) = &plan.nodes[node] {
            let source = "sumchecks, zero-check and readers; Schwartz-Zippel";
            let read = 2 * plan.layouts[description.op.inputs()[0].index()].channel_vars;
            let degree = trees.error_degree() + (read + plan.layouts[node + 1].vars()) as f64;
            draws.push(DrawCharge::new(
                node,
                label("decisions and leaves"),
                source,
                degree,
            ));
        }
    }
    draws.extend(statement_draws(plan, (nodes, readers[0])));
    if plan.looks_up() {
        let lookup = lookup_draws(plan).into_iter();
        draws.extend(lookup.map(|(label, source, degree)| DrawCharge {
            place: None,
            label: label.to_owned(),
            source,
            degree,
        }));
    }
    draws
}

/// The draws about what is committed of the statement, for a program of so many nodes, of which so many read the input.
fn statement_draws(plan: &Plan, (nodes, readers): (usize, usize)) -> Vec<DrawCharge> {
    let mut draws = Vec::new();
    if let Some(input) = &plan.input {
        let source = "sumchecks, readers; Schwartz-Zippel";
        let merge = readers as f64 + 2.0 * plan.layouts[0].vars() as f64;
        let degree = merge + input.staged.error_degree();
        draws.push(DrawCharge::new(
            of_input(nodes),
            "hidden input",
            source,
            degree,
        ));
    }
    if let Some(output) = &plan.output {
        let source = "sumcheck, readers; Schwartz-Zippel";
        let degree = output.staged.error_degree();
        draws.push(DrawCharge::new(nodes, "hidden output", source, degree));
    }
    if let Some(salts) = &plan.salts {
        // A point per commitment, at which two polynomials below the ring's degree are compared.
        let count = plan.witness[salts.columns.witness.start].columns;
        let degree = (count * ajtai::DEGREE) as f64 + salts.staged.error_degree();
        let source = "Schwartz-Zippel; Ring-SIS is assumed";
        draws.push(DrawCharge::new(
            of_salts(nodes),
            "tensor commitments",
            source,
            degree,
        ));
    }
    draws
}

/// The draws of the lookup argument.
fn lookup_draws(plan: &Plan) -> Vec<(&'static str, &'static str, f64)> {
    let mut draws = vec![(
        "reader batching",
        "Schwartz-Zippel",
        plan.groups.len() as f64,
    )];
    let leaves: f64 = plan.sum_vars().map(|vars| exp2(vars as f64)).sum();
    draws.push((
        "table poles",
        "logUp, ePrint 2022/1530, lemma 5",
        leaves + plan.tables.len() as f64,
    ));
    draws.push((
        "fractional sum",
        "GKR, ePrint 2023/1284",
        plan.sum_vars().map(fractional_degree).sum(),
    ));
    if let Some(layout) = &plan.pushforwards {
        // One claim per column and that of the leaves, in powers of one challenge, and a sum of degree 2.
        let columns: usize = plan.tables.iter().map(|table| table.columns.len()).sum();
        draws.push((
            "pushforwards",
            "Schwartz-Zippel and sumcheck, LFKN 1992",
            columns as f64 + 2.0 * layout.vars as f64,
        ));
    }
    draws
}

/// The draws of one node's gadget together; an addition draws nothing. What a gadget reads through a public linear map
/// is a sumcheck of degree 2 over the fields that are summed.
fn gadget_draws(
    program: &Program,
    plan: &Plan,
    node: usize,
) -> Option<(&'static str, &'static str, f64)> {
    const PRODUCTS: &str = "sumcheck; Thaler 2013, section 4.4";
    let op = &program.nodes[node].op;
    let inputs = op.inputs();
    let layout = |tensor: &TensorId| &plan.layouts[tensor.index()];
    let output = plan.layouts[node + 1].vars() as f64;
    let most = |vars: fn(&TensorLayout) -> usize| {
        let all = inputs.iter().map(|input| vars(layout(input)));
        2.0 * all.max().unwrap_or(0) as f64
    };
    let (pixels, channels) = (most(|l| l.pixel_vars), most(|l| l.channel_vars));
    match (op, &plan.nodes[node]) {
        (_, NodePlan::Weighted { weights } | NodePlan::Chosen { weights, .. }) => {
            let [outputs, positions, inner] = plan.weights[*weights].axis_vars().map(|v| v as f64);
            Some(match op {
                Op::Conv(op::Conv { groups, .. }) if *groups > 1 => {
                    let products = 3.0 * (outputs + positions + inner);
                    (
                        "products and sources",
                        PRODUCTS,
                        products + pixels + channels + output,
                    )
                }
                Op::Conv(_) => {
                    let products = 2.0 * (positions + inner);
                    ("products and sources", PRODUCTS, products + pixels + output)
                }
                Op::Dense(_) => ("products", PRODUCTS, 2.0 * (positions + inner) + output),
                Op::Embed(_) => ("rows", "sumcheck", 2.0 * outputs + output),
                _ => ("weights", "Schwartz-Zippel", output),
            })
        }
        (_, NodePlan::Map(map)) => {
            let summed = match map {
                MapPlan::Rearranged(_) => [false; 2],
                MapPlan::Fields { pixels, channels } => [*pixels, *channels],
                MapPlan::Elements => [true; 2],
            };
            let vars = summed.into_iter().zip([pixels, channels]);
            let rounds: f64 = vars.filter(|(summed, _)| *summed).map(|(_, v)| v).sum();
            (summed != [false; 2]).then_some(("public map", "sumcheck", rounds + output))
        }
        (Op::Mul(_), _) => Some(("products", "sumcheck", 3.0 * output + output)),
        (Op::MatMul(op::MatMul { inputs, .. }), _) => {
            let left = layout(&inputs[0]);
            let rounds = left.pixel_vars + left.batch_vars + left.channel_vars;
            let products = 3.0 * rounds as f64 + 2.0 * pixels;
            Some(("products and sources", PRODUCTS, products + output))
        }
        (Op::Requantise(_), _) => Some((
            "relations",
            "Schwartz-Zippel, five multilinear identities and three columns within their tables",
            8.0 * output,
        )),
        (_, NodePlan::Maximum { shape, columns, .. }) => {
            let positions = shape.window.positions();
            let chunks: f64 = plan.witness[columns.witness.clone()]
                .iter()
                .map(|table| (positions as f64 + 2.0) * table.chunk.vars as f64)
                .sum();
            let kappa = log2_ceil(positions) as f64;
            // Per column: its class, that it lies in its table, and its window.
            let relations = 3.0 * shape.columns() as f64 * output;
            Some((
                "windows and zero-checks",
                "sumcheck and Schwartz-Zippel",
                relations + kappa + pixels + chunks,
            ))
        }
        _ => None,
    }
}

/// Degree of a fractional sum over 2^vars leaves: two per layer for combining and descending, three per round.
pub(super) fn fractional_degree(vars: usize) -> f64 {
    let vars = vars as f64;
    (2.0 * vars + 1.5 * vars * (vars - 1.0)).max(1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::SectionSize;
    use tg_ir::{InputSpec, Node, Shape, Weights};

    /// What is drawn beyond what is listed is found, at its place.
    #[test]
    fn a_draw_that_is_not_listed_is_found() {
        let shape = Shape::new(2, 2, 4);
        let inputs = [TensorId::INPUT; 2];
        let program = Program {
            name: "square".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes: vec![Node {
                name: "square".to_owned(),
                op: Op::Mul(op::Mul { inputs }),
                shape,
                scale: 1.0,
            }],
            ties: Vec::new(),
            signature: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        };
        let plan = Plan::sectioned(&program, 1, SectionSize::default()).unwrap();
        // A sumcheck of degree 3 over four variables, at a claim of four.
        let mut tally = DrawTally::new(1);
        tally.note(4);
        tally.come_to(0);
        tally.note(3 * 4 + 4);
        assert_eq!(tally.unlisted(&program, &plan), None);
        tally.note(1);
        assert_eq!(tally.unlisted(&program, &plan), Some((0, 17, 16.0)));
        let mut tally = DrawTally::new(1);
        tally.come_to(of_salts(1));
        tally.note(1);
        assert_eq!(tally.unlisted(&program, &plan), Some((3, 1, 0.0)));
    }
}
