//! The prover of the fractional sum (ePrint 2023/1284): a binary tree of fractions, one sumcheck per layer.
//!
//! The messages are those of `p3_multi_stark::fractional_gkr`, whose verifier checks them; a test holds both provers to
//! the same bytes. Ours never holds the leaves, which are most of the tree: they are made from the committed columns
//! tile by tile in each of the three passes that read them ([`leaves`]), and padding costs next to nothing. A layer's
//! gate `d1 n0 + d0 n1 + lambda d0 d1` is kept as `d1 (n0 + lambda d0) + d0 n1`, two products instead of four, folding
//! and the next round's sums are one pass over memory ([`layer`]), and equality weights are a product of two short
//! tables.

mod layer;
mod leaves;
mod rounds;
#[cfg(test)]
mod tests;
mod tile;

use crate::channel::{Channel, Fractional};
use layer::Layer;
pub(crate) use leaves::{Leaves, LeavesBuilder};
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::{FractionGkrLayerProof, FractionGkrProof, SplitFraction};
use rounds::Rounds;
use tg_proof::field::E;
use tg_proof::messages::SumProof;
use tile::Level;

/// Proves that the leaves add up to zero and returns the point at which they are then claimed.
///
/// If they do not, the proof will not verify.
pub(crate) fn prove(leaves: &Leaves<'_>, channel: &mut Channel) -> (FractionGkrProof<E>, Vec<E>) {
    let mut levels = tree(leaves);
    let root = root(&mut levels);
    prove_root(leaves, (levels, root, E::ZERO), channel)
}

/// Proves what the leaves add up to and returns the point at which they are then claimed.
pub(crate) fn prove_sum(leaves: &Leaves<'_>, channel: &mut Channel) -> (SumProof, Vec<E>) {
    let mut levels = tree(leaves);
    let root = root(&mut levels);
    let (numerator, _) = tile::sum_of(root.n0, root.d0, root.n1, root.d1);
    #[cfg(test)]
    let numerator = crate::tests::sections::lied_sum(numerator, root.d0 * root.d1);
    let [sent] = channel.send([numerator]);
    let (gkr, point) = prove_root(leaves, (levels, root, numerator), channel);
    let sum = SumProof {
        numerator: sent,
        gkr,
    };
    (sum, point)
}

/// The layers from the root's children on.
fn prove_root(
    leaves: &Leaves<'_>,
    (mut levels, root, numerator): (Vec<Level>, SplitFraction<E>, E),
    channel: &mut Channel,
) -> (FractionGkrProof<E>, Vec<E>) {
    let root_denominator = root.d0 * root.d1;
    let (sent_root, transcript) = channel.fractional(leaves.vars(), root_denominator);
    let mut walk = Walk {
        transcript,
        point: Vec::new(),
        numerator,
        denominator: root_denominator,
        layers: Vec::with_capacity(leaves.vars()),
    };
    // The root has no rounds in which its challenge would join anything.
    let _lambda = walk.transcript.begin_layer();
    walk.end_layer(Vec::new(), Vec::new(), root);
    while let Some(level) = levels.pop() {
        walk.layer(Layer::Level(level));
    }
    if walk.layers.len() < leaves.vars() {
        walk.layer(Layer::Leaves(leaves));
    }
    walk.transcript.finish();
    let proof = FractionGkrProof {
        root_denominator: sent_root,
        layers: walk.layers,
    };
    (proof, walk.point)
}

/// The levels, from the leaves (if they are few, else from their parents) to the root's children.
fn tree(leaves: &Leaves<'_>) -> Vec<Level> {
    let mut levels = vec![leaves.level().unwrap_or_else(|| leaves.reduce())];
    while let Some(level) = levels.last().filter(|level| !level.is_pair()) {
        let next = level.reduce();
        levels.push(next);
    }
    levels
}

/// Takes the root's children off the levels.
fn root(levels: &mut Vec<Level>) -> SplitFraction<E> {
    let pair = levels.pop().expect("a tree has at least one level");
    pair.into_pair()
}

/// The sum of the leaves as a fraction.
#[cfg(test)]
pub(crate) fn sum(leaves: &Leaves<'_>) -> (E, E) {
    let root = root(&mut tree(leaves));
    tile::sum_of(root.n0, root.d0, root.n1, root.d1)
}

/// What is carried from layer to layer.
struct Walk<'a> {
    transcript: Fractional<'a>,
    point: Vec<E>,
    numerator: E,
    denominator: E,
    layers: Vec<FractionGkrLayerProof<E>>,
}

impl Walk<'_> {
    /// Plays one layer.
    fn layer(&mut self, mut layer: Layer<'_>) {
        let lambda = self.transcript.begin_layer();
        let mut rounds = Rounds {
            point: &self.point,
            lambda,
            sum: self.numerator + lambda * self.denominator,
            prefix: E::ONE,
            polys: Vec::with_capacity(self.point.len()),
            challenges: Vec::with_capacity(self.point.len()),
        };
        let mut sums = layer.start(&rounds);
        let mut challenge = rounds.play(sums, &mut self.transcript);
        while rounds.challenges.len() < self.point.len() {
            sums = layer.fold_and_sum(challenge, &rounds);
            challenge = rounds.play(sums, &mut self.transcript);
        }
        let claims = layer.into_claims(challenge, lambda);
        let Rounds {
            polys, challenges, ..
        } = rounds;
        self.end_layer(polys, challenges, claims);
    }

    fn end_layer(&mut self, round_polys: Vec<[E; 3]>, rounds: Vec<E>, claims: SplitFraction<E>) {
        let (sent, branch) = self.transcript.end_layer(claims);
        self.numerator = claims.n0 + branch * (claims.n1 - claims.n0);
        self.denominator = claims.d0 + branch * (claims.d1 - claims.d0);
        self.point = std::iter::once(branch).chain(rounds).collect();
        self.layers.push(FractionGkrLayerProof {
            round_polys,
            claims: sent,
        });
    }
}
