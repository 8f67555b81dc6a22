//! Places for a gang: one machine for each member, all in one neighbourhood, or none.
//!
//! A neighbourhood is a square of network coordinates with the side that the order states. In each one the cheapest
//! machines are taken, one member on each; the neighbourhood with the least expected cost wins. Members are on distinct
//! machines because that is what a gang is for: several GPUs of one machine are one member that asks for them, and a
//! machine whose slots counted as several members would be sold as the network it is not.
//!
//! The member that asks most leads. All are paid for its result, and it alone loses its collateral if that is wrong, so each member
//! must have enough at stake for its own price times their number ([`has_stake`](crate::placement::has_stake)).
//!
//! [`OfferBook::gang`] looks at as little as it can: offers of groups whose terms do not suit are passed over together,
//! neighbourhoods with too few machines are passed over by their number alone, and what a place takes from the work to
//! come is worked out only where all members have one. [`GangSurvey`] looks at everything; both give the same answer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tg_types::{Address, Amount, JobNeeds, Machine, TimestampMs, VerificationMode};

use super::bucket::BookEntry;
use super::offers::OfferBook;
use super::search::{Looks, Reach, Search};
use super::standing::Rates;
use crate::demand::{JobDemand, OfferView};
use crate::placement::{Quote, compare_quotes, quote_now};
use crate::view::request_of;
use tg_types::draw::mix;

/// Looks that one machine counts for which is asked whether it has room: measured, four times a look at a group.
pub(super) const ROOM_LOOKS: u64 = 4;

/// Looks that one machine counts for whose place is priced.
pub(super) const PRICE_LOOKS: u64 = 8;

/// Where a machine lies, in sides of a neighbourhood.
pub type Cell = (i64, i64);

/// The neighbourhood in which a machine lies for an order.
#[must_use]
pub fn cell_of(machine: &Machine, needs: &JobNeeds) -> Cell {
    let [x, y] = machine.coordinate_us;
    let side = i64::from(needs.neighbourhood_us.max(1));
    (i64::from(x).div_euclid(side), i64::from(y).div_euclid(side))
}

/// What one member of a gang needs: no member is paid more than an equal part of the maximum price.
#[must_use]
pub fn member_demand<'a>(demand: &JobDemand<'a>) -> JobDemand<'a> {
    let members = u128::from(demand.needs.gang.max(1));
    JobDemand {
        max_price: Amount::new(demand.max_price.get() / members),
        ..*demand
    }
}

/// What all machines together have for a gang.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GangFit {
    /// A place for each member, the one that leads first; empty unless all have one.
    pub members: Vec<Quote>,
    /// The most members that have a place in one neighbourhood.
    pub most: usize,
}

/// Every machine that has a place for a member of a gang now.
#[derive(Debug)]
pub struct GangSurvey<'a> {
    /// What one member needs.
    demand: JobDemand<'a>,
    candidates: Vec<Candidate<'a>>,
    reserved: Amount,
}

impl<'a> GangSurvey<'a> {
    /// By a look at every offer; `reserved` is what a provider keeps of its money for the fees of each lease. `demand` is
    /// that of the whole gang.
    #[must_use]
    pub fn new(
        demand: &JobDemand<'a>,
        offers: impl Iterator<Item = OfferView<'a>>,
        reserved: Amount,
    ) -> Self {
        let demand = member_demand(demand);
        let fitting = |view: OfferView<'a>| {
            let quote = quote_now(&demand, &view, None)?;
            Some(Candidate { view, quote })
        };
        Self {
            candidates: offers.filter_map(fitting).collect(),
            demand,
            reserved,
        }
    }

    /// Machines that have a place for a member, wherever they are.
    #[must_use]
    pub const fn machines(&self) -> usize {
        self.candidates.len()
    }

    /// What the gang finds.
    #[must_use]
    pub fn fit(&self) -> GangFit {
        self.fit_within(self.demand.needs.neighbourhood_us)
    }

    /// The side of a neighbourhood in which all members have a place: the one that was ordered, doubled as often as it
    /// takes; `None` if no side is enough.
    #[must_use]
    pub fn wide_enough(&self) -> Option<u32> {
        let ordered = self.demand.needs.neighbourhood_us.max(1);
        let sides: Vec<u32> = (0..u32::BITS)
            .map_while(|doublings| ordered.checked_mul(1_u32.checked_shl(doublings)?))
            .collect();
        // Squares of a side lie whole in squares of twice the side, so what fits once fits from there on.
        let first = sides.partition_point(|side| self.fit_within(*side).members.is_empty());
        sides.get(first).copied()
    }

    fn fit_within(&self, neighbourhood_us: u32) -> GangFit {
        let needs = JobNeeds {
            neighbourhood_us,
            ..*self.demand.needs
        };
        let mut cells: BTreeMap<Cell, Vec<Candidate<'a>>> = BTreeMap::new();
        let mut providers = BTreeSet::new();
        for candidate in &self.candidates {
            // Members that are compared may be anywhere, and are of distinct providers.
            let is_compared = self.demand.mode == VerificationMode::Replicate;
            if is_compared && !providers.insert(candidate.view.provider) {
                continue;
            }
            let cell = match is_compared {
                true => (0, 0),
                false => cell_of(&candidate.view.terms.machine, &needs),
            };
            cells.entry(cell).or_default().push(*candidate);
        }
        let mut fit = GangFit::default();
        let mut best = Best::default();
        for candidates in cells.into_values() {
            let quotes = fill_cheapest(&self.demand, candidates, self.reserved);
            fit.most = fit.most.max(quotes.len());
            best.consider(self.demand.needs, quotes);
        }
        fit.members = best.quotes;
        fit
    }
}

