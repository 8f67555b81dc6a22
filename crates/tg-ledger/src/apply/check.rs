//! Validity of transactions. Everything is checked here, before anything is changed.

use tg_types::limits::{
    ATTEMPTS_MAX, EVIDENCE_BYTES_MAX, RETENTION_MAX, RETENTION_MIN, TRACE_EVIDENCE_BYTES_MAX,
};
use tg_types::{
    Address, Amount, CheckedSignatures, Digest, DurationMs, JobId, JobOrder, Lane, LeaseId,
    ModelId, OfferTerms, Receipt, SignedTransaction, TimestampMs, Transaction, VerificationMode,
    VerifiedTransaction,
};

mod endpoint;
mod equivocation;
mod market;
mod outcome;
mod replicas;
mod sealed;
mod seats;
mod sessions;
mod storage;
mod sync;
mod upgrade;

use outcome::{Check, Spent};

pub(super) use sessions::lease_at_risk;

use super::execution::Execution;
use super::gas::Fee;
use crate::error::{NeedsProblem, TransactionError};
use crate::gas::order_gas;
use crate::limits::{
    ACCOUNTS_MAX, MODELS_MAX, MODELS_PER_ACCOUNT_MAX, OFFERS_MAX, OFFERS_PER_ACCOUNT_MAX,
    OPEN_JOBS_MAX, OPEN_JOBS_PER_ACCOUNT_MAX, PROVIDERS_MAX,
};
use crate::record::{Account, Job, JobState, Lease, ModelState, SyncStage};
use crate::rent::{MODEL_BYTES, OFFER_BYTES, RentCategory};
use crate::state::State;

