//! Rent of records: deposits, room for new records, and eviction.

use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, JobOrder, Lane, ModelId, OfferId, TimestampMs,
};

use super::Execution;
use super::decline::Settled;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::EXPIRIES_PER_CATEGORY_MAX;
use crate::record::{Account, Job, Model, Offer, Provider, Record, Unpaid};
use crate::rent::{
    ACCOUNT_BYTES, ACCOUNT_RENEWAL, Charge, ENDED_JOB_STAYS, PROVIDER_BYTES, REFUSED_MODEL_STAYS,
    Rent, RentCategory, RentStanding, address_of_name, job_bytes, name_of_address,
};
use crate::state::State;
use crate::tree::kind;

/// Milliseconds of a day.
const DAY_MS: u128 = 24 * 3_600_000;

type Done = Result<(), InvariantError>;

/// A record that pays rent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tenant {
    Account(Address),
    Offer(OfferId),
    Provider(Address),
    Model(ModelId),
    Job(JobId),
}

impl Tenant {
    /// Its name in events and in `PayRent`.
    fn name(&self) -> Digest {
        match self {
            Self::Account(address) | Self::Provider(address) => name_of_address(address),
            Self::Offer(id) => Digest::new(*id.as_bytes()),
            Self::Model(id) => Digest::new(*id.as_bytes()),
            Self::Job(id) => Digest::new(*id.as_bytes()),
        }
    }

    /// The kind of its leaf.
    const fn kind(&self) -> u8 {
        match self {
            Self::Account(_) => kind::ACCOUNT,
            Self::Offer(_) => kind::OFFER,
            Self::Provider(_) => kind::PROVIDER,
            Self::Model(_) => kind::MODEL,
            Self::Job(_) => kind::JOB,
        }
    }
}

impl State {
    /// How many records stand in a category.
    #[must_use]
    pub fn category_len(&self, category: RentCategory) -> usize {
        match category {
            RentCategory::Accounts => self.accounts.len(),
            RentCategory::Offers => self.offers.len(),
            RentCategory::Providers => self.providers.len(),
            RentCategory::Models => self.models.len(),
            RentCategory::OpenJobs => self.submitted.len() + self.queued.len() + self.live.len(),
            RentCategory::EndedJobs => self.ended.len(),
            RentCategory::Bids => self.bids.len(),
            RentCategory::Retained => self.retained_units(),
        }
    }

    /// What `bytes` in a category cost for some time, at the price they have once a record more is there.
    #[must_use]
    pub fn rent_for(&self, category: RentCategory, bytes: u32, time: DurationMs) -> Amount {
        let price = category.price(
            self.parameters.rent_full_hour,
            self.category_len(category).saturating_add(1),
        );
        let bytes_and_time = u128::from(bytes).saturating_mul(u128::from(time.get()));
        Amount::new(price.saturating_mul(bytes_and_time))
    }

    /// What a new record costs. Whoever comes to a full category pays the entry twice, since another must leave for it.
    #[must_use]
    pub fn charge(&self, category: RentCategory, bytes: u32) -> Charge {
        let entry = self.rent_for(category, bytes, category.entry());
        let is_full = self.category_len(category) >= category.capacity();
        Charge {
            bytes,
            entry: match is_full {
                true => entry.saturating_add(entry),
                false => entry,
            },
            deposit: self.rent_for(category, bytes, category.term()),
        }
    }

    /// What the record of a new provider costs; nothing if it has one.
    #[must_use]
    pub fn provider_charge(&self, provider: &Address) -> Charge {
        match self.provider(provider) {
            Some(_) => Charge::default(),
            None => self.charge(RentCategory::Providers, PROVIDER_BYTES),
        }
    }

    /// What a new job costs beside its escrow: twice the rent up to its deadline, and that of a day after its end.
    #[must_use]
    pub fn job_charge(&self, order: &JobOrder, now: TimestampMs) -> Charge {
        let open = order.deadline.saturating_since(now);
        let charge = self.charge_of_job(job_bytes(order), open);
        let category = RentCategory::OpenJobs;
        let is_full = self.category_len(category) >= category.capacity();
        match self.takes_place(order) && !is_full {
            // As in a full category: another one leaves for it.
            true => Charge {
                entry: charge.entry.saturating_add(charge.entry),
                ..charge
            },
            false => charge,
        }
    }

    /// Whether another open job must leave for one of this order. Sealed bids keep places for the jobs that they open.
    fn takes_place(&self, order: &JobOrder) -> bool {
        let kept = match order.needs.lane() {
            // Its own bid kept one for it.
            Lane::Auction => 0,
            Lane::Posted | Lane::Gang | Lane::Deadline => self.bids.len(),
        };
        let category = RentCategory::OpenJobs;
        self.category_len(category).saturating_add(kept) >= category.capacity()
    }

