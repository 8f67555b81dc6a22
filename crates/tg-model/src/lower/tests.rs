#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::execute::{Trace, execute};
use crate::input;
use crate::reference::to_file_order;
use crate::sample::Numbers;
use tg_ir::ElementType;

/// Builds float graphs node by node.
pub(crate) struct Graph {
    graph: FloatGraph,
    numbers: Numbers,
}

impl Graph {
    pub(crate) fn new(input: &[usize]) -> Self {
        Self {
            graph: FloatGraph {
                name: "test".to_owned(),
                input: input.to_vec(),
                nodes: Vec::new(),
                output: Value::INPUT,
            },
            numbers: Numbers::new(9),
        }
    }

    fn floats(&mut self, count: usize, reach: f32) -> Vec<f32> {
        let mut draw = || self.numbers.between(-1000, 1000) as f32 / 1000.0 * reach;
        (0..count).map(|_| draw()).collect()
    }

    fn push(&mut self, op: FloatOp, inputs: &[Value], shape: Vec<usize>) -> Value {
        let number = self.graph.nodes.len();
        self.graph.nodes.push(FloatNode {
            name: format!("n{number}"),
            operator: "Test".to_owned(),
            op,
            inputs: inputs.to_vec(),
            shape,
            clamp: None,
        });
        self.graph.output = Value::of_node(number);
        self.graph.output
    }

    fn clamped(&mut self, low: f32, high: f32) {
        self.graph.nodes.last_mut().unwrap().clamp = Some([low, high]);
    }

    fn dense(&mut self, input: Value, outputs: usize) -> Value {
        let inputs: usize = self.graph.shape(input).iter().product();
        let weights = self.floats(inputs * outputs, 1.0);
        let bias = self.floats(outputs, 0.5);
        self.push(FloatOp::Dense { weights, bias }, &[input], vec![1, outputs])
    }

    fn conv(&mut self, input: Value, outputs: usize, side: u32, pad: u32) -> Value {
        let window = square(side, 1, pad);
        let shape = image_shape(self.graph.shape(input)).unwrap();
        let count = outputs * window.positions() * shape.channels as usize;
        let weights = self.floats(count, 1.0);
        let bias = self.floats(outputs, 0.5);
        let [height, width] = window.output(shape).unwrap();
        let op = FloatOp::Conv {
            window,
            weights,
            bias,
        };
        let output = vec![1, outputs, height as usize, width as usize];
        self.push(op, &[input], output)
    }

    fn pool(&mut self, input: Value, op: fn(Window) -> FloatOp) -> Value {
        let window = square(2, 2, 0);
        let shape = image_shape(self.graph.shape(input)).unwrap();
        let [height, width] = window.output(shape).unwrap();
        let output = vec![1, shape.channels as usize, height as usize, width as usize];
        self.push(op(window), &[input], output)
    }

    fn transpose(&mut self, input: Value, axes: &[usize]) -> Value {
        let shape = self.graph.shape(input);
        let shape = axes.iter().map(|&axis| shape[axis]).collect();
        let axes = axes.to_vec();
        self.push(FloatOp::Transpose { axes }, &[input], shape)
    }

    fn reshape(&mut self, input: Value, shape: &[usize]) -> Value {
        self.push(FloatOp::Reshape, &[input], shape.to_vec())
    }

    fn add(&mut self, a: Value, b: Value) -> Value {
        let shape = self.graph.shape(a).to_vec();
        self.push(FloatOp::Add, &[a, b], shape)
    }

    fn clip(&mut self, input: Value, low: f32, high: f32) -> Value {
        let shape = self.graph.shape(input).to_vec();
        let bounds = [low, high];
        self.push(FloatOp::Clip { bounds }, &[input], shape)
    }
}

fn square(side: u32, stride: u32, pad: u32) -> Window {
    Window::new([side; 2], [stride; 2], [pad; 4])
}

