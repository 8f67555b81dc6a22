//! Seats of validators: bonded for, assigned at the end of an epoch, given up, lost by silence.
//!
//! The set may change at a height that is a multiple of [`EPOCH_BLOCKS`]; the block of that height is the last one on which
//! the old set votes. Three rules limit what a change can do (`docs/adr/0020-seats.md`):
//!
//! - *Newcomers count as faulty until they were seen.* Only so many get a seat that they, with the seats that are silent, are
//!   no more than the faults that the new set tolerates. Stops: a few bonds without validators behind them that end all
//!   finality.
//! - *No set shrinks below four*, the smallest that tolerates a fault: seats are given up, and taken for silence, only above it.
//! - *A bond answers for old votes* during the time of unbonding, in ledger time, which never runs faster than the wall clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use tg_types::{Address, DurationMs, Height, Label};

use super::Execution;
use crate::canary::{LedgerCanary, is_armed};
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::{
    EPOCH_BLOCKS, QUIET_TURNS, SEATS_MIN, SILENCE_BLOCKS, UNBONDING_MAX, VALIDATORS_MAX,
};
use crate::record::{
    Applicant, ConsensusKey, JobState, OpenStage, SeatRecord, SeatSet, Storage, Unbonding,
    Validator,
};
use crate::state::State;

type Done = Result<(), InvariantError>;

/// Who gets a seat, and who has none any more.
#[derive(Debug, Default, PartialEq, Eq)]
struct SetChange {
    joined: usize,
    left: Vec<Address>,
}

/// How long a change of the set waits for the key of seeds that is being dealt: twice what a round takes in which some deal nothing.
const DEALING_PATIENCE: DurationMs = DurationMs::from_secs(20);

/// After how many epochs without a change of the set it waits for no key: rounds that fail begin anew each time.
const DEALING_EPOCHS: u64 = 16;

impl Execution {
    /// Takes a bond for a seat.
    pub(super) fn join_validators(
        &mut self,
        account: Address,
        key: [u8; 32],
        endpoint: &Label,
    ) -> Done {
        let stake = self.state.parameters.seat_bond;
        self.debit(account, stake)?;
        let book = Arc::make_mut(&mut self.state.seats);
        book.applicants.push(Applicant {
            validator: Validator {
                address: account,
                key: ConsensusKey::new(key),
                stake,
            },
            endpoint: endpoint.clone(),
        });
        self.events.push(Event::SeatBonded {
            validator: account,
            amount: stake,
        });
        Ok(())
    }

    /// Notes that a validator gives its seat back; whoever waits for one gets its bond at once, as it signed nothing.
    pub(super) fn leave_validators(&mut self, account: Address) -> Done {
        let seat = self.state.seat_of(&account);
        let book = Arc::make_mut(&mut self.state.seats);
        if let Some(seat) = seat.and_then(|seat| book.seats.get_mut(usize::from(seat))) {
            seat.is_leaving = true;
            self.events.push(Event::SeatLeaving { validator: account });
            return Ok(());
        }
        let waits = |it: &Applicant| it.validator.address == account;
        let place = book.applicants.iter().position(waits);
        let place = place.ok_or(InvariantError::Missing { table: "seats" })?;
        let amount = book.applicants.remove(place).validator.stake;
        self.credit(account, amount)?;
        self.events.push(Event::StakeReturned {
            validator: account,
            amount,
        });
        Ok(())
    }

    /// The end of a block: notes who made it, returns bonds whose time is over, and changes the set if it is time.
    pub(super) fn turn_seats(&mut self, proposer: Address) -> Done {
        let height = self.height;
        if let Some(seat) = self.state.seat_of(&proposer) {
            let book = Arc::make_mut(&mut self.state.seats);
            if let Some(seat) = book.seats.get_mut(usize::from(seat)) {
                seat.led = height;
                seat.is_new = false;
            }
        }
        self.return_bonds()?;
        if height.get().is_multiple_of(EPOCH_BLOCKS) {
            let change = self.state.seat_change(height);
            if change != SetChange::default() && self.may_change_seats() {
                self.change_seats(&change)?;
            }
            self.turn_upgrade();
        }
        Ok(())
    }

