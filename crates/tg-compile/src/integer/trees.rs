//! Tree ensembles: inputs become ranks among the thresholds, so that every decision is that of the floats.

use super::lowering::{LowerError, LowerOptions, LoweredModel, Site, narrow};
use crate::passes::{Prepared, int};
use std::collections::BTreeMap;
use tg_float::{Attribute, Node, convert};
use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op::{self, PROBABILITY_ONE, Softmax};
use tg_ir::program::THRESHOLDS_MAX;
use tg_ir::requantise::TABLE_MAX;
use tg_ir::{Coding, InputSpec, Op, Rescale, Shape, TensorId};

/// Sums of leaves reach this far: half of what a softmax takes.
const SUM_MAX: f64 = (1u32 << 28) as f64;

/// The program of a graph that is one tree ensemble; nothing for other graphs.
pub(super) fn lower(
    prepared: &Prepared,
    options: &LowerOptions,
) -> Result<Option<LoweredModel>, LowerError> {
    let graph = &prepared.graph;
    let ensemble = |node: &Node| node.domain == "ai.onnx.ml" && node.op.starts_with("TreeEnsemble");
    let [node] = graph.nodes.as_slice() else {
        return Ok(None);
    };
    if !ensemble(node) {
        return Ok(None);
    }
    let refuse = |reason| {
        let features = prepared.shape(graph.inputs[0].value);
        LowerError::Unsupported {
            node: node.name.clone(),
            operator: node.op.clone(),
            inputs: format!("{features:?}"),
            reason,
        }
    };
    let &[1, features] = prepared.shape(graph.inputs[0].value) else {
        return Err(refuse("it reads other than one row of features"));
    };
    let file = File::read(node).map_err(refuse)?;
    let (thresholds, forest, unit) = file.forest(features).map_err(refuse)?;
    build(prepared, options, thresholds, forest, unit, file.transform)
        .map_err(|stop| super::lowering::refusal(prepared, node, stop))
        .map(Some)
}

fn build(
    prepared: &Prepared,
    options: &LowerOptions,
    thresholds: Vec<Vec<f32>>,
    forest: Forest,
    unit: f64,
    transform: Transform,
) -> super::lowering::Step<LoweredModel> {
    let graph = &prepared.graph;
    let features = thresholds.len();
    let spec = InputSpec {
        shape: Shape::vector(narrow(features)?),
        coding: Coding::Ranks(thresholds),
        scale: 1.0,
        mean: Vec::new(),
        std: Vec::new(),
    };
    let name = graph.nodes[0].name.clone();
    let outputs = forest.outputs();
    let shape = Shape::vector(narrow(outputs)?);
    let mut builder = super::builder::Builder::new(&options.name, spec);
    let op = Op::Trees(op::Trees {
        input: TensorId::INPUT,
        forest,
    });
    let mut tensor = builder.push(&name, op, shape, unit, None);
    let mut scale = unit;
    if transform == Transform::Softmax {
        let step = (11.1 / (TABLE_MAX as f64 - 2.0)).max(unit / 8_000.0);
        let rescale = Rescale::nearest(unit / step);
        let rescale = rescale.ok_or(super::lowering::Stop::Unsupported(
            "its scores are too small",
        ))?;
        let one = f64::from(PROBABILITY_ONE);
        let entries = ((11.1 / step).ceil() as usize + 1).min(TABLE_MAX);
        let how = Softmax {
            rescale,
            table: (0..entries)
                .map(|i| (one * (-(i as f64) * step).exp()).round() as u16)
                .collect(),
            causal: None,
        };
        let op = Op::Softmax(op::Unary { input: tensor, how });
        tensor = builder.push(&format!("{name}.softmax"), op, shape, 1.0 / one, None);
        scale = 1.0 / one;
    }
    let output = Site {
        value: graph.outputs[0],
        tensor,
        scale,
        zero: 0,
        order: (0..outputs).collect(),
    };
    let signature = super::signature::of(prepared, (scale, 0), (&[1, outputs], &[0, 1]));
    Ok(LoweredModel {
        model: builder.finish(signature).map_err(LowerError::from)?,
        sites: vec![output.clone()],
        output,
    })
}

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transform {
    None,
    /// Also a logistic function of one score, as the softmax of 0 and the score.
    Softmax,
}

