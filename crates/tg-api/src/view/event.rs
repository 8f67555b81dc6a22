//! Events of blocks.

use tg_ledger::{BurnedBecause, Event, KeyStep, ModelState, QuestionEnd};
use tg_sdk::dto::EventDto;
use tg_types::{Address, Amount, Digest, JobId, LeaseId, ModelId};

use crate::port::FinalizedEvents;

/// The events of one block, in order.
#[must_use]
pub fn events(block: &FinalizedEvents) -> Vec<EventDto> {
    block
        .events
        .iter()
        .map(|event| {
            let parts = parts(event);
            EventDto {
                height: block.height,
                timestamp_ms: block.timestamp_ms,
                kind: parts.kind.to_owned(),
                job: parts.job,
                lease: parts.lease,
                model: parts.model,
                account: parts.account,
                amount: parts.amount,
                file: parts.file,
                text: parts.text,
            }
        })
        .collect()
}

/// What an event concerns.
#[derive(Default)]
struct Parts {
    kind: &'static str,
    job: Option<JobId>,
    lease: Option<LeaseId>,
    model: Option<ModelId>,
    account: Option<Address>,
    amount: Option<Amount>,
    file: Option<Digest>,
    text: String,
}

#[expect(clippy::too_many_lines, reason = "one arm for each event")]
fn parts(event: &Event) -> Parts {
    match event {
        Event::TransactionExecuted { sender, kind, .. } => Parts {
            kind: "transaction_executed",
            account: Some(*sender),
            text: format!("{} by {sender}", kind.as_str()),
            ..Parts::default()
        },
        Event::Transferred { from, to, amount } => Parts {
            kind: "transferred",
            account: Some(*to),
            amount: Some(*amount),
            text: format!("{amount} TGRID from {from} to {to}"),
            ..Parts::default()
        },
        Event::ModelChanged { model, state } => Parts {
            kind: match state {
                ModelState::Pending => "model_pending",
                ModelState::Active(_) => "model_active",
                ModelState::Refused(_) => "model_refused",
            },
            model: Some(*model),
            text: format!("model {model} is {}", state.as_str().to_lowercase()),
            ..Parts::default()
        },
        Event::ModelHeld { model } => Parts {
            kind: "model_held",
            model: Some(*model),
            text: format!("validators hold the files of model {model}"),
            ..Parts::default()
        },
        Event::OfferPosted { offer, provider } => Parts {
            kind: "offer_posted",
            account: Some(*provider),
            text: format!("offer {offer} by {provider}"),
            ..Parts::default()
        },
        Event::OfferWithdrawn { offer, provider } => Parts {
            kind: "offer_withdrawn",
            account: Some(*provider),
            text: format!("offer {offer} by {provider} withdrawn"),
            ..Parts::default()
        },
        Event::Rewarded { validator, amount } => Parts {
            kind: "rewarded",
            account: Some(*validator),
            amount: Some(*amount),
            text: format!("{amount} TGRID to validator {validator}"),
            ..Parts::default()
        },
        Event::SeatBonded { .. }
        | Event::SeatLeaving { .. }
        | Event::SeatsChanged { .. }
        | Event::ProtocolAnnounced { .. }
        | Event::ProtocolPutOff { .. }
        | Event::ProtocolBegan { .. }
        | Event::StakeReturned { .. } => seat_parts(event),
        Event::ValidatorSlashed {
            validator,
            burned,
            reporter,
            ..
        } => Parts {
            kind: "validator_slashed",
            account: Some(*validator),
            amount: Some(*burned),
            text: format!(
                "validator {validator} signed contradicting votes, as {reporter} showed: {burned} TGRID burned"
            ),
            ..Parts::default()
        },
        Event::SeedRound { .. }
        | Event::SeedKeyMade { .. }
        | Event::SeedSigned { .. }
        | Event::CommitteeDrawn { .. }
        | Event::ResultDisputed { .. }
        | Event::KeyChanged { .. }
        | Event::ResultArgued { .. }
        | Event::AccusationRefuted { .. }
        | Event::VoteRefuted { .. }
        | Event::ReplicasDiffer { .. }
        | Event::RunCharged { .. }
        | Event::ChallengeHeld { .. }
        | Event::ChallengeShared { .. }
        | Event::ChallengeReturned { .. } => sync_parts(event),
        Event::OfferUpdated { .. }
        | Event::BidCommitted { .. }
        | Event::BidRevealed { .. }
        | Event::BidForfeited { .. }
        | Event::Rated { .. }
        | Event::LivenessChanged { .. }
        | Event::Scheduled { .. }
        | Event::MemberPaid { .. }
        | Event::Compensated { .. } => market_parts(event),
        Event::RentDeposited { .. }
        | Event::RentSettled { .. }
        | Event::AccountRent { .. }
        | Event::RecordExpired { .. } => rent_parts(event),
        Event::AnswerKept { .. }
        | Event::AnswerReleased { .. }
        | Event::AnswerAsked { .. }
        | Event::AnswerQuestionEnded { .. } => retention_parts(event),
        Event::JobChanged { .. }
        | Event::JobEnded { .. }
        | Event::LeaseMade { .. }
        | Event::LeaseEnded { .. }
        | Event::Slashed { .. }
        | Event::GasPrepaid { .. }
        | Event::GasSettled { .. }
        | Event::PenaltyHeld { .. }
        | Event::PenaltySettled { .. }
        | Event::HolderPaid { .. }
        | Event::EndpointPaid { .. }
        | Event::EscrowBurned { .. }
        | Event::Forfeited { .. } => job_parts(event),
    }
}

