//! Passes over the operator-level graph, from the file as it was written to one that can be lowered to integers.
//!
//! [`prepare`] is the whole pipeline: bind inputs and fix their shapes, keep the outputs, refuse what has no program
//! (`known`), write texts as numbers (`texts`), quantised operators as
//! float operators between `QuantizeLinear` and `DequantizeLinear`, linear operators of `ai.onnx.ml` and attention with
//! grouped queries as primitives, run once to learn every shape, fold what does not depend on the input, unroll
//! recurrences, write picking at constant places as a gather, fold normalisations and constants into weights, and
//! recognise normalisations from their primitives. Every pass keeps a graph that tier TGF-1 can run. `smooth`,
//! `features` and `finer` need what values take and come after calibration.
//!
//! Operators that are short for others are written out, a file for each family: reductions and choices (`primitives`,
//! `products`, `chosen`), normalisations (`normalised`), distributions (`shares`), functions of a tree (`leaves`), attention (`attended`, `stateful`), losses (`losses`), recurrences
//! and scans (`recurring`, `unrolled`), integers with scales (`units`), windows (`patches`). What is left and only moves
//! elements (`moved`) or is linear (`matrices`) is found out by executing it.

mod affine;
mod attended;
mod chosen;
mod edit;
mod ensembles;
mod features;
mod finer;
mod grouped;
mod indexing;
mod known;
mod learned;
mod leaves;
mod losses;
mod mapped;
mod masks;
mod matrices;
mod moved;
mod normalised;
mod norms;
mod patches;
mod prepared;
mod primitives;
mod products;
mod quantised;
mod recurrent;
mod recurring;
mod shapes;
mod shares;
mod simplify;
mod smooth;
mod stateful;
mod texts;
mod units;
mod unrolled;
mod vectors;

pub(crate) use edit::{float, floats_of, int, ints, scalar_of};
pub(crate) use features::divided;
pub use features::own_units;
pub use finer::finer;
pub(crate) use moved::repeats;
pub(crate) use prepared::zeros;
pub use prepared::{Fact, KeptOutputs, PrepareError, PrepareOptions, Prepared};
pub use shapes::scores;
pub use smooth::smooth;

use tg_float::Graph;

/// Runs every pass.
///
/// # Errors
/// If an input cannot be fixed, a node cannot be executed, or a pass does not take a node.
pub fn prepare(mut graph: Graph, options: &PrepareOptions) -> Result<Prepared, PrepareError> {
    shapes::bind(&mut graph, options);
    shapes::keep_outputs(&mut graph, &options.keep)?;
    known::check(&graph)?;
    let names = graph.outputs.iter().map(|&output| graph.name_of(output));
    let output_names = names.map(str::to_owned).collect();
    let output_labels = texts::rewrite(&mut graph);
    grouped::rewrite(&mut graph)?;
    shapes::fix(&mut graph, options)?;
    quantised::rewrite(&mut graph)?;
    vectors::check(&graph)?;
    learned::rewrite(&mut graph);
    ensembles::rewrite(&mut graph);
    shapes::fold_constants(&mut graph)?;
    graph.remove_dead();
    let mut facts = shapes::infer(&mut graph)?;
    if leaves::rewrite(&mut graph, &facts) {
        facts = shapes::infer(&mut graph)?;
    }
    if recurring::rewrite(&mut graph, &facts) {
        shapes::fold_constants(&mut graph)?;
        graph.remove_dead();
        facts = shapes::infer(&mut graph)?;
    }
    if recurrent::unroll(&mut graph, &facts)? {
        shapes::fold_constants(&mut graph)?;
        graph.remove_dead();
        facts = shapes::infer(&mut graph)?;
    }
    for _ in 0..ROUNDS_MAX {
        let mut changed = unrolled::rewrite(&mut graph, &facts);
        changed |= attended::rewrite(&mut graph, &facts);
        changed |= losses::rewrite(&mut graph, &facts);
        changed |= stateful::rewrite(&mut graph, &facts);
        changed |= units::rewrite(&mut graph, &facts);
        changed |= products::rewrite(&mut graph, &facts);
        changed |= chosen::rewrite(&mut graph, &facts);
        changed |= shares::rewrite(&mut graph, &facts);
        changed |= primitives::rewrite(&mut graph, &facts);
        changed |= normalised::rewrite(&mut graph, &facts);
        changed |= simplify::run(&mut graph, &facts);
        changed |= indexing::rewrite(&mut graph, &facts);
        changed |= norms::fuse(&mut graph, &facts);
        changed |= affine::fold(&mut graph, &facts);
        changed |= patches::rewrite(&mut graph, &facts);
        changed |= moved::rewrite(&mut graph, &facts);
        changed |= matrices::rewrite(&mut graph, &facts);
        graph.remove_dead();
        if !changed {
            break;
        }
        shapes::fold_constants(&mut graph)?;
        facts = shapes::infer(&mut graph)?;
    }
    masks::finite(&mut graph);
    Ok(Prepared {
        graph,
        facts,
        output_names,
        output_labels,
    })
}

/// Rounds of the rewriting passes; each removes or merges nodes, or writes one operator in simpler ones, so a few are enough.
const ROUNDS_MAX: usize = 10;