    /// Whether the set may change now: not before the validators have the key of seeds that they deal, unless that takes too long, or round after
    /// round fails.
    /// Stops: seats that come and go in each epoch, so that no key is ever made and no result gets its seed.
    fn may_change_seats(&self) -> bool {
        let seeds = &self.state.seeds;
        let unchanged = self.height.get() - self.state.seats.since.get();
        seeds.key().is_some()
            || self.now > seeds.since.saturating_add(DEALING_PATIENCE)
            || unchanged >= DEALING_EPOCHS * EPOCH_BLOCKS
    }

    /// How long a bond answers for old votes.
    fn unbonding(&self) -> DurationMs {
        let parameters = &self.state.parameters;
        match is_armed(LedgerCanary::ShortUnbonding) {
            // A slot of auctions takes about as long as an epoch.
            true => {
                let short = parameters
                    .unbonding
                    .get()
                    .saturating_sub(parameters.auction_slot.get());
                DurationMs::new(short)
            }
            false => parameters.unbonding,
        }
    }

    fn return_bonds(&mut self) -> Done {
        let now = self.now;
        let is_over = |it: &Unbonding| it.until <= now;
        if !self.state.seats.unbonding.iter().any(is_over) {
            return Ok(());
        }
        let book = Arc::make_mut(&mut self.state.seats);
        let over: Vec<Unbonding> = book.unbonding.extract_if(.., |it| is_over(it)).collect();
        for Unbonding { validator, .. } in over {
            self.credit(validator.address, validator.stake)?;
            self.events.push(Event::StakeReturned {
                validator: validator.address,
                amount: validator.stake,
            });
        }
        Ok(())
    }

    /// Makes the next set of validators.
    fn change_seats(&mut self, change: &SetChange) -> Done {
        let height = self.height;
        let until = self.now.saturating_add(self.unbonding());
        let before = Arc::clone(&self.state.validators);
        let book = Arc::make_mut(&mut self.state.seats);
        let old = std::mem::take(&mut book.seats);
        let mut sitting: Vec<(Validator, SeatRecord)> = before.iter().cloned().zip(old).collect();
        let gone = sitting.extract_if(.., |(it, _)| change.left.contains(&it.address));
        let gone = gone.map(|(validator, _)| validator);
        let gone = gone.filter(|it| !it.stake.is_zero());
        book.unbonding
            .extend(gone.map(|validator| Unbonding { validator, until }));
        let joined = book.applicants.drain(..change.joined);
        let joined: Vec<(Validator, SeatRecord)> = joined
            .map(
                |Applicant {
                     validator,
                     endpoint,
                 }| {
                    let seat = SeatRecord {
                        endpoint,
                        led: height,
                        is_new: true,
                        is_leaving: false,
                        missed: 0,
                        missed_since: Height::default(),
                        voted_at: Height::default(),
                        unkept: 0,
                        is_ready: false,
                    };
                    (validator, seat)
                },
            )
            .collect();
        let names = joined.iter().map(|(it, _)| it.address).collect();
        sitting.extend(joined);
        sitting.sort_by_key(|(it, _)| it.address);
        let (validators, seats): (Vec<Validator>, Vec<SeatRecord>) = sitting.into_iter().unzip();
        book.seats = seats;
        book.term += 1;
        book.since = height;
        self.events.push(Event::SeatsChanged {
            term: book.term,
            joined: names,
            left: change.left.clone(),
        });
        self.state.validators = Arc::new(validators);
        for address in &change.left {
            self.state.remove_report(address);
        }
        self.begin_round();
        self.seats_moved(&before)
    }