/// What a condition of a branch compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// `x <= t` goes to the true child; if swapped, to the false one.
    Branch {
        swapped: bool,
    },
    Leaf,
}

/// Tree and node.
type Place = (i64, i64);
/// Mode, feature, threshold, true and false child.
type Decision = (Mode, usize, f32, i64, i64);
/// Output and value of each part of a leaf.
type Leaves = BTreeMap<Place, Vec<(usize, f64)>>;

/// An ensemble as the file has it.
struct File {
    nodes: BTreeMap<Place, Decision>,
    leaves: Leaves,
    bias: Vec<f64>,
    factor: f64,
    transform: Transform,
}

type Refusal = &'static str;

fn list(node: &Node, name: &str) -> Vec<i64> {
    match node.attributes.get(name) {
        Some(Attribute::Ints(values)) => values.clone(),
        _ => Vec::new(),
    }
}

fn reals(node: &Node, name: &str) -> Vec<f32> {
    match node.attributes.get(name) {
        Some(Attribute::Floats(values)) => values.clone(),
        _ => match node.attributes.get(&format!("{name}_as_tensor")) {
            Some(Attribute::Tensor(tensor)) => convert::to_f32(tensor.data()).unwrap_or_default(),
            _ => Vec::new(),
        },
    }
}

const UNEVEN: Refusal = "its lists have different lengths";

