//! From the ledger's records to wire types.

use tg_ledger::{
    Bid, Model, ModelState, Offer, Parameters, RefusedBecause, RentCategory, Session, State,
    UnverifiedJobs,
};
use tg_sdk::dto::{
    AccountDto, BidDto, JobCountsDto, ModePriceDto, ModelDto, ModelFactsDto, ModelStateDto,
    OfferDto, ParametersDto, ProviderDto, QuoteDto, RentDto, RentKindDto, ReputationDto,
    SessionDto, StatusDto, TotalsDto,
};
use tg_types::limits::ATTEMPTS_USUAL;
use tg_types::resources::REPLICAS_USUAL;
use tg_types::{
    Address, Amount, Digest, DurationMs, JobNeeds, JobOrder, NonceLane, VerificationMode,
};

mod event;
mod job;
mod seats;
mod state;
mod why;

pub use event::events;
pub use job::{job, lease, receipt, settlement};
pub use seats::seats;
pub use state::job_state;
use state::lacks;
pub use why::{dry_run, why};

/// What the grid is and where it stands.
#[must_use]
pub fn status(network: &str, development: bool, state: &State) -> StatusDto {
    let head = state.head();
    let money = state.money();
    let submitted = state.submitted_jobs().count() as u64;
    let queued = state.queued_jobs().count() as u64;
    let active = state.live_leases().count() as u64;
    StatusDto {
        network: network.to_owned(),
        development,
        domain: state.domain().into(),
        height: head.height.get(),
        block: head.block,
        state_root: state.root(),
        timestamp_ms: head.timestamp.get(),
        ledger_time_ms: head.time.get(),
        validators: u32::try_from(state.validators().len()).unwrap_or(u32::MAX),
        base_fee_per_gas: state.base_fee(),
        parameters: parameters(state.parameters()),
        totals: TotalsDto {
            minted: money.minted,
            balances: money.balances,
            // What secures rent is locked by records as escrow is by jobs.
            escrow: money.escrow.saturating_add(money.deposits),
            stake: money.stakes,
            collateral: money.collateral,
            burned: money.burned,
        },
        jobs: JobCountsDto {
            submitted,
            queued,
            active,
            ended: state
                .totals()
                .jobs
                .saturating_sub(submitted + queued + active),
        },
    }
}

fn parameters(parameters: &Parameters) -> ParametersDto {
    ParametersDto {
        base_fee_min: parameters.base_fee_min,
        registration_fee: parameters.registration_fee,
        zk_verification_fee: parameters.verification_fee_zk,
        job_price_min: parameters.job_price_min,
        collateral_min: parameters.collateral_min,
        unverified_jobs: parameters.unverified_jobs == UnverifiedJobs::Allowed,
        job_horizon_ms: parameters.job_horizon.get(),
        auction_slot_ms: parameters.auction_slot.get(),
        bid_deposit_min: parameters.bid_deposit_min,
    }
}

/// A sealed bid.
#[must_use]
pub fn bid(state: &State, bid: &Bid) -> BidDto {
    let begins = |slot: u64| state.parameters().slot_begins(slot).get();
    BidDto {
        id: bid.id,
        bidder: bid.bidder,
        deposit: bid.deposit,
        slot: bid.slot,
        opens_ms: begins(bid.slot.saturating_add(1)),
        closes_ms: begins(bid.slot.saturating_add(2)),
    }
}

/// An account, with the nonces of the next transactions of its lanes.
#[must_use]
pub fn account(
    state: &State,
    address: Address,
    next_nonce: impl Fn(&NonceLane) -> u64,
) -> AccountDto {
    let sum = |amounts: &mut dyn Iterator<Item = Amount>| {
        amounts.fold(Amount::ZERO, Amount::saturating_add)
    };
    let live = || state.live_leases();
    let queued = state.queued_jobs().filter(|job| job.requestor == address);
    let running = live().filter(|(job, _)| job.requestor == address);
    let escrow = sum(&mut queued
        .chain(running.map(|(job, _)| job))
        .map(|job| job.escrow()));
    let leases = live().filter(|(_, lease)| lease.provider == address);
    let sessions = state.account(&address).map(|it| it.sessions.iter());
    let sessions = sessions.into_iter().flatten();
    let session = |it: &Session| SessionDto {
        key: Digest::new(it.key),
        scope: it.scope.to_string(),
        cap: it.cap,
        spent: it.spent,
        at_risk: it.at_risk,
        expires_ms: it.expires.get(),
        nonce: next_nonce(&NonceLane::Session(address, it.key)),
    };
    AccountDto {
        address,
        balance: state.balance(&address),
        escrow,
        collateral: sum(&mut leases.map(|(_, lease)| lease.locked())),
        nonce: next_nonce(&NonceLane::Account(address)),
        sessions: sessions.map(session).collect(),
    }
}