/// Jobs and leases.
fn job_parts(event: &Event) -> Parts {
    match event {
        Event::JobChanged {
            job,
            requestor,
            state,
        } => Parts {
            kind: "job_changed",
            job: Some(*job),
            account: Some(*requestor),
            text: format!("job {job} is {}", state.as_str().to_lowercase()),
            ..Parts::default()
        },
        Event::JobEnded {
            job,
            requestor,
            reason,
            settlement,
            provider: _,
        } => Parts {
            kind: "job_ended",
            job: Some(*job),
            account: Some(*requestor),
            amount: Some(settlement.price),
            text: format!("job {job}: {reason}"),
            ..Parts::default()
        },
        Event::LeaseMade {
            lease,
            job,
            provider,
            price,
            ..
        } => Parts {
            kind: "lease_made",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*price),
            text: format!("job {job} leased to {provider} for {price} TGRID"),
            ..Parts::default()
        },
        Event::LeaseEnded {
            lease,
            job,
            provider,
            end,
        } => Parts {
            kind: "lease_ended",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*provider),
            text: format!("lease of {provider}: {end}"),
            ..Parts::default()
        },
        Event::EscrowBurned {
            job,
            requestor,
            because,
            amount,
        } => escrow_burned(*job, *requestor, *because, *amount),
        _ => collateral_parts(event),
    }
}

/// A part of a job's escrow that was burned.
fn escrow_burned(job: JobId, requestor: Address, because: BurnedBecause, amount: Amount) -> Parts {
    let reason = match because {
        BurnedBecause::Idle => "for what is idle on machines held back for it",
        BurnedBecause::StatedTime => "as a lease ran out of the GPU time that it states",
        BurnedBecause::NoKey => "as its provider got no key that opens the input",
    };
    Parts {
        kind: "escrow_burned",
        job: Some(job),
        account: Some(requestor),
        amount: Some(amount),
        text: format!("{amount} TGRID of job {job} burned {reason}"),
        ..Parts::default()
    }
}

/// Answers that validators keep, and who is asked for one.
fn retention_parts(event: &Event) -> Parts {
    match event {
        Event::AnswerKept { job, digest, until } => Parts {
            kind: "answer_kept",
            job: Some(*job),
            file: Some(*digest),
            text: format!("the answer of job {job} is kept until {until} ms of ledger time"),
            ..Parts::default()
        },
        Event::AnswerReleased { job } => Parts {
            kind: "answer_released",
            job: Some(*job),
            text: format!("nobody has to keep the answer of job {job} any more"),
            ..Parts::default()
        },
        Event::AnswerAsked {
            job,
            seat,
            asker,
            fee,
        } => Parts {
            kind: "answer_asked",
            job: Some(*job),
            account: Some(*seat),
            amount: Some(*fee),
            text: format!("{asker} asks validator {seat} for the answer of job {job}"),
            ..Parts::default()
        },
        Event::AnswerQuestionEnded { job, seat, end, .. } => Parts {
            kind: "answer_question_ended",
            job: Some(*job),
            account: Some(*seat),
            amount: match end {
                QuestionEnd::Missing { burned, returned } => Some(burned.saturating_add(*returned)),
                QuestionEnd::Served | QuestionEnd::Undecided => None,
            },
            text: match end {
                QuestionEnd::Served => format!("validator {seat} gave the answer of job {job}"),
                QuestionEnd::Undecided => {
                    format!("it stays open whether validator {seat} has the answer of job {job}")
                }
                QuestionEnd::Missing { burned, returned } => format!(
                    "validator {seat} does not have the answer of job {job}: {burned} TGRID burned, {returned} to who asked"
                ),
            },
            ..Parts::default()
        },
        _ => Parts::default(),
    }
}