impl OfferBook {
    /// The places of a gang, the one that leads first: those of [`GangSurvey::fit`] over all offers.
    #[must_use]
    pub fn gang(
        &self,
        demand: &JobDemand<'_>,
        rates: &Rates<'_>,
        reserved: Amount,
        looks: &mut Looks,
    ) -> Option<Vec<Quote>> {
        let demand = member_demand(demand);
        let members = usize::from(demand.needs.gang);
        let search = Search::new(self, &demand, rates, Reach::Now)?;
        let mut near = self.machines_of_suitable_groups(&search, looks);
        if near.len() < members || looks.is_cut_off() {
            return None;
        }
        keep_crowded(&mut near, members);
        near.sort_by_key(|(cell, _)| *cell);
        // Whether there is room does not depend on what it takes from others.
        let room = JobDemand {
            prices: None,
            ..demand
        };
        let mut best = Best::default();
        for cell in near.chunk_by(|left, right| left.0 == right.0) {
            let fitting = machines_with_room(&search, &room, cell, looks);
            if looks.is_cut_off() {
                return None;
            }
            if fitting.len() < members {
                continue;
            }
            let candidates = fitting.into_iter().filter_map(|view| {
                looks.note_many(PRICE_LOOKS);
                let quote = quote_now(&demand, &view, None)?;
                Some(Candidate { view, quote })
            });
            let quotes = fill_cheapest(&demand, candidates.collect(), reserved);
            best.consider(demand.needs, quotes);
        }
        (!best.quotes.is_empty()).then_some(best.quotes)
    }

    /// The open offers whose terms suit the job, with their neighbourhoods.
    pub(super) fn machines_of_suitable_groups<'a>(
        &'a self,
        search: &Search<'a, '_>,
        looks: &mut Looks,
    ) -> Vec<(Cell, &'a BookEntry)> {
        let candidates = search.candidates(looks);
        let mut near = Vec::new();
        for (candidate, shape_class) in search.fitting(&candidates, looks) {
            let by_service = shape_class.serving(search.demand);
            for (cost_terms, group) in
                by_service.flat_map(|(_, service_groups)| service_groups.groups.iter())
            {
                looks.note();
                if looks.is_cut_off() {
                    return near;
                }
                if search
                    .group_bound(&candidates[candidate], cost_terms, 0)
                    .is_none()
                {
                    continue;
                }
                looks.note_many(group.len() as u64);
                near.extend(group.values().map(|entry| {
                    let machine = &entry.standing.terms.machine;
                    (cell_of(machine, search.demand.needs), &**entry)
                }));
            }
        }
        near
    }
}

/// Leaves out machines of neighbourhoods with fewer than `members` of them: nearly all such, in less time than it takes to
/// sort them. Neighbourhoods are counted by a hash, so some others stay.
fn keep_crowded(near: &mut Vec<(Cell, &BookEntry)>, members: usize) {
    let counters = (2 * near.len()).next_power_of_two();
    let mut counts = vec![0_u16; counters];
    let counter = |cell: &Cell| mix(cell.0 as u64 ^ mix(cell.1 as u64)) as usize & (counters - 1);
    for (cell, _) in near.iter() {
        let count = &mut counts[counter(cell)];
        *count = count.saturating_add(1);
    }
    near.retain(|(cell, _)| usize::from(counts[counter(cell)]) >= members);
}

/// The machines of one neighbourhood that have room for a member; too few of them if it is clear before all are looked
/// at that there are too few.
fn machines_with_room<'a>(
    search: &Search<'a, '_>,
    demand: &JobDemand<'_>,
    cell: &[(Cell, &'a BookEntry)],
    looks: &mut Looks,
) -> Vec<OfferView<'a>> {
    let members = usize::from(demand.needs.gang);
    let mut fitting = Vec::new();
    for (index, (_, entry)) in cell.iter().enumerate() {
        let left = cell.len() - index;
        if fitting.len() + left < members || looks.is_cut_off() {
            break;
        }
        looks.note_many(ROOM_LOOKS);
        let view = search.view(&entry.standing);
        if quote_now(demand, &view, None).is_some() {
            fitting.push(view);
        }
    }
    fitting
}

