//! Jobs, their leases and receipts.

use tg_ledger::{
    DisputeTurn, EndpointMeter, Job, JobPhase, Lease, LeaseEnd, LeasePhase, LeaseProgress,
    MemberVote, ReplicaStage, RetainedFile, Sealing, SealingStage, Settlement, State, Step,
    SyncCheck, SyncStage, VoteState,
};
use tg_sdk::dto::{
    AskedSeatDto, CheckDto, DisputeDto, DisputeTurnDto, JobDto, JobReceiptDto, JobStateDto,
    JobStepDto, KeptAnswerDto, LeaseDto, LeaseEndDto, MemberPayDto, MeterDto, RejectionDto,
    ReplicasDto, SealingDto, SealingStageDto, SettlementDto,
};
use tg_types::{Amount, TimestampMs};

use super::state::job_state;

/// A job with its leases.
#[must_use]
pub fn job(state: &State, job: &Job) -> JobDto {
    let Job {
        id,
        sequence,
        requestor,
        order,
        macs,
        phase: _,
        history,
        verification_fee,
        earlier: _,
        excluded: _,
        preemptions: _,
        revealed_in: _,
        owed: _,
        escrow_burned: _,
        served,
        storage: _,
        declined: _,
        rent: _,
        retention,
        draw: _,
        session: _,
    } = job;
    JobDto {
        id: *id,
        requestor: *requestor,
        model: order.model,
        input: order.input,
        input_len: order.input_len,
        needs: (&order.needs).into(),
        mode: order.mode.into(),
        state: job_state(job.state()),
        max_price: order.max_price,
        deadline_ms: by_clocks(state, job, order.deadline),
        sequence: *sequence,
        macs: *macs,
        max_attempts: order.max_attempts,
        retention_ms: order.retention.get(),
        retention_fee: retention.fee,
        escrow: job.escrow(),
        served: *served,
        verification_fee: *verification_fee,
        history: history.iter().map(step).collect(),
        leases: job
            .leases()
            .iter()
            .filter_map(|id| state.lease(id))
            .flat_map(|lead| state.gang_of(lead))
            .map(|it| lease(state, job, it))
            .collect(),
        reason: job.end().map(|end| end.to_string()),
        settlement: job.settlement().map(settlement),
        kept: state.retained_of(id).map(|file| kept(state, job, file)),
    }
}

/// Who keeps the answer of a job.
fn kept(state: &State, job: &Job, file: &RetainedFile) -> KeptAnswerDto {
    let seats = (0u8..).zip(state.validators());
    let holders = seats.filter(|(place, _)| file.held.contains(*place));
    let asked = state.questions().iter().filter(|it| it.job == file.job);
    KeptAnswerDto {
        answer: file.digest,
        until_ms: by_clocks(state, job, file.until),
        seats: holders.map(|(_, seat)| seat.address).collect(),
        validators: state.validators().len() as u64,
        asked: asked
            .map(|it| AskedSeatDto {
                seat: it.seat,
                asker: it.asker,
                fee: it.fee,
                got: it.held.len() as u64,
                missing: it.missing.len() as u64,
                missing_from_ms: by_clocks(state, job, it.missing_from),
                until_ms: by_clocks(state, job, it.until),
            })
            .collect(),
    }
}

const fn step(step: &Step) -> JobStepDto {
    let Step {
        state,
        height,
        at: _,
        timestamp,
    } = step;
    JobStepDto {
        state: job_state(*state),
        height: height.get(),
        at_ms: timestamp.get(),
    }
}

/// Where the money of an ended job went.
#[must_use]
pub const fn settlement(settlement: &Settlement) -> SettlementDto {
    let Settlement {
        price,
        members,
        verification_fee,
        refund,
        burned,
        bonus,
        compensation,
    } = settlement;
    SettlementDto {
        price: *price,
        members: *members,
        verification_fee: *verification_fee,
        refund: *refund,
        burned: *burned,
        bonus: *bonus,
        compensation: *compensation,
    }
}

/// When clocks will show what is at `time` of the ledger, if no pause comes before it: ledger time lags behind them by
/// all pauses so far, of a job that has ended by those up to its end.
fn by_clocks(state: &State, job: &Job, time: TimestampMs) -> u64 {
    let head = state.head();
    let end = job.history.last().filter(|_| job.state().is_final());
    let lag = end.map_or(head.timestamp.saturating_since(head.time), |end| {
        end.timestamp.saturating_since(end.at)
    });
    time.get().saturating_add(lag.get())
}