/// What staying in the state costs.
fn rent_parts(event: &Event) -> Parts {
    match event {
        Event::RentDeposited {
            record,
            payer,
            deposit,
            burned,
        } => Parts {
            kind: "rent_deposited",
            account: Some(*payer),
            amount: Some(*deposit),
            text: format!("{deposit} TGRID secure the rent of {record}, {burned} were burned"),
            ..Parts::default()
        },
        Event::RentSettled {
            record,
            payer,
            burned,
            returned,
        } => Parts {
            kind: "rent_settled",
            account: Some(*payer),
            amount: Some(*returned),
            text: format!("{burned} TGRID of rent of {record} burned, {returned} back to {payer}"),
            ..Parts::default()
        },
        Event::AccountRent {
            account, burned, ..
        } => Parts {
            kind: "account_rent",
            account: Some(*account),
            amount: Some(*burned),
            text: format!("{burned} TGRID of rent burned by {account}"),
            ..Parts::default()
        },
        Event::RecordExpired { record, owner, .. } => Parts {
            kind: "record_expired",
            account: Some(*owner),
            text: format!("{record} of {owner} left the state: its rent was spent"),
            ..Parts::default()
        },
        _ => Parts::default(),
    }
}

/// What happened to seats of validators.
/// Events of the seed, and of committees.
#[expect(clippy::too_many_lines, reason = "one arm for each event")]
fn sync_parts(event: &Event) -> Parts {
    match event {
        Event::SeedRound { round } => Parts {
            kind: "seed_round",
            text: format!("validators deal the key of seeds, round {round}"),
            ..Parts::default()
        },
        Event::SeedKeyMade { round } => Parts {
            kind: "seed_key_made",
            text: format!("the key of seeds of round {round} is known"),
            ..Parts::default()
        },
        Event::SeedSigned { height, seed } => Parts {
            kind: "seed_signed",
            text: format!("the seed of block {height} is {seed}"),
            ..Parts::default()
        },
        Event::CommitteeDrawn {
            lease,
            number,
            members,
        } => Parts {
            kind: "committee_drawn",
            lease: Some(*lease),
            text: format!(
                "{} validators look at the result, drawing {}",
                members.len(),
                u16::from(*number) + 1
            ),
            ..Parts::default()
        },
        Event::KeyChanged {
            lease,
            job,
            provider,
            step,
        } => Parts {
            kind: "key_changed",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*provider),
            text: match step {
                KeyStep::Granted => format!("provider {provider} was granted the key of job {job}"),
                KeyStep::Questioned => {
                    format!(
                        "provider {provider} says that the key of job {job} does not open its input"
                    )
                }
                KeyStep::Revealed => format!("the key of job {job} was shown to everybody"),
            },
            ..Parts::default()
        },
        Event::ResultDisputed {
            lease,
            job,
            accuser,
            vote,
        } => Parts {
            kind: "result_disputed",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*accuser),
            text: format!("{accuser} says of the result: {vote}"),
            ..Parts::default()
        },
        Event::ResultArgued {
            lease,
            job,
            account,
            file,
        } => Parts {
            kind: "result_argued",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*account),
            file: Some(*file),
            text: format!("{account} handed in {file} in the dispute about the result"),
            ..Parts::default()
        },
        Event::AccusationRefuted { validator, burned } => Parts {
            kind: "accusation_refuted",
            account: Some(*validator),
            amount: Some(*burned),
            text: format!("what validator {validator} said is not so: {burned} TGRID burned"),
            ..Parts::default()
        },
        Event::ReplicasDiffer { lease, job } => Parts {
            kind: "replicas_differ",
            job: Some(*job),
            lease: Some(*lease),
            text: "the members found different results: every validator runs the program"
                .to_owned(),
            ..Parts::default()
        },
        Event::RunCharged {
            lease,
            provider,
            amount,
        } => Parts {
            kind: "run_charged",
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*amount),
            text: format!(
                "the run of every validator cost {provider} {amount} TGRID of its collateral"
            ),
            ..Parts::default()
        },
        Event::ChallengeHeld { amount } => Parts {
            kind: "challenge_held",
            amount: Some(*amount),
            text: format!("{amount} TGRID of the fee of a challenge are held until it is decided"),
            ..Parts::default()
        },
        Event::ChallengeShared {
            lease,
            provider,
            amount,
        } => Parts {
            kind: "challenge_shared",
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*amount),
            text: format!("{provider} has {amount} TGRID of a challenge that failed"),
            ..Parts::default()
        },
        Event::ChallengeReturned {
            lease,
            provider,
            challenger,
            amount,
            held: _,
        } => Parts {
            kind: "challenge_returned",
            lease: Some(*lease),
            account: Some(*challenger),
            amount: Some(*amount),
            text: format!(
                "{challenger} has {amount} TGRID back for its challenge, out of what was held of it and the collateral of {provider}"
            ),
            ..Parts::default()
        },
        Event::VoteRefuted {
            lease,
            validator,
            burned,
        } => Parts {
            kind: "vote_refuted",
            lease: Some(*lease),
            account: Some(*validator),
            amount: Some(*burned),
            text: format!(
                "validator {validator} found a wrong result right: {burned} TGRID burned"
            ),
            ..Parts::default()
        },
        _ => Parts::default(),
    }
}