/// Checks that `transaction` is valid in `state` at `now`. Returns the fee that it pays.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
pub(super) fn check(
    state: &State,
    now: TimestampMs,
    transaction: &VerifiedTransaction,
) -> Result<Fee, TransactionError> {
    let sender = transaction.sender();
    let account = state
        .account(&sender)
        .cloned()
        .unwrap_or(Account::new(sender, Amount::ZERO));
    let session = match transaction.lane().session() {
        Some(key) => {
            let asked = transaction.transaction();
            Some(sessions::check_session(&account, key, now, asked)?)
        }
        None => None,
    };
    let expected = session.map_or(account.nonce, |it| it.nonce);
    check_nonce(expected, transaction.nonce())?;
    let spent = match transaction.transaction() {
        Transaction::Transfer { to, amount } => check_transfer(state, to, *amount)?,
        Transaction::RegisterModel { model, .. } => check_register(state, &account, model)?,
        Transaction::PostOffer { terms } => check_offer(state, &account, terms)?,
        Transaction::WithdrawOffer { offer } => market::check_withdraw(state, sender, offer)?,
        Transaction::SubmitJob { order } => {
            if order.needs.lane() == Lane::Auction {
                return Err(TransactionError::BidNeeded);
            }
            check_held_order(state, now, &account, order)?
        }
        Transaction::CancelJob { job } => check_cancel(state, sender, job)?,
        Transaction::StartLease { lease } => {
            let (held, _) = held_lease(state, sender, lease, JobState::Leased)?;
            sealed::check_start(held)?;
            market::check_start(now, held)?
        }
        Transaction::CommitReceipt { lease, receipt } => {
            check_receipt(state, sender, lease, receipt)?
        }
        Transaction::SubmitEvidence {
            lease,
            evidence,
            size,
        } => check_evidence(state, sender, lease, (evidence, *size))?,
        Transaction::UpdateOffer { offer, terms } => {
            market::check_update(state, now, sender, offer, terms)?
        }
        Transaction::CommitBid { deposit, .. } => market::check_bid(state, &account, *deposit)?,
        Transaction::RevealBid { bid, salt, order } => {
            // Whether validators hold the files of its model is nothing that a bidder answers for with its deposit: if
            // they lost them since it was sealed, the job waits for them.
            let back = market::check_reveal(state, now, sender, bid, salt, order)?;
            check_order(state, now, &account, order)?.saturating_sub(back)
        }
        Transaction::RateJob { job, stars } => market::check_rating(state, sender, job, *stars)?,
        Transaction::RaiseJob {
            job,
            max_price,
            max_attempts,
        } => market::check_raise(state, now, sender, job, (*max_price, *max_attempts))?,
        Transaction::PayRent { record, amount } => check_pay_rent(state, record, *amount)?,
        Transaction::RegisterSessionKey { key, expires, .. } => {
            sessions::check_register(state, now, &account, (key, *expires))?
        }
        Transaction::RevokeSessionKey { key } => {
            sessions::check_revoke(&account, key)?;
            Amount::ZERO
        }
        Transaction::JoinValidators {
            key,
            endpoint,
            possession,
        } => seats::check_join(state, sender, key, endpoint, possession)?,
        Transaction::LeaveValidators { key } => {
            seats::check_leave(state, sender, key)?;
            Amount::ZERO
        }
        Transaction::ReadyForProtocol { version } => {
            // Paid by its stake: a validator is ready for each version once.
            upgrade::check_ready(state, sender, *version)?;
            Amount::ZERO
        }
        Transaction::ReportEquivocation { proof } => {
            equivocation::check_equivocation(state, proof)?;
            Amount::ZERO
        }
        Transaction::ReportLiveness { epoch, lost, back } => {
            // Paid by its stake: a validator reports once an epoch, and may own nothing yet.
            market::check_report(state, sender, *epoch, lost, back)?;
            Amount::ZERO
        }
        Transaction::ReportStorage { held, missing } => {
            storage::check_storage_report(state, sender, held, missing)?;
            Amount::ZERO
        }
        Transaction::PostDealing { round, .. } => {
            sync::check_dealing(state, sender, *round)?;
            Amount::ZERO
        }
        Transaction::CommitVotes { votes } => {
            sync::check_sealed(state, sender, votes)?;
            Amount::ZERO
        }
        Transaction::RevealVotes { votes } => {
            sync::check_opened(state, sender, votes)?;
            Amount::ZERO
        }
        Transaction::ChallengeResult { lease } => sync::check_challenge(state, sender, lease)?,
        Transaction::AskStored { job, seat } => storage::check_ask(state, now, job, seat)?,
        Transaction::ArgueResult { lease, size, .. } => {
            sync::check_argument(state, sender, lease, *size)?;
            Amount::ZERO
        }
        Transaction::SettleEndpoint { lease, voucher, .. } => {
            let (held, job) = held_lease(state, sender, lease, JobState::Running)?;
            endpoint::check_settlement(state, held, job, voucher.as_ref())?
        }
        Transaction::RegisterSealingKey { .. } => sealed::check_register(state, sender)?,
        Transaction::GrantKey { lease, .. } => sealed::check_grant(state, now, sender, lease)?,
        Transaction::RevealKey { lease, .. } => sealed::check_reveal(state, sender, lease)?,
        Transaction::DeclineLease { lease, reason } => {
            let (held, _) = held_lease(state, sender, lease, JobState::Leased)?;
            sealed::check_decline(held, *reason)?;
            Amount::ZERO
        }
        Transaction::CommitPart { lease, receipt } => {
            check_part(state, now, sender, (lease, receipt))?
        }
        Transaction::SealResult { lease, .. } => {
            let (held, job) = held_lease(state, sender, lease, JobState::Running)?;
            replicas::check_seal(held, job)?;
            Amount::ZERO
        }
        Transaction::OpenResult {
            lease,
            receipt,
            salt,
        } => {
            let (held, job) = held_lease(state, sender, lease, JobState::Committed)?;
            replicas::check_open(held, receipt, salt)?;
            check_claims(state, job, receipt)?
        }
    };
    let mut fee = Fee::of(state, transaction)?;
    let needed = spent.saturating_add(fee.sum());
    if needed > account.balance {
        return Err(TransactionError::InsufficientFunds {
            needed,
            balance: account.balance,
        });
    }
    if let Some(session) = session {
        let kept = kept_of_bid(state, now, &account, transaction.transaction());
        let needed = needed.saturating_add(kept);
        sessions::check_cap(state, session, transaction, needed)?;
        fee.counted = needed;
    }
    Ok(fee)
}

