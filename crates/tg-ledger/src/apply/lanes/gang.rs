//! Gangs: all members at one time in one neighbourhood, or none.
//!
//! A neighbourhood is a square of network coordinates with the side that the order states. In each one the cheapest
//! machines are filled; the neighbourhood with the least expected cost wins. Every member is paid what its own offer
//! asks, and no member more than an equal share of the maximum price.

use std::collections::BTreeMap;

use tg_market::book::Looks;
use tg_market::placement::{assess, compare_quotes};
use tg_market::{Hold, JobDemand, OfferView, Quote, Room, Stock};
use tg_types::{Address, Amount, JobNeeds, Machine, OfferId, TimestampMs};

use super::super::Execution;
use super::super::matching::{Board, Outcome, lease_id};
use crate::error::InvariantError;
use crate::record::{Grant, Job, JobState, Lease};

/// A machine that could take members.
struct Candidate {
    quote: Quote,
    machine: Machine,
    slots: u16,
    funds: Amount,
}

/// Where a machine lies, in sides of the neighbourhood.
type Cell = (i64, i64);

impl Execution {
    /// Places all members of a gang, or none.
    pub(in crate::apply) fn place_gang(
        &mut self,
        board: &mut Board,
        job: Job,
    ) -> Result<Outcome, InvariantError> {
        let members = job.order.needs.gang;
        if !board.budget.admits(usize::from(members)) {
            return Ok(Outcome::Stopped);
        }
        let mut looks = Looks::default();
        let found = self.find_gang(board, &job, &mut looks);
        // Every machine that fits is looked at once, and once more for its members.
        board.budget.spend(looks);
        board.budget.spend(looks);
        let Some(quotes) = found else {
            return Ok(Outcome::Waits);
        };
        self.lease_gang(board, job, &quotes)?;
        Ok(Outcome::Settled)
    }

    fn lease_gang(
        &mut self,
        board: &mut Board,
        mut job: Job,
        quotes: &[Quote],
    ) -> Result<(), InvariantError> {
        let mut leases: Vec<Lease> = Vec::with_capacity(quotes.len());
        for (member, quote) in (0_u16..).zip(quotes) {
            leases.push(self.make_lease(board, &job, quote, member)?);
        }
        let ids: Vec<_> = leases.iter().skip(1).map(|it| it.id).collect();
        let lead = leases.first().map(|it| it.id);
        for (member, mut lease) in leases.into_iter().enumerate() {
            if member == 0 {
                lease.members.clone_from(&ids);
                job.leases.push(lease.id);
            } else {
                lease.lead = lead;
            }
            self.state.put_lease(lease);
        }
        self.step(&mut job, JobState::Leased)?;
        self.save_job(job);
        Ok(())
    }