fn seat_parts(event: &Event) -> Parts {
    match event {
        Event::SeatBonded { validator, amount } => Parts {
            kind: "seat_bonded",
            account: Some(*validator),
            amount: Some(*amount),
            text: format!("{validator} bonded {amount} TGRID for a seat among the validators"),
            ..Parts::default()
        },
        Event::SeatLeaving { validator } => Parts {
            kind: "seat_leaving",
            account: Some(*validator),
            text: format!("validator {validator} gives its seat back"),
            ..Parts::default()
        },
        Event::ProtocolAnnounced { version, from } => Parts {
            kind: "protocol_announced",
            text: format!(
                "blocks have version {version} of the protocol from block {from} on: validators that do not execute it stop there"
            ),
            ..Parts::default()
        },
        Event::ProtocolPutOff { version } => Parts {
            kind: "protocol_put_off",
            text: format!(
                "version {version} of the protocol does not begin: too few validators execute it"
            ),
            ..Parts::default()
        },
        Event::ProtocolBegan { version } => Parts {
            kind: "protocol_began",
            text: format!("from this block on version {version} of the protocol holds"),
            ..Parts::default()
        },
        Event::StakeReturned { validator, amount } => Parts {
            kind: "stake_returned",
            account: Some(*validator),
            amount: Some(*amount),
            text: format!("{amount} TGRID of a seat's bond back to {validator}"),
            ..Parts::default()
        },
        Event::SeatsChanged { term, joined, left } => {
            let names = |all: &[Address]| match all {
                [] => "nobody".to_owned(),
                all => {
                    let names: Vec<String> = all.iter().map(Address::to_string).collect();
                    names.join(", ")
                }
            };
            Parts {
                kind: "seats_changed",
                text: format!(
                    "validators of term {term}: {} joined, {} left",
                    names(joined),
                    names(left)
                ),
                ..Parts::default()
            }
        }
        _ => Parts::default(),
    }
}

