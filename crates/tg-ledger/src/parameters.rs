//! Parameters that a network fixes at genesis.

use crate::block::PROTOCOL_VERSION;
use crate::limits::{REPEATED_MACS_USUAL, VALIDATORS_MAX, WHOLE_RUN_MACS_USUAL};
use tg_types::{
    Amount, BASE_FEE_USUAL, ChainDomain, DurationMs, TimestampMs, VerificationMode, fields, tags,
};

/// Whether jobs may ask that nobody checks their result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnverifiedJobs {
    /// Mode `none` is refused.
    Refused,
    /// Mode `none` is taken: a network labelled development.
    Allowed,
}

/// Whether validators state what they hold before a job is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageRule {
    /// A job waits until n - f of them state that they hold its input and its model's files.
    Stated,
    /// Nobody states anything: for simulations of the ledger alone, in which no file exists.
    Assumed,
}

/// Fees, times and rules of one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The version of the protocol that the first block has; the validators change it later.
    pub protocol: u16,
    /// The least base fee: what is burned for each unit of gas of a transaction while blocks are not full.
    pub base_fee_min: Amount,
    /// The least that a transfer to an address without an account must bring: accounts stay in the state for ever.
    pub account_min: Amount,
    /// Paid to the validators for verifying the registration proof of a model.
    pub registration_fee: Amount,
    /// Paid to the validators for each job of mode `proof`, and to the committee for each of mode `sync`; other modes pay multiples.
    pub verification_fee_zk: Amount,
    /// The least maximum price of a job.
    pub job_price_min: Amount,
    /// The least collateral per lease of an offer.
    pub collateral_min: Amount,
    /// Whether mode `none` is taken.
    pub unverified_jobs: UnverifiedJobs,
    /// How far in the future a deadline may lie.
    pub job_horizon: DurationMs,
    /// How soon a provider must start a lease.
    pub start_timeout: DurationMs,
    /// How many times its declared duration a lease may take.
    pub duration_factor: u16,
    /// What is added to that.
    pub lease_grace: DurationMs,
    /// How long validators wait for evidence or an answer before it counts as not delivered.
    pub verification_timeout: DurationMs,
    /// How long a provider gets no leases after a rejected result.
    pub suspension_rejected: DurationMs,
    /// How long a provider gets no leases after a late or abandoned lease.
    pub suspension_lapsed: DurationMs,
    /// Length of a slot of the batch auction.
    pub auction_slot: DurationMs,
    /// The least deposit of a sealed bid.
    pub bid_deposit_min: Amount,
    /// How long the terms of an offer stand at least.
    pub offer_update_interval: DurationMs,
    /// The grace period in which a preempted job may still submit its result.
    pub preempt_grace: DurationMs,
    /// Collateral per lease that stands for one success in a reputation.
    pub reputation_stake: Amount,
    /// How far ledger time moves in one block at most.
    pub time_step_max: DurationMs,
    /// A pause between two blocks from which on it counts as an outage: more than faulty validators can cause alone.
    pub outage_min: DurationMs,
    /// How long no window ends after an outage, beside f + 1 blocks.
    pub outage_grace: DurationMs,
    /// How long a leader that makes no block holds up the others.
    pub leader_timeout: DurationMs,
    /// Whether validators state what they hold.
    pub storage: StorageRule,
    /// Until so many distinct owners were paid for a model, a lease on it risks at most ten times its gas.
    pub owners_paid_min: u8,
    /// What the records of a full category pay together for an hour in the state; see [`crate::rent`].
    pub rent_full_hour: Amount,
    /// What a seat among the validators is bonded with.
    pub seat_bond: Amount,
    /// How long a bond answers for old votes after its seat ended.
    pub unbonding: DurationMs,
    /// How long a result of mode `optimistic` may be challenged after its watcher found it right.
    pub challenge_window: DurationMs,
    /// How long the requestor of a sealed job has to grant its key to the provider of a lease.
    pub grant_window: DurationMs,
    /// How long a validator that is asked for an answer that it keeps has to give it to the others: longer than what may keep it from that.
    pub ask_window: DurationMs,
    /// Most multiply-accumulates of a model of integers whose runs every validator repeats. Of programs nothing but which disputes end at a call
    /// follows from it.
    pub repeated_macs_max: u64,
    /// Most multiply-accumulates of a model of integers whose results of mode `sync` a committee runs whole instead of drawn parts of them; of floats
    /// and programs what takes as long. 0 if it runs none.
    pub whole_run_macs_max: u64,
}

