//! Support vector machines of `ai.onnx.ml` as products with the support vectors and a function of each, or as a polynomial of
//! the input where the kernel is one.

use super::PrepareError;
use super::edit::{Writer, float_list, input, output, text, uses};
use super::ensembles::label;
use tg_float::{Attribute, DType, Graph, Node, ValueId};

/// Most products of features that stand for the kernels of a machine, beside as many as it has vectors.
const PRODUCTS_MAX: usize = 512;
/// Most factors of such a product.
const DEGREE_MAX: usize = 4;

/// `[1, columns]`: the kernels with the vectors times a matrix `[vectors, columns]`.
///
/// Sums of powers of products with the vectors are a polynomial of the input. Its coefficients are found here, in double
/// precision: what the terms of the vectors take away from each other is then gone before anything is rounded.
fn weighted(
    writer: &mut Writer<'_>,
    node: &Node,
    x: ValueId,
    (matrix, vectors): (&[f32], usize),
) -> Option<ValueId> {
    if text(node, "kernel_type", b"") == b"POLY"
        && let Some(sums) = polynomial(writer, node, x, (matrix, vectors))
    {
        return Some(sums);
    }
    let row = kernel(writer, node, x, vectors)?;
    let columns = matrix.len() / vectors;
    let matrix = writer.floats(&[vectors, columns], matrix.to_vec());
    Some(writer.node("MatMul", &[row, matrix], &[]))
}

/// Products of features, each one of those before times a feature that is not before its last.
struct FeatureProducts {
    /// The features of each, in order.
    features: Vec<Vec<usize>>,
    /// `[1, products]`.
    value: ValueId,
}

fn polynomial(
    writer: &mut Writer<'_>,
    node: &Node,
    x: ValueId,
    (matrix, vectors): (&[f32], usize),
) -> Option<ValueId> {
    let flat = float_list(node, "support_vectors");
    let (features, columns) = (flat.len() / vectors, matrix.len() / vectors);
    let list = float_list(node, "kernel_params");
    let &[gamma, start, degree] = list.as_slice() else {
        return None;
    };
    let power = (1..=DEGREE_MAX).find(|&power| power as f32 == degree)?;
    if features * vectors != flat.len() || counted(features, power)? > PRODUCTS_MAX + vectors {
        return None;
    }
    // Of (gamma x v + start) ^ power, the terms with so many factors of x.
    let share = |order: usize| {
        let below = (0..order).fold(1.0, |all, k| all * (power - k) as f64 / (k + 1) as f64);
        let start = f64::from(start).powi((power - order) as i32);
        below * f64::from(gamma).powi(order as i32) * start
    };
    let coefficients = |products: &[Vec<usize>], order: usize| -> Vec<f32> {
        let one = |own: &Vec<usize>, column: usize| -> f64 {
            let of = |vector: usize| {
                let values = own.iter().map(|&f| f64::from(flat[vector * features + f]));
                f64::from(matrix[vector * columns + column]) * values.product::<f64>()
            };
            share(order) * orders(own) * (0..vectors).map(of).sum::<f64>()
        };
        let all = products.iter();
        all.flat_map(|own| (0..columns).map(move |column| one(own, column) as f32))
            .collect()
    };
    let constant = coefficients(&[Vec::new()], 0);
    let mut sum = writer.floats(&[1, columns], constant);
    let mut products = FeatureProducts {
        features: (0..features).map(|feature| vec![feature]).collect(),
        value: x,
    };
    for order in 1..=power {
        if order > 1 {
            products = longer(writer, &products, x, features);
        }
        let own = coefficients(&products.features, order);
        if own.iter().any(|&coefficient| coefficient != 0.0) {
            let own = writer.floats(&[products.features.len(), columns], own);
            let terms = writer.node("MatMul", &[products.value, own], &[]);
            sum = writer.node("Add", &[terms, sum], &[]);
        }
    }
    Some(sum)
}

/// How many products of so many factors there are, and of fewer ones.
fn counted(features: usize, power: usize) -> Option<usize> {
    let mut count = 1usize;
    for factor in 1..=power {
        count = count.checked_mul(features + factor)? / factor;
    }
    Some(count)
}

/// In how many orders the factors of a product can stand.
fn orders(features: &[usize]) -> f64 {
    let mut all = 1.0;
    let mut run = 0;
    for (index, feature) in features.iter().enumerate() {
        run = if index > 0 && features[index - 1] == *feature {
            run + 1
        } else {
            1
        };
        all *= (index + 1) as f64 / f64::from(run);
    }
    all
}