    /// Whether an order finds room among the open jobs, with this deposit.
    pub(crate) fn has_room_for_job(&self, order: &JobOrder, charge: &Charge) -> bool {
        let category = RentCategory::OpenJobs;
        !self.takes_place(order) || self.outlasts_first(category, charge)
    }

    /// Whether a place is left among the open jobs for what one more sealed bid opens.
    pub(crate) fn has_place_for_bid(&self) -> bool {
        let category = RentCategory::OpenJobs;
        self.category_len(category).saturating_add(self.bids.len()) < category.capacity()
    }

    /// What it costs beside the price that a job may have so many leases: the same for each more as if it had been ordered so.
    #[must_use]
    pub fn raise_charge(&self, job: &Job, max_attempts: u8, now: TimestampMs) -> Charge {
        let raised = JobOrder {
            max_attempts,
            ..job.order.clone()
        };
        match job_bytes(&raised).saturating_sub(job_bytes(&job.order)) {
            0 => Charge::default(),
            more => self.charge_of_job(more, job.order.deadline.saturating_since(now)),
        }
    }

    /// What bytes of a job cost that is open for so long.
    fn charge_of_job(&self, bytes: u32, open: DurationMs) -> Charge {
        let open = self.rent_for(RentCategory::OpenJobs, bytes, open);
        let after = self.rent_for(RentCategory::EndedJobs, bytes, ENDED_JOB_STAYS);
        Charge {
            deposit: open.saturating_add(open).saturating_add(after),
            ..self.charge(RentCategory::OpenJobs, bytes)
        }
    }

    /// What an account costs whoever opens it.
    #[must_use]
    pub fn account_charge(&self) -> Amount {
        self.charge(RentCategory::Accounts, ACCOUNT_BYTES).entry
    }

    /// Up to which reading the rent of an account that begins now is paid.
    pub(crate) fn first_rent(&self) -> u128 {
        let paid = self.rent_for(RentCategory::Accounts, 1, RentCategory::Accounts.entry());
        self.meters
            .of(RentCategory::Accounts)
            .saturating_add(paid.get())
    }

    /// The record of a category that leaves first, and at which reading of the meter.
    pub(crate) fn first_due(&self, category: RentCategory) -> Option<(u128, Tenant)> {
        match category {
            RentCategory::Accounts => first(self.accounts.first_due(category), Tenant::Account),
            RentCategory::Offers => first(self.offers.first_due(category), Tenant::Offer),
            RentCategory::Providers => first(self.providers.first_due(category), Tenant::Provider),
            RentCategory::Models => first(self.models.first_due(category), Tenant::Model),
            RentCategory::OpenJobs | RentCategory::EndedJobs => {
                first(self.jobs.first_due(category), Tenant::Job)
            }
            // What they pay is known when they come.
            RentCategory::Bids | RentCategory::Retained => None,
        }
    }

    /// Whether a record with this deposit finds room: in a category that is not full, or in the place of one whose rent
    /// ends before its own would.
    pub(crate) fn has_room(&self, category: RentCategory, charge: &Charge) -> bool {
        self.category_len(category) < category.capacity() || self.outlasts_first(category, charge)
    }

    /// Whether the rent of a record with this deposit would last longer than that of the one which leaves first.
    fn outlasts_first(&self, category: RentCategory, charge: &Charge) -> bool {
        let own = Rent {
            deposit: charge.deposit,
            paid_to: self.meters.of(category),
            bytes: charge.bytes,
            ..Rent::default()
        };
        let own = own.ends_at().unwrap_or(0);
        let first = self.first_due(category);
        first.is_some_and(|(ends_at, _)| ends_at < own)
    }

    /// How the rent of a record stands that `PayRent` can name: an offer, a model or a job by its id, a provider by its
    /// address after twelve zero bytes. `None` if there is no such record, or it pays none.
    #[must_use]
    pub fn rent_of(&self, name: &Digest) -> Option<RentStanding> {
        let (tenant, rent) = self.tenant(name)?;
        let category = match tenant {
            Tenant::Account(_) => RentCategory::Accounts,
            Tenant::Offer(_) => RentCategory::Offers,
            Tenant::Provider(_) => RentCategory::Providers,
            Tenant::Model(_) => RentCategory::Models,
            Tenant::Job(id) if self.job(&id)?.state().is_final() => RentCategory::EndedJobs,
            Tenant::Job(_) => RentCategory::OpenJobs,
        };
        let left = rent
            .deposit
            .saturating_sub(rent.owed(self.meters.of(category)));
        let price = category.price(self.parameters.rent_full_hour, self.category_len(category));
        let per_ms = price.saturating_mul(u128::from(rent.bytes));
        let lasts = left.get().checked_div(per_ms).unwrap_or(u128::MAX);
        Some(RentStanding {
            category,
            payer: rent.payer,
            left,
            per_day: Amount::new(per_ms.saturating_mul(DAY_MS)),
            lasts: DurationMs::new(u64::try_from(lasts).unwrap_or(u64::MAX)),
        })
    }

