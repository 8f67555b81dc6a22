//! The free capacity of the machines behind offers, derived from offers and live leases.

use std::sync::Arc;

use tg_market::view::has_room_for;
use tg_market::{Hold, HoldError, Stock};
use tg_types::{LeaseId, OfferId, OfferTerms, TimestampMs};

use crate::error::InvariantError;
use crate::record::{Job, Lease, Offer, lease_id};
use crate::state::{Reservation, State};

impl State {
    /// The stock built anew from the records, as it is at `now`.
    ///
    /// # Errors
    /// If live leases hold more than the machines of their offers have: a broken rule of the ledger.
    pub fn rebuilt_stock(&self, now: TimestampMs) -> Result<Stock, InvariantError> {
        let offers = self.offers.iter().map(|it| (it.id, &it.terms.machine));
        let mut stock = Stock::new(offers, self.schedule.work.expected());
        let holding = self.live_members().filter(|(job, _)| job.holds_machine());
        put_in_turn(&mut stock, holding.collect(), now)?;
        for hold in self.held_back(now) {
            known(stock.take(&hold, now))?;
        }
        Ok(stock)
    }

    /// A lease and the leases of the other members, if it leads a gang.
    pub fn gang_of<'a>(&'a self, lead: &'a Lease) -> impl Iterator<Item = &'a Lease> {
        let members = lead.members().iter().filter_map(|id| self.lease(id));
        std::iter::once(lead).chain(members)
    }

    /// Every live lease of every member, with its job.
    pub fn live_members(&self) -> impl Iterator<Item = (&Job, &Lease)> {
        self.live_leases()
            .flat_map(|(job, lead)| self.gang_of(lead).map(move |lease| (job, lease)))
    }

    /// Brings the stock to `now`.
    pub(crate) fn refresh_stock(&mut self, now: TimestampMs) -> Result<(), InvariantError> {
        let learned = self.schedule.work.learn();
        let stock = Arc::clone(&self.stock);
        stock
            .due(now)
            .for_each(|hold| self.book_changes.note_offer(hold.offer));
        let is_due = stock.due(now).next().is_some();
        // Or else it would be copied to be written to.
        drop(stock);
        if self.stock_is_stale {
            self.stock = Arc::new(self.rebuilt_stock(now)?);
            self.stock_is_stale = false;
            self.machine_changes.clear();
            self.placing = None;
            return Ok(());
        }
        if learned {
            Arc::make_mut(&mut self.stock).expect(self.schedule.work.expected());
            self.placing = None;
        }
        self.change_machines(now)?;
        if is_due {
            let stock = Arc::make_mut(&mut self.stock);
            stock.advance(now).map_err(InvariantError::Stock)?;
        }
        Ok(())
    }

    /// Brings the stock up to date with the machines that came, changed or went; leases on them hold what they held.
    fn change_machines(&mut self, now: TimestampMs) -> Result<(), InvariantError> {
        let changed = std::mem::take(&mut self.machine_changes);
        if changed.is_empty() {
            return Ok(());
        }
        let held: Vec<LeaseId> = changed
            .iter()
            .flat_map(|offer| self.stock.holders(offer))
            .collect();
        let machine = |id: &OfferId| self.offers.get(id).map(|it| &it.terms.machine);
        let changes = changed.iter().map(|id| (*id, machine(id)));
        let stock = Arc::make_mut(&mut self.stock);
        if stock.change(changes, self.schedule.work.expected()) {
            self.placing = None;
        }
        let lost = held.iter().filter_map(|id| {
            let lease = self.leases.get(id).filter(|_| !stock.has(id))?;
            Some((self.jobs.get(&lease.job)?, lease))
        });
        let lost = lost.collect();
        put_in_turn(stock, lost, now)
    }

