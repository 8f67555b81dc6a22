//! Classical models of `ai.onnx.ml`: tree ensembles, linear models, scalers.
//!
//! Scores are summed in `f32`, tree by tree in the order of the file.

use super::call::Entry;
use super::call::Half::Native;
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use super::math;
use super::norm::softmax_row;
use crate::convert::{self, canonical};
use crate::tensor::{DType, Data, FloatTensor};
use std::collections::BTreeMap;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "TreeEnsembleClassifier" => classify_by_trees,
        "TreeEnsembleRegressor" => regress_by_trees,
        "LinearClassifier" => classify_linearly,
        "LinearRegressor" => regress_linearly,
        "Scaler" => scale,
        "Normalizer" => normalise,
        "Binarizer" => binarise,
        "ArrayFeatureExtractor" => extract,
        _ => return None,
    };
    Some((kernel, Native))
}

/// Rows of features as `f32`.
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) features: usize,
    values: Vec<f32>,
}

impl Rows {
    pub(super) fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let input = call.input(0)?;
        let (count, features) = match *input.shape() {
            [features] => (1, features),
            [count, features] => (count, features),
            _ => return Err(OpError::invalid("the input is not rows of features")),
        };
        call.reserve(input.len(), DType::F32)?;
        let values = convert::to_f32(input.data()).ok_or_else(|| call.wrong_type(0))?;
        Ok(Self {
            count,
            features,
            values,
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.count).map(|row| &self.values[row * self.features..(row + 1) * self.features])
    }
}

/// How a node of a tree decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Leaf,
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
}

impl Mode {
    fn new(name: &str) -> Option<Self> {
        Some(match name {
            "LEAF" => Self::Leaf,
            "BRANCH_LEQ" => Self::LessOrEqual,
            "BRANCH_LT" => Self::Less,
            "BRANCH_GTE" => Self::GreaterOrEqual,
            "BRANCH_GT" => Self::Greater,
            "BRANCH_EQ" => Self::Equal,
            "BRANCH_NEQ" => Self::NotEqual,
            _ => return None,
        })
    }

    fn holds(self, value: f32, threshold: f32) -> bool {
        match self {
            Self::Leaf => false,
            Self::LessOrEqual => value <= threshold,
            Self::Less => value < threshold,
            Self::GreaterOrEqual => value >= threshold,
            Self::Greater => value > threshold,
            Self::Equal => value == threshold,
            Self::NotEqual => value != threshold,
        }
    }
}

#[derive(Debug, Clone)]
struct Branch {
    mode: Mode,
    feature: usize,
    threshold: f32,
    missing_is_true: bool,
    /// Nodes for true and false.
    next: [usize; 2],
    /// What a leaf adds: target and weight.
    weights: Vec<(usize, f32)>,
}

/// Steps of reading a node of a tree.
const PARSE_STEPS: usize = 512;

/// Steps of a class or target of a row: its sum and its transform.
const CLASS_STEPS: usize = 16;

/// Steps of a branch.
const BRANCH_STEPS: usize = 4;

/// Branches that are charged at a time.
const PATH: usize = 8;

/// All trees of a node.
struct Forest {
    nodes: Vec<Branch>,
    roots: Vec<usize>,
}

/// A list attribute that must be there.
fn ints<'a>(call: &Call<'a>, name: &'static str) -> Result<&'a [i64], OpError> {
    call.ints(name)?.ok_or(OpError::Attribute { name })
}

/// Floats of an attribute, or of its tensor form.
fn floats(
    call: &Call<'_>,
    name: &'static str,
    as_tensor: &'static str,
) -> Result<Option<Vec<f32>>, OpError> {
    if let Some(values) = call.floats(name)? {
        return Ok(Some(values.to_vec()));
    }
    match call.tensor(as_tensor)? {
        None => Ok(None),
        Some(tensor) => convert::to_f32(tensor.data())
            .map(Some)
            .ok_or(OpError::Attribute { name: as_tensor }),
    }
}