    /// The record that `PayRent` names, with its rent. Models come last: whoever registers one writes its id. Stops: a model under the name of
    /// somebody's provider record, which takes what is paid for that.
    pub(crate) fn tenant(&self, name: &Digest) -> Option<(Tenant, Rent)> {
        let bytes = *name.as_bytes();
        let (offer, model, job) = (OfferId::new(bytes), ModelId::new(bytes), JobId::new(bytes));
        let provider = address_of_name(name).and_then(|it| self.provider(&it));
        let found = self.offer(&offer).map(|it| (Tenant::Offer(it.id), it.rent));
        let found = found.or_else(|| self.job(&job).map(|it| (Tenant::Job(it.id), it.rent)));
        let found = found.or_else(|| provider.map(|it| (Tenant::Provider(it.address), it.rent)));
        let found = found.or_else(|| self.model(&model).map(|it| (Tenant::Model(it.id), it.rent)));
        found.filter(|(_, rent)| rent.bytes > 0)
    }
}

fn first<K>(due: Option<(u128, K)>, tenant: impl Fn(K) -> Tenant) -> Option<(u128, Tenant)> {
    due.map(|(ends_at, key)| (ends_at, tenant(key)))
}

impl Execution {
    /// Lets the meters run for the time since the block before, at the prices that it left.
    pub(super) fn run_meters(&mut self) {
        let time = DurationMs::new(self.now.saturating_since(self.state.head.time).get());
        for category in RentCategory::ALL {
            let len = self.state.category_len(category);
            let price = category.price(self.state.parameters.rent_full_hour, len);
            self.state.meters.run(category, price, time);
        }
    }

    /// Takes the place of another open job for an order, if all are taken or kept.
    pub(super) fn make_place(&mut self, order: &JobOrder) -> Done {
        if self.state.takes_place(order)
            && let Some((_, tenant)) = self.state.first_due(RentCategory::OpenJobs)
        {
            self.expire(tenant)?;
        }
        Ok(())
    }

    /// Takes what a new record costs from `payer`, and the place of another one if the category is full.
    pub(super) fn move_in(
        &mut self,
        (category, charge): (RentCategory, Charge),
        payer: Address,
        name: Digest,
    ) -> Result<Rent, InvariantError> {
        if self.state.category_len(category) >= category.capacity()
            && let Some((_, tenant)) = self.state.first_due(category)
        {
            self.expire(tenant)?;
        }
        Ok(Rent {
            payer,
            deposit: self.pay_charge(charge, payer, name)?,
            paid_to: self.state.meters.of(category),
            bytes: charge.bytes,
        })
    }

    /// Takes what a record costs, or what it costs more; the part of it that is its deposit.
    pub(super) fn pay_charge(
        &mut self,
        charge: Charge,
        payer: Address,
        name: Digest,
    ) -> Result<Amount, InvariantError> {
        if !charge.total().is_zero() {
            self.debit(payer, charge.total())?;
            self.burn(charge.entry);
            self.events.push(Event::RentDeposited {
                record: name,
                payer,
                deposit: charge.deposit,
                burned: charge.entry,
            });
        }
        Ok(charge.deposit)
    }

    /// Burns what an account pays at once: for a record that leaves within seconds, for another account that it opens, or
    /// its own rent.
    pub(super) fn burn_rent(
        &mut self,
        account: Address,
        opened: Option<Address>,
        burned: Amount,
    ) -> Done {
        if burned.is_zero() {
            return Ok(());
        }
        self.debit(account, burned)?;
        self.burn(burned);
        self.events.push(Event::AccountRent {
            account,
            opened,
            burned,
        });
        Ok(())
    }

    /// The record of a provider, which is made if it has none.
    pub(super) fn ensure_provider(&mut self, address: Address) -> Done {
        if self.state.provider(&address).is_some() {
            return Ok(());
        }
        let charge = self.state.provider_charge(&address);
        let name = name_of_address(&address);
        let rent = self.move_in((RentCategory::Providers, charge), address, name)?;
        self.state.put_provider(Provider {
            rent,
            ..Provider::new(address)
        });
        Ok(())
    }