/// The market's own events.
fn market_parts(event: &Event) -> Parts {
    match event {
        Event::Compensated {
            lease,
            job,
            provider,
            amount,
        } => Parts {
            kind: "compensated",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*amount),
            text: format!("{amount} TGRID to {provider} for work that made room, by job {job}"),
            ..Parts::default()
        },
        Event::MemberPaid {
            lease,
            job,
            provider,
            amount,
        } => Parts {
            kind: "member_paid",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*amount),
            text: format!("{amount} TGRID to {provider}, a member of the gang of job {job}"),
            ..Parts::default()
        },
        Event::OfferUpdated { offer, provider } => Parts {
            kind: "offer_updated",
            account: Some(*provider),
            text: format!("offer {offer} by {provider} has new terms"),
            ..Parts::default()
        },
        Event::Rated {
            job,
            provider,
            stars,
        } => Parts {
            kind: "rated",
            job: Some(*job),
            account: Some(*provider),
            text: format!("{provider} got {stars} of 5 stars for job {job}"),
            ..Parts::default()
        },
        Event::LivenessChanged {
            provider,
            is_offline,
        } => Parts {
            kind: match is_offline {
                true => "provider_lost",
                false => "provider_back",
            },
            account: Some(*provider),
            text: match is_offline {
                true => format!("validators cannot reach {provider}"),
                false => format!("validators reach {provider} again"),
            },
            ..Parts::default()
        },
        Event::Scheduled { root, decisions } => Parts {
            kind: "scheduled",
            text: format!("{} decisions, schedule root {root}", decisions.len()),
            ..Parts::default()
        },
        _ => bid_parts(event),
    }
}

/// Sealed bids.
fn bid_parts(event: &Event) -> Parts {
    let (kind, bidder, amount, job, what) = match event {
        Event::BidCommitted {
            bidder, deposit, ..
        } => ("bid_committed", bidder, deposit, None, "locked for a bid"),
        Event::BidRevealed {
            bidder,
            deposit,
            job,
            ..
        } => ("bid_revealed", bidder, deposit, Some(*job), "given back"),
        Event::BidForfeited { bidder, amount, .. } => {
            ("bid_forfeited", bidder, amount, None, "burned")
        }
        _ => return Parts::default(),
    };
    Parts {
        kind,
        job,
        account: Some(*bidder),
        amount: Some(*amount),
        text: format!("deposit of {amount} TGRID of {bidder} {what}"),
        ..Parts::default()
    }
}

/// Collateral that was lost.
fn collateral_parts(event: &Event) -> Parts {
    match event {
        Event::Slashed {
            lease,
            provider,
            amount,
        } => Parts {
            kind: "slashed",
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*amount),
            text: format!("{amount} TGRID of {provider} burned"),
            ..Parts::default()
        },
        Event::Forfeited {
            lease,
            job,
            provider,
            amount,
        } => Parts {
            kind: "forfeited",
            job: Some(*job),
            lease: Some(*lease),
            account: Some(*provider),
            amount: Some(*amount),
            text: format!("{amount} TGRID of {provider} lost with a lease of job {job}"),
            ..Parts::default()
        },
        _ => penalty_parts(event),
    }
}

/// Leases that were not started, and jobs that were taken back.
#[expect(clippy::too_many_lines, reason = "one arm for each event")]
fn penalty_parts(event: &Event) -> Parts {
    let (kind, lease, provider, amount, what) = match event {
        Event::PenaltyHeld {
            lease,
            provider,
            amount,
        } => (
            "penalty_held",
            lease,
            provider,
            amount,
            "held until validators said what is missing",
        ),
        Event::PenaltySettled {
            lease,
            provider,
            amount,
            is_burned: true,
        } => (
            "penalty_burned",
            lease,
            provider,
            amount,
            "burned for a declined lease",
        ),
        Event::PenaltySettled {
            lease,
            provider,
            amount,
            is_burned: false,
        } => (
            "penalty_returned",
            lease,
            provider,
            amount,
            "returned for a declined lease",
        ),
        Event::GasPrepaid {
            lease,
            provider,
            amount,
        } => (
            "gas_prepaid",
            lease,
            provider,
            amount,
            "set aside for the gas of a lease",
        ),
        Event::GasSettled {
            lease,
            provider,
            burned: _,
            returned,
        } => (
            "gas_settled",
            lease,
            provider,
            returned,
            "returned of what was set aside for gas",
        ),
        Event::HolderPaid {
            lease,
            provider,
            amount,
            job: _,
        } => (
            "holder_paid",
            lease,
            provider,
            amount,
            "paid for a job that was taken back",
        ),
        Event::EndpointPaid {
            lease,
            provider,
            amount,
            job: _,
        } => (
            "endpoint_paid",
            lease,
            provider,
            amount,
            "paid for what its endpoint served",
        ),
        _ => return Parts::default(),
    };
    Parts {
        kind,
        lease: Some(*lease),
        account: Some(*provider),
        amount: Some(*amount),
        text: format!("{amount} TGRID of {provider} {what}"),
        ..Parts::default()
    }
}