fn meter(state: &State, job: &Job, lease: &Lease, meter: &EndpointMeter) -> MeterDto {
    let EndpointMeter {
        minute,
        vouchers,
        answered,
        paid,
        ends_at,
    } = meter;
    MeterDto {
        minute: *minute,
        vouchers: *vouchers,
        answered: *answered,
        paid: *paid,
        started_ms: lease.started_at().map(|at| by_clocks(state, job, at)),
        ends_ms: ends_at.map(|at| by_clocks(state, job, at)),
    }
}

/// A lease of a job.
#[must_use]
pub fn lease(state: &State, job: &Job, lease: &Lease) -> LeaseDto {
    let (end, rejection) = match lease.end() {
        None => (None, None),
        Some(LeaseEnd::Fulfilled) => (Some(LeaseEndDto::Fulfilled), None),
        Some(LeaseEnd::Late(_)) => (Some(LeaseEndDto::Late), None),
        Some(LeaseEnd::Abandoned(_)) => (Some(LeaseEndDto::Abandoned), None),
        Some(LeaseEnd::Preempted) => (Some(LeaseEndDto::Preempted), None),
        Some(LeaseEnd::Released) => (Some(LeaseEndDto::Released), None),
        Some(LeaseEnd::Declined(_)) => (Some(LeaseEndDto::Declined), None),
        Some(LeaseEnd::Unavailable) => (Some(LeaseEndDto::Unavailable), None),
        Some(LeaseEnd::Cancelled) => (Some(LeaseEndDto::Cancelled), None),
        Some(LeaseEnd::Ungranted) => (Some(LeaseEndDto::Ungranted), None),
        Some(LeaseEnd::Rejected { code, check }) => {
            let rejection = RejectionDto {
                code: *code,
                check: check.as_str().to_owned(),
            };
            (Some(LeaseEndDto::Rejected), Some(rejection))
        }
    };
    LeaseDto {
        id: lease.id,
        job: lease.job,
        offer: lease.offer,
        provider: lease.provider,
        price: lease.price,
        collateral: lease.collateral,
        state: lease_state(job, lease),
        matched_ms: by_clocks(state, job, lease.matched_at),
        begins_ms: by_clocks(state, job, lease.grant.from),
        devices: (0..8)
            .filter(|device| lease.grant.devices >> device & 1 == 1)
            .collect(),
        gpu_milli: lease.grant.gpu_milli,
        meter: lease.meter.map(|it| meter(state, job, lease, &it)),
        lead: lease.lead(),
        started: lease.started_at().is_some(),
        members: u16::try_from(lease.members().len()).unwrap_or(u16::MAX),
        start_by_ms: by_clocks(state, job, lease.start_by),
        finish_by_ms: by_clocks(state, job, lease.deadline),
        sealed: matches!(lease.progress(), LeaseProgress::Sealed { .. }),
        replicas: replicas(state, lease),
        receipt: lease.receipt().map(Into::into),
        evidence: lease.evidence().map(|evidence| evidence.digest),
        check: lease.check.as_ref().map(|it| check(state, it)),
        run_whole: state.is_run_whole(&job.order),
        sealing: lease
            .sealing
            .as_ref()
            .map(|it| sealing(state, job, lease, it)),
        end,
        end_text: lease.end().map(ToString::to_string),
        rejection,
    }
}

/// Where the members of a job of mode replicate stand: what the lease that leads says.
fn replicas(state: &State, lease: &Lease) -> Option<ReplicasDto> {
    let lead = lease.lead().and_then(|it| state.lease(&it));
    match lead.unwrap_or(lease).replicas? {
        ReplicaStage::Opening { .. } => Some(ReplicasDto::Opening),
        ReplicaStage::Agreed { .. } => Some(ReplicasDto::Agreed),
        ReplicaStage::Differ => Some(ReplicasDto::Differ),
    }
}