/// A model. One that was admitted waits until enough validators hold its files: orders of it are refused before.
#[must_use]
pub fn model(state: &State, model: &Model) -> ModelDto {
    let is_held = state.is_held(&model.storage);
    let (state, facts, refusal) = match &model.state {
        ModelState::Pending => (ModelStateDto::Pending, None, None),
        ModelState::Active(facts) => {
            let facts = ModelFactsDto {
                program: facts.program,
                tier: facts.tier.to_string(),
                macs: facts.macs,
                input_len: facts.input_len,
                output_len: facts.output_len,
                provable: facts.provable,
            };
            let state = match is_held {
                true => ModelStateDto::Active,
                false => ModelStateDto::Pending,
            };
            (state, Some(facts), None)
        }
        ModelState::Refused(because) => {
            let text = match because {
                RefusedBecause::Check { code, check } => {
                    format!("check {} failed (code {code})", check.as_str())
                }
                RefusedBecause::NotDelivered => {
                    "validators could not get its public part in time".to_owned()
                }
            };
            (ModelStateDto::Refused, None, Some(text))
        }
    };
    ModelDto {
        id: model.id,
        name: model.name.as_str().to_owned(),
        owner: model.owner,
        state,
        public_blob: model.public_blob,
        weights_blob: model.weights_blob,
        registered_ms: model.registered_at.get(),
        facts,
        refusal,
    }
}

/// The rent of the record that `PayRent` names so; nothing if there is none.
#[must_use]
pub fn rent(state: &State, record: Digest) -> Option<RentDto> {
    let standing = state.rent_of(&record)?;
    let kind = match standing.category {
        RentCategory::Offers => RentKindDto::Offer,
        RentCategory::Providers => RentKindDto::Provider,
        RentCategory::Models => RentKindDto::Model,
        RentCategory::OpenJobs | RentCategory::EndedJobs => RentKindDto::Job,
        RentCategory::Accounts | RentCategory::Bids | RentCategory::Retained => return None,
    };
    Some(RentDto {
        record,
        kind,
        payer: standing.payer,
        left: standing.left,
        per_day: standing.per_day,
        lasts_ms: standing.lasts.get(),
    })
}

/// An open offer with its provider's history.
#[must_use]
pub fn offer(state: &State, offer: &Offer) -> OfferDto {
    OfferDto {
        id: offer.id,
        provider: offer.provider,
        terms: (&offer.terms).into(),
        leases: offer.slots_taken,
        offline: state
            .provider(&offer.provider)
            .is_some_and(|it| it.is_offline),
        reputation: reputation(state, &offer.provider),
    }
}

fn reputation(state: &State, provider: &Address) -> ReputationDto {
    state
        .provider(provider)
        .map_or_else(ReputationDto::default, |provider| ReputationDto {
            accepted: provider.record.accepted,
            rejected: provider.record.rejected,
            late: provider.record.late,
            abandoned: provider.record.abandoned,
            earned: provider.earned,
            lost: provider.lost,
            suspended_until_ms: provider.suspended_until.get(),
        })
}

/// Most offers that are shown with a provider.
const PROVIDER_OFFERS_MAX: usize = 100;

/// A provider with its history and its first open offers.
#[must_use]
pub fn provider(state: &State, address: Address) -> ProviderDto {
    let offers = state
        .offers()
        .iter()
        .filter(|offer| offer.provider == address);
    ProviderDto {
        address,
        balance: state.balance(&address),
        reputation: reputation(state, &address),
        offers: offers
            .take(PROVIDER_OFFERS_MAX)
            .map(|it| offer(state, it))
            .collect(),
        sealing_key: state.provider(&address).and_then(|it| it.sealing.clone()),
    }
}