/// A machine that could take a member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) view: OfferView<'a>,
    pub(super) quote: Quote,
}

/// The cheapest neighbourhood so far; of equals the first.
#[derive(Default)]
struct Best {
    cost: Amount,
    quotes: Vec<Quote>,
}

impl Best {
    fn consider(&mut self, needs: &JobNeeds, quotes: Vec<Quote>) {
        if quotes.len() < usize::from(needs.gang) || quotes.is_empty() {
            return;
        }
        let cost = quotes.iter().fold(Amount::ZERO, |sum, quote| {
            sum.saturating_add(quote.expected_cost)
        });
        if self.quotes.is_empty() || cost < self.cost {
            *self = Self { cost, quotes };
        }
    }
}

/// Takes the cheapest machines of one neighbourhood, one for each member, until all have a place or no machine is left; of them the
/// dearest first.
fn fill_cheapest(
    demand: &JobDemand<'_>,
    mut candidates: Vec<Candidate<'_>>,
    reserved: Amount,
) -> Vec<Quote> {
    candidates.sort_by(|left, right| compare_quotes(&demand.tie_seed, &left.quote, &right.quote));
    let latest = candidates.iter().map(|it| it.quote.until).max();
    let latest = latest.unwrap_or(demand.start);
    let mut quotes = fill(demand, candidates.into_iter(), latest, reserved);
    // The dearest leads, of equals the first: what it has at stake covers its own price for each member.
    let dearest = (0..quotes.len()).max_by_key(|at| (quotes[*at].price, Reverse(*at)));
    if let Some(dearest) = dearest {
        quotes.swap(0, dearest);
    }
    quotes
}

/// Takes the first machines that have a place until `latest`, one for each member, until all have one or no machine is left.
pub(super) fn fill<'a>(
    demand: &JobDemand<'_>,
    candidates: impl Iterator<Item = Candidate<'a>>,
    latest: TimestampMs,
    reserved: Amount,
) -> Vec<Quote> {
    let mut quotes: Vec<Quote> = Vec::new();
    let mut spent: BTreeMap<Address, Amount> = BTreeMap::new();
    for Candidate { view, quote } in candidates {
        let locked = spent.get(&quote.provider).copied().unwrap_or(Amount::ZERO);
        if quote.collateral > view.funds.saturating_sub(locked) {
            continue;
        }
        let mut quote = quote;
        if let Some(stock) = demand.stock
            && stock.bookings(&view.offer).next().is_some()
        {
            // Held as long as the slowest may take, it must not be in the way of what is promised to others.
            let time = (quote.start, latest);
            let request = request_of(demand.needs).ok();
            let room = request
                .and_then(|it| stock.room(&view.offer, &it, demand.now, time, demand.prices));
            let Some(room) = room else { continue };
            quote.devices = room.devices;
            quote.partition = room.partition;
        }
        let locked = locked.saturating_add(quote.collateral);
        spent.insert(quote.provider, locked.saturating_add(reserved));
        quotes.push(quote);
        if quotes.len() >= usize::from(demand.needs.gang) {
            break;
        }
    }
    // A gang ends together, so every machine is held as long as the slowest may take.
    let until = quotes.iter().map(|it| it.until).max();
    for quote in &mut quotes {
        quote.until = until.unwrap_or(quote.until);
    }
    quotes
}

#[cfg(test)]
mod tests {
    use tg_types::{DurationMs, OfferId};

    use super::*;
    use crate::packing::Shape;

    fn quote(offer: u8, expected_cost: u128) -> Quote {
        Quote {
            offer: OfferId::new([offer; 32]),
            provider: Address::new([offer; 20]),
            price: Amount::new(expected_cost),
            expected_cost: Amount::new(expected_cost),
            packing: Amount::ZERO,
            is_top: false,
            duration: DurationMs::new(1),
            collateral: Amount::ZERO,
            start: TimestampMs::new(0),
            until: TimestampMs::new(1),
            devices: 1,
            partition: None,
            look: Shape::NOTHING,
        }
    }

    #[test]
    fn of_neighbourhoods_that_cost_the_same_the_first_is_taken() {
        let needs = JobNeeds {
            gang: 2,
            ..JobNeeds::ANY_MACHINE
        };
        let mut best = Best::default();
        let places = |first, cost| vec![quote(first, cost), quote(first + 1, cost)];
        best.consider(&needs, vec![quote(9, 1)]);
        assert!(
            best.quotes.is_empty(),
            "one place is too few for two members"
        );
        for (first, cost, cheapest) in [(1, 10, 1), (3, 10, 1), (5, 11, 1), (7, 9, 7)] {
            best.consider(&needs, places(first, cost));
            assert_eq!(best.quotes, places(cheapest, best.cost.get() / 2));
        }
    }
}
