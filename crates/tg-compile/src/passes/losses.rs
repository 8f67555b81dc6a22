//! Losses of classification with constant targets: the elements that the targets name, weighed and summed.

use super::Fact;
use super::edit::{Writer, floats_of, input, rewrite_each, uses};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId, convert};

/// Rewrites every loss it knows; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| {
        let known = node.is("NegativeLogLikelihoodLoss") || node.is("SoftmaxCrossEntropyLoss");
        known.then(|| loss(graph, node, facts)).flatten()
    })
}

/// Per element that counts, where its class is and which class that is; ignored elements name the first class.
struct Targets {
    places: Vec<i64>,
    classes: Vec<usize>,
    counts: Vec<bool>,
}

fn targets(graph: &Graph, node: &Node, shape: &[usize]) -> Option<Targets> {
    let list = convert::to_i64(graph.constants.get(&input(node, 1)?)?.data())?;
    let ignored = match node.attributes.get("ignore_index") {
        Some(Attribute::Int(value)) => Some(*value),
        _ => None,
    };
    let (classes, rest) = (*shape.get(1)?, shape[2..].iter().product::<usize>());
    let mut found = Targets {
        places: Vec::new(),
        classes: Vec::new(),
        counts: Vec::new(),
    };
    for (index, target) in list.into_iter().enumerate() {
        let counts = Some(target) != ignored;
        let class = match target {
            _ if !counts => 0,
            negative if negative < 0 => negative + classes as i64,
            other => other,
        };
        let class = usize::try_from(class)
            .ok()
            .filter(|&class| class < classes)?;
        let place = (index / rest.max(1) * classes + class) * rest + index % rest.max(1);
        found.places.push(place as i64);
        found.classes.push(class);
        found.counts.push(counts);
    }
    Some(found)
}

fn loss(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let shape = facts.get(&x)?.shape.clone();
    let targets = targets(graph, node, &shape)?;
    let weights = input(node, 2);
    let known = match weights {
        None => Some(vec![1.0; *shape.get(1)?]),
        some => floats_of(graph, some).map(|(_, values)| values),
    };
    let reduction = match node.attributes.get("reduction") {
        Some(Attribute::Text(text)) => text.clone(),
        _ => b"mean".to_vec(),
    };
    let used = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten()?;
        (uses(graph)[value.index()] > 0).then_some(value)
    };
    let (value, logarithms) = (used(0), used(1));
    let mut writer = Writer::new(graph, &node.name);
    let mut all = Vec::new();
    let logs = if node.op == "SoftmaxCrossEntropyLoss" {
        let logs = writer.node("LogSoftmax", &[x], &[("axis", Attribute::Int(1))]);
        all.extend(logarithms.map(|value| (logs, value)));
        logs
    } else {
        x
    };
    if let Some(value) = value {
        let weighed = weighed(&mut writer, logs, &targets, weights, known.as_deref());
        let reduced = reduced(&mut writer, &weighed, &reduction, &facts.get(&value)?.shape)?;
        all.push((reduced, value));
    }
    Some(writer.finish_all(all))
}

/// The weighted negatives of the elements that the targets name, in a row, and the weights: as values, or as their sum.
struct Weighed {
    losses: ValueId,
    weights: Option<ValueId>,
    mass: f32,
}

fn weighed(
    writer: &mut Writer<'_>,
    logs: ValueId,
    targets: &Targets,
    weights: Option<ValueId>,
    known: Option<&[f32]>,
) -> Weighed {
    let along = [("axis", Attribute::Int(0))];
    let all = writer.ints(&[-1]);
    let row = writer.node("Reshape", &[logs, all], &[]);
    let places = writer.ints(&targets.places);
    let named = writer.node("Gather", &[row, places], &along);
    let negative = writer.node("Neg", &[named], &[]);
    let count = targets.places.len();
    let each = targets.classes.iter().zip(&targets.counts);
    let own = |class: usize| known.map_or(1.0, |known| known[class]);
    let factors: Vec<f32> = each
        .map(|(&class, &counts)| if counts { own(class) } else { 0.0 })
        .collect();
    let mass = factors.iter().sum();
    let mut losses = negative;
    if factors.iter().any(|&factor| factor != 1.0) {
        let factors = writer.floats(&[count], factors.clone());
        losses = writer.node("Mul", &[losses, factors], &[]);
    }
    let computed = weights.filter(|_| known.is_none());
    let weights = computed.map(|weights| {
        let classes: Vec<i64> = targets.classes.iter().map(|&class| class as i64).collect();
        let classes = writer.ints(&classes);
        let mut own = writer.node("Gather", &[weights, classes], &along);
        losses = writer.node("Mul", &[losses, own], &[]);
        if factors.contains(&0.0) {
            let counts = writer.floats(&[count], factors);
            own = writer.node("Mul", &[own, counts], &[]);
        }
        own
    });
    Weighed {
        losses,
        weights,
        mass,
    }
}

fn reduced(
    writer: &mut Writer<'_>,
    weighed: &Weighed,
    reduction: &[u8],
    shape: &[usize],
) -> Option<ValueId> {
    let &Weighed {
        losses,
        weights,
        mass,
    } = weighed;
    if reduction == b"none" {
        return Some(writer.shaped(losses, shape));
    }
    let sum = |writer: &mut Writer<'_>, x: ValueId| {
        let axes = writer.ints(&[0]);
        writer.node("ReduceSum", &[x, axes], &[("keepdims", Attribute::Int(0))])
    };
    let total = sum(writer, losses);
    match (reduction, weights) {
        (b"sum", _) => Some(total),
        (b"mean", None) if mass != 0.0 => Some(writer.times(total, 1.0 / mass)),
        (b"mean", Some(weights)) => {
            let mass = sum(writer, weights);
            Some(writer.node("Div", &[total, mass], &[]))
        }
        _ => None,
    }
}