/// How many times the fee of a proof it costs to have a program run again: a run takes up to 3 s of every validator, a usual one
/// 0.2 s, where the check of a proof takes some 20 ms.
pub const RECOMPUTE_FEE_FACTOR: u64 = 10;

/// How many times the fee of a proof its watcher is paid in mode `optimistic`: it alone runs the program, where the fee of mode
/// `recompute` pays for a run of each.
pub const OPTIMISTIC_FEE_FACTOR: u64 = 3;

impl Parameters {
    /// Parameters of a network labelled development: small fees, short waits, mode `none` allowed.
    #[must_use]
    pub const fn development() -> Self {
        Self {
            protocol: PROTOCOL_VERSION,
            base_fee_min: BASE_FEE_USUAL,
            account_min: Amount::new(10_000_000_000_000_000),
            registration_fee: Amount::new(100_000_000_000_000_000),
            verification_fee_zk: Amount::new(10_000_000_000_000_000),
            job_price_min: Amount::new(1_000_000_000_000),
            collateral_min: Amount::new(10_000_000_000_000_000),
            unverified_jobs: UnverifiedJobs::Allowed,
            job_horizon: DurationMs::from_secs(7 * 24 * 3600),
            start_timeout: DurationMs::from_secs(10),
            duration_factor: 3,
            lease_grace: DurationMs::from_secs(20),
            verification_timeout: DurationMs::from_secs(30),
            suspension_rejected: DurationMs::from_secs(3600),
            suspension_lapsed: DurationMs::from_secs(10),
            auction_slot: DurationMs::from_secs(9),
            bid_deposit_min: Amount::new(10_000_000_000_000_000),
            offer_update_interval: DurationMs::from_secs(5),
            preempt_grace: DurationMs::from_secs(9),
            reputation_stake: Amount::new(1_000_000_000_000_000_000),
            time_step_max: DurationMs::from_secs(1),
            outage_min: DurationMs::from_secs(10),
            outage_grace: DurationMs::from_secs(10),
            leader_timeout: DurationMs::new(1_500),
            storage: StorageRule::Assumed,
            owners_paid_min: 3,
            rent_full_hour: Amount::from_tgrid(1_400),
            seat_bond: Amount::from_tgrid(1_000),
            unbonding: DurationMs::from_secs(3_600),
            challenge_window: DurationMs::from_secs(10),
            grant_window: DurationMs::from_secs(30),
            ask_window: DurationMs::from_secs(6 * 3_600),
            repeated_macs_max: REPEATED_MACS_USUAL,
            whole_run_macs_max: WHOLE_RUN_MACS_USUAL,
        }
    }

    /// The windows in which somebody must act or lose something, by name.
    const fn windows(&self) -> [(&'static str, DurationMs); 7] {
        [
            ("start_timeout", self.start_timeout),
            ("lease_grace", self.lease_grace),
            ("verification_timeout", self.verification_timeout),
            ("auction_slot", self.auction_slot),
            ("preempt_grace", self.preempt_grace),
            ("challenge_window", self.challenge_window),
            ("grant_window", self.grant_window),
        ]
    }

    /// How long somebody must have for what it has to hand in: faulty ones of `validators` can keep three transactions
    /// out of their turns for 3 (f + 1) timeouts of a leader.
    #[must_use]
    pub fn least_window(&self, validators: usize) -> DurationMs {
        let faults = u64::try_from(validators.saturating_sub(1) / 3).unwrap_or(u64::MAX);
        let timeouts = faults.saturating_add(1).saturating_mul(3);
        self.leader_timeout.saturating_mul(timeouts)
    }

    /// A window that faulty ones of `validators` could close on somebody by keeping its transactions out of their
    /// turns: shorter than [`Self::least_window`].
    #[must_use]
    pub fn short_window(&self, validators: usize) -> Option<&'static str> {
        let least = self.least_window(validators);
        // Longer than a bond answers for old votes: no seat is given back while it is asked for what it keeps.
        if self.ask_window < least {
            return Some("ask_window");
        }
        let short = self.windows().into_iter();
        let mut short = short.filter(|(_, window)| *window < least || *window > self.unbonding);
        // A bond must answer for votes for longer than any window in which they are acted on.
        short.next().map(|(name, window)| match window < least {
            true => name,
            false => "unbonding",
        })
    }

