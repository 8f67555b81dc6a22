//! Which offer gets a job: the cheapest feasible one, counting the risk that the provider fails.
//!
//! `cost = ask + p_fail * max_price + packing`: the ask is certain; a failed lease costs the requestor what the answer
//! is worth to it, for which its own maximum price stands; and what the placement takes from the work to come
//! ([`crate::packing`]: places broken up, and kinds of compute that run out) counts at the usual price of such GPUs,
//! although nobody is charged for it. All in integer money. Offers of equal cost are ordered by standing, then by what is
//! free on their machines (the one with less goes first, so that equals are filled one after the other), then by the
//! hash of the seed and the offer: neither names nor the order of iteration decide.

use std::cmp::Ordering;

use tg_types::{
    Address, Amount, CapacityTier, Digest, Domain, DurationMs, JobNeeds, Machine, OfferId,
    OfferTerms, Pricing, TimestampMs, VerificationMode,
};

use crate::constraint::{Constraint, ConstraintSet, Rejections};
use crate::demand::{JobDemand, OfferFacts, OfferView};
use crate::mig::MigInstance;
use crate::packing::Shape;
use crate::pricing::PriceTier;
use crate::throughput::Correction;
use crate::view::{Room, gpu_time, held_milli, node_spec, request_of};

/// What one offer would cost for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// The offer.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What the provider is paid if its result is accepted.
    pub price: Amount,
    /// The price, the expected loss by failure, and what is taken from the work to come; what offers are compared by.
    pub expected_cost: Amount,
    /// The part of it that is taken from the work to come.
    pub packing: Amount,
    /// Whether the provider goes first among equals.
    pub is_top: bool,
    /// The declared time to the result.
    pub duration: DurationMs,
    /// What the provider locks.
    pub collateral: Amount,
    /// When it would begin.
    pub start: TimestampMs,
    /// When it would have ended at the latest.
    pub until: TimestampMs,
    /// The GPUs it would take, a bit for each.
    pub devices: u8,
    /// The hardware partition it would take of its GPU, where fractions are partitions.
    pub partition: Option<MigInstance>,
    /// How its machine looks now, of kind 0; nothing where no machine is known.
    pub look: Shape,
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

/// What [`best_offer`] chooses, without the reasons: machines of offers that cannot win any more are not looked at.
#[must_use]
pub fn cheapest<'a>(
    demand: &JobDemand<'_>,
    offers: impl Iterator<Item = OfferView<'a>>,
) -> Option<Quote> {
    let mut best: Option<Quote> = None;
    for view in offers {
        let most = best.map(|best| best.expected_cost);
        let Some(quote) = quote_now(demand, &view, most) else {
            continue;
        };
        let wins = best.is_none_or(|best| compare_quotes(&demand.tie_seed, &quote, &best).is_lt());
        if wins {
            best = Some(quote);
        }
    }
    best
}

/// What an offer that fits would cost; also `None` if its terms alone cost more than `most`.
#[must_use]
pub fn quote_now(
    demand: &JobDemand<'_>,
    view: &OfferView<'_>,
    most: Option<Amount>,
) -> Option<Quote> {
    if !is_large_enough(&view.terms.machine, demand.needs) {
        return None;
    }
    let Terms { quote, broken, .. } = terms_for(demand, view);
    let quote = quote.filter(|_| broken.is_empty())?;
    if most.is_some_and(|most| most < quote.expected_cost) {
        return None;
    }
    let room = room(demand, view, quote.until)?;
    Some(placed(demand, view, quote, &room))
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

/// Orders quotes by cost, then by standing, then by what is free on the machine (the one with less goes first), then by
/// hash with the seed, then by offer id.
#[must_use]
pub fn compare_quotes(seed: &[u8; 32], left: &Quote, right: &Quote) -> Ordering {
    left.expected_cost
        .cmp(&right.expected_cost)
        .then_with(|| right.is_top.cmp(&left.is_top))
        .then_with(|| left.look.cmp(&right.look))
        .then_with(|| tie_key(seed, left.offer).cmp(&tie_key(seed, right.offer)))
        .then_with(|| left.offer.cmp(&right.offer))
}

/// The turn of an offer among those that cost the same.
pub(crate) fn tie_key(seed: &[u8; 32], offer: OfferId) -> Digest {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(seed);
    bytes[32..].copy_from_slice(offer.as_bytes());
    Digest::of(Domain::MatchTie, &bytes)
}

/// What an offer asks for a job of `macs` multiply-accumulates and `needs`, before tier and priority; with the
/// declared duration. `None` if the price cannot be written.
#[must_use]
pub fn ask(
    terms: &OfferTerms,
    facts: &OfferFacts,
    macs: u64,
    needs: &JobNeeds,
) -> (Option<Amount>, DurationMs) {
    let work = gpu_work(&terms.machine, needs, &facts.correction);
    let duration = terms.duration(macs).saturating_add(work.time);
    let second = second_price(terms, facts);
    (work.price(terms.price(macs), second), duration)
}

/// The GPU time of a job on one kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuWork {
    /// How long it takes.
    pub time: DurationMs,
    /// Millionths of a GPU second; `None` if they cannot be written.
    millionths: Option<u64>,
}

