//! Execution of transactions that passed their checks.

use tg_market::view::request_of;
use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, JobOrder, Lane, LeaseId, OfferId, OfferTerms,
    Receipt, Transaction, VerificationMode, VerifiedTransaction, job_id, offer_id,
};

use super::Execution;
use super::gas::Fee;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    Account, Evidence, Job, JobPhase, JobState, Lease, Model, ModelState, Offer, OpenStage,
    Provider, Record, Step, Storage,
};
use crate::rent::{MODEL_BYTES, OFFER_BYTES, Rent, RentCategory};

type Done = Result<(), InvariantError>;

/// For how long the lowest balance of a provider is remembered: longer than the time between draws of members.
const SHORT_KEPT: DurationMs = DurationMs::from_secs(3_600);

impl Execution {
    /// Executes a valid transaction and charges its fee.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind")]
    pub(super) fn execute(&mut self, transaction: &VerifiedTransaction, fee: Fee) -> Done {
        let sender = transaction.sender();
        self.charge_fee(sender, fee)?;
        self.count_in_lane(transaction, fee.counted)?;
        self.events.push(Event::TransactionExecuted {
            id: transaction.id(),
            sender,
            kind: transaction.transaction().kind(),
            burned: fee.burned,
            tip: fee.tip,
        });
        match transaction.transaction() {
            Transaction::Transfer { to, amount } => self.transfer(sender, *to, *amount),
            Transaction::RegisterModel {
                model,
                public_blob,
                weights_blob,
                name,
            } => self.register(Model {
                id: *model,
                owner: sender,
                public_blob: *public_blob,
                weights_blob: *weights_blob,
                name: name.clone(),
                registered_at: self.now,
                registered_height: self.height,
                state: ModelState::Pending,
                storage: Storage::default(),
                owners_paid: Vec::new(),
                jobs: 0,
                rent: Rent::default(),
            }),
            Transaction::PostOffer { terms } => self.post_offer(transaction, terms),
            Transaction::WithdrawOffer { offer } => {
                self.remove_offer(offer)?;
                self.events.push(Event::OfferWithdrawn {
                    offer: *offer,
                    provider: sender,
                });
                Ok(())
            }
            Transaction::SubmitJob { order } => {
                self.submit_as(job_id(transaction.id()), sender, order)?;
                self.note_orderer(transaction)
            }
            Transaction::CancelJob { job } => {
                let job = self.job(job)?;
                self.cancel(job)
            }
            Transaction::StartLease { lease } => self.start(lease),
            Transaction::CommitReceipt { lease, receipt } => self.commit(lease, receipt),
            Transaction::SubmitEvidence {
                lease,
                evidence,
                size,
            } => self.take_evidence(lease, *evidence, *size),
            Transaction::UpdateOffer { offer, terms } => self.update_offer(offer, terms),
            Transaction::CommitBid {
                commitment,
                deposit,
            } => self.commit_bid(transaction, *commitment, *deposit),
            Transaction::RevealBid { bid, order, .. } => {
                self.reveal_bid(bid, job_id(transaction.id()))?;
                self.submit_as(job_id(transaction.id()), sender, order)?;
                self.note_orderer(transaction)
            }
            Transaction::RateJob { job, stars } => self.rate(job, *stars),
            Transaction::RaiseJob {
                job,
                max_price,
                max_attempts,
            } => self.raise(job, *max_price, *max_attempts),
            Transaction::PayRent { record, amount } => self.pay_rent(sender, record, *amount),
            Transaction::RegisterSessionKey {
                key,
                scope,
                cap,
                expires,
            } => self.register_session(sender, *key, (*scope, *cap, *expires)),
            Transaction::RevokeSessionKey { key } => self.revoke_session(sender, key),
            Transaction::JoinValidators { key, endpoint, .. } => {
                self.join_validators(sender, *key, endpoint)
            }
            Transaction::LeaveValidators { .. } => self.leave_validators(sender),
            Transaction::ReadyForProtocol { .. } => {
                self.note_ready(sender);
                Ok(())
            }
            Transaction::ReportEquivocation { proof } => self.slash_validator(sender, proof),
            Transaction::ReportLiveness { epoch, lost, back } => {
                self.report_liveness(sender, *epoch, lost, back)
            }
            Transaction::ReportStorage { held, missing } => {
                self.report_storage(sender, held, missing)
            }
            Transaction::PostDealing { log, .. } => {
                self.post_dealing(sender, log);
                Ok(())
            }
            Transaction::CommitVotes { votes } => self.commit_votes(sender, votes),
            Transaction::RevealVotes { votes } => self.reveal_votes(sender, votes),
            Transaction::ChallengeResult { lease } => self.challenge(sender, lease),
            Transaction::AskStored { job, seat } => self.ask_stored(sender, job, *seat),
            Transaction::RegisterSealingKey { key } => {
                self.register_sealing_key(sender, key.clone())
            }
            Transaction::GrantKey { lease, grant } => self.grant_key(lease, grant.clone()),
            Transaction::RevealKey { lease, key } => self.reveal_key(sender, lease, *key),
            Transaction::ArgueResult { lease, file, size } => {
                let (digest, size) = (*file, *size);
                self.argue(sender, lease, Evidence { digest, size })
            }
            Transaction::DeclineLease { lease, reason } => self.decline(lease, *reason),
            Transaction::CommitPart { lease, receipt } => self.commit_part(lease, receipt),
            Transaction::SealResult { lease, seal } => self.seal_result(lease, *seal),
            Transaction::OpenResult { lease, receipt, .. } => self.open_result(lease, receipt),
            Transaction::SettleEndpoint {
                lease,
                voucher,
                ends,
            } => self.settle_endpoint(lease, voucher.as_ref(), *ends),
        }
    }