    /// Whether an offer with other terms has slots for all of its leases, and its machine room for what they hold; what is
    /// booked for later counts as if it ran now. It takes time for each of its leases, and for no other.
    pub(crate) fn has_room_as(&self, offer: &Offer, terms: &OfferTerms) -> bool {
        debug_assert_eq!(
            usize::from(offer.slots_taken),
            self.live_members()
                .filter(|(job, it)| it.offer == offer.id && job.takes_slots())
                .count(),
            "an offer knows how many leases it has"
        );
        if offer.slots_taken == 0 {
            return true;
        }
        let hold_of = |id: LeaseId| {
            let lease = self.leases.get(&id)?;
            hold_of(self.jobs.get(&lease.job)?, lease)
        };
        offer.slots_taken <= terms.slots
            && has_room_for(
                &terms.machine,
                self.stock.holders(&offer.id).filter_map(hold_of),
            )
    }

    /// Takes what a lease was granted.
    pub(crate) fn hold(
        &mut self,
        job: &Job,
        lease: &Lease,
        now: TimestampMs,
    ) -> Result<(), InvariantError> {
        self.book_changes.note_offer(lease.offer);
        put(Arc::make_mut(&mut self.stock), job, lease, now)
    }

    /// Holds machines back for a job; of one that is gone nothing.
    pub(crate) fn hold_back(
        &mut self,
        job: &Job,
        reservation: &Reservation,
        now: TimestampMs,
    ) -> Result<(), InvariantError> {
        for hold in reservation.holds(job, now) {
            self.book_changes.note_offer(hold.offer);
            known(Arc::make_mut(&mut self.stock).take(&hold, now))?;
        }
        Ok(())
    }

    /// Lets go of what was held back for a job.
    pub(crate) fn let_go_of(&mut self, job: &Job, reservation: &Reservation) {
        for (member, place) in (0..).zip(&reservation.places) {
            let lease = lease_id(job, member);
            Arc::make_mut(&mut self.stock).give_back(&lease);
            self.book_changes.note_offer(place.offer);
        }
    }

    /// Gives back what a lease and the other members of its gang hold.
    pub(crate) fn release(&mut self, lease: &Lease) {
        let stock = Arc::make_mut(&mut self.stock);
        stock.give_back(&lease.id);
        self.book_changes.note_offer(lease.offer);
        for member in lease.members() {
            stock.give_back(member);
            if let Some(member) = self.leases.get(member) {
                self.book_changes.note_offer(member.offer);
            }
        }
    }
}

/// What a lease holds of a machine; `None` if nothing.
fn hold_of(job: &Job, lease: &Lease) -> Option<Hold> {
    Some(Hold {
        lease: lease.id,
        offer: lease.offer,
        devices: lease.grant.devices,
        partition: lease.grant.partition,
        request: lease.grant.request(&job.order.needs)?,
        from: lease.grant.from,
        until: lease.deadline,
    })
}

/// Takes what leases were granted from `stock`, in the order of their starts, which is the order in which they took it.
/// What was booked waits if something that should have ended is still there.
fn put_in_turn(
    stock: &mut Stock,
    mut leases: Vec<(&Job, &Lease)>,
    now: TimestampMs,
) -> Result<(), InvariantError> {
    leases.sort_unstable_by_key(|(_, lease)| (lease.grant.from, lease.id));
    for (job, lease) in leases {
        let was_booked = lease.grant.from > lease.matched_at;
        match hold_of(job, lease).filter(|_| was_booked) {
            Some(hold) => known(stock.take_in_turn(&hold, now))?,
            None => put(stock, job, lease, now)?,
        }
    }
    Ok(())
}

/// Takes what a lease was granted from `stock`; nothing happens if its offer is not in it.
pub(crate) fn put(
    stock: &mut Stock,
    job: &Job,
    lease: &Lease,
    now: TimestampMs,
) -> Result<(), InvariantError> {
    hold_of(job, lease).map_or(Ok(()), |hold| known(stock.take(&hold, now)))
}

fn known(taken: Result<(), HoldError>) -> Result<(), InvariantError> {
    match taken {
        // The offer was withdrawn; its leases run on.
        Err(HoldError::UnknownOffer(_)) | Ok(()) => Ok(()),
        Err(error) => Err(InvariantError::Stock(error)),
    }
}