fn decisions(node: &Node) -> Result<BTreeMap<Place, Decision>, Refusal> {
    let texts = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Texts(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let [trees, ids, features, yes, no] = [
        "nodes_treeids",
        "nodes_nodeids",
        "nodes_featureids",
        "nodes_truenodeids",
        "nodes_falsenodeids",
    ]
    .map(|name| list(node, name));
    let (values, modes) = (reals(node, "nodes_values"), texts("nodes_modes"));
    let count = trees.len();
    if [
        ids.len(),
        features.len(),
        yes.len(),
        no.len(),
        values.len(),
        modes.len(),
    ] != [count; 6]
    {
        return Err(UNEVEN);
    }
    let mut nodes = BTreeMap::new();
    for at in 0..count {
        let (mode, threshold) = condition(&modes[at], values[at])?;
        let feature = usize::try_from(features[at]).map_err(|_| "a feature is negative")?;
        nodes.insert(
            (trees[at], ids[at]),
            (mode, feature, threshold, yes[at], no[at]),
        );
    }
    Ok(nodes)
}

fn leaves(node: &Node, prefix: &str) -> Result<Leaves, Refusal> {
    let [trees, ids, outputs] =
        ["treeids", "nodeids", "ids"].map(|name| list(node, &format!("{prefix}_{name}")));
    let weights = reals(node, &format!("{prefix}_weights"));
    if [ids.len(), outputs.len(), weights.len()] != [trees.len(); 3] {
        return Err(UNEVEN);
    }
    let mut leaves: Leaves = BTreeMap::new();
    for at in 0..trees.len() {
        let output = usize::try_from(outputs[at]).map_err(|_| "an output is negative")?;
        let leaf = leaves.entry((trees[at], ids[at])).or_default();
        leaf.push((output, f64::from(weights[at])));
    }
    Ok(leaves)
}

impl File {
    fn read(node: &Node) -> Result<Self, Refusal> {
        if node.op == "TreeEnsemble" {
            return Err("only the classifier and regressor operators are taken");
        }
        let classifier = node.op.ends_with("Classifier");
        let nodes = decisions(node)?;
        let leaves = leaves(node, if classifier { "class" } else { "target" })?;
        let mut file = Self {
            nodes,
            leaves,
            bias: reals(node, "base_values")
                .iter()
                .map(|&v| f64::from(v))
                .collect(),
            factor: 1.0,
            transform: Transform::None,
        };
        let transform = match node.attributes.get("post_transform") {
            Some(Attribute::Text(text)) => text.as_slice(),
            _ => b"NONE",
        };
        if classifier {
            file.classes(node, transform)?;
        } else {
            let targets = usize::try_from(int(node, "n_targets", 1)).unwrap_or(1);
            file.bias.resize(targets, 0.0);
            let average = matches!(node.attributes.get("aggregate_function"), Some(Attribute::Text(t)) if t == b"AVERAGE");
            let sums = match node.attributes.get("aggregate_function") {
                Some(Attribute::Text(text)) => text == b"SUM" || average,
                _ => true,
            };
            if !sums || transform != b"NONE" {
                return Err("only sums and averages without a function after them are taken");
            }
            if average {
                let roots = file
                    .nodes
                    .keys()
                    .map(|(tree, _)| tree)
                    .collect::<std::collections::BTreeSet<_>>();
                file.factor = 1.0 / roots.len().max(1) as f64;
            }
        }
        Ok(file)
    }

    /// Scores of two classes from one, and the function after the sums.
    fn classes(&mut self, node: &Node, transform: &[u8]) -> Result<(), Refusal> {
        let labels = list(node, "classlabels_int64s").len().max(
            match node.attributes.get("classlabels_strings") {
                Some(Attribute::Texts(texts)) => texts.len(),
                _ => 0,
            },
        );
        let ids: std::collections::BTreeSet<usize> = self
            .leaves
            .values()
            .flatten()
            .map(|(output, _)| *output)
            .collect();
        let single = labels == 2 && ids.len() == 1;
        self.transform = match transform {
            b"NONE" => Transform::None,
            b"SOFTMAX" if !single => Transform::Softmax,
            b"LOGISTIC" if single => Transform::Softmax,
            _ => return Err("its function after the sums is not taken"),
        };
        if !single {
            self.bias.resize(labels, 0.0);
            return Ok(());
        }
        let positive = self
            .leaves
            .values()
            .flatten()
            .all(|(_, value)| *value >= 0.0);
        let base = self.bias.last().copied().unwrap_or(0.0);
        let mirrored = match (self.transform, positive) {
            (Transform::Softmax, _) => 0.0,
            (Transform::None, _) => -1.0,
        };
        let start = if self.transform == Transform::None && positive {
            1.0
        } else {
            0.0
        };
        self.bias = vec![start + mirrored * base, base];
        for leaf in self.leaves.values_mut() {
            let sum: f64 = leaf.iter().map(|(_, value)| value).sum();
            *leaf = vec![(0, mirrored * sum), (1, sum)];
        }
        Ok(())
    }

    /// Thresholds by feature, the trees over ranks, and the real value of one unit of a leaf.
    fn forest(&self, features: usize) -> Result<(Vec<Vec<f32>>, Forest, f64), Refusal> {
        let mut thresholds = vec![Vec::new(); features];
        for (mode, feature, threshold, ..) in self.nodes.values() {
            if *mode != Mode::Leaf {
                thresholds
                    .get_mut(*feature)
                    .ok_or("a feature is out of range")?
                    .push(*threshold);
            }
        }
        for list in &mut thresholds {
            list.sort_by(f32::total_cmp);
            list.dedup();
            if list.len() > THRESHOLDS_MAX || list.iter().any(|t| !t.is_finite()) {
                return Err("a feature has too many thresholds, or one that is not finite");
            }
        }
        let outputs = self.bias.len();
        let trees: std::collections::BTreeSet<i64> =
            self.nodes.keys().map(|(tree, _)| *tree).collect();
        let leaf = self
            .leaves
            .values()
            .flatten()
            .fold(0f64, |best, (_, v)| best.max(v.abs()));
        let bias = self.bias.iter().fold(0f64, |best, v| best.max(v.abs()));
        let reach = (leaf * self.factor * trees.len() as f64 + bias).max(1e-30);
        let unit = reach / SUM_MAX;
        let mut grower = Grower {
            file: self,
            thresholds: &thresholds,
            outputs,
            unit,
            forest: Forest {
                roots: Vec::new(),
                branches: Vec::new(),
                leaves: Vec::new(),
                bias: self
                    .bias
                    .iter()
                    .map(|v| (v / unit).round() as i32)
                    .collect(),
            },
        };
        for tree in trees {
            let children: std::collections::BTreeSet<i64> = self
                .nodes
                .range((tree, i64::MIN)..=(tree, i64::MAX))
                .filter(|(_, node)| node.0 != Mode::Leaf)
                .flat_map(|(_, node)| [node.3, node.4])
                .collect();
            let mut own = self
                .nodes
                .range((tree, i64::MIN)..=(tree, i64::MAX))
                .map(|((_, id), _)| *id);
            let root = own
                .find(|id| !children.contains(id))
                .ok_or("a tree has no root")?;
            let root = grower.grow(tree, root, 0)?;
            grower.forest.roots.push(root);
        }
        let forest = grower.forest;
        Ok((thresholds, forest, unit))
    }
}

/// Most branches from a root to a leaf.
const DEPTH_MAX: usize = 512;

struct Grower<'a> {
    file: &'a File,
    thresholds: &'a [Vec<f32>],
    outputs: usize,
    unit: f64,
    forest: Forest,
}