/// Where the key of a sealed job is.
fn sealing(state: &State, job: &Job, lease: &Lease, sealing: &Sealing) -> SealingDto {
    let contestable = match lease.check.as_ref().map(|it| &it.stage) {
        Some(SyncStage::Contestable { until, .. }) => Some(*until),
        _ => None,
    };
    let (stage, until) = match &sealing.stage {
        SealingStage::AwaitsKey => (SealingStageDto::AwaitsKey, Some(lease.start_by)),
        SealingStage::Granted { .. } => (SealingStageDto::Granted, contestable),
        SealingStage::Questioned { until, .. } => (SealingStageDto::Questioned, Some(*until)),
        SealingStage::Revealed { .. } => (SealingStageDto::Revealed, None),
    };
    SealingDto {
        key: sealing.key.clone(),
        stage,
        grant: sealing.stage.grant().map(|(grant, _)| grant.clone()),
        may_reveal: stage == SealingStageDto::Questioned || contestable.is_some(),
        until_ms: until.map(|it| by_clocks(state, job, it)),
    }
}

/// How a committee checks a result.
fn check(state: &State, check: &SyncCheck) -> CheckDto {
    let count = |it: usize| u16::try_from(it).unwrap_or(u16::MAX);
    let round = check.stage.round();
    let states = || round.into_iter().flat_map(|it| &it.votes);
    let is_sealed = |it: &&MemberVote| matches!(it.state, VoteState::Sealed(_));
    CheckDto {
        height: check.from.get(),
        seed: check.stage.seed(),
        stage: check.stage.as_str().to_owned(),
        committees: round.map_or(0, |it| u16::from(it.number).saturating_add(1)),
        members: count(states().count()),
        seats: count(state.validators().len()),
        sealed: count(states().filter(is_sealed).count()),
        right: count(round.map_or(0, |it| it.right().len())),
        dispute: dispute(&check.stage),
    }
}

/// A dispute that ends at one tile.
fn dispute(stage: &SyncStage) -> Option<DisputeDto> {
    let SyncStage::Disputed {
        accuser,
        by_tile: Some(dispute),
        ..
    } = stage
    else {
        return None;
    };
    Some(DisputeDto {
        accuser: *accuser,
        turn: match dispute.step.turn() {
            DisputeTurn::Accuser => DisputeTurnDto::Accuser,
            DisputeTurn::Provider => DisputeTurnDto::Provider,
            DisputeTurn::Validators => DisputeTurnDto::Validators,
        },
        waits_for_file: dispute.step.waits_for_file(),
        until_ms: dispute.until.get(),
        claim: dispute.step.claim().map(|it| it.digest),
        answer: dispute.step.answer().map(|it| it.digest),
        waiting: u16::try_from(dispute.waiting.len()).unwrap_or(u16::MAX),
    })
}

/// Where the job stands under a lease, or stood when the lease ended.
const fn lease_state(job: &Job, lease: &Lease) -> JobStateDto {
    let (reached, end) = match &lease.phase {
        LeasePhase::Live(_) => return job_state(job.state()),
        LeasePhase::Ended { reached, end, .. } => (reached, end),
    };
    match (end, reached) {
        (LeaseEnd::Fulfilled, _) => JobStateDto::Paid,
        (_, LeaseProgress::Waiting) => JobStateDto::Leased,
        (_, LeaseProgress::Running { .. }) => JobStateDto::Running,
        (_, LeaseProgress::Sealed { .. }) => JobStateDto::Committed,
        (_, LeaseProgress::Committed { .. }) => JobStateDto::Committed,
        (_, LeaseProgress::Verifying { .. }) => JobStateDto::Verifying,
        (_, LeaseProgress::Delivering { .. }) => JobStateDto::Delivering,
    }
}

fn member_pay(lease: &Lease) -> MemberPayDto {
    MemberPayDto {
        lease: lease.id,
        provider: lease.provider,
        price: match lease.end() {
            Some(LeaseEnd::Fulfilled) => lease.price,
            _ => Amount::ZERO,
        },
    }
}

/// The receipt of a paid job; nothing for any other.
#[must_use]
pub fn receipt(state: &State, paid: &Job) -> Option<JobReceiptDto> {
    let JobPhase::Paid {
        lease: id,
        settlement: settled,
        stars: _,
    } = &paid.phase
    else {
        return None;
    };
    let fulfilled = state.lease(id)?;
    Some(JobReceiptDto {
        job: job(state, paid),
        lease: lease(state, paid, fulfilled),
        receipt: fulfilled.receipt()?.into(),
        settlement: settlement(settled),
        members: state.gang_of(fulfilled).skip(1).map(member_pay).collect(),
        evidence: fulfilled.evidence().map(|evidence| evidence.digest),
    })
}
