//! Losses: `NegativeLogLikelihoodLoss`, `SoftmaxCrossEntropyLoss`.

use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, tensor};
use super::each::by_real;
use super::error::OpError;
use super::real::Real;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "NegativeLogLikelihoodLoss" => |call| by_real!(call, 0, likelihood(call)),
        "SoftmaxCrossEntropyLoss" => |call| by_real!(call, 0, cross_entropy(call)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Batch, classes and the rest.
fn sizes(call: &Call<'_>) -> Result<[usize; 3], OpError> {
    match call.input(0)?.shape() {
        [batch, classes, rest @ ..] => Ok([*batch, *classes, rest.iter().product()]),
        _ => Err(OpError::invalid("the input has no classes")),
    }
}

fn likelihood<R: Real>(call: &Call<'_>) -> Results {
    Ok(vec![loss(call, call.values::<R>(0)?)?])
}

fn cross_entropy<R: Real>(call: &Call<'_>) -> Results {
    let [batch, classes, rest] = sizes(call)?;
    let mut logs = call.values::<R>(0)?.to_vec();
    call.reserve(logs.len(), R::DTYPE)?;
    call.charge_steps(&[logs.len(), 8])?;
    for item in 0..batch {
        for place in 0..rest {
            let at = |class: usize| (item * classes + class) * rest + place;
            let largest = |top: R, class| top.larger(logs[at(class)]);
            let top = (0..classes).fold(-R::INFINITY, largest);
            let add = |sum: R, class| sum + (logs[at(class)] - top).exp();
            let log = (0..classes).fold(R::ZERO, add).ln();
            for class in 0..classes {
                logs[at(class)] = (logs[at(class)] - top - log).canonical();
            }
        }
    }
    let value = loss(call, &logs)?;
    Ok(vec![
        value,
        tensor(call.input(0)?.shape().to_vec(), R::wrap(logs))?,
    ])
}

/// The weighted negative of the named classes' numbers, reduced as asked.
fn loss<R: Real>(call: &Call<'_>, logs: &[R]) -> Result<crate::FloatTensor, OpError> {
    let [batch, classes, rest] = sizes(call)?;
    let targets = call.integers(1)?;
    let weights = call.optional_values::<R>(2)?;
    let ignored = call.optional_int("ignore_index")?;
    if targets.len() != batch * rest || weights.is_some_and(|w| w.len() != classes) {
        return Err(OpError::invalid("targets or weights do not fit the input"));
    }
    let mut losses = call.filled(&[batch * rest], R::ZERO)?;
    let (mut total, mut mass) = (R::ZERO, R::ZERO);
    for (index, &target) in targets.iter().enumerate() {
        if Some(target) == ignored {
            continue;
        }
        let class = super::select::place(target, classes)?;
        let weight = weights.map_or(R::ONE, |weights| weights[class]);
        let value = -logs[(index / rest * classes + class) * rest + index % rest] * weight;
        losses[index] = value.canonical();
        total = total + value;
        mass = mass + weight;
    }
    match call.text("reduction", "mean")? {
        "none" => tensor(call.input(1)?.shape().to_vec(), R::wrap(losses)),
        "sum" => tensor(Vec::new(), R::wrap(vec![total.canonical()])),
        "mean" => tensor(Vec::new(), R::wrap(vec![(total / mass).canonical()])),
        _ => Err(OpError::Attribute { name: "reduction" }),
    }
}