/// Calibrates and lowers; checks that every value is followed and the output is in storage order.
fn check(mut graph: Graph) -> (Lowered, Trace) {
    let shape = storage_shape(&graph.graph.input).unwrap();
    let rows: Vec<Vec<f32>> = (0..8)
        .map(|_| graph.floats(shape.elements(), 1.0))
        .collect();
    let graph = graph.graph;
    let reach = crate::calibrate::reach(&graph, &rows, crate::calibrate::ReachRule::Greatest);
    let lowered = lower(&graph, &reach.unwrap(), Naming::default()).unwrap();
    let program = &lowered.model.program;
    lowered.model.weights.check(program).unwrap();
    assert_eq!(range::first_violation(&lowered.model), None);
    let output = storage_shape(graph.shape(graph.output)).unwrap();
    assert_eq!(
        program.nodes.last().unwrap().shape.elements(),
        output.elements()
    );
    let mut sites = lowered.sites.clone();
    sites.push(Site {
        value: graph.output,
        tensor: program.output(),
        scale: f64::from(program.nodes.last().unwrap().scale),
        order: Rc::new(storage_order(output)),
    });
    let runs: Vec<(Vec<Vec<f32>>, Trace)> = rows
        .iter()
        .map(|row| {
            let quantised = input::quantise(&program.input, row);
            let floats = graph.run(&to_file_order(row, shape)).unwrap();
            (floats, execute(&lowered.model, &quantised).unwrap())
        })
        .collect();
    for site in &sites {
        follows(site, &runs);
    }
    let (_, trace) = runs.into_iter().next().unwrap();
    (lowered, trace)
}

/// The integers are the floats within a tenth of the greatest of them.
fn follows(site: &Site, runs: &[(Vec<Vec<f32>>, Trace)]) {
    let all = runs.iter().flat_map(|(floats, _)| &floats[site.value.0]);
    let greatest = all.fold(0f32, |best, x| best.max(x.abs()));
    let allowed = f64::from(greatest) * 0.1 + site.scale;
    for (floats, trace) in runs {
        let integers = trace.tensor(site.tensor).widened();
        for (integer, &element) in integers.into_iter().zip(site.order.iter()) {
            let float = f64::from(floats[site.value.0][element as usize]);
            let error = float - f64::from(integer) * site.scale;
            assert!(
                error.abs() <= allowed,
                "{:?}: off by {error}, allowed {allowed}",
                site.value
            );
        }
    }
}

fn names(lowered: &Lowered) -> Vec<&'static str> {
    let nodes = lowered.model.program.nodes.iter();
    nodes.map(|node| node.op.name()).collect()
}

#[test]
fn a_flattened_image_reorders_the_weights_of_the_dense_node() {
    let mut graph = Graph::new(&[1, 3, 4, 5]);
    let flat = graph.reshape(Value::INPUT, &[1, 60]);
    graph.dense(flat, 7);
    let (lowered, _) = check(graph);
    assert_eq!(names(&lowered), ["Dense"]);
}

#[test]
fn transposed_and_flattened_costs_nothing_before_a_dense_node() {
    let mut graph = Graph::new(&[1, 3, 4, 5]);
    let turned = graph.transpose(Value::INPUT, &[0, 2, 3, 1]);
    let again = graph.transpose(turned, &[0, 3, 2, 1]);
    let flat = graph.reshape(again, &[1, 60]);
    graph.dense(flat, 7);
    let (lowered, _) = check(graph);
    assert_eq!(names(&lowered), ["Dense"]);
}

#[test]
fn a_convolution_over_another_order_gets_a_permutation() {
    let mut graph = Graph::new(&[1, 3, 4, 5]);
    let turned = graph.transpose(Value::INPUT, &[0, 2, 3, 1]);
    let conv = graph.conv(turned, 2, 2, 0);
    let pool = graph.pool(conv, |window| FloatOp::MaxPool { window });
    let flat = graph.reshape(pool, &[1, 4]);
    graph.dense(flat, 3);
    let (lowered, _) = check(graph);
    let expected = ["View", "Conv", "Requantise", "MaxPool", "Dense"];
    assert_eq!(names(&lowered), expected);
    assert_eq!(lowered.model.program.nodes[0].name, "n0.permute");
}