    fn transfer(&mut self, from: Address, to: Address, amount: Amount) -> Done {
        if self.state.account(&to).is_none() {
            let charge = self.state.account_charge();
            self.burn_rent(from, Some(to), charge)?;
        }
        self.debit(from, amount)?;
        self.credit(to, amount)?;
        self.events.push(Event::Transferred { from, to, amount });
        Ok(())
    }

    fn register(&mut self, mut model: Model) -> Done {
        let charge = self.state.charge(RentCategory::Models, MODEL_BYTES);
        let fee = self.state.parameters.registration_fee;
        self.debit(model.owner, fee)?;
        self.fees = self.fees.saturating_add(fee);
        if self.state.model(&model.id).is_some() {
            self.remove_model(&model.id)?;
        }
        let name = Digest::new(*model.id.as_bytes());
        model.rent = self.move_in((RentCategory::Models, charge), model.owner, name)?;
        self.update_account(model.owner, |account| account.models += 1)?;
        self.events.push(Event::ModelChanged {
            model: model.id,
            state: ModelState::Pending,
        });
        self.state.put_model(model);
        Ok(())
    }

    fn post_offer(&mut self, transaction: &VerifiedTransaction, terms: &OfferTerms) -> Done {
        let provider = transaction.sender();
        let id = offer_id(transaction.id());
        let charge = self.state.charge(RentCategory::Offers, OFFER_BYTES);
        let name = Digest::new(*id.as_bytes());
        self.ensure_provider(provider)?;
        let rent = self.move_in((RentCategory::Offers, charge), provider, name)?;
        self.pledge(provider, terms.collateral_per_lease)?;
        self.state.put_offer(Offer {
            id,
            provider,
            terms: terms.clone(),
            slots_taken: 0,
            updated_at: self.now,
            rent,
        });
        self.update_account(provider, |account| account.offers += 1)?;
        self.events.push(Event::OfferPosted {
            offer: id,
            provider,
        });
        Ok(())
    }

    /// Records the collateral that an offer of a provider puts up for a lease.
    pub(super) fn pledge(&mut self, provider: Address, collateral: Amount) -> Done {
        let missing = InvariantError::Missing {
            table: Provider::NAME,
        };
        let mut provider = self.state.provider(&provider).ok_or(missing)?.clone();
        provider.pledges(collateral);
        self.state.put_provider(provider);
        Ok(())
    }