    /// Burns what a record owes, gives what is left beyond `keep` back to who paid it, and returns the rest.
    pub(super) fn settle_rent(
        &mut self,
        (category, rent): (RentCategory, Rent),
        keep: Amount,
        name: Digest,
    ) -> Result<Rent, InvariantError> {
        let reading = self.state.meters.of(category);
        let burned = rent.owed(reading);
        let left = rent.deposit.saturating_sub(burned);
        let deposit = left.min(keep);
        let returned = left.saturating_sub(deposit);
        self.burn(burned);
        if !returned.is_zero() {
            self.credit(rent.payer, returned)?;
        }
        if !burned.is_zero() || !returned.is_zero() {
            self.events.push(Event::RentSettled {
                record: name,
                payer: rent.payer,
                burned,
                returned,
            });
        }
        Ok(Rent {
            deposit,
            paid_to: reading,
            ..rent
        })
    }

    /// Moves an ended job from the open ones to those that are kept for a day.
    pub(super) fn settle_job_rent(&mut self, job: &mut Job) -> Done {
        if job.rent.bytes == 0 {
            return Ok(());
        }
        let after = (RentCategory::EndedJobs, job.rent.bytes, ENDED_JOB_STAYS);
        let keep = self.state.rent_for(after.0, after.1, after.2);
        let name = Tenant::Job(job.id).name();
        let rent = self.settle_rent((RentCategory::OpenJobs, job.rent), keep, name)?;
        job.rent = Rent {
            paid_to: self.state.meters.of(RentCategory::EndedJobs),
            ..rent
        };
        Ok(())
    }

    /// Leaves a refused model what lets it stay for a short time.
    pub(super) fn settle_refused(&mut self, model: &mut Model) -> Done {
        let bytes = model.rent.bytes;
        let keep = self
            .state
            .rent_for(RentCategory::Models, bytes, REFUSED_MODEL_STAYS);
        let name = Tenant::Model(model.id).name();
        model.rent = self.settle_rent((RentCategory::Models, model.rent), keep, name)?;
        Ok(())
    }

    /// Adds to the deposit of a record; whoever paid its first deposit gets back what is left in the end.
    pub(super) fn pay_rent(&mut self, sender: Address, name: &Digest, amount: Amount) -> Done {
        let missing = InvariantError::Missing { table: "tenants" };
        let (tenant, mut rent) = self.state.tenant(name).ok_or(missing)?;
        self.debit(sender, amount)?;
        rent.deposit = rent.deposit.saturating_add(amount);
        self.events.push(Event::RentDeposited {
            record: *name,
            payer: sender,
            deposit: amount,
            burned: Amount::ZERO,
        });
        match tenant {
            Tenant::Account(_) => {}
            Tenant::Offer(id) => {
                if let Some(offer) = self.state.offer(&id).cloned() {
                    self.state.put_offer(Offer { rent, ..offer });
                }
            }
            Tenant::Provider(address) => {
                if let Some(provider) = self.state.provider(&address).cloned() {
                    self.state.put_provider(Provider { rent, ..provider });
                }
            }
            Tenant::Model(id) => {
                if let Some(model) = self.state.model(&id).cloned() {
                    self.state.put_model(Model { rent, ..model });
                }
            }
            Tenant::Job(id) => {
                let job = self.job(&id)?;
                self.state.put_job(Job { rent, ..job });
            }
        }
        Ok(())
    }

    /// Takes away records whose rent is spent and that nothing refers to, so many of each category.
    pub(super) fn expire_due(&mut self) -> Done {
        for category in RentCategory::ALL {
            for _ in 0..EXPIRIES_PER_CATEGORY_MAX {
                let reading = self.state.meters.of(category);
                let first = self.state.first_due(category);
                let Some((_, tenant)) = first.filter(|(ends_at, _)| *ends_at < reading) else {
                    break;
                };
                self.expire(tenant)?;
            }
        }
        Ok(())
    }

    /// Ends a record for want of rent, or because another one pays more for its place.
    fn expire(&mut self, tenant: Tenant) -> Done {
        let owner = match tenant {
            Tenant::Account(address) => return self.renew_account(address),
            Tenant::Offer(id) => self.remove_offer(&id)?,
            Tenant::Provider(address) => self.remove_provider(address)?,
            Tenant::Model(id) => self.remove_model(&id)?,
            Tenant::Job(id) => self.remove_job(&id)?,
        };
        self.events.push(Event::RecordExpired {
            record: tenant.name(),
            kind: tenant.kind(),
            owner,
        });
        Ok(())
    }

