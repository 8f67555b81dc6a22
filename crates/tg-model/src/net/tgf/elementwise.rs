//! Arithmetic, comparisons, logic and casts.

use super::Entry;
use super::Half::{Native, Widen};
use super::call::{Call, Results, one};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "Identity" => (identity, Native),
        "Relu" => (relu, Widen),
        _ => return None,
    })
}

fn identity(call: &Call<'_>) -> Results {
    Ok(vec![call.input(0)?.clone()])
}

fn relu(call: &Call<'_>) -> Results {
    let x = call.values::<f32>(0)?;
    let values = x.iter().map(|&v| if v > 0.0 { v } else { 0.0 }).collect();
    one(call.input(0)?.shape().to_vec(), values)
}