impl Forest {
    /// Reads the nodes, and the leaves' weights from the attributes that begin with `class` or `target`.
    fn new(call: &Call<'_>, leaves: [&'static str; 5]) -> Result<Self, OpError> {
        let trees = ints(call, "nodes_treeids")?;
        let ids = ints(call, "nodes_nodeids")?;
        let features = ints(call, "nodes_featureids")?;
        let yes = ints(call, "nodes_truenodeids")?;
        let no = ints(call, "nodes_falsenodeids")?;
        let modes = call.texts("nodes_modes")?.unwrap_or_default();
        let values = floats(call, "nodes_values", "nodes_values_as_tensor")?.unwrap_or_default();
        let missing = call
            .ints("nodes_missing_value_tracks_true")?
            .unwrap_or_default();
        let count = trees.len();
        let lengths = [
            ids.len(),
            features.len(),
            yes.len(),
            no.len(),
            modes.len(),
            values.len(),
        ];
        if lengths.iter().any(|&length| length != count) {
            return Err(OpError::invalid("the lists of nodes differ in length"));
        }
        call.charge_steps(&[count, PARSE_STEPS])?;
        let keys = trees.iter().copied().zip(ids.iter().copied());
        let index: BTreeMap<(i64, i64), usize> = keys.zip(0..).collect();
        let unknown = || OpError::invalid("a node names another that is not there");
        let mut nodes = Vec::with_capacity(count);
        for k in 0..count {
            let mode = Mode::new(modes[k]).ok_or(OpError::Refused {
                reason: "a kind of node that is not known",
            })?;
            let find = |id: i64| index.get(&(trees[k], id)).copied().ok_or_else(unknown);
            nodes.push(Branch {
                mode,
                feature: usize::try_from(features[k]).map_err(|_| unknown())?,
                threshold: values[k],
                missing_is_true: missing.get(k) == Some(&1),
                next: if mode == Mode::Leaf {
                    [k, k]
                } else {
                    [find(yes[k])?, find(no[k])?]
                },
                weights: Vec::new(),
            });
        }
        let mut forest = Self {
            nodes,
            roots: Vec::new(),
        };
        forest.add_weights(call, leaves, &index)?;
        // A tree's root is its first node that no other names.
        let mut named = vec![false; count];
        for node in forest.nodes.iter().filter(|node| node.mode != Mode::Leaf) {
            named[node.next[0]] = true;
            named[node.next[1]] = true;
        }
        forest.roots = (0..count).filter(|&k| !named[k]).collect();
        let distinct: std::collections::BTreeSet<i64> = trees.iter().copied().collect();
        if distinct.len() != forest.roots.len() {
            return Err(OpError::invalid("a tree does not have one root"));
        }
        Ok(forest)
    }

    fn add_weights(
        &mut self,
        call: &Call<'_>,
        [trees, ids, targets, weights, as_tensor]: [&'static str; 5],
        index: &BTreeMap<(i64, i64), usize>,
    ) -> Result<(), OpError> {
        let (trees, ids, targets) = (ints(call, trees)?, ints(call, ids)?, ints(call, targets)?);
        let weights = floats(call, weights, as_tensor)?.unwrap_or_default();
        if [ids.len(), targets.len(), weights.len()] != [trees.len(); 3] {
            return Err(OpError::invalid("the lists of leaves differ in length"));
        }
        call.charge_steps(&[trees.len(), PARSE_STEPS])?;
        for k in 0..trees.len() {
            let place = index.get(&(trees[k], ids[k]));
            let place = place.ok_or_else(|| OpError::invalid("a leaf is not among the nodes"))?;
            let target = usize::try_from(targets[k]);
            let target = target.map_err(|_| OpError::invalid("a target is negative"))?;
            self.nodes[*place].weights.push((target, weights[k]));
        }
        Ok(())
    }

    /// The leaf of a tree that a row falls into. The path is charged as it is gone.
    fn leaf(&self, call: &Call<'_>, root: usize, row: &[f32]) -> Result<&Branch, OpError> {
        let mut at = root;
        // A path longer than there are nodes runs in a circle.
        for step in 0..=self.nodes.len() {
            if step.is_multiple_of(PATH) {
                call.charge_steps(&[PATH, BRANCH_STEPS])?;
            }
            let node = &self.nodes[at];
            if node.mode == Mode::Leaf {
                call.charge_steps(&[node.weights.len(), BRANCH_STEPS])?;
                return Ok(node);
            }
            let value = row.get(node.feature).copied();
            let value = value.ok_or_else(|| OpError::invalid("a node reads a missing feature"))?;
            let holds = if value.is_nan() {
                node.missing_is_true
            } else {
                node.mode.holds(value, node.threshold)
            };
            at = node.next[usize::from(!holds)];
        }
        Err(OpError::invalid("a tree runs in a circle"))
    }

    /// Targets beyond the last that a leaf names are refused by whoever sums.
    fn targets(&self) -> usize {
        let weights = self.nodes.iter().flat_map(|node| &node.weights);
        weights.map(|(target, _)| target + 1).max().unwrap_or(0)
    }
}