    /// The machines that could take a member now.
    fn machines_for_members(
        &self,
        demand: &JobDemand<'_>,
        looks: &mut Looks,
    ) -> Vec<(OfferView<'_>, Quote)> {
        let fitting = |view: OfferView<'_>| {
            let assessment = assess(demand, &view);
            let quote = assessment.quote.filter(|_| assessment.broken.is_empty());
            Some((view.offer, quote?))
        };
        let rates = self.state.rates();
        let candidates = self.state.book.candidates(demand, &rates, looks);
        let found: Vec<_> = candidates
            .into_iter()
            .filter_map(|view| Some((view, fitting(view)?.1)))
            .collect();
        debug_assert_eq!(
            found
                .iter()
                .map(|(view, quote)| (view.offer, *quote))
                .collect::<BTreeMap<_, _>>(),
            self.views(demand.needs.class).filter_map(fitting).collect(),
            "the book answers as a look at every offer does"
        );
        found
    }

    /// The members' places in the cheapest neighbourhood that has room for all.
    fn find_gang(&self, board: &Board, job: &Job, looks: &mut Looks) -> Option<Vec<Quote>> {
        let needs = job.order.needs;
        let stock = self.stock();
        let mut demand = self
            .state
            .job_demand(job, (&stock, &board.prices), self.now)?;
        demand.max_price = Amount::new(demand.max_price.get() / u128::from(needs.gang));
        let mut cells: BTreeMap<Cell, Vec<Candidate>> = BTreeMap::new();
        for (view, quote) in self.machines_for_members(&demand, looks) {
            let [x, y] = view.terms.machine.coordinate_us;
            let side = i64::from(needs.neighbourhood_us.max(1));
            let cell = (i64::from(x).div_euclid(side), i64::from(y).div_euclid(side));
            cells.entry(cell).or_default().push(Candidate {
                quote,
                machine: view.terms.machine,
                slots: view.slots_free,
                funds: view.funds,
            });
        }
        // One copy of the machines serves all trials: what one takes it gives back.
        let mut trial = Stock::clone(&stock);
        let mut best: Option<(Amount, Vec<Quote>)> = None;
        for candidates in cells.values_mut() {
            // A gang ends together, so every machine is held as long as the slowest may take: one that was promised to
            // others any earlier would still be in use.
            let until = candidates.iter().map(|it| it.quote.until).max();
            for candidate in candidates.iter_mut() {
                candidate.quote.until = until.unwrap_or(candidate.quote.until);
            }
            candidates
                .sort_by(|left, right| compare_quotes(&demand.tie_seed, &left.quote, &right.quote));
            let reserved = self.state.lease_fees();
            let filled = fill(&mut trial, candidates, job, self.now, reserved);
            let Some(quotes) = filled else { continue };
            let cost = quotes.iter().fold(Amount::ZERO, |sum, quote| {
                sum.saturating_add(quote.expected_cost)
            });
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, quotes));
            }
        }
        best.map(|(_, quotes)| quotes)
    }
}

/// Fills machines in their order until all members have a place; leaves `trial` as it was.
fn fill(
    trial: &mut Stock,
    candidates: &[Candidate],
    job: &Job,
    now: TimestampMs,
    reserved: Amount,
) -> Option<Vec<Quote>> {
    let needs = &job.order.needs;
    let mut quotes: Vec<Quote> = Vec::new();
    let mut spent: BTreeMap<Address, Amount> = BTreeMap::new();
    let mut taken = Vec::new();
    for candidate in candidates {
        let mut slots = candidate.slots;
        while slots > 0 && quotes.len() < usize::from(needs.gang) {
            let quote = candidate.quote;
            let locked = spent.get(&quote.provider).copied().unwrap_or(Amount::ZERO);
            let left = candidate.funds.saturating_sub(locked);
            if quote.collateral > left {
                break;
            }
            let member = u16::try_from(quotes.len()).unwrap_or(u16::MAX);
            let lease = lease_id(job, member);
            let Some(room) = take_one(trial, candidate, needs, lease, now) else {
                break;
            };
            taken.push(lease);
            let locked = locked.saturating_add(quote.collateral);
            spent.insert(quote.provider, locked.saturating_add(reserved));
            quotes.push(Quote {
                devices: room.devices,
                partition: room.partition,
                ..quote
            });
            slots -= 1;
        }
    }
    for lease in &taken {
        trial.give_back(lease);
    }
    (quotes.len() == usize::from(needs.gang)).then_some(quotes)
}

fn take_one(
    trial: &mut Stock,
    candidate: &Candidate,
    needs: &JobNeeds,
    lease: tg_types::LeaseId,
    now: TimestampMs,
) -> Option<Room> {
    let Candidate { quote, machine, .. } = candidate;
    let offer: OfferId = quote.offer;
    let request = tg_market::view::request_of(needs).ok()?;
    let room = trial.room(&offer, &request, now, (quote.start, quote.until), None)?;
    // The same arithmetic as a lease that is made: a share's memory is what the machine gives.
    let grant = Grant::of(needs, machine, (room.devices, room.partition), quote.start);
    let hold = Hold {
        lease,
        offer,
        devices: room.devices,
        partition: room.partition,
        request: grant.request(needs)?,
        from: quote.start,
        until: quote.until,
    };
    trial.take(&hold, now).ok().map(|()| room)
}