/// The GPU time of a job with `needs` on `machine`.
#[must_use]
pub fn gpu_work(machine: &Machine, needs: &JobNeeds, correction: &Correction) -> GpuWork {
    let time = gpu_time(machine, needs, correction);
    // Thousandths of a GPU times milliseconds are millionths of a GPU second.
    let held = held_milli(machine, needs);
    GpuWork {
        time,
        millionths: u64::from(held).checked_mul(time.get()),
    }
}

impl GpuWork {
    /// `base` and the GPU time at `second` for each second of a whole GPU; `None` if it cannot be written.
    #[must_use]
    pub fn price(&self, base: Option<Amount>, second: Amount) -> Option<Amount> {
        let gpu = second.checked_mul_div_ceil(self.millionths?, 1_000_000)?;
        base?.checked_add(gpu)
    }

    /// Whether there is none, so that its price does not matter.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.millionths == Some(0)
    }
}

/// What is paid for an ask in a tier and with a priority; `None` if it cannot be written.
#[must_use]
pub fn charged(ask: Amount, needs: &JobNeeds) -> Option<Amount> {
    let tier = match needs.tier {
        CapacityTier::OnDemand => PriceTier::OnDemand,
        CapacityTier::Spot => PriceTier::Spot,
        CapacityTier::Reserved => PriceTier::Reserved,
    };
    tier.price(ask)
        .checked_mul_div_ceil(u64::from(needs.priority.max(1)), 1)
}

/// What an endpoint asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointPrices {
    /// For each minute, whatever is asked in it: [`OfferTerms::minute_price`], and the time of the GPUs that are held.
    pub minute: Amount,
    /// For each run of the model beside that.
    pub run: Amount,
}

/// What an offer asks for an endpoint of a model with `macs` multiply-accumulates; `None` if it cannot be written. Offers are
/// compared by [`ask`], as for one run.
#[must_use]
pub fn endpoint_prices(
    terms: &OfferTerms,
    facts: &OfferFacts,
    macs: u64,
    needs: &JobNeeds,
) -> Option<EndpointPrices> {
    let second = second_price(terms, facts);
    // Thousandths of a GPU times 60 s.
    let held = u64::from(held_milli(&terms.machine, needs)).checked_mul(60)?;
    let gpus = second.checked_mul_div_ceil(held, 1_000)?;
    let work = terms.price(macs)?.checked_sub(terms.price_base)?;
    let minute = terms.minute_price()?.checked_add(gpus)?;
    Some(EndpointPrices {
        minute: charged(minute, needs)?,
        run: charged(work, needs)?,
    })
}

fn second_price(terms: &OfferTerms, facts: &OfferFacts) -> Amount {
    match terms.pricing {
        Pricing::Fixed => terms.price_per_gpu_second,
        Pricing::Dynamic => terms.price_per_gpu_second.max(facts.class_price),
    }
}

/// How many times what a lie could win the collateral of a lease must be whose result is checked in part: a wrong part is found with a
/// probability of at least a twentieth, so it wins less than it loses on average.
pub const SYNC_STAKE_FACTOR: u64 = 20;

/// The same for a result that one drawn validator looks at whole: less than a third of them lie with the provider, so that a lie is found
/// with a probability of two thirds at least, even if nobody challenges it.
pub const OPTIMISTIC_STAKE_FACTOR: u64 = 3;