/// What each way of checking would come to for one usual job on a model, of which a wrong answer would cost so much.
#[must_use]
pub fn mode_prices(state: &State, model: &Model, value_at_risk: Amount) -> Vec<ModePriceDto> {
    let prices = VerificationMode::ALL.into_iter().map(|mode| {
        let refused = state.orderable(&model.id, mode).err();
        let order = match refused {
            Some(_) => None,
            None => usual_order(state, model, (mode, value_at_risk), None),
        };
        let run_whole = order.as_ref().is_some_and(|it| state.is_run_whole(it));
        let assessed = order.and_then(|order| state.assess_order(&order));
        let assessed = assessed.unwrap_or_default();
        let serving = assessed
            .iter()
            .filter(|it| it.broken.iter().all(|it| it.may_pass()));
        let asks = serving.clone().filter_map(|it| it.quote);
        let cheapest = asks.min_by_key(|quote| (quote.price, quote.duration));
        ModePriceDto {
            mode: mode.into(),
            refused: refused.map(|it| it.to_string()),
            run_whole,
            offers: serving.count() as u64,
            price: cheapest.and_then(|quote| match mode {
                VerificationMode::Replicate => quote
                    .price
                    .checked_mul_div_ceil(u64::from(REPLICAS_USUAL), 1),
                _ => Some(quote.price),
            }),
            verification_fee: state.parameters().verification_fee(mode),
            eta_ms: cheapest.map(|quote| quote.duration.get()),
        }
    });
    prices.collect()
}

/// One usual job on a model; without a maximum price, that of an order that names none. Nothing if the model is not active.
fn usual_order(
    state: &State,
    model: &Model,
    (mode, value_at_risk): (VerificationMode, Amount),
    max_price: Option<Amount>,
) -> Option<JobOrder> {
    let ModelState::Active(facts) = &model.state else {
        return None;
    };
    let horizon = state.parameters().job_horizon;
    let mut order = JobOrder {
        model: model.id,
        input: Digest::default(),
        input_len: facts.input_len,
        mode,
        max_price: Amount::ZERO,
        deadline: state.head().time.saturating_add(horizon),
        max_attempts: ATTEMPTS_USUAL,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds {
            value_at_risk,
            gang: match mode {
                VerificationMode::Replicate => REPLICAS_USUAL,
                _ => 1,
            },
            ..JobNeeds::ANY_MACHINE
        },
    };
    let usual = || state.usual_max_price(&order).unwrap_or(Amount::MAX);
    order.max_price = max_price.unwrap_or_else(usual);
    Some(order)
}

/// What every open offer would ask for one job on a model: those that fit first, in the order of the scheduler.
/// Without a maximum price, that of an order that names none stands in for it.
#[must_use]
pub fn quotes(
    state: &State,
    model: &Model,
    (mode, value_at_risk): (VerificationMode, Amount),
    max_price: Option<Amount>,
) -> Vec<QuoteDto> {
    let Some(order) = usual_order(state, model, (mode, value_at_risk), max_price) else {
        return Vec::new();
    };
    let assessments = state.assess_order(&order).unwrap_or_default();
    let quotes = assessments
        .iter()
        .enumerate()
        .filter_map(|(rank, assessment)| {
            let standing = state.offer(&assessment.offer)?;
            Some(QuoteDto {
                offer: offer(state, standing),
                price: assessment.quote.map(|quote| quote.price),
                verification_fee: state.parameters().verification_fee(mode),
                eta_ms: assessment
                    .quote
                    .map_or(DurationMs::ZERO, |quote| quote.duration)
                    .get(),
                lacks: lacks(assessment.broken.iter().map(|it| it.explanation())),
                chosen: rank == 0 && assessment.broken.is_empty(),
                max_price: order.max_price,
                serves: assessment.broken.iter().all(|it| it.may_pass()),
            })
        });
    quotes.collect()
}