#[test]
fn a_permuted_value_is_permuted_once() {
    let mut graph = Graph::new(&[1, 16]);
    let image = graph.reshape(Value::INPUT, &[1, 4, 2, 2]);
    let left = graph.conv(image, 4, 1, 0);
    let right = graph.conv(image, 4, 1, 0);
    graph.add(left, right);
    let (lowered, _) = check(graph);
    let expected = ["View", "Conv", "Requantise", "Conv", "Requantise", "Add"];
    assert_eq!(names(&lowered), expected);
}

#[test]
fn the_output_of_a_convolution_stays_in_storage_order() {
    let mut graph = Graph::new(&[1, 2, 5, 5]);
    graph.conv(Value::INPUT, 3, 3, 1);
    let (lowered, trace) = check(graph);
    assert_eq!(names(&lowered), ["Conv"]);
    assert!(trace.output().accumulators().is_some());
}

#[test]
fn a_flattened_convolution_as_output_is_permuted_activations() {
    let mut graph = Graph::new(&[1, 2, 5, 5]);
    let conv = graph.conv(Value::INPUT, 3, 3, 0);
    graph.reshape(conv, &[1, 27]);
    let (lowered, _) = check(graph);
    assert_eq!(names(&lowered), ["Conv", "Requantise", "View"]);
    let output = lowered.model.program.output();
    assert_eq!(lowered.model.program.shape(output), Shape::vector(27));
}

/// Accumulators cannot be permuted: an output in another order is activations.
#[test]
fn a_dense_output_reshaped_to_an_image_is_permuted_activations() {
    let mut graph = Graph::new(&[1, 6]);
    let dense = graph.dense(Value::INPUT, 24);
    graph.reshape(dense, &[1, 2, 3, 4]);
    let (lowered, _) = check(graph);
    assert_eq!(names(&lowered), ["Dense", "Requantise", "View"]);
    let output = lowered.model.program.output();
    assert_eq!(lowered.model.program.shape(output), Shape::new(3, 4, 2));
}

#[test]
fn the_output_keeps_one_scale_and_the_others_may_halve() {
    let mut graph = Graph::new(&[1, 4]);
    let mut weights = vec![1.0; 16];
    weights[4..8].fill(0.01);
    let op = |weights: &[f32]| FloatOp::Dense {
        weights: weights.to_vec(),
        bias: vec![0.0; 4],
    };
    let hidden = graph.push(op(&weights), &[Value::INPUT], vec![1, 4]);
    graph.push(op(&weights), &[hidden], vec![1, 4]);
    let (lowered, _) = check(graph);
    let layers = &lowered.model.weights.layers;
    assert_eq!(layers[0].weights[..8], [127, 127, 127, 127, 10, 10, 10, 10]);
    assert_eq!(layers[1].weights[..8], [127, 127, 127, 127, 1, 1, 1, 1]);
    let Op::Requantise { how, .. } = &lowered.model.program.nodes[1].op else {
        panic!("a requantisation follows");
    };
    assert_eq!(how.pairs.len(), 2);
    assert_eq!(how.channel_pairs, [0, 1, 0, 0]);
    assert_eq!(how.clamp, [-128, 127]);
}

#[test]
fn a_clamp_is_in_units_of_the_output() {
    let mut graph = Graph::new(&[1, 4]);
    let hidden = graph.dense(Value::INPUT, 4);
    graph.clamped(0.0, f32::INFINITY);
    let hidden = graph.dense(hidden, 4);
    graph.clamped(-0.05, 0.1);
    let pooled = graph.reshape(hidden, &[1, 1, 2, 2]);
    graph.pool(pooled, |window| FloatOp::AveragePool { window });
    let (lowered, _) = check(graph);
    let clamps: Vec<[i16; 2]> = lowered
        .model
        .program
        .nodes
        .iter()
        .filter_map(|node| match &node.op {
            Op::Requantise { how, .. } => Some(how.clamp),
            _ => None,
        })
        .collect();
    assert_eq!(clamps[0], [0, 127]);
    assert_eq!(clamps[1][1], 127);
    assert!((-65..=-62).contains(&clamps[1][0]), "{clamps:?}");
    let names = names(&lowered);
    assert_eq!(names.last(), Some(&"WindowSum"));
    // The vector of four, reshaped to an image, is stored in another shape.
    assert!(names.contains(&"View"));
}