/// The products with one factor more.
fn longer(
    writer: &mut Writer<'_>,
    products: &FeatureProducts,
    x: ValueId,
    features: usize,
) -> FeatureProducts {
    let (mut all, mut before, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (index, own) in products.features.iter().enumerate() {
        for feature in own.last().copied().unwrap_or(0)..features {
            all.push([own.as_slice(), &[feature]].concat());
            before.push(index as i64);
            last.push(feature as i64);
        }
    }
    let before = writer.gathered(products.value, &before, 1);
    let last = writer.gathered(x, &last, 1);
    FeatureProducts {
        features: all,
        value: writer.node("Mul", &[before, last], &[]),
    }
}

/// A row `[1, vectors]` of the kernel of the input with each support vector.
fn kernel(writer: &mut Writer<'_>, node: &Node, x: ValueId, vectors: usize) -> Option<ValueId> {
    let flat = float_list(node, "support_vectors");
    let features = flat.len().checked_div(vectors)?;
    if features == 0 || features * vectors != flat.len() {
        return None;
    }
    let list = float_list(node, "kernel_params");
    let &[gamma, start, degree] = list.as_slice() else {
        return None;
    };
    let products = |writer: &mut Writer<'_>, factor: f32| {
        let columns = (0..features).flat_map(|f| (0..vectors).map(move |v| v * features + f));
        let matrix = columns.map(|at| flat[at] * factor).collect();
        let matrix = writer.floats(&[features, vectors], matrix);
        writer.node("MatMul", &[x, matrix], &[])
    };
    let added = |writer: &mut Writer<'_>, x: ValueId, number: f32| {
        let number = writer.scalar(number);
        writer.node("Add", &[x, number], &[])
    };
    Some(match text(node, "kernel_type", b"") {
        b"" | b"LINEAR" => products(writer, 1.0),
        b"POLY" => {
            let sums = products(writer, gamma);
            let sums = added(writer, sums, start);
            let degree = writer.scalar(degree);
            writer.node("Pow", &[sums, degree], &[])
        }
        b"SIGMOID" => {
            let sums = products(writer, gamma);
            let sums = added(writer, sums, start);
            writer.node("Tanh", &[sums], &[])
        }
        b"RBF" => {
            // Differences first: the square of a difference of numbers, not a difference of squares.
            let centres = writer.floats(&[vectors, features], flat.clone());
            let apart = writer.node("Sub", &[x, centres], &[]);
            let squares = writer.node("Mul", &[apart, apart], &[]);
            let axes = writer.ints(&[-1]);
            let how = [("keepdims", Attribute::Int(0))];
            let distances = writer.node("ReduceSum", &[squares, axes], &how);
            let exponents = writer.times(distances, -gamma);
            let row = writer.node("Exp", &[exponents], &[]);
            writer.shaped(row, &[1, vectors])
        }
        _ => return None,
    })
}