/// The same for a member of a job of mode `replicate`. Members are drawn by what they put up, so that a lie of whoever has half of it
/// stands with a probability of a quarter at most: it wins less than it loses if each member has as much at stake as all could win.
pub const REPLICATE_STAKE_FACTOR: u64 = 1;

/// Whether what a provider puts up is enough for a result that is not checked whole by all: a lie could win the price, and what the
/// requestor says that a wrong answer costs it.
#[must_use]
pub fn is_stake_enough(
    mode: VerificationMode,
    price: Amount,
    needs: &JobNeeds,
    collateral: Amount,
) -> bool {
    let factor = match mode {
        VerificationMode::None
        | VerificationMode::Proof
        | VerificationMode::Recompute
        | VerificationMode::Endpoint => 0,
        VerificationMode::Sync => SYNC_STAKE_FACTOR,
        // Whoever doubts it is its requestor, who can be as sure as a watcher.
        VerificationMode::Optimistic | VerificationMode::Sealed => OPTIMISTIC_STAKE_FACTOR,
        VerificationMode::Replicate => REPLICATE_STAKE_FACTOR,
    };
    let won = price.saturating_add(needs.value_at_risk);
    won.saturating_mul(factor) <= collateral
}

/// Whether what a provider puts up is enough for a job at `price`, or for a member of a gang: of a price that cannot be written the least
/// for any price. Whoever pays a lease more than its offer asks must ask this again.
#[must_use]
pub fn has_stake(demand: &JobDemand<'_>, price: Option<Amount>, collateral: Amount) -> bool {
    let JobDemand {
        mode,
        needs,
        stake_min,
        ..
    } = *demand;
    // Stops: a gang of one hand, of which the member that leads has little at stake and all are paid for its lie. The dearest one leads,
    // so all are paid at most its price for each member.
    let paid = match mode {
        VerificationMode::Replicate => 1,
        _ => u64::from(needs.gang.max(1)),
    };
    let is_enough =
        |price: Amount| is_stake_enough(mode, price.saturating_mul(paid), needs, collateral);
    collateral >= stake_min && price.is_none_or(is_enough)
}

/// What one offer would cost, and everything it lacks.
#[must_use]
pub fn assess(demand: &JobDemand<'_>, view: &OfferView<'_>) -> Assessment {
    let Terms {
        quote,
        mut broken,
        until,
        suits,
    } = terms_for(demand, view);
    // A machine that never fits is not busy besides.
    let room = suits.then(|| room(demand, view, until)).flatten();
    broken.require(Constraint::Busy, !suits || room.is_some());
    let quote = quote.map(|quote| match &room {
        Some(room) => placed(demand, view, quote, room),
        None => quote,
    });
    Assessment {
        offer: view.offer,
        provider: view.provider,
        quote,
        broken,
    }
}

/// What an offer would cost, before it is known where on its machine.
struct Terms {
    quote: Option<Quote>,
    /// What it lacks, whatever is free on the machine.
    broken: ConstraintSet,
    until: TimestampMs,
    /// Whether the machine could serve the job if nothing else ran there.
    suits: bool,
}

/// Until when a lease of this declared duration may take.
fn longest_until(demand: &JobDemand<'_>, duration: DurationMs) -> TimestampMs {
    let allowed = duration.saturating_mul(u64::from(demand.lease_factor));
    let allowed = allowed.saturating_add(demand.lease_grace);
    demand.start.saturating_add(allowed).min(demand.deadline)
}

