//! The members of a job of mode `replicate`: drawn among all that fit, and chosen by nobody.
//!
//! Equal answers say something only if nobody decides who gives them. By price, whoever asks least under several names
//! would have every job whole. So the members are drawn by a seed that is known only once the order and the offers are
//! final, of distinct providers, each with the weight of the collateral that it locks: how often somebody is drawn
//! follows from what it has at stake, however many names it has.
//!
//! A drawing that found too few is followed by another, of the offers that came meanwhile; the order of those before stays.
//!
//! Drawing without replacement by exponential keys (Efraimidis and Spirakis, Weighted random sampling with a reservoir,
//! 2006): who has the least `-ln(u) / weight` goes first, with `u` from the hash of seed and provider. The keys of those
//! that do not fit change nothing of the order of the others, so a search may leave them out before.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use tg_types::{Address, Amount, Digest, Domain, OfferId};

use super::gang::{Candidate, PRICE_LOOKS, ROOM_LOOKS, fill, member_demand};
use super::offers::OfferBook;
use super::search::{Looks, Reach, Search};
use super::standing::Rates;
use crate::demand::{JobDemand, OfferView};
use crate::placement::{Quote, quote_now};

/// Bits of the fraction of a logarithm.
const LOG_BITS: u32 = 32;

/// How far a logarithm is shifted before it is divided by a weight: `64 * 2^32 * 2^88` is below 2^127.
const KEY_SHIFT: u32 = 88;

/// What members are drawn by.
///
/// A job that found too few is drawn again, for offers that came meanwhile. Those of an earlier drawing keep their order and go before: whoever
/// makes a drawing fail, by declining or by seeming not to fit, must gain no other order of the rest.
#[derive(Clone, Copy)]
pub struct MemberDraw<'a> {
    /// The seeds of the drawings so far: each known to nobody before order and offers are final.
    pub seeds: &'a [Digest],
    /// In which drawing an offer takes part: the first before which it stood, with these terms, when the seed was not known.
    pub takes_part: &'a dyn Fn(&OfferId) -> Option<usize>,
}

impl std::fmt::Debug for MemberDraw<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberDraw")
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

/// An offer in the order of the drawing: the least goes first.
type Turn<'a> = ((usize, u128), Address, OfferId, OfferView<'a>);

impl OfferBook {
    /// The places of all members of `demand`, the one that leads first: those of [`drawn`] over all offers. `None` if too
    /// few fit. `reserved` is what a provider keeps of its money for the fees of each lease.
    #[must_use]
    pub fn draw(
        &self,
        demand: &JobDemand<'_>,
        rates: &Rates<'_>,
        (draw, reserved): (MemberDraw<'_>, Amount),
        looks: &mut Looks,
    ) -> Option<Vec<Quote>> {
        let whole = *demand;
        let demand = member_demand(demand);
        let search = Search::new(self, &demand, rates, Reach::Now)?;
        let near = self.machines_of_suitable_groups(&search, looks);
        if near.len() < usize::from(whole.needs.gang) || looks.is_cut_off() {
            return None;
        }
        let views = near.iter().map(|(_, entry)| search.view(&entry.standing));
        let found = drawn_with(&demand, views, draw, reserved, looks);
        found.filter(|_| !looks.is_cut_off())
    }
}

/// The places of all members by a look at every offer; `demand` is that of the whole job.
#[must_use]
pub fn drawn<'a>(
    demand: &JobDemand<'_>,
    offers: impl Iterator<Item = OfferView<'a>>,
    draw: MemberDraw<'_>,
    reserved: Amount,
) -> Option<Vec<Quote>> {
    let demand = member_demand(demand);
    drawn_with(&demand, offers, draw, reserved, &mut Looks::default())
}

fn drawn_with<'a>(
    demand: &JobDemand<'_>,
    offers: impl Iterator<Item = OfferView<'a>>,
    draw: MemberDraw<'_>,
    reserved: Amount,
    looks: &mut Looks,
) -> Option<Vec<Quote>> {
    let members = usize::from(demand.needs.gang);
    let turns = offers.filter_map(|view| turn_of(draw, view).map(ByTurn));
    let mut turns: BinaryHeap<Reverse<ByTurn<'a>>> = turns.map(Reverse).collect();
    let mut asked = BTreeSet::new();
    let candidates = std::iter::from_fn(|| {
        loop {
            if looks.is_cut_off() {
                return None;
            }
            let Reverse(ByTurn((_, provider, _, view))) = turns.pop()?;
            if asked.contains(&provider) {
                continue;
            }
            looks.note_many(ROOM_LOOKS + PRICE_LOOKS);
            if let Some(quote) = quote_now(demand, &view, None) {
                asked.insert(provider);
                return Some(Candidate { view, quote });
            }
        }
    });
    // Nobody knows before how long the slowest takes: no place may be in the way of what is promised to others.
    let quotes = fill(demand, candidates, demand.deadline, reserved);
    (quotes.len() >= members).then_some(quotes)
}

/// The turn of an offer; `None` if it takes no part.
fn turn_of<'a>(draw: MemberDraw<'_>, view: OfferView<'a>) -> Option<Turn<'a>> {
    let weight = view.terms.collateral_per_lease.get();
    if weight == 0 {
        return None;
    }
    let drawing = (draw.takes_part)(&view.offer)?;
    let mut bytes = [0; 52];
    bytes[..32].copy_from_slice(draw.seeds.get(drawing)?.as_bytes());
    bytes[32..].copy_from_slice(view.provider.as_bytes());
    let digest = Digest::of(Domain::ReplicaDraw, &bytes);
    let mut uniform = [0; 8];
    uniform.copy_from_slice(&digest.as_bytes()[..8]);
    let log = u128::from(minus_log2(u64::from_le_bytes(uniform)));
    let key = (log << KEY_SHIFT) / weight;
    Some(((drawing, key), view.provider, view.offer, view))
}

/// `-log2(uniform / 2^64)` with [`LOG_BITS`] bits of fraction, rounded up; 64 for zero.
fn minus_log2(uniform: u64) -> u64 {
    let Some(whole) = uniform.checked_ilog2() else {
        return 64 << LOG_BITS;
    };
    // The mantissa, at least 1 and below 2, with 63 bits of fraction. Each squaring gives one bit of the logarithm.
    let mut mantissa = uniform << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..LOG_BITS {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let is_above = square >> 127 == 1;
        mantissa = (square >> if is_above { 64 } else { 63 }) as u64;
        log = log << 1 | u64::from(is_above);
    }
    (64 << LOG_BITS) - log
}

/// Orders offers by their turns alone.
struct ByTurn<'a>(Turn<'a>);

impl ByTurn<'_> {
    const fn key(&self) -> ((usize, u128), Address, OfferId) {
        let Self((key, provider, offer, _)) = self;
        (*key, *provider, *offer)
    }
}

impl PartialEq for ByTurn<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByTurn<'_> {}

impl PartialOrd for ByTurn<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByTurn<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_floats() {
        let mut state = 1_u64;
        for _ in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let uniform = (state >> (state % 60)).max(1);
            let exact = 64.0 - (uniform as f64).log2();
            let got = minus_log2(uniform) as f64 / (1_u64 << LOG_BITS) as f64;
            assert!((got - exact).abs() < 1e-8, "{uniform}: {got} and {exact}");
        }
        assert_eq!(minus_log2(0), 64 << LOG_BITS);
        assert_eq!(minus_log2(1), 64 << LOG_BITS);
        assert_eq!(minus_log2(1 << 63), 1 << LOG_BITS);
        assert!(minus_log2(u64::MAX) > 0);
    }
}