/// The sum of the kernels with the support vectors, times a coefficient each.
pub(super) fn regressor(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let (weights, rho) = (float_list(node, "coefficients"), float_list(node, "rho"));
    let plain = matches!(text(node, "post_transform", b""), b"" | b"NONE");
    let one_class = matches!(node.attributes.get("one_class"), Some(Attribute::Int(1)));
    let vectors = match node.attributes.get("n_supports") {
        Some(Attribute::Int(count)) => usize::try_from(*count).ok()?,
        _ => 0,
    };
    if !plain || one_class || rho.len() != 1 {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let sum = if vectors == 0 {
        let column = writer.floats(&[weights.len(), 1], weights);
        writer.node("MatMul", &[x, column], &[])
    } else if weights.len() == vectors {
        weighted(&mut writer, node, x, (&weights, vectors))?
    } else {
        return None;
    };
    let rho = writer.floats(&[1], rho);
    let y = writer.node("Add", &[sum, rho], &[]);
    Some(writer.finish(y, value))
}

/// Refuses a machine whose probabilities have no program, where they are read.
pub(super) fn check(graph: &Graph) -> Result<(), PrepareError> {
    let used = uses(graph);
    let read = |node: &Node| {
        let value = node.outputs.get(1).copied().flatten();
        value.is_some_and(|value| used[value.index()] > 0)
    };
    let iterated = |node: &&Node| {
        node.domain == "ai.onnx.ml"
            && node.op == "SVMClassifier"
            && float_list(node, "prob_a").len() > 1
            && read(node)
    };
    match graph.nodes.iter().find(iterated) {
        None => Ok(()),
        Some(node) => Err(PrepareError::Node {
            node: node.name.clone(),
            op: node.op.clone(),
            reason: "probabilities of more than two classes are found by iteration, which has no program; keep the label \
                     alone, or train with probability=False",
        }),
    }
}

/// What a classifier says of itself.
struct VectorMachine {
    labels: Vec<i64>,
    /// Vectors of each class.
    counts: Vec<usize>,
    /// `[classes - 1][vectors]`.
    weights: Vec<f32>,
    rho: Vec<f32>,
}

impl VectorMachine {
    fn read(node: &Node) -> Option<Self> {
        let Some(Attribute::Ints(labels)) = node.attributes.get("classlabels_ints") else {
            return None;
        };
        let Some(Attribute::Ints(counts)) = node.attributes.get("vectors_per_class") else {
            return None;
        };
        let counts = counts.iter().map(|&count| usize::try_from(count).ok());
        let machine = Self {
            labels: labels.clone(),
            counts: counts.collect::<Option<_>>()?,
            weights: float_list(node, "coefficients"),
            rho: float_list(node, "rho"),
        };
        let plain = matches!(text(node, "post_transform", b""), b"" | b"NONE");
        let classes = machine.labels.len();
        let fits = machine.counts.len() == classes
            && machine.rho.len() == machine.pairs().len()
            && machine.weights.len() == machine.vectors() * classes.checked_sub(1)?;
        (plain && fits && machine.vectors() > 0).then_some(machine)
    }

    fn vectors(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Each two classes, in the order of their scores.
    fn pairs(&self) -> Vec<[usize; 2]> {
        let classes = self.labels.len();
        let pairs = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| [a, b]));
        pairs.collect()
    }

    /// What the kernels are multiplied by, `[vectors][pairs]`: a pair reads the vectors of its two classes.
    fn matrix(&self) -> Vec<f32> {
        let owners = self.counts.iter().enumerate();
        let owners = owners.flat_map(|(class, &count)| std::iter::repeat_n(class, count));
        let (pairs, vectors) = (self.pairs(), self.vectors());
        let mut matrix = Vec::with_capacity(vectors * pairs.len());
        for (vector, owner) in owners.enumerate() {
            matrix.extend(pairs.iter().map(|&[a, b]| match owner {
                _ if owner == a => self.weights[(b - 1) * vectors + vector],
                _ if owner == b => self.weights[a * vectors + vector],
                _ => 0.0,
            }));
        }
        matrix
    }

    /// Votes of the pairs, `[1, classes]`: a positive score is one for the first of a pair, else for the second.
    fn votes(&self, writer: &mut Writer<'_>, scores: ValueId) -> ValueId {
        let (pairs, classes) = (self.pairs(), self.labels.len());
        let zero = writer.scalar(0.0);
        let first = writer.node("Greater", &[scores, zero], &[]);
        let first = writer.cast(first, DType::F32);
        let mut change = vec![0.0; pairs.len() * classes];
        let mut start = vec![0.0; classes];
        for (pair, &[a, b]) in pairs.iter().enumerate() {
            change[pair * classes + a] = 1.0;
            change[pair * classes + b] = -1.0;
            start[b] += 1.0;
        }
        let change = writer.floats(&[pairs.len(), classes], change);
        let start = writer.floats(&[1, classes], start);
        let votes = writer.node("MatMul", &[first, change], &[]);
        writer.node("Add", &[votes, start], &[])
    }
}