/// Whether a transaction whose turn has not come may wait for it: its sender has an account, and if it is of a prepaid
/// kind, what it serves is the sender's and not over.
pub(super) fn check_ahead(state: &State, transaction: &VerifiedTransaction) -> Check {
    let sender = transaction.sender();
    let Some(account) = state.account(&sender) else {
        return Err(TransactionError::NoAccount { sender });
    };
    if let Some(key) = transaction.lane().session() {
        let asked = transaction.transaction();
        sessions::check_session(account, key, state.head.time, asked)?;
    }
    match transaction.transaction() {
        Transaction::StartLease { lease }
        | Transaction::DeclineLease { lease, .. }
        | Transaction::CommitPart { lease, .. }
        | Transaction::SealResult { lease, .. }
        | Transaction::OpenResult { lease, .. }
        | Transaction::CommitReceipt { lease, .. }
        | Transaction::SubmitEvidence { lease, .. } => {
            check_holder(state, sender, lease).map(|_| ())
        }
        Transaction::ArgueResult { lease, size, .. } => {
            sync::check_argument(state, sender, lease, *size)
        }
        Transaction::RevealBid { bid, .. } => market::check_bidder(state, sender, bid).map(|_| ()),
        // What validators say many times is looked at before its turn, so that a faulty one fills no more places than it has duties.
        Transaction::ReportStorage { held, missing } => {
            storage::check_storage_report(state, sender, held, missing)
        }
        Transaction::CommitVotes { votes } => sync::check_sealed(state, sender, votes),
        Transaction::RevealVotes { votes } => sync::check_opened(state, sender, votes),
        Transaction::ReportLiveness { .. }
        | Transaction::PostDealing { .. }
        | Transaction::ReadyForProtocol { .. } => market::check_validator(state, sender),
        _ => Ok(()),
    }
}

