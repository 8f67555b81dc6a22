//! Tree ensembles: over ranks of the inputs among the thresholds, so that every decision is that of the floats, or over
//! activations, where a threshold is rounded to their unit.

use super::lowering::{Lowering, Step, Stop, operand, result, unsupported};
use super::strided::Strided;
use crate::passes::{Prepared, int};
use std::collections::{BTreeMap, BTreeSet};
use tg_float::{Attribute, Node, convert};
use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op;
use tg_ir::program::THRESHOLDS_MAX;
use tg_ir::{Coding, ElementType, Op, Shape, TensorId};

/// Sums of leaves reach this far: differences of two are half of what a comparison takes.
const SUM_MAX: f64 = (1u32 << 27) as f64;

/// Whether a node is an ensemble as the passes write it.
pub(super) fn is_ensemble(node: &Node) -> bool {
    node.domain == "ai.onnx.ml" && node.op == "TreeEnsembleRegressor"
}

/// The thresholds of each feature, ascending, if all that is read of the graph's input is read by tree ensembles.
pub(super) fn ranks(prepared: &Prepared) -> Option<Vec<Vec<f32>>> {
    let graph = &prepared.graph;
    let [input] = graph.inputs.as_slice() else {
        return None;
    };
    let &[1, features] = prepared.shape(input.value) else {
        return None;
    };
    let mut readers = graph.nodes.iter();
    let readers = readers
        .by_ref()
        .filter(|node| node.reads().any(|value| value == input.value));
    let mut thresholds = vec![Vec::new(); features];
    let mut any = false;
    for node in readers {
        if !is_ensemble(node) {
            return None;
        }
        any = true;
        let file = File::read(node).ok()?;
        for (mode, feature, threshold, ..) in file.nodes.values() {
            if *mode != Mode::Leaf {
                thresholds.get_mut(*feature)?.push(*threshold);
            }
        }
    }
    for list in &mut thresholds {
        list.sort_by(f32::total_cmp);
        list.dedup();
        if list.len() > THRESHOLDS_MAX || list.iter().any(|threshold| !threshold.is_finite()) {
            return None;
        }
    }
    (any && !graph.outputs.contains(&input.value)).then_some(thresholds)
}

impl Lowering<'_> {
    /// An ensemble's sums, as accumulators.
    pub(crate) fn trees(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let &[1, features] = self.shape_of(x) else {
            return unsupported("it reads other than one row of features");
        };
        let file = File::read(node).map_err(Stop::Unsupported)?;
        let ranked = match self.builder.coding() {
            Coding::Ranks(thresholds) if self.is_input(x) => Some(thresholds.clone()),
            _ => None,
        };
        let (input, (forest, unit)) = match ranked {
            Some(thresholds) => {
                let rank = |feature: usize, threshold: f32| {
                    thresholds[feature].partition_point(|&other| other < threshold) as f64
                };
                (
                    TensorId::INPUT,
                    file.forest(features, rank).map_err(Stop::Unsupported)?,
                )
            }
            None => {
                let read = self.read_as(x, ElementType::I16, i64::MAX, None)?;
                let groups = [Vec::new(), vec![0], vec![1]];
                let input = self.arranged(&read, &groups, &node.name)?;
                let placed = |_: usize, threshold: f32| {
                    (f64::from(threshold) / read.scale).floor() + read.zero as f64
                };
                (
                    input,
                    file.forest(features, placed).map_err(Stop::Unsupported)?,
                )
            }
        };
        let outputs = forest.outputs();
        let shape = Shape::vector(super::lowering::narrow(outputs)?);
        let op = Op::Trees(op::Trees { input, forest });
        let tensor = self.builder.push(&node.name, op, shape, unit, None);
        let layout = Strided::contiguous(self.shape_of(value));
        self.give(value, tensor, layout, unit, 0);
        Ok(())
    }
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
        let nodes = decisions(node)?;
        let leaves = leaves(node, "target")?;
        let mut bias: Vec<f64> = reals(node, "base_values")
            .iter()
            .map(|&value| f64::from(value))
            .collect();
        let targets = usize::try_from(int(node, "n_targets", 1)).unwrap_or(1);
        bias.resize(targets, 0.0);
        let text = |name: &str| match node.attributes.get(name) {
            Some(Attribute::Text(text)) => text.clone(),
            _ => Vec::new(),
        };
        let average = text("aggregate_function") == b"AVERAGE";
        let sums = average || [&b""[..], b"SUM"].contains(&&*text("aggregate_function"));
        let plain = [&b""[..], b"NONE"].contains(&&*text("post_transform"));
        if !sums || !plain {
            return Err("only sums and averages without a function after them are taken");
        }
        let roots: BTreeSet<i64> = nodes.keys().map(|(tree, _)| *tree).collect();
        let factor = if average {
            1.0 / roots.len().max(1) as f64
        } else {
            1.0
        };
        Ok(Self {
            nodes,
            leaves,
            bias,
            factor,
        })
    }

    /// The trees over integers, and the real value of one unit of a leaf. `place` is the greatest integer that stands for a
    /// feature's value at or below a threshold.
    fn forest(
        &self,
        features: usize,
        place: impl Fn(usize, f32) -> f64,
    ) -> Result<(Forest, f64), Refusal> {
        let mut places = BTreeMap::new();
        for (at, (mode, feature, threshold, ..)) in &self.nodes {
            if *mode != Mode::Leaf {
                if *feature >= features {
                    return Err("a feature is out of range");
                }
                // What no value reaches decides as the farthest place does.
                let placed = place(*feature, *threshold);
                let placed = placed.clamp(f64::from(i16::MIN + 1), f64::from(i16::MAX - 1));
                places.insert(*at, placed as i16);
            }
        }
        let outputs = self.bias.len();
        let trees: BTreeSet<i64> = self.nodes.keys().map(|(tree, _)| *tree).collect();
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
            places: &places,
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
            let children: BTreeSet<i64> = self
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
        Ok((forest, unit))
    }
}

/// Most branches from a root to a leaf.
const DEPTH_MAX: usize = 512;

struct Grower<'a> {
    file: &'a File,
    places: &'a BTreeMap<Place, i16>,
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
        let &(mode, feature, _, yes, no) = node;
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
        let at = self.forest.branches.len();
        self.forest.branches.push(Branch {
            feature: u16::try_from(feature).map_err(|_| "it has too many features")?,
            threshold: self.places[&(tree, id)],
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