/// The scores of each two classes, or of two classes their probabilities; and the label.
///
/// Probabilities of more than two classes are found by iteration, which has no program.
pub(super) fn classifier(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let used = uses(graph);
    let read = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten();
        value.filter(|value| used[value.index()] > 0)
    };
    let machine = VectorMachine::read(node)?;
    let two = machine.labels.len() == 2;
    let (slope, offset) = (float_list(node, "prob_a"), float_list(node, "prob_b"));
    let mut writer = Writer::new(graph, &node.name);
    let sums = weighted(&mut writer, node, x, (&machine.matrix(), machine.vectors()))?;
    let rho = writer.floats(&[1, machine.rho.len()], machine.rho.clone());
    let score = writer.node("Add", &[sums, rho], &[]);
    // A positive score is the first class; its probability is a logistic function of the score.
    let probable = match (slope.as_slice(), offset.as_slice()) {
        ([slope], [offset]) if two => {
            let scaled = writer.times(score, -*slope);
            let offset = writer.scalar(-*offset);
            let moved = writer.node("Add", &[scaled, offset], &[]);
            Some(writer.node("Sigmoid", &[moved], &[]))
        }
        ([], []) => None,
        _ if read(1).is_some() => return None,
        _ => None,
    };
    let both = |writer: &mut Writer<'_>, first: ValueId, second: ValueId| {
        writer.node("Concat", &[first, second], &[("axis", Attribute::Int(1))])
    };
    let negative = writer.node("Neg", &[score], &[]);
    let chosen = if two {
        both(&mut writer, score, negative)
    } else {
        machine.votes(&mut writer, score)
    };
    let mut written = match (read(1), probable) {
        (None, _) => writer.written,
        (Some(value), Some(first)) => {
            let one = writer.scalar(1.0);
            let second = writer.node("Sub", &[one, first], &[]);
            let result = both(&mut writer, first, second);
            writer.finish(result, value)
        }
        (Some(value), None) if two => {
            let result = both(&mut writer, negative, score);
            writer.finish(result, value)
        }
        (Some(value), None) => writer.finish_all(vec![(score, value)]),
    };
    if let Some(value) = read(0) {
        written.extend(label(graph, &node.name, chosen, &machine.labels, value));
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_exec::sample::Numbers;
    use tg_float::tgf::{self, Budget};
    use tg_float::{Dim, FloatTensor, Input};

    const FEATURES: usize = 3;
    const VECTORS: usize = 7;

    fn reals(numbers: &mut Numbers, count: usize) -> Vec<f32> {
        let one = |_| numbers.between(-1_000, 1_000) as f32 / 1_000.0;
        (0..count).map(one).collect()
    }

    /// A machine over three features, with outputs as many as are named.
    fn machine(op: &str, parameters: [f32; 3], kernel: &str, seed: u64) -> (Graph, Node) {
        let mut numbers = Numbers::new(seed);
        let mut graph = Graph::default();
        let x = graph.fresh("x");
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(vec![Dim::Known(1), Dim::Known(FEATURES)]),
        });
        let outputs = ["label", "scores"].map(|name| graph.fresh(name));
        let outputs = if op == "SVMRegressor" {
            vec![outputs[1]]
        } else {
            outputs.to_vec()
        };
        graph.outputs.clone_from(&outputs);
        let mut node = Node::new("svm", op, 1, vec![x], outputs);
        "ai.onnx.ml".clone_into(&mut node.domain);
        let classifier = op == "SVMClassifier";
        let [rows, pairs] = if classifier { [2, 3] } else { [1, 1] };
        let mut floats = |count| Attribute::Floats(reals(&mut numbers, count));
        node = node
            .with("support_vectors", floats(FEATURES * VECTORS))
            .with("coefficients", floats(rows * VECTORS))
            .with("rho", floats(pairs))
            .with("kernel_params", Attribute::Floats(parameters.to_vec()))
            .with("kernel_type", Attribute::Text(kernel.as_bytes().to_vec()));
        if classifier {
            node = node
                .with("classlabels_ints", Attribute::Ints(vec![4, 5, 9]))
                .with("vectors_per_class", Attribute::Ints(vec![3, 2, 2]));
        } else {
            node = node.with("n_supports", Attribute::Int(VECTORS as i64));
        }
        (graph, node)
    }

    fn run(graph: &Graph, x: &[f32]) -> Vec<FloatTensor> {
        let x = FloatTensor::of(vec![1, FEATURES], x.to_vec()).unwrap();
        tgf::run(graph, &[&x], &Budget::default()).unwrap()
    }

    fn list<'a>(node: &'a Node, name: &str) -> &'a [f32] {
        match node.attributes.get(name) {
            Some(Attribute::Floats(values)) => values,
            _ => &[],
        }
    }

    /// The kernels by their definition.
    fn kernels(node: &Node, x: &[f32]) -> Vec<f64> {
        let &[gamma, start, degree] = list(node, "kernel_params") else {
            panic!("three parameters")
        };
        let vectors = list(node, "support_vectors").chunks_exact(FEATURES);
        let own = |v: &[f32]| {
            let product: f64 = v
                .iter()
                .zip(x)
                .map(|(&a, &b)| f64::from(a) * f64::from(b))
                .sum();
            (f64::from(gamma) * product + f64::from(start)).powf(f64::from(degree))
        };
        vectors.map(own).collect()
    }

    #[test]
    fn sums_of_powers_are_a_polynomial() {
        for (parameters, seed) in [
            ([0.7, 0.0, 3.0], 1),
            ([0.5, 0.8, 3.0], 2),
            ([1.3, -0.4, 2.0], 3),
            ([0.9, 0.3, 4.0], 4),
            ([0.9, 0.3, 1.0], 5),
        ] {
            let (mut graph, node) = machine("SVMRegressor", parameters, "POLY", seed);
            graph.nodes = regressor(&mut graph, &node).unwrap();
            assert!(graph.nodes.iter().all(|node| !node.is("Pow")));
            for x in [[0.3, -0.9, 0.5], [1.1, 0.2, -0.7]] {
                let got = run(&graph, &x)[0].values::<f32>().unwrap()[0];
                let sum: f64 = kernels(&node, &x)
                    .iter()
                    .zip(list(&node, "coefficients"))
                    .map(|(kernel, &weight)| kernel * f64::from(weight))
                    .sum();
                let expected = sum + f64::from(list(&node, "rho")[0]);
                assert!((f64::from(got) - expected).abs() < 1e-5, "{got} {expected}");
            }
        }
        // Powers that are no small whole numbers stay.
        let (mut graph, node) = machine("SVMRegressor", [0.7, 3.0, 2.5], "POLY", 1);
        let nodes = regressor(&mut graph, &node).unwrap();
        assert!(nodes.iter().any(|node| node.is("Pow")));
        assert_eq!([counted(13, 3), counted(2, 1)], [Some(560), Some(3)]);
        assert_eq!(
            [orders(&[1, 1, 2]), orders(&[0, 1, 2]), orders(&[3, 3])],
            [3.0, 6.0, 1.0]
        );
    }

    #[test]
    fn three_classes_vote_pair_by_pair() {
        for kernel in ["LINEAR", "POLY"] {
            let (mut graph, node) = machine("SVMClassifier", [1.0, 0.0, 1.0], kernel, 6);
            graph.nodes = classifier(&mut graph, &node).unwrap();
            let mut numbers = Numbers::new(7);
            for _ in 0..20 {
                let x = reals(&mut numbers, FEATURES);
                let kernels = kernels(&node, &x);
                let weights = list(&node, "coefficients");
                let mut votes = [0; 3];
                let mut scores = Vec::new();
                let spans = [0..3, 3..5, 5..7];
                for (pair, [a, b]) in [[0, 1], [0, 2], [1, 2]].into_iter().enumerate() {
                    let of = |row: usize, class: usize| -> f64 {
                        let own = spans[class].clone();
                        own.map(|v| f64::from(weights[row * VECTORS + v]) * kernels[v])
                            .sum()
                    };
                    let score = of(b - 1, a) + of(a, b) + f64::from(list(&node, "rho")[pair]);
                    votes[if score > 0.0 { a } else { b }] += 1;
                    scores.push(score as f32);
                }
                let outputs = run(&graph, &x);
                let most = *votes.iter().max().unwrap();
                let first = votes.iter().position(|&count| count == most).unwrap();
                assert_eq!(outputs[0].values::<i64>().unwrap(), [[4, 5, 9][first]]);
                for (got, expected) in outputs[1].values::<f32>().unwrap().iter().zip(&scores) {
                    assert!((got - expected).abs() < 1e-5, "{got} {expected}");
                }
            }
            let (mut graph, node) = machine("SVMClassifier", [1.0, 0.0, 1.0], kernel, 6);
            let probable = Attribute::Floats(vec![1.0; 3]);
            let node = node
                .with("prob_a", probable.clone())
                .with("prob_b", probable);
            assert!(classifier(&mut graph, &node).is_none());
            graph.nodes = vec![node];
            let refused = check(&graph).unwrap_err().to_string();
            assert!(refused.contains("probability=False"), "{refused}");
            graph.outputs.truncate(1);
            assert_eq!(check(&graph), Ok(()));
        }
    }
}