fn check_nonce(expected: u64, got: u64) -> Check {
    match got.cmp(&expected) {
        std::cmp::Ordering::Less => Err(TransactionError::NonceUsed { expected, got }),
        std::cmp::Ordering::Greater => Err(TransactionError::NonceGap { expected, got }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

impl Execution {
    /// The fee that a transaction pays in this block, if it is valid.
    pub(super) fn admit(
        &self,
        transaction: &SignedTransaction,
        signatures: &CheckedSignatures,
    ) -> Result<(VerifiedTransaction, Fee), TransactionError> {
        let verified = transaction
            .verify_once(self.state.domain(), signatures)
            .map_err(TransactionError::Signature)?;
        let fee = check(&self.state, self.now, &verified)?;
        Ok((verified, fee))
    }

    /// Whether `requestor` could submit `order` now, with the money for it.
    pub(crate) fn check_order(&self, requestor: Address, order: &JobOrder) -> Check {
        let account = self
            .state
            .account(&requestor)
            .cloned()
            .unwrap_or(Account::new(requestor, Amount::ZERO));
        let spent = check_held_order(&self.state, self.now, &account, order)?;
        let gas = order_gas(order);
        let needed = spent.saturating_add(self.state.fee_market.price(gas));
        match needed > account.balance {
            true => Err(TransactionError::InsufficientFunds {
                needed,
                balance: account.balance,
            }),
            false => Ok(()),
        }
    }
}

fn check_transfer(state: &State, to: &Address, amount: Amount) -> Spent {
    if state.account(to).is_some() {
        return Ok(amount);
    }
    if state.accounts.len() >= ACCOUNTS_MAX {
        return Err(TransactionError::TooManyAccounts {
            limit: ACCOUNTS_MAX,
        });
    }
    let floor = state.parameters.account_min;
    if amount < floor {
        return Err(TransactionError::TooLittleForNewAccount {
            to: *to,
            got: amount,
            floor,
        });
    }
    Ok(amount.saturating_add(state.account_charge()))
}

fn check_pay_rent(state: &State, record: &Digest, amount: Amount) -> Spent {
    match state.tenant(record) {
        None => Err(TransactionError::NoTenant { record: *record }),
        Some(_) if amount.is_zero() => Err(TransactionError::NoRent),
        Some(_) => Ok(amount),
    }
}

fn check_register(state: &State, account: &Account, model: &ModelId) -> Spent {
    let charge = state.charge(RentCategory::Models, MODEL_BYTES);
    match state.model(model).map(|it| &it.state) {
        Some(ModelState::Pending | ModelState::Active(_)) => {
            return Err(TransactionError::ModelExists { model: *model });
        }
        // A refused id may be registered again, so that nobody can block an id with a bad blob.
        Some(ModelState::Refused(_)) => {}
        None if !state.has_room(RentCategory::Models, &charge) => {
            return Err(TransactionError::TooManyModels { limit: MODELS_MAX });
        }
        None => {}
    }
    if account.models >= MODELS_PER_ACCOUNT_MAX {
        return Err(TransactionError::TooManyModelsOfAccount {
            limit: MODELS_PER_ACCOUNT_MAX,
        });
    }
    Ok(state
        .parameters
        .registration_fee
        .saturating_add(charge.total()))
}

fn check_offer(state: &State, account: &Account, terms: &OfferTerms) -> Spent {
    market::check_terms(state, terms)?;
    sealed::check_modes(state, account.address, terms.modes)?;
    let charge = state.charge(RentCategory::Offers, OFFER_BYTES);
    if !state.has_room(RentCategory::Offers, &charge) {
        return Err(TransactionError::TooManyOffers { limit: OFFERS_MAX });
    }
    if account.offers >= OFFERS_PER_ACCOUNT_MAX {
        return Err(TransactionError::TooManyOffersOfAccount {
            limit: OFFERS_PER_ACCOUNT_MAX,
        });
    }
    let record = state.provider_charge(&account.address);
    if record.bytes > 0 && !state.has_room(RentCategory::Providers, &record) {
        return Err(TransactionError::TooManyProviders {
            limit: PROVIDERS_MAX,
        });
    }
    Ok(charge.total().saturating_add(record.total()))
}

/// Checks an order, and that validators hold the files of its model.
fn check_held_order(state: &State, now: TimestampMs, account: &Account, order: &JobOrder) -> Spent {
    let spent = check_order(state, now, account, order)?;
    let model = state.model(&order.model);
    match model.filter(|it| !state.is_held(&it.storage)) {
        Some(model) => Err(TransactionError::ModelNotHeld {
            model: model.id,
            held: model.storage.held.len(),
            needed: state.quorum(),
        }),
        None => Ok(spent),
    }
}

fn check_order(state: &State, now: TimestampMs, account: &Account, order: &JobOrder) -> Spent {
    let JobOrder {
        model,
        input: _,
        input_len,
        mode,
        max_price,
        deadline,
        max_attempts,
        retention: _,
        needs,
    } = order;
    let facts = state.orderable(model, *mode)?;
    if *mode == VerificationMode::Endpoint {
        endpoint::check_order(order)?;
    } else if *mode == VerificationMode::Sealed {
        sealed::check_order(order, facts)?;
    } else if !facts.takes(*input_len) {
        return Err(TransactionError::WrongInputLength {
            expected: facts.input_len,
            got: *input_len,
        });
    }
    let parameters = &state.parameters;
    if *max_price < parameters.job_price_min {
        return Err(TransactionError::PriceTooLow {
            max_price: *max_price,
            floor: parameters.job_price_min,
        });
    }
    if *deadline <= now {
        return Err(TransactionError::DeadlineInThePast {
            deadline: *deadline,
            now,
        });
    }
    let latest = now.saturating_add(parameters.job_horizon);
    if *deadline > latest {
        return Err(TransactionError::DeadlineTooFar {
            deadline: *deadline,
            latest,
        });
    }
    if *max_attempts == 0 || *max_attempts > ATTEMPTS_MAX {
        return Err(TransactionError::BadAttempts {
            got: *max_attempts,
            limit: ATTEMPTS_MAX,
        });
    }
    market::check_needs(state, needs)?;
    if *mode == VerificationMode::Replicate && needs.gang < 2 {
        let problem = NeedsProblem::Replicas;
        return Err(TransactionError::BadNeeds { problem });
    }
    let charge = state.job_charge(order, now);
    if !state.has_room_for_job(order, &charge) {
        return Err(TransactionError::TooManyOpenJobs {
            limit: OPEN_JOBS_MAX,
        });
    }
    if account.open_jobs >= OPEN_JOBS_PER_ACCOUNT_MAX {
        return Err(TransactionError::TooManyOpenJobsOfAccount {
            limit: OPEN_JOBS_PER_ACCOUNT_MAX,
        });
    }
    let kept = check_retention(state, now, order)?;
    let escrow = max_price.saturating_add(parameters.verification_fee(*mode));
    let locked = escrow.saturating_add(charge.total());
    Ok(locked.saturating_add(kept))
}

/// Checks that the answer of an order can be kept for as long as it asks. Returns the price of that.
fn check_retention(state: &State, now: TimestampMs, order: &JobOrder) -> Spent {
    let got = order.retention;
    let is_kept = got > DurationMs::ZERO;
    if is_kept && !(RETENTION_MIN..=RETENTION_MAX).contains(&got) {
        return Err(TransactionError::BadRetention { got });
    }
    // What a bid orders is kept if it can be, and is a job in any case.
    if order.needs.lane() == Lane::Auction {
        return Ok(Amount::ZERO);
    }
    let charge = state.retention_charge(order, now);
    match state.has_room_for_answer(charge.bytes) {
        true => Ok(charge.total()),
        false => Err(TransactionError::NoRoomForAnswer),
    }
}

/// What keeping the answer of a bid may cost the bidder that opens it, beside the order itself: zero if there is no room or no money for it,
/// since the bid is then accepted without.
/// Stops: a stolen session key that opens bids whose answers are kept, beyond its cap.
fn kept_of_bid(
    state: &State,
    now: TimestampMs,
    account: &Account,
    transaction: &Transaction,
) -> Amount {
    let Transaction::RevealBid { order, .. } = transaction else {
        return Amount::ZERO;
    };
    let charge = state.retention_charge(order, now);
    let is_kept = state.has_room_for_answer(charge.bytes) && charge.total() <= account.balance;
    match is_kept {
        true => charge.total(),
        false => Amount::ZERO,
    }
}

fn check_cancel(state: &State, sender: Address, job: &JobId) -> Spent {
    let found = state
        .job(job)
        .ok_or(TransactionError::UnknownJob { job: *job })?;
    if found.requestor != sender {
        return Err(TransactionError::NotRequestor {
            job: *job,
            requestor: found.requestor,
        });
    }
    // A result that was committed to is paid if it holds.
    if !matches!(
        found.state(),
        JobState::Submitted | JobState::Queued | JobState::Leased | JobState::Running
    ) {
        return Err(TransactionError::JobNotCancellable {
            job: *job,
            state: found.state(),
        });
    }
    let lease = found.live_lease().and_then(|it| state.lease(&it));
    if lease
        .and_then(|it| it.meter)
        .is_some_and(|it| it.ends_at.is_some())
    {
        return Err(TransactionError::EndpointEnds { job: *job });
    }
    if let Some(lease) = lease {
        sealed::check_cancel(lease)?;
    }
    Ok(Amount::ZERO)
}

/// The sender's live lease, whose job must be in the state `needed`.
fn held_lease<'a>(
    state: &'a State,
    sender: Address,
    lease: &LeaseId,
    needed: JobState,
) -> Result<(&'a Lease, &'a Job), TransactionError> {
    let unknown = TransactionError::UnknownLease { lease: *lease };
    let found = check_holder(state, sender, lease)?;
    let job = state.job(&found.job).ok_or(unknown)?;
    if job.state() != needed {
        return Err(TransactionError::WrongJobState {
            lease: *lease,
            state: job.state(),
            needed,
        });
    }
    Ok((found, job))
}

/// The sender's live lease.
fn check_holder<'a>(
    state: &'a State,
    sender: Address,
    lease: &LeaseId,
) -> Result<&'a Lease, TransactionError> {
    let unknown = TransactionError::UnknownLease { lease: *lease };
    let found = state.lease(lease).ok_or(unknown)?;
    if found.provider != sender {
        return Err(TransactionError::NotLeaseHolder {
            lease: *lease,
            provider: found.provider,
        });
    }
    if let Some(end) = found.end() {
        return Err(TransactionError::LeaseEnded {
            lease: *lease,
            end: end.as_str(),
        });
    }
    Ok(found)
}