pub(super) fn post_transform(call: &Call<'_>, row: &mut [f32]) -> Result<(), OpError> {
    match call.text("post_transform", "NONE")? {
        "NONE" => {}
        "LOGISTIC" => {
            for value in row {
                *value = math::sigmoid(*value);
            }
        }
        "SOFTMAX" => softmax_row(row),
        "SOFTMAX_ZERO" => {
            // Scores of exactly zero stay, and take no share.
            let mut others: Vec<f32> = row.iter().copied().filter(|&v| v != 0.0).collect();
            softmax_row(&mut others);
            let mut others = others.into_iter();
            for value in row.iter_mut().filter(|value| **value != 0.0) {
                *value = others.next().unwrap_or(0.0);
            }
        }
        _ => return call.refuse("a post transform of PROBIT"),
    }
    Ok(())
}

const CLASS: [&str; 5] = [
    "class_treeids",
    "class_nodeids",
    "class_ids",
    "class_weights",
    "class_weights_as_tensor",
];
const TARGET: [&str; 5] = [
    "target_treeids",
    "target_nodeids",
    "target_ids",
    "target_weights",
    "target_weights_as_tensor",
];

fn regress_by_trees(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let forest = Forest::new(call, TARGET)?;
    let targets = usize::try_from(call.int("n_targets", 1)?).unwrap_or(0);
    if targets == 0 || forest.targets() > targets {
        return Err(OpError::invalid("a leaf names a target beyond the last"));
    }
    let base = floats(call, "base_values", "base_values_as_tensor")?;
    let aggregate = call.text("aggregate_function", "SUM")?;
    call.charge_steps(&[rows.count, targets, CLASS_STEPS])?;
    let mut out = call.filled(&[rows.count, targets], 0f32)?;
    for (row, out) in rows.iter().zip(out.chunks_exact_mut(targets)) {
        let mut seen = vec![false; targets];
        for &root in &forest.roots {
            for &(target, weight) in &forest.leaf(call, root, row)?.weights {
                let old = out[target];
                out[target] = match aggregate {
                    "MIN" if seen[target] => old.min(weight),
                    "MAX" if seen[target] => old.max(weight),
                    "MIN" | "MAX" => weight,
                    _ => old + weight,
                };
                seen[target] = true;
            }
        }
        for (target, value) in out.iter_mut().enumerate() {
            if aggregate == "AVERAGE" {
                *value /= forest.roots.len().max(1) as f32;
            }
            if let Some(base) = base.as_ref().and_then(|base| base.get(target)) {
                *value += base;
            }
            *value = canonical(*value);
        }
        post_transform(call, out)?;
    }
    one(vec![rows.count, targets], out)
}