#[test]
fn a_lone_clip_keeps_its_units() {
    let mut graph = Graph::new(&[1, 6]);
    graph.clip(Value::INPUT, -0.5, 0.25);
    let (lowered, trace) = check(graph);
    assert_eq!(names(&lowered), ["Requantise"]);
    let output = trace.output().activations().unwrap();
    assert!(output.iter().all(|q| (-64..=32).contains(q)), "{output:?}");
}

#[test]
fn sums_bring_both_inputs_to_one_unit() {
    let mut graph = Graph::new(&[1, 8]);
    let left = graph.dense(Value::INPUT, 8);
    let right = graph.clip(Value::INPUT, -0.01, 0.01);
    let sum = graph.add(left, right);
    graph.dense(sum, 3);
    let (lowered, _) = check(graph);
    let add = lowered
        .model
        .program
        .nodes
        .iter()
        .find_map(|node| match &node.op {
            Op::Add { multipliers, .. } => multipliers.iter().max(),
            _ => None,
        });
    assert_eq!(add, Some(&16_384));
}

#[test]
fn a_transposed_input_alone_is_a_program() {
    let mut graph = Graph::new(&[1, 2, 3, 4]);
    graph.transpose(Value::INPUT, &[0, 3, 1, 2]);
    let (lowered, _) = check(graph);
    assert_eq!(names(&lowered), ["View"]);
}

#[test]
fn layers_that_are_always_zero_are_lowered() {
    let mut graph = Graph::new(&[1, 4]);
    let zero = FloatOp::Dense {
        weights: vec![0.0; 12],
        bias: vec![0.0; 3],
    };
    let dead = graph.push(zero, &[Value::INPUT], vec![1, 3]);
    graph.clamped(0.0, f32::INFINITY);
    graph.dense(dead, 2);
    check(graph);
}

#[test]
fn names_are_cut_at_a_character() {
    let long = "ü".repeat(100);
    assert_eq!(short(long).len(), NAME_MAX);
    assert_eq!(short("x".to_owned() + &"ü".repeat(100)).len(), NAME_MAX - 1);
    assert_eq!(short("conv1".to_owned()), "conv1");
}

fn refused(graph: &FloatGraph, reach: f32) -> LowerError {
    let reach = vec![reach; graph.nodes.len() + 1];
    lower(graph, &reach, Naming::default()).unwrap_err()
}

#[test]
fn a_graph_that_computes_nothing_is_refused() {
    let mut graph = Graph::new(&[1, 6]);
    graph.reshape(Value::INPUT, &[1, 6]);
    assert_eq!(refused(&graph.graph, 1.0), LowerError::Empty);
}

#[test]
fn shapes_that_no_tensor_has_are_refused() {
    let shown = |graph: &Graph| refused(&graph.graph, 1.0).to_string();
    assert!(
        shown(&Graph::new(&[1, 70_000]))
            .starts_with("node `input` (input) gives the shape [1, 70000]")
    );
    let mut graph = Graph::new(&[1, 8]);
    graph.reshape(Value::INPUT, &[2, 4]);
    assert!(shown(&graph).starts_with("node `n0` (Test) gives the shape [2, 4]"));
}

#[test]
fn an_accumulator_that_could_leave_the_field_is_refused() {
    let mut graph = Graph::new(&[1, 65_536]);
    graph.dense(Value::INPUT, 1);
    let error = refused(&graph.graph, 1.0);
    let LowerError::Program(ProgramError::Bound(bound)) = &error else {
        panic!("another error: {error}");
    };
    assert_eq!(
        (bound.node, bound.name.as_str(), bound.op),
        (0, "n0", "Dense")
    );
}

