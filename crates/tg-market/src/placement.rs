//! Which offer gets a job: the cheapest feasible one, counting the risk that the provider fails.
//!
//! `cost = ask + p_fail * max_price`: the ask is certain, and a failed lease costs the requestor what the answer is
//! worth to it, for which its own maximum price stands. All in integer money. Offers of equal cost are ordered by
//! the hash of the seed and the offer, so neither names nor the order of iteration decide.

use std::cmp::Ordering;

use tg_types::{Address, Amount, Digest, Domain, DurationMs, OfferId};

use crate::constraint::{Constraint, ConstraintSet, Rejections};
use crate::demand::{JobDemand, OfferView};

/// What one offer would cost for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// The offer.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What the provider is paid if its result is accepted.
    pub price: Amount,
    /// The price plus the expected loss by failure; what offers are compared by.
    pub expected_cost: Amount,
    /// The declared time to the result.
    pub duration: DurationMs,
    /// What the provider locks.
    pub collateral: Amount,
}

/// The result of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The cheapest feasible offer.
    pub chosen: Option<Quote>,
    /// How many offers were looked at.
    pub considered: u32,
    /// How many of them break which constraint.
    pub rejections: Rejections,
}

/// One offer seen from one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assessment {
    /// The offer.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What it would cost; `None` if the price cannot be written.
    pub quote: Option<Quote>,
    /// What it lacks; empty if it fits.
    pub broken: ConstraintSet,
}

/// The cheapest feasible offer for `demand`. The answer does not depend on the order of `offers`.
#[must_use]
pub fn best_offer<'a>(
    demand: &JobDemand<'_>,
    offers: impl Iterator<Item = OfferView<'a>>,
) -> Placement {
    let mut placement = Placement {
        chosen: None,
        considered: 0,
        rejections: Rejections::default(),
    };
    for view in offers {
        placement.considered = placement.considered.saturating_add(1);
        let assessment = assess(demand, &view);
        placement.rejections.add(assessment.broken);
        let Some(quote) = assessment.quote.filter(|_| assessment.broken.is_empty()) else {
            continue;
        };
        let wins = placement
            .chosen
            .is_none_or(|best| compare_quotes(&demand.tie_seed, &quote, &best) == Ordering::Less);
        if wins {
            placement.chosen = Some(quote);
        }
    }
    placement
}

/// Every offer seen from `demand`: those that fit first, cheapest first, then the others by offer id.
#[must_use]
pub fn explain<'a>(
    demand: &JobDemand<'_>,
    offers: impl Iterator<Item = OfferView<'a>>,
) -> Vec<Assessment> {
    let mut assessments: Vec<_> = offers.map(|view| assess(demand, &view)).collect();
    assessments.sort_by(
        |left, right| match (left.broken.is_empty(), right.broken.is_empty()) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => left.offer.cmp(&right.offer),
            (true, true) => match (&left.quote, &right.quote) {
                (Some(left), Some(right)) => compare_quotes(&demand.tie_seed, left, right),
                _ => left.offer.cmp(&right.offer),
            },
        },
    );
    assessments
}

/// Orders quotes by cost, then by hash with the seed, then by offer id.
fn compare_quotes(seed: &[u8; 32], left: &Quote, right: &Quote) -> Ordering {
    left.expected_cost
        .cmp(&right.expected_cost)
        .then_with(|| tie_key(seed, left.offer).cmp(&tie_key(seed, right.offer)))
        .then_with(|| left.offer.cmp(&right.offer))
}

fn tie_key(seed: &[u8; 32], offer: OfferId) -> Digest {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(seed);
    bytes[32..].copy_from_slice(offer.as_bytes());
    Digest::of(Domain::MatchTie, &bytes)
}

/// What one offer would cost, and everything it lacks.
fn assess(demand: &JobDemand<'_>, view: &OfferView<'_>) -> Assessment {
    let JobDemand {
        macs,
        memory_bytes,
        mode,
        max_price,
        now,
        deadline,
        excluded,
        tie_seed: _,
    } = *demand;
    let terms = view.terms;
    let price = terms.price(macs);
    let duration = terms.duration(macs);
    let quote = price.map(|price| Quote {
        offer: view.offer,
        provider: view.provider,
        price,
        expected_cost: price.saturating_add(max_price.ppm_ceil(view.record.failure_ppm())),
        duration,
        collateral: terms.collateral_per_lease,
    });
    let mut broken = ConstraintSet::EMPTY;
    broken.require(Constraint::Mode, terms.modes.contains(mode));
    broken.require(Constraint::Memory, memory_bytes <= terms.memory_bytes);
    broken.require(
        Constraint::Price,
        price.is_some_and(|price| price <= max_price),
    );
    broken.require(
        Constraint::Deadline,
        now.saturating_add(duration) <= deadline,
    );
    broken.require(Constraint::Slots, view.slots_free > 0);
    broken.require(Constraint::Funds, terms.collateral_per_lease <= view.funds);
    broken.require(Constraint::Excluded, !excluded.contains(&view.provider));
    broken.require(Constraint::Suspended, view.suspended_until <= now);
    Assessment {
        offer: view.offer,
        provider: view.provider,
        quote,
        broken,
    }
}