    /// How many validators the windows are long enough for: no seat is given beyond it.
    #[must_use]
    pub fn validators_max(&self) -> usize {
        let fits = |validators: &usize| self.short_window(*validators).is_none();
        (1..=VALIDATORS_MAX).rev().find(fits).unwrap_or(0)
    }

    /// The same with every window as long as [`Self::least_window`], so that a network of so many validators may begin with them.
    #[must_use]
    pub fn wide_enough_for(self, validators: usize) -> Self {
        let least = self.least_window(validators);
        Self {
            start_timeout: self.start_timeout.max(least),
            lease_grace: self.lease_grace.max(least),
            verification_timeout: self.verification_timeout.max(least),
            auction_slot: self.auction_slot.max(least),
            preempt_grace: self.preempt_grace.max(least),
            challenge_window: self.challenge_window.max(least),
            grant_window: self.grant_window.max(least),
            ask_window: self.ask_window.max(least),
            ..self
        }
    }

    /// The slot of the batch auction that a time lies in, from 1 on.
    #[must_use]
    pub const fn slot(&self, time: TimestampMs) -> u64 {
        let length = self.auction_slot.get();
        if length == 0 {
            return time.get().saturating_add(1);
        }
        (time.get() / length).saturating_add(1)
    }

    /// When a slot of the batch auction begins.
    #[must_use]
    pub const fn slot_begins(&self, slot: u64) -> TimestampMs {
        let length = if self.auction_slot.get() == 0 {
            1
        } else {
            self.auction_slot.get()
        };
        TimestampMs::new(slot.saturating_sub(1).saturating_mul(length))
    }

    /// What a challenge costs: that every validator runs a program again. It comes back if the result is wrong.
    #[must_use]
    pub const fn challenge_fee(&self) -> Amount {
        self.verification_fee(VerificationMode::Recompute)
    }

    /// The verification fee of a mode.
    #[must_use]
    pub const fn verification_fee(&self, mode: VerificationMode) -> Amount {
        match mode {
            VerificationMode::None | VerificationMode::Endpoint | VerificationMode::Sealed => {
                Amount::ZERO
            }
            VerificationMode::Proof | VerificationMode::Sync | VerificationMode::Replicate => {
                self.verification_fee_zk
            }
            VerificationMode::Recompute => self
                .verification_fee_zk
                .saturating_mul(RECOMPUTE_FEE_FACTOR),
            VerificationMode::Optimistic => self
                .verification_fee_zk
                .saturating_mul(OPTIMISTIC_FEE_FACTOR),
        }
    }
}

tags! { UnverifiedJobs: "unverified jobs" { Refused = 0, Allowed = 1 } }

tags! { StorageRule: "storage rule" { Stated = 0, Assumed = 1 } }

fields! {
    Parameters {
        protocol,
        base_fee_min,
        account_min,
        registration_fee,
        verification_fee_zk,
        job_price_min,
        collateral_min,
        unverified_jobs,
        job_horizon,
        start_timeout,
        duration_factor,
        lease_grace,
        verification_timeout,
        suspension_rejected,
        suspension_lapsed,
        auction_slot,
        bid_deposit_min,
        offer_update_interval,
        preempt_grace,
        reputation_stake,
        time_step_max,
        outage_min,
        outage_grace,
        leader_timeout,
        storage,
        owners_paid_min,
        rent_full_hour,
        seat_bond,
        unbonding,
        challenge_window,
        grant_window,
        ask_window,
        repeated_macs_max,
        whole_run_macs_max,
    }
}

/// The domain of a development network: no L1 behind it, so chain id and contract are those of nobody.
#[must_use]
pub const fn development_domain() -> ChainDomain {
    ChainDomain {
        chain_id: 31_337,
        verifying_contract: tg_types::Address::new([0; 20]),
        salt: *b"TensorGrid development network\0\0",
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameters, VALIDATORS_MAX};

    #[test]
    fn windows_are_widened_for_as_many_validators_as_there_may_be() {
        let usual = Parameters::development();
        for validators in 1..=VALIDATORS_MAX {
            let wide = usual.wide_enough_for(validators);
            assert_eq!(wide.short_window(validators), None, "{validators}");
            assert_eq!(wide == usual, usual.short_window(validators).is_none());
        }
        assert_eq!(usual.short_window(6), None);
        assert_eq!(usual.validators_max(), 6);
        assert_eq!(usual.wide_enough_for(8).validators_max(), 9);
        assert_eq!(
            usual.wide_enough_for(VALIDATORS_MAX).validators_max(),
            VALIDATORS_MAX
        );
    }
}