    /// Submits a job and locks its escrow.
    pub(crate) fn submit_as(&mut self, id: JobId, requestor: Address, order: &JobOrder) -> Done {
        let verification_fee = self.state.parameters.verification_fee(order.mode);
        let macs = self
            .state
            .active_model(order)
            .ok_or(InvariantError::Missing { table: Model::NAME })?
            .macs;
        let charge = self.state.job_charge(order, self.now);
        let name = Digest::new(*id.as_bytes());
        self.make_place(order)?;
        let rent = self.move_in((RentCategory::OpenJobs, charge), requestor, name)?;
        let escrow = order.max_price.saturating_add(verification_fee);
        self.debit(requestor, escrow)?;
        let retention = self.lock_retention(&id, requestor, order)?;
        self.update_account(requestor, |account| account.open_jobs += 1)?;
        let has_no_input = order.mode == VerificationMode::Endpoint;
        let ready = has_no_input || self.state.is_held(&Storage::default());
        let stage = match ready {
            true => OpenStage::Queued,
            false => OpenStage::Submitted,
        };
        let state = stage.state();
        let job = Job {
            id,
            sequence: self.state.totals.jobs,
            requestor,
            order: order.clone(),
            macs,
            phase: JobPhase::Open { stage, escrow },
            history: vec![Step {
                state,
                height: self.height,
                at: self.now,
                timestamp: self.timestamp,
            }],
            verification_fee,
            earlier: Vec::new(),
            excluded: Vec::new(),
            preemptions: 0,
            revealed_in: match order.needs.lane() {
                Lane::Auction => Some(self.state.parameters.slot(self.now)),
                Lane::Posted | Lane::Gang | Lane::Deadline => None,
            },
            owed: Vec::new(),
            escrow_burned: Amount::ZERO,
            served: Amount::ZERO,
            storage: Storage::default(),
            declined: 0,
            rent,
            retention,
            draw: None,
            session: None,
        };
        self.state.totals.jobs += 1;
        self.events.push(Event::JobChanged {
            job: job.id,
            requestor,
            state,
        });
        self.save_job(job);
        Ok(())
    }

    pub(crate) fn start(&mut self, id: &LeaseId) -> Done {
        let mut lease = self.lease(id)?;
        let mut job = self.job(&lease.job)?;
        lease.start(self.now)?;
        let lead = lease.lead().unwrap_or(lease.id);
        self.state.put_lease(lease);
        let lead = self.lease(&lead)?;
        let all_started = self
            .state
            .gang_of(&lead)
            .all(|member| member.started_at().is_some());
        if all_started {
            self.expect_more_of(&job);
            self.step(&mut job, OpenStage::Running(lead.id))?;
            self.save_job(job);
        }
        Ok(())
    }

    /// Records the session key with which a job was ordered.
    fn note_orderer(&mut self, transaction: &VerifiedTransaction) -> Done {
        let Some(key) = transaction.lane().session() else {
            return Ok(());
        };
        let mut job = self.job(&job_id(transaction.id()))?;
        job.session = Some(*key);
        self.save_job(job);
        Ok(())
    }

    /// Work that machines are kept for is what they were once given.
    /// Stops: orders that nobody serves or that are taken back at once, by which the machines of others are scarce or plentiful.
    fn expect_more_of(&mut self, job: &Job) {
        let is_first = job.history.iter().all(|it| it.state != JobState::Running);
        if let Some(request) = request_of(&job.order.needs).ok().filter(|_| is_first) {
            let work = &mut self.state.schedule.work;
            work.observe(&request, job.order.needs.gang);
        }
    }

    pub(crate) fn commit(&mut self, id: &LeaseId, receipt: &Receipt) -> Done {
        let mut lease = self.lease(id)?;
        let mut job = self.job(&lease.job)?;
        lease.commit(receipt.clone())?;
        self.step(&mut job, OpenStage::Committed(lease.id))?;
        match job.order.mode {
            // Nobody checks, so what is delivered is the result. An endpoint has none.
            VerificationMode::None | VerificationMode::Endpoint => self.deliver(job, lease),
            VerificationMode::Sealed => self.deliver_sealed(job, lease),
            // Results of members are sealed and opened instead, which the check before this made sure of.
            VerificationMode::Proof | VerificationMode::Recompute | VerificationMode::Replicate => {
                self.save_job(job);
                self.state.put_lease(lease);
                Ok(())
            }
            VerificationMode::Sync | VerificationMode::Optimistic => {
                lease.check = Some(self.first_check());
                if self.state.is_run_whole(&job.order) {
                    return self.deliver_with_receipt(job, lease);
                }
                self.save_job(job);
                self.state.put_lease(lease);
                Ok(())
            }
        }
    }