/// Checks the commitment of a gang's member to its part.
fn check_part(
    state: &State,
    now: TimestampMs,
    sender: Address,
    (lease, receipt): (&LeaseId, &Receipt),
) -> Spent {
    let (held, job) = held_lease(state, sender, lease, JobState::Running)?;
    replicas::check_open_result(held, job)?;
    if held.lead().is_none() {
        return Err(TransactionError::NotGangMember { lease: *lease });
    }
    if held.receipt().is_some() {
        return Err(TransactionError::PartCommitted { lease: *lease });
    }
    // Stops: a part that leaves the lead no time for the result, of whose collateral whoever was so late is paid. After an outage parts wait for
    // a block as all else does.
    let least = state.parameters.least_window(state.validators.len());
    let is_late = now.saturating_add(least) > held.deadline;
    if is_late && state.windows_may_end(state.head.height.next(), now) {
        return Err(TransactionError::PartTooLate { lease: *lease });
    }
    check_claims(state, job, receipt)
}

fn check_receipt(state: &State, sender: Address, lease: &LeaseId, receipt: &Receipt) -> Spent {
    let (held, job) = held_lease(state, sender, lease, JobState::Running)?;
    replicas::check_open_result(held, job)?;
    market::check_leads(held)?;
    if held.meter.is_some() {
        return Err(TransactionError::EndpointHasNoReceipt { lease: *lease });
    }
    // Stops: a lead that is quick and leaves the others without pay.
    let mut parts = held.members().iter().filter_map(|it| state.lease(it));
    if let Some(member) = parts.find(|it| it.receipt().is_none()) {
        return Err(TransactionError::PartMissing { member: member.id });
    }
    check_claims(state, job, receipt)
}