    /// Takes an account's rent for a day from its balance. One that cannot pay, and that no record belongs to, ends.
    fn renew_account(&mut self, address: Address) -> Done {
        let missing = InvariantError::Missing {
            table: Account::NAME,
        };
        let account = self.state.account(&address).ok_or(missing)?.clone();
        let day = self
            .state
            .rent_for(RentCategory::Accounts, ACCOUNT_BYTES, ACCOUNT_RENEWAL);
        let paid = day.min(account.balance);
        let can_pay = paid == day;
        let is_needed = account.open_jobs + account.offers + account.models + account.bids > 0
            || self.state.provider(&address).is_some()
            || self.state.validators.iter().any(|it| it.address == address)
            || self.state.seats.names(&address);
        // What an account lives by that other records keep alive: they pay for themselves.
        let until = self
            .state
            .rent_for(RentCategory::Accounts, 1, ACCOUNT_RENEWAL);
        let reading = self.state.meters.of(RentCategory::Accounts);
        if can_pay || !is_needed {
            self.burn_rent(address, None, paid)?;
        }
        if can_pay || is_needed {
            return self.update_account(address, |account| {
                // At least one base unit further, or it would be due again at once.
                account.rent_to = reading.saturating_add(until.get().max(1));
            });
        }
        self.state.remove_account(&address);
        self.events.push(Event::RecordExpired {
            record: name_of_address(&address),
            kind: kind::ACCOUNT,
            owner: address,
        });
        Ok(())
    }

    /// Takes an offer out of the state and gives back what is left of its deposit.
    pub(super) fn remove_offer(&mut self, id: &OfferId) -> Result<Address, InvariantError> {
        let missing = InvariantError::Missing { table: Offer::NAME };
        let offer = self.state.offer(id).ok_or(missing)?.clone();
        let name = Tenant::Offer(*id).name();
        self.settle_rent((RentCategory::Offers, offer.rent), Amount::ZERO, name)?;
        self.state.remove_offer(id);
        self.update_account(offer.provider, |account| {
            account.offers = account.offers.saturating_sub(1);
        })?;
        Ok(offer.provider)
    }

    fn remove_provider(&mut self, address: Address) -> Result<Address, InvariantError> {
        let missing = InvariantError::Missing {
            table: Provider::NAME,
        };
        let rent = self.state.provider(&address).ok_or(missing)?.rent;
        let name = name_of_address(&address);
        self.settle_rent((RentCategory::Providers, rent), Amount::ZERO, name)?;
        self.state.remove_provider(&address);
        Ok(address)
    }

    /// Takes a model out of the state and gives back what is left of its deposit.
    pub(super) fn remove_model(&mut self, id: &ModelId) -> Result<Address, InvariantError> {
        let missing = InvariantError::Missing { table: Model::NAME };
        let model = self.state.model(id).ok_or(missing)?.clone();
        let name = Tenant::Model(*id).name();
        // Nobody is left to answer whether its files were missing.
        if model.storage.recheck.is_some() {
            self.settle_declined(*id, Settled::Returned)?;
        }
        self.settle_rent((RentCategory::Models, model.rent), Amount::ZERO, name)?;
        self.state.models.remove(id);
        self.update_account(model.owner, |account| {
            account.models = account.models.saturating_sub(1);
        })?;
        Ok(model.owner)
    }

    /// A job that waits ends and stays for a while; one that ended leaves the state.
    fn remove_job(&mut self, id: &JobId) -> Result<Address, InvariantError> {
        let job = self.job(id)?;
        let requestor = job.requestor;
        if job.state().is_final() {
            self.forget_job(&job)?;
            return Ok(requestor);
        }
        self.end_unpaid(job, Unpaid::Rent)?;
        Ok(requestor)
    }

    /// Takes an ended job out of the state, with its leases.
    pub(super) fn forget_job(&mut self, job: &Job) -> Done {
        let name = Tenant::Job(job.id).name();
        self.settle_rent((RentCategory::EndedJobs, job.rent), Amount::ZERO, name)?;
        for id in &job.leases() {
            // A penalty that waits for an answer about a model would leave with its lease.
            self.settle_penalties(std::slice::from_ref(id), Settled::Returned)?;
            let lease = self.lease(id)?;
            self.settle_penalties(lease.members(), Settled::Returned)?;
            for member in lease.members() {
                self.state.leases.remove(member);
            }
            self.state.leases.remove(id);
        }
        let ended = job.history.last().map_or(0, |step| step.height.get());
        self.state.ended.remove(&(ended, job.sequence));
        self.state.jobs.remove(&job.id);
        Ok(())
    }
}