#[test]
fn a_factor_out_of_reach_is_refused() {
    let mut graph = Graph::new(&[1, 1]);
    let tiny = FloatOp::Dense {
        weights: vec![1e-30],
        bias: vec![0.0],
    };
    let hidden = graph.push(tiny, &[Value::INPUT], vec![1, 1]);
    graph.dense(hidden, 1);
    let error = refused(&graph.graph, 1.0);
    assert!(
        matches!(&error, LowerError::Factor { node, .. } if node == "n0"),
        "{error}"
    );
}

#[test]
fn too_many_segments_are_refused() {
    // A narrow output range would saturate nearly everything: tails far wider than a table covers.
    let mut graph = Graph::new(&[1, 60_000]);
    let wide = FloatOp::Dense {
        weights: vec![1.0; 60_000],
        bias: vec![0.0],
    };
    let hidden = graph.push(wide, &[Value::INPUT], vec![1, 1]);
    graph.dense(hidden, 1);
    let reach = [1.0, 1e-3, 1.0];
    // 2 * 60,000 * 127 * 128 / 2^16 segments of the widest kind.
    let error = lower(&graph.graph, &reach, Naming::default()).unwrap_err();
    assert!(
        matches!(&error, LowerError::Segments { node, .. } if node == "n0"),
        "{error}"
    );
}

#[test]
fn every_site_names_activations_or_the_output() {
    let mut graph = Graph::new(&[1, 2, 6, 6]);
    let conv = graph.conv(Value::INPUT, 4, 3, 1);
    graph.clamped(0.0, 6.0);
    let pool = graph.pool(conv, |window| FloatOp::AveragePool { window });
    let flat = graph.reshape(pool, &[1, 36]);
    graph.dense(flat, 5);
    let (lowered, _) = check(graph);
    let program = &lowered.model.program;
    for site in &lowered.sites {
        let activations = program.element_type(site.tensor) == ElementType::I8;
        assert!(activations || site.tensor == program.output());
    }
    assert_eq!(lowered.sites.len(), 3);
}

/// One random graph: a few nodes of any kind, with values read twice.
fn random_graph(seed: u64) -> Graph {
    let mut graph = Graph::new(&[1, 2, 6, 6]);
    graph.numbers = Numbers::new(seed);
    let mut last = Value::INPUT;
    for _ in 0..graph.numbers.between(2, 7) {
        let before = last;
        let shape = graph.graph.shape(last).to_vec();
        let image = shape.len() == 4;
        last = match graph.numbers.between(0, 7) {
            0 | 1 if image => {
                let widest = shape[2].min(shape[3]).min(2) as u32;
                graph.conv(last, 3, widest.min(1 + (seed % 2) as u32), 0)
            }
            2 if image && shape[2].min(shape[3]) >= 2 => {
                graph.pool(last, |window| FloatOp::MaxPool { window })
            }
            3 if image && shape[2].min(shape[3]) >= 2 => {
                graph.pool(last, |window| FloatOp::AveragePool { window })
            }
            4 if image => graph.transpose(last, &[0, 3, 1, 2]),
            5 if image => graph.reshape(last, &[1, shape[1] * shape[2] * shape[3]]),
            6 => {
                let clipped = graph.clip(last, -0.75, f32::INFINITY);
                graph.add(clipped, last)
            }
            _ if image => graph.conv(last, 2, 1, 0),
            _ if shape[1] == 24 => graph.reshape(last, &[1, 2, 3, 4]),
            _ => graph.dense(last, 24),
        };
        if graph.graph.shape(last) == graph.graph.shape(before) && seed.is_multiple_of(3) {
            last = graph.add(before, last);
        }
        // A convolution of one pixel row keeps at least one pixel.
        assert!(graph.graph.shape(last).iter().all(|&axis| axis >= 1));
    }
    graph
}

/// A permutation that is wrong anywhere would leave errors as large as the values.
#[test]
fn random_graphs_are_followed() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..150 {
        let graph = random_graph(seed);
        if graph
            .graph
            .nodes
            .iter()
            .all(|node| node.op == FloatOp::Reshape)
        {
            continue;
        }
        let mut graph = graph;
        graph.graph = graph.graph.without_dead_nodes();
        let (lowered, _) = check(graph);
        seen.extend(names(&lowered));
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}