/// Checks that a receipt is about a job.
fn check_claims(state: &State, job: &Job, receipt: &Receipt) -> Spent {
    let facts = state
        .active_model(&job.order)
        .ok_or(TransactionError::UnknownModel {
            model: job.order.model,
        })?;
    // Output and trace are the provider's claim, which the evidence must prove; the rest is known.
    let Receipt {
        program,
        model,
        input,
        output: _,
        trace: _,
        tier,
    } = receipt;
    if *tier != facts.tier {
        return Err(TransactionError::WrongTier {
            expected: facts.tier,
            got: *tier,
        });
    }
    if *program != facts.program {
        return Err(TransactionError::WrongProgram {
            expected: facts.program,
            got: *program,
        });
    }
    if *model != job.order.model {
        return Err(TransactionError::WrongModel {
            expected: job.order.model,
            got: *model,
        });
    }
    if *input != job.order.input {
        return Err(TransactionError::WrongInput {
            expected: job.order.input,
            got: *input,
        });
    }
    Ok(Amount::ZERO)
}

fn check_evidence(
    state: &State,
    sender: Address,
    lease: &LeaseId,
    (evidence, size): (&Digest, u32),
) -> Spent {
    let (held, job) = held_lease(state, sender, lease, JobState::Committed)?;
    market::check_leads(held)?;
    replicas::check_answer(held, job, evidence)?;
    sync::check_watched_answer(state, held, evidence)?;
    // Stops: an opening that was made before anybody knew what to open.
    let limit = match held.check.as_ref().map(|it| &it.stage) {
        None => EVIDENCE_BYTES_MAX,
        Some(SyncStage::AwaitsSeed) => {
            return Err(TransactionError::NotChallenged { lease: *lease });
        }
        Some(_) => TRACE_EVIDENCE_BYTES_MAX,
    };
    if size == 0 {
        return Err(TransactionError::EvidenceEmpty);
    }
    if size > limit {
        return Err(TransactionError::EvidenceTooLarge { size, limit });
    }
    Ok(Amount::ZERO)
}
