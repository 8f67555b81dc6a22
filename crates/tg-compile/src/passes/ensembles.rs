//! Tree classifiers of `ai.onnx.ml` as tree regressors of their scores, with what follows the sums as operators of ONNX; a
//! scaler before trees goes into their thresholds.

use super::edit::{Writer, input, int_list, uses};
use std::collections::BTreeSet;
use tg_float::{Attribute, FloatTensor, Graph, Node, ValueId};

/// Rewrites every tree ensemble that it knows.
pub(super) fn rewrite(graph: &mut Graph) {
    let mut index = 0;
    while index < graph.nodes.len() {
        let node = graph.nodes[index].clone();
        let written = match (node.domain.as_str(), node.op.as_str()) {
            ("ai.onnx.ml", "TreeEnsembleClassifier") => classifier(graph, &node),
            _ => None,
        };
        let count = written.as_ref().map_or(1, Vec::len);
        if let Some(written) = written {
            graph.nodes.splice(index..=index, written);
        }
        index += count;
    }
    for index in 0..graph.nodes.len() {
        while take_scaler(graph, index).is_some() {}
    }
    graph.remove_dead();
}

fn floats(node: &Node, name: &str) -> Vec<f32> {
    match node.attributes.get(name) {
        Some(Attribute::Floats(values)) => values.clone(),
        Some(Attribute::Tensor(tensor)) => {
            tg_float::convert::to_f32(tensor.data()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn listed(node: &Node, name: &str) -> Vec<f32> {
    match floats(node, name) {
        none if none.is_empty() => floats(node, &format!("{name}_as_tensor")),
        found => found,
    }
}

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// Also the logistic function of one score, as the softmax of 0 and the score.
    Softmax,
    Logistic,
}

/// Leaves and starts of the sums, by output.
struct ClassScores {
    trees: Vec<i64>,
    nodes: Vec<i64>,
    outputs: Vec<i64>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    after: After,
}

impl ClassScores {
    /// The scores of a classifier: of two classes with one score, also the other's.
    fn read(node: &Node, classes: usize) -> Option<Self> {
        let [trees, nodes, outputs] =
            ["class_treeids", "class_nodeids", "class_ids"].map(|name| int_list(node, name));
        let weights = listed(node, "class_weights");
        if [nodes.len(), outputs.len(), weights.len()] != [trees.len(); 3] {
            return None;
        }
        let own: BTreeSet<i64> = outputs.iter().copied().collect();
        let single = classes == 2 && own.len() == 1;
        let transform = match node.attributes.get("post_transform") {
            Some(Attribute::Text(text)) => text.as_slice(),
            _ => b"NONE",
        };
        let after = match transform {
            b"NONE" => After::Nothing,
            b"SOFTMAX" if !single => After::Softmax,
            b"LOGISTIC" if single => After::Softmax,
            b"LOGISTIC" => After::Logistic,
            _ => return None,
        };
        let mut sums = Self {
            trees,
            nodes,
            outputs,
            weights,
            bias: listed(node, "base_values"),
            after,
        };
        if single {
            sums.mirror();
        } else {
            sums.bias.resize(classes, 0.0);
        }
        Some(sums)
    }

    /// Adds the score of the first of two classes to that of the second: its negative, one minus it where all weights are
    /// shares of votes, or 0 before a softmax.
    fn mirror(&mut self) {
        let base = self.bias.last().copied().unwrap_or(0.0);
        let shares = self.weights.iter().all(|&weight| weight >= 0.0);
        let (start, factor) = match (self.after, shares) {
            (After::Nothing, true) => (1.0, -1.0),
            (After::Nothing, false) => (0.0, -1.0),
            _ => (0.0, 0.0),
        };
        self.bias = vec![start + factor * base, base];
        self.outputs = vec![1; self.weights.len()];
        if factor != 0.0 {
            self.trees.extend(self.trees.clone());
            self.nodes.extend(self.nodes.clone());
            self.outputs.extend(vec![0; self.weights.len()]);
            let mirrored: Vec<f32> = self.weights.iter().map(|weight| factor * weight).collect();
            self.weights.extend(mirrored);
        }
    }

    /// The regressor of these sums over the trees of a node.
    fn regressor(self, node: &Node, x: ValueId, value: ValueId) -> Node {
        let name = format!("{}.scores", node.name);
        let mut written = Node::new(&name, "TreeEnsembleRegressor", 3, vec![x], vec![value]);
        node.domain.clone_into(&mut written.domain);
        for (name, attribute) in &node.attributes {
            if name.starts_with("nodes_") {
                written = written.with(name, attribute.clone());
            }
        }
        let targets = self.bias.len() as i64;
        for (name, list) in [
            ("target_treeids", self.trees),
            ("target_nodeids", self.nodes),
            ("target_ids", self.outputs),
        ] {
            written = written.with(name, Attribute::Ints(list));
        }
        written
            .with("target_weights", Attribute::Floats(self.weights))
            .with("base_values", Attribute::Floats(self.bias))
            .with("n_targets", Attribute::Int(targets))
    }
}

/// Scores, the function after them, and the label of the greatest score.
fn classifier(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let used = uses(graph);
    let read = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten();
        value.filter(|value| used[value.index()] > 0)
    };
    let labels = int_list(node, "classlabels_int64s");
    let names = match node.attributes.get("classlabels_strings") {
        Some(Attribute::Texts(texts)) => texts.len(),
        _ => 0,
    };
    if read(0).is_some() && labels.is_empty() {
        return None;
    }
    let sums = ClassScores::read(node, labels.len().max(names))?;
    let after = sums.after;
    let scores = graph.fresh(format!("{}.scores", node.name));
    let mut all = vec![sums.regressor(node, x, scores)];
    if let Some(value) = read(1) {
        let mut writer = Writer::new(graph, &format!("{}.after", node.name));
        let result = match after {
            After::Nothing => scores,
            After::Softmax => writer.node("Softmax", &[scores], &[("axis", Attribute::Int(-1))]),
            After::Logistic => writer.node("Sigmoid", &[scores], &[]),
        };
        all.extend(writer.finish(result, value));
    }
    if let Some(value) = read(0) {
        all.extend(label(graph, &node.name, scores, &labels, value));
    }
    Some(all)
}

/// The label of the greatest score, the first one of equal ones.
pub(super) fn label(
    graph: &mut Graph,
    name: &str,
    scores: ValueId,
    labels: &[i64],
    value: ValueId,
) -> Vec<Node> {
    let mut writer = Writer::new(graph, &format!("{name}.label"));
    let how = [("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(0))];
    let greatest = writer.node("ArgMax", &[scores], &how);
    let counted = labels
        .iter()
        .enumerate()
        .all(|(at, &label)| label == at as i64);
    let result = if counted {
        greatest
    } else {
        let table = FloatTensor::vector(labels.to_vec());
        let table = writer.graph.constant(format!("{name}.labels"), table);
        writer.node("Gather", &[table, greatest], &[("axis", Attribute::Int(0))])
    };
    writer.finish(result, value)
}

/// Takes the scaler before an ensemble into its thresholds: a feature's scaled value is at or below a threshold exactly
/// where the value is at or below the greatest one that is scaled so, since scaling by a positive factor in floats never
/// turns the order of two values around.
fn take_scaler(graph: &mut Graph, index: usize) -> Option<()> {
    let node = graph.nodes[index].clone();
    if node.domain != "ai.onnx.ml" || node.op != "TreeEnsembleRegressor" {
        return None;
    }
    let x = input(&node, 0)?;
    let scaler = graph.nodes[graph.producers()[x.index()]?].clone();
    if scaler.domain != "ai.onnx.ml" || scaler.op != "Scaler" {
        return None;
    }
    let from = input(&scaler, 0)?;
    let [offsets, factors] = ["offset", "scale"].map(|name| floats(&scaler, name));
    let pick = |list: &[f32], feature: usize, default: f32| match list {
        [] => Some(default),
        [one] => Some(*one),
        list => list.get(feature).copied(),
    };
    let features = int_list(&node, "nodes_featureids");
    let mut thresholds = listed(&node, "nodes_values");
    let Some(Attribute::Texts(modes)) = node.attributes.get("nodes_modes") else {
        return None;
    };
    let ordered = |mode: &Vec<u8>| [&b"BRANCH_LEQ"[..], b"BRANCH_GT", b"LEAF"].contains(&&**mode);
    if !modes.iter().all(ordered) || features.len() != thresholds.len() {
        return None;
    }
    for ((threshold, feature), mode) in thresholds.iter_mut().zip(&features).zip(modes) {
        if mode == b"LEAF" {
            continue;
        }
        let feature = usize::try_from(*feature).ok()?;
        let (offset, factor) = (pick(&offsets, feature, 0.0)?, pick(&factors, feature, 1.0)?);
        if !(factor > 0.0 && factor.is_finite() && offset.is_finite()) {
            return None;
        }
        *threshold = greatest_at_most(*threshold, |value| (value - offset) * factor)?;
    }
    let node = &mut graph.nodes[index];
    node.inputs[0] = Some(from);
    node.attributes.remove("nodes_values_as_tensor");
    let list = Attribute::Floats(thresholds);
    node.attributes.insert("nodes_values".to_owned(), list);
    Some(())
}

/// The greatest finite number that a function that never falls takes to at most `limit`.
fn greatest_at_most(limit: f32, function: impl Fn(f32) -> f32) -> Option<f32> {
    // Floats in order, as integers.
    let number = |key: i32| f32::from_bits((key ^ (key >> 31 & i32::MAX)).cast_unsigned());
    let key = |value: f32| {
        let bits = value.to_bits().cast_signed();
        bits ^ (bits >> 31 & i32::MAX)
    };
    let (mut low, mut high) = (key(f32::MIN), key(f32::MAX));
    if function(number(low)) > limit {
        return None;
    }
    while low < high {
        let middle = low + (i64::from(high) - i64::from(low) + 1).div_euclid(2) as i32;
        if function(number(middle)) <= limit {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(number(low))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn thresholds_behind_a_scaler_decide_as_before() {
        for (offset, factor, limit) in [
            (0.3f32, 1.7f32, 0.25f32),
            (-2.5, 0.013, -1.0),
            (1e6, 3e-4, 0.5),
        ] {
            let scaled = |value: f32| (value - offset) * factor;
            let found = greatest_at_most(limit, scaled).unwrap();
            assert!(scaled(found) <= limit);
            assert!(scaled(found.next_up()) > limit, "{found}");
        }
        assert_eq!(greatest_at_most(f32::NEG_INFINITY, |value| value), None);
    }
}