    /// Nobody looks at what a provider committed to, or all who do have looked: it is paid once validators hold it. Stops: pay for an answer that
    /// only its provider has, or only those who looked.
    ///
    /// The work is done, so its slot and what was granted of its machine are free for others.
    pub(super) fn deliver(&mut self, mut job: Job, mut lease: Lease) -> Done {
        let wait = self.state.parameters.verification_timeout;
        lease.deliver(self.now.saturating_add(wait))?;
        let members = lease.members().iter();
        let offers = members.filter_map(|it| self.state.lease(it).map(|it| it.offer));
        let offers: Vec<OfferId> = std::iter::once(lease.offer).chain(offers).collect();
        offers.iter().for_each(|offer| self.free_slot(offer));
        self.step(&mut job, OpenStage::Delivering(lease.id))?;
        self.state.release(&lease);
        self.save_job(job);
        self.go_on_if_held(lease)
    }

    /// Of a run that a committee repeats whole nothing is handed in beside the receipt: members find the answer that it names themselves, and
    /// keep it.
    fn deliver_with_receipt(&mut self, mut job: Job, mut lease: Lease) -> Done {
        let answer = lease.receipt().map(|it| it.output).unwrap_or_default();
        let facts = self.state.active_model(&job.order);
        let evidence = Evidence {
            digest: answer,
            size: facts.map_or(0, |it| it.output_len),
        };
        let wait = self.state.parameters.verification_timeout;
        lease.name_evidence(evidence, self.now.saturating_add(wait))?;
        self.step(&mut job, OpenStage::Verifying(lease.id))?;
        self.state.release(&lease);
        self.save_job(job);
        self.state.put_lease(lease);
        Ok(())
    }

    /// Records the part of a gang's member.
    pub(crate) fn commit_part(&mut self, id: &LeaseId, receipt: &Receipt) -> Done {
        let mut lease = self.lease(id)?;
        lease.commit(receipt.clone())?;
        self.state.put_lease(lease);
        Ok(())
    }

    fn take_evidence(&mut self, id: &LeaseId, digest: Digest, size: u32) -> Done {
        let mut lease = self.lease(id)?;
        let mut job = self.job(&lease.job)?;
        let wait = self.state.parameters.verification_timeout;
        let verify_by = self.now.saturating_add(wait);
        lease.name_evidence(Evidence { digest, size }, verify_by)?;
        self.step(&mut job, OpenStage::Verifying(lease.id))?;
        // The work is done: what was granted is free for others while validators verify.
        self.state.release(&lease);
        self.save_job(job);
        self.open_tiles(&mut lease);
        self.state.put_lease(lease);
        Ok(())
    }

    /// Subtracts money from an account.
    pub(super) fn debit(&mut self, address: Address, amount: Amount) -> Done {
        let out_of_range = InvariantError::AmountOutOfRange { account: address };
        let balance = self.state.balance(&address);
        let left = balance.checked_sub(amount).ok_or(out_of_range)?;
        self.update_account(address, |account| account.balance = left)
    }

    /// Adds money to an account, and creates the account if it does not exist.
    pub(super) fn credit(&mut self, address: Address, amount: Amount) -> Done {
        let out_of_range = InvariantError::AmountOutOfRange { account: address };
        let balance = self.state.balance(&address);
        let sum = balance.checked_add(amount).ok_or(out_of_range)?;
        if self.state.account(&address).is_none() {
            let account = Account::opened_at(self.height, address, sum);
            self.state.put_account(account);
            return Ok(());
        }
        self.note_short(&address, balance);
        self.update_account(address, |account| account.balance = sum)
    }

    /// Notes that a provider that now gets money could not put up what its offers say until now.
    fn note_short(&mut self, address: &Address, balance: Amount) {
        let provider = self.state.provider(address);
        let Some(provider) = provider.filter(|it| balance < it.pledge) else {
            return;
        };
        let was_short = self.now.saturating_since(provider.short_at) < SHORT_KEPT;
        let short_of = match was_short {
            true => balance.min(provider.short_of),
            false => balance,
        };
        if provider.short_at < self.now || short_of < provider.short_of {
            self.state.put_provider(Provider {
                short_at: self.now,
                short_of,
                ..provider.clone()
            });
        }
    }

    /// Burns money that was subtracted from somewhere.
    pub(super) fn burn(&mut self, amount: Amount) {
        let burned = &mut self.state.totals.burned;
        *burned = burned.saturating_add(amount);
    }

    /// Updates an existing account.
    pub(super) fn update_account(
        &mut self,
        address: Address,
        change: impl FnOnce(&mut Account),
    ) -> Done {
        let missing = InvariantError::Missing {
            table: Account::NAME,
        };
        let mut account = self.state.account(&address).ok_or(missing)?.clone();
        change(&mut account);
        self.state.put_account(account);
        Ok(())
    }
}