impl Grower<'_> {
    /// A node with all below it; a branch comes before its children.
    fn grow(&mut self, tree: i64, id: i64, depth: usize) -> Result<Child, Refusal> {
        const INDEX: Refusal = "it has too many branches";
        let node = self
            .file
            .nodes
            .get(&(tree, id))
            .ok_or("a child is missing")?;
        let &(mode, feature, threshold, yes, no) = node;
        let Mode::Branch { swapped } = mode else {
            let at = u32::try_from(self.forest.leaves.len() / self.outputs).map_err(|_| INDEX)?;
            let mut row = vec![0f64; self.outputs];
            for (output, value) in self.file.leaves.get(&(tree, id)).into_iter().flatten() {
                *row.get_mut(*output).ok_or("an output is out of range")? +=
                    value * self.file.factor;
            }
            let units = row.iter().map(|value| (value / self.unit).round() as i32);
            self.forest.leaves.extend(units);
            return Ok(Child::Leaf(at));
        };
        if depth > DEPTH_MAX || self.forest.branches.len() >= self.file.nodes.len() {
            return Err("a tree is too deep, or leads back to itself");
        }
        let rank = self.thresholds[feature].partition_point(|&t| t < threshold);
        let at = self.forest.branches.len();
        self.forest.branches.push(Branch {
            feature: u16::try_from(feature).map_err(|_| "it has too many features")?,
            threshold: i16::try_from(rank).map_err(|_| INDEX)?,
            below: Child::Leaf(0),
            above: Child::Leaf(0),
        });
        let (below, above) = if swapped { (no, yes) } else { (yes, no) };
        let below = self.grow(tree, below, depth + 1)?;
        let above = self.grow(tree, above, depth + 1)?;
        self.forest.branches[at].below = below;
        self.forest.branches[at].above = above;
        Ok(Child::Branch(u32::try_from(at).map_err(|_| INDEX)?))
    }
}

/// A condition as `x <= t`.
fn condition(mode: &[u8], value: f32) -> Result<(Mode, f32), Refusal> {
    Ok(match mode {
        b"LEAF" => (Mode::Leaf, 0.0),
        b"BRANCH_LEQ" => (Mode::Branch { swapped: false }, value),
        b"BRANCH_LT" => (Mode::Branch { swapped: false }, value.next_down()),
        b"BRANCH_GT" => (Mode::Branch { swapped: true }, value),
        b"BRANCH_GTE" => (Mode::Branch { swapped: true }, value.next_down()),
        _ => return Err("a branch compares for equality"),
    })
}