/// The names of the classes.
pub(super) enum Labels<'a> {
    Integers(&'a [i64]),
    Texts(Vec<&'a str>),
}

impl<'a> Labels<'a> {
    pub(super) fn new(
        call: &Call<'a>,
        integers: &'static str,
        texts: &'static str,
    ) -> Result<Self, OpError> {
        match (call.ints(integers)?, call.texts(texts)?) {
            (Some(values), _) if !values.is_empty() => Ok(Self::Integers(values)),
            (_, Some(values)) if !values.is_empty() => Ok(Self::Texts(values)),
            _ => Err(OpError::Attribute { name: integers }),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    pub(super) const fn has_texts(&self) -> bool {
        matches!(self, Self::Texts(_))
    }

    pub(super) fn pick(&self, places: &[usize]) -> FloatTensor {
        match self {
            Self::Integers(values) => FloatTensor::vector(
                places
                    .iter()
                    .map(|&place| values[place])
                    .collect::<Vec<_>>(),
            ),
            Self::Texts(values) => {
                let texts = places.iter().map(|&place| values[place].to_owned());
                FloatTensor::vector(texts.collect::<Vec<_>>())
            }
        }
    }
}

/// The first largest.
pub(super) fn largest(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}

fn classify_by_trees(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let forest = Forest::new(call, CLASS)?;
    let labels = Labels::new(call, "classlabels_int64s", "classlabels_strings")?;
    let classes = labels.len();
    if labels.has_texts() {
        call.reserve(rows.count, DType::String)?;
    }
    if forest.targets() > classes {
        return Err(OpError::invalid("a leaf names a class beyond the last"));
    }
    let base = floats(call, "base_values", "base_values_as_tensor")?.unwrap_or_default();
    let weights: Vec<(usize, f32)> = forest
        .nodes
        .iter()
        .flat_map(|node| node.weights.iter().copied())
        .collect();
    // Two classes of which the leaves only know one: that number decides.
    let single = classes == 2
        && weights
            .first()
            .is_some_and(|first| weights.iter().all(|other| other.0 == first.0));
    let positive = weights.iter().all(|(_, weight)| *weight >= 0.0);
    call.charge_steps(&[rows.count, classes, CLASS_STEPS])?;
    let mut out = call.filled(&[rows.count, classes], 0f32)?;
    let mut places = Vec::with_capacity(rows.count);
    for (row, out) in rows.iter().zip(out.chunks_exact_mut(classes)) {
        let mut scores = vec![0f32; classes];
        for &root in &forest.roots {
            for &(class, weight) in &forest.leaf(call, root, row)?.weights {
                scores[class] += weight;
            }
        }
        if single {
            let known = weights.first().map_or(0, |(class, _)| *class);
            let base = base.get(known).or(base.first()).copied().unwrap_or(0.0);
            let score = scores[known] + base;
            places.push(two_classes(call, score, positive, out)?);
            continue;
        }
        for (score, base) in scores.iter_mut().zip(&base) {
            *score += base;
        }
        places.push(largest(&scores));
        out.copy_from_slice(&scores);
        post_transform(call, out)?;
    }
    Ok(vec![
        labels.pick(&places),
        tensor(vec![rows.count, classes], Data::F32(out))?,
    ])
}

/// One score for the second of two classes: a probability if all weights are positive, a margin around 0 if not.
fn two_classes(
    call: &Call<'_>,
    score: f32,
    positive: bool,
    out: &mut [f32],
) -> Result<usize, OpError> {
    let score = canonical(score);
    if positive {
        out.copy_from_slice(&[1.0 - score, score]);
        return Ok(usize::from(score > 0.5));
    }
    match call.text("post_transform", "NONE")? {
        "LOGISTIC" => out.copy_from_slice(&[math::sigmoid(-score), math::sigmoid(score)]),
        "PROBIT" => return call.refuse("a post transform of PROBIT"),
        _ => out.copy_from_slice(&[-score, score]),
    }
    Ok(usize::from(score > 0.0))
}

/// `row . coefficients + intercept` per class or target.
fn linear(call: &Call<'_>, rows: &Rows, targets: usize) -> Result<Vec<f32>, OpError> {
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let intercepts = call.floats("intercepts")?.unwrap_or_default();
    if targets.checked_mul(rows.features) != Some(coefficients.len())
        || !(intercepts.is_empty() || intercepts.len() == targets)
    {
        return Err(OpError::invalid("the coefficients do not fit the features"));
    }
    let mut out = call.filled(&[rows.count, targets], 0f32)?;
    call.charge_steps(&[rows.count, targets, 8 + rows.features])?;
    for (row, out) in rows.iter().zip(out.chunks_exact_mut(targets.max(1))) {
        for (target, out) in out.iter_mut().enumerate() {
            let own = &coefficients[target * rows.features..(target + 1) * rows.features];
            let sum = row
                .iter()
                .zip(own)
                .fold(0f32, |sum, (x, c)| x.mul_add(*c, sum));
            *out = canonical(sum + intercepts.get(target).copied().unwrap_or(0.0));
        }
    }
    Ok(out)
}

fn regress_linearly(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let targets = usize::try_from(call.int("targets", 1)?).unwrap_or(0);
    let mut out = linear(call, &rows, targets)?;
    for row in out.chunks_exact_mut(targets.max(1)) {
        post_transform(call, row)?;
    }
    one(vec![rows.count, targets], out)
}

fn classify_linearly(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let labels = Labels::new(call, "classlabels_ints", "classlabels_strings")?;
    let classes = labels.len();
    if labels.has_texts() {
        call.reserve(rows.count, DType::String)?;
    }
    let coefficients = call.floats("coefficients")?.unwrap_or_default().len();
    let scored = coefficients / rows.features.max(1);
    let scores = linear(call, &rows, scored)?;
    call.charge_steps(&[rows.count, classes, CLASS_STEPS])?;
    let mut out = call.filled(&[rows.count, classes], 0f32)?;
    let mut places = Vec::with_capacity(rows.count);
    for (own, out) in scores
        .chunks_exact(scored.max(1))
        .zip(out.chunks_exact_mut(classes))
    {
        match *own {
            [score] if classes == 2 => {
                out.copy_from_slice(&[-score, score]);
                places.push(usize::from(score > 0.0));
            }
            _ if scored == classes => {
                out.copy_from_slice(own);
                places.push(largest(own));
            }
            _ => return Err(OpError::invalid("there is not one score per class")),
        }
        post_transform(call, out)?;
    }
    Ok(vec![
        labels.pick(&places),
        tensor(vec![rows.count, classes], Data::F32(out))?,
    ])
}

fn scale(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let offset = call.floats("offset")?.unwrap_or(&[0.0]);
    let factor = call.floats("scale")?.unwrap_or(&[1.0]);
    let pick = |list: &[f32], k: usize| match list {
        [one] => Some(*one),
        list => list.get(k).copied(),
    };
    let mut out = call.filled(&[rows.values.len()], 0f32)?;
    for (index, (out, x)) in out.iter_mut().zip(&rows.values).enumerate() {
        let k = index % rows.features.max(1);
        let both = pick(offset, k).zip(pick(factor, k));
        let (offset, factor) =
            both.ok_or_else(|| OpError::invalid("offset or scale do not fit the features"))?;
        *out = canonical((x - offset) * factor);
    }
    one(call.input(0)?.shape().to_vec(), out)
}

fn normalise(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let mut out = Vec::with_capacity(rows.values.len());
    for row in rows.iter() {
        let norm = match call.text("norm", "MAX")? {
            "MAX" => row.iter().fold(0f32, |top, x| top.max(x.abs())),
            "L1" => row.iter().fold(0f32, |sum, x| sum + x.abs()),
            "L2" => row.iter().fold(0f32, |sum, x| x.mul_add(*x, sum)).sqrt(),
            _ => return Err(OpError::Attribute { name: "norm" }),
        };
        let divided = |x: &f32| if norm == 0.0 { *x } else { canonical(x / norm) };
        out.extend(row.iter().map(divided));
    }
    one(call.input(0)?.shape().to_vec(), out)
}

fn binarise(call: &Call<'_>) -> Results {
    let threshold = call.float("threshold", 0.0)?;
    let x = call.values::<f32>(0)?;
    call.reserve(x.len(), DType::F32)?;
    let out = x
        .iter()
        .map(|&x| f32::from(u8::from(x > threshold)))
        .collect();
    one(call.input(0)?.shape().to_vec(), out)
}

/// Chosen columns of the last axis.
fn extract(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let columns = call.integers(1)?;
    let Some((&width, outer)) = input.shape().split_last() else {
        return Err(OpError::invalid("the input has no axis"));
    };
    let rows: usize = outer.iter().product();
    call.reserve(rows.saturating_mul(columns.len()), DType::U64)?;
    call.reserve(rows.saturating_mul(columns.len()), input.dtype())?;
    let mut places = Vec::with_capacity(rows * columns.len());
    for row in 0..rows {
        for &column in &columns {
            places.push(row * width + super::select::place(column, width)?);
        }
    }
    let mut shape = if outer.is_empty() {
        vec![1]
    } else {
        outer.to_vec()
    };
    shape.push(columns.len());
    Ok(vec![tensor(shape, input.data().gather(&places))?])
}