    /// What was stated about storage is the statement of the same validators, at their new places; what a smaller quorum
    /// holds is held now.
    fn seats_moved(&mut self, before: &[Validator]) -> Done {
        let places: Vec<Option<u8>> = before
            .iter()
            .map(|it| self.state.seat_of(&it.address))
            .collect();
        let moved = |storage: &Storage| storage.moved(|set: SeatSet| set.moved(&places));
        let models: Vec<_> = self.state.models().iter().cloned().collect();
        for mut model in models {
            let storage = moved(&model.storage);
            if storage != model.storage {
                model.storage = storage;
                self.state.put_model(model);
            }
        }
        // Before leases: one that is held by the smaller quorum now is paid, and its answer kept by whoever stated it, at the new places.
        self.retention_moved(|set: SeatSet| set.moved(&places))?;
        let opened = self.state.checked_leases().map(|(_, lease)| lease);
        let opened = opened.filter(|it| self.state.opened_lease(&it.id).is_some());
        let opened: Vec<_> = opened.cloned().collect();
        for mut lease in opened {
            if let Some(storage) = lease.storage_mut() {
                *storage = moved(storage);
            }
            self.go_on_if_held(lease)?;
        }
        let jobs: Vec<_> = self.state.open_jobs().cloned().collect();
        for mut job in jobs {
            let storage = moved(&job.storage);
            let is_same = storage == job.storage;
            job.storage = storage;
            let is_ready = job.state() == JobState::Submitted && self.is_ready(&job);
            if is_ready {
                self.step(&mut job, OpenStage::Queued)?;
            }
            if is_ready || !is_same {
                self.save_job(job);
            }
        }
        Ok(())
    }
}

impl State {
    /// How the set of validators changes after the block of a height.
    fn seat_change(&self, height: Height) -> SetChange {
        let leaving = self.leaving_seats(height);
        let count = self.validators.len();
        let room = UNBONDING_MAX - self.seats.unbonding.len();
        // As many as may: fewer leave if the set would be too small without them.
        for left in (0..=leaving.len().min(room)).rev() {
            let left = &leaving[..left];
            let joined = self.admitted(left, height);
            let after = count - left.len() + joined;
            if left.is_empty() || after >= SEATS_MIN {
                return SetChange {
                    joined,
                    left: left.to_vec(),
                };
            }
        }
        SetChange::default()
    }

    /// Seats that end, in this order: slashed, given back, silent. Of the silent ones at most `faults_max` end at a time.
    fn leaving_seats(&self, height: Height) -> Vec<Address> {
        let has_stakes = self.validators.iter().any(|it| !it.stake.is_zero());
        let sitting = || self.validators.iter().zip(&self.seats.seats);
        let slashed = sitting().filter(|(it, _)| has_stakes && it.stake.is_zero());
        // Stops: whoever does not have what it keeps, and leaves when somebody asks for it.
        let given =
            sitting().filter(|(it, seat)| seat.is_leaving && !self.is_in_question(&it.address));
        // After a pause of the whole network nobody is known to be silent.
        let outage = self.head.outage.map_or(0, |it| it.height.get());
        let paused = outage > 0 && height.get() - outage.min(height.get()) <= SILENCE_BLOCKS;
        let is_silent =
            |seat: &SeatRecord| seat.is_silent_at(height) || seat.is_voteless_at(height);
        let mut silent: Vec<(Height, Address)> = sitting()
            .filter(|(_, seat)| !paused && is_silent(seat))
            .map(|(it, seat)| (seat.led, it.address))
            .collect();
        silent.sort_unstable();
        silent.truncate(self.faults_max());
        let silent = silent.into_iter().map(|(_, address)| address);
        let mut named = BTreeSet::new();
        let all = slashed.chain(given).map(|(it, _)| it.address);
        all.chain(silent).filter(|it| named.insert(*it)).collect()
    }

    /// How many of those who wait get a seat, if some leave.
    fn admitted(&self, left: &[Address], height: Height) -> usize {
        let stay = self.validators.len() - left.len();
        let turns = QUIET_TURNS * self.validators.len() as u64;
        let sitting = self.validators.iter().zip(&self.seats.seats);
        // Stops: bonds with nobody behind them that come a few in each epoch, until those that are there are no quorum any more.
        let is_quiet = |seat: &SeatRecord| seat.is_new || height.get() - seat.led.get() > turns;
        let quiet = sitting
            .filter(|(it, seat)| !left.contains(&it.address) && is_quiet(seat))
            .count();
        let most = self.seats.applicants.len().min(VALIDATORS_MAX - stay);
        let fits = |joined: usize| {
            let after = stay + joined;
            quiet + joined <= (after - 1) / 3 && self.parameters.short_window(after).is_none()
        };
        (1..=most)
            .take_while(|joined| fits(*joined))
            .last()
            .unwrap_or(0)
    }
}