fn terms_for(demand: &JobDemand<'_>, view: &OfferView<'_>) -> Terms {
    let JobDemand {
        macs,
        memory_bytes,
        mode,
        stake_min: _,
        max_price,
        now,
        deadline: _,
        spare: _,
        excluded,
        tie_seed: _,
        needs,
        stock: _,
        prices: _,
        start,
        lease_factor: _,
        lease_grace: _,
    } = *demand;
    let terms = view.terms;
    let (asked, duration) = ask(terms, &view.facts, macs, needs);
    let price = asked.and_then(|it| charged(it, needs));
    let failure_ppm = view
        .facts
        .failure_ppm
        .unwrap_or_else(|| view.record.failure_ppm());
    let until = longest_until(demand, duration);
    let mut broken = lacks_of_machine(terms, needs);
    let suits = broken.is_empty();
    broken.require(Constraint::Mode, terms.modes.contains(mode));
    broken.require(Constraint::Memory, memory_bytes <= terms.memory_bytes);
    broken.require(
        Constraint::Price,
        price.is_some_and(|price| price <= max_price),
    );
    broken.require(
        Constraint::Deadline,
        start.saturating_add(duration) <= demand.ready_by(),
    );
    broken.require(Constraint::Slots, view.slots_free > 0);
    broken.require(Constraint::Funds, terms.collateral_per_lease <= view.funds);
    broken.require(Constraint::Excluded, !excluded.contains(&view.provider));
    broken.require(Constraint::Suspended, view.suspended_until <= now);
    broken.require(Constraint::Reputation, !view.facts.removed);
    broken.require(Constraint::Offline, !view.facts.offline);
    broken.require(
        Constraint::Stake,
        has_stake(demand, price, terms.collateral_per_lease),
    );
    Terms {
        quote: price.map(|price| Quote {
            offer: view.offer,
            provider: view.provider,
            price,
            expected_cost: price.saturating_add(max_price.ppm_ceil(failure_ppm)),
            packing: Amount::ZERO,
            is_top: view.facts.top,
            duration,
            collateral: terms.collateral_per_lease,
            start,
            until,
            devices: 0,
            partition: None,
            look: Shape::NOTHING,
        }),
        broken,
        until,
        suits,
    }
}

/// The quote with the place on the machine, and what the place costs others. A booking for later costs them what its
/// own lane charges for it.
fn placed(demand: &JobDemand<'_>, view: &OfferView<'_>, quote: Quote, room: &Room) -> Quote {
    let prices = demand.prices.filter(|_| demand.start <= demand.now);
    let packing = prices.map_or(Amount::ZERO, |prices| {
        prices.cost(view.terms.machine.gpu, room.burden, quote.duration)
    });
    Quote {
        devices: room.devices,
        partition: room.partition,
        look: room.look,
        packing,
        expected_cost: quote.expected_cost.saturating_add(packing),
        ..quote
    }
}

/// Whether a machine has the CPU, RAM and disk, whatever runs on it.
#[must_use]
pub const fn is_large_enough(machine: &Machine, needs: &JobNeeds) -> bool {
    needs.cpu_milli <= machine.cpu_milli
        && needs.memory_mib <= machine.memory_mib
        && needs.disk_gib <= machine.disk_gib
}

/// What a machine lacks for ever, whatever runs on it.
fn lacks_of_machine(terms: &OfferTerms, needs: &JobNeeds) -> ConstraintSet {
    let machine = &terms.machine;
    let mut broken = ConstraintSet::EMPTY;
    broken.require(Constraint::Region, needs.regions.contains(machine.region));
    broken.require(Constraint::Tier, machine.tiers.contains(needs.tier));
    broken.require(Constraint::HostSize, is_large_enough(machine, needs));
    if needs.gpus == 0 {
        return broken;
    }
    broken.require(Constraint::GpuCount, needs.gpus <= machine.gpu_count);
    broken.require(Constraint::GpuModel, needs.models.contains(machine.gpu));
    broken.require(
        Constraint::Capability,
        machine.capability >= needs.capability_min,
    );
    broken.require(
        Constraint::TensorCores,
        machine.tensor_cores || !needs.tensor_cores,
    );
    broken.require(Constraint::Link, machine.link >= needs.link_min);
    let spec = node_spec(machine);
    if let Ok(request) = request_of(needs) {
        let shares =
            !request.is_fraction() || spec.gpu.sharing.serves_fraction(request.needs().isolation);
        broken.require(Constraint::Isolation, shares);
        let taken = spec.gpu.demand(&request).map(|it| it.memory_mib);
        broken.require(
            Constraint::GpuMemory,
            taken.is_some_and(|it| it <= machine.gpu_memory_mib),
        );
    }
    broken
}

/// Where the job would go on the machine, if there is room.
fn room(demand: &JobDemand<'_>, view: &OfferView<'_>, until: TimestampMs) -> Option<Room> {
    let Some(stock) = demand.stock else {
        return Some(Room {
            devices: 0,
            partition: None,
            burden: 0,
            look: Shape::NOTHING,
        });
    };
    let request = request_of(demand.needs).ok()?;
    let time = (demand.start, until);
    stock.room(&view.offer, &request, demand.now, time, demand.prices)
}
