//! Two networks whose parameters differ by one factor, so that every window ends in a run of bounded length.
//!
//! Windows of the ledger last from one second (the pause after a lease that was not started) to thirty days (the rent of
//! an account), and some of them are constants. In the *brisk* season parameters are those of a development network: a
//! block each 0.1 to 1 s. In the *slow* one a block comes each 3 to 30 min, every window that is a parameter is
//! 1,800 times as long, and so is the declared time of all work: the run lasts weeks, in which rent is spent.

use crate::files::REPEATED_MACS;
use tg_ledger::{ConsensusKey, Genesis, Parameters, StorageRule, Validator, development_domain};
use tg_types::{Address, Amount, DurationMs, TimestampMs};

/// Time of the genesis blocks.
const START: u64 = 1_000_000_000;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Season {
    pub(crate) name: &'static str,
    /// How many milliseconds of ledger time an actor calls a millisecond.
    pub(crate) scale: u64,
    /// Blocks of it.
    pub(crate) blocks: u64,
    pub(crate) seed: u64,
}

impl Season {
    /// Blocks a second apart, of `blocks`.
    pub(crate) const fn brisk(seed: u64, blocks: u64) -> Self {
        Self {
            name: "brisk",
            scale: 1,
            blocks,
            seed,
        }
    }

    /// Blocks half an hour apart, of `blocks`.
    pub(crate) const fn slow(seed: u64, blocks: u64) -> Self {
        Self {
            name: "slow",
            scale: 1_800,
            blocks,
            seed: seed ^ 0x51_0e,
        }
    }

    /// A time of the season, in milliseconds of ledger time.
    pub(crate) const fn ms(self, ms: u64) -> u64 {
        ms * self.scale
    }

    /// A time of the season, given in what it calls seconds.
    pub(crate) const fn secs(self, seconds: u64) -> DurationMs {
        DurationMs::new(self.ms(seconds * 1_000))
    }

    /// Development parameters with every window in the season's measure, statements about storage as a real network has
    /// them, a shorter suspension after a lie, so that liars come back within the run, and a hundredth of the least that
    /// a new account brings, so that dust is spent after days and not after a year.
    pub(crate) fn parameters(self) -> Parameters {
        let usual = Parameters::development();
        let scaled = |time: DurationMs| DurationMs::new(self.ms(time.get()));
        Parameters {
            job_horizon: self.secs(24 * 3_600),
            start_timeout: scaled(usual.start_timeout),
            lease_grace: scaled(usual.lease_grace),
            verification_timeout: scaled(usual.verification_timeout),
            suspension_rejected: self.secs(300),
            suspension_lapsed: scaled(usual.suspension_lapsed),
            auction_slot: scaled(usual.auction_slot),
            offer_update_interval: scaled(usual.offer_update_interval),
            preempt_grace: scaled(usual.preempt_grace),
            challenge_window: scaled(usual.challenge_window),
            grant_window: scaled(usual.grant_window),
            ask_window: self.secs(60),
            time_step_max: scaled(usual.time_step_max),
            unbonding: scaled(usual.unbonding),
            outage_min: scaled(usual.outage_min),
            outage_grace: scaled(usual.outage_grace),
            leader_timeout: scaled(usual.leader_timeout),
            storage: StorageRule::Stated,
            repeated_macs_max: REPEATED_MACS,
            // Of some models committees run all.
            whole_run_macs_max: REPEATED_MACS,
            account_min: Amount::new(100_000_000_000_000),
            ..usual
        }
    }

    /// The network's beginning: `accounts` with 2,000 TGRID each, four validators, given by account and
    /// consensus key, with equal stakes.
    pub(crate) fn genesis(self, accounts: &[Address], seats: &[(Address, [u8; 32])]) -> Genesis {
        let money = Amount::from_tgrid(2_000);
        let mut accounts: Vec<_> = accounts.iter().map(|it| (*it, money)).collect();
        accounts.sort();
        let mut validators: Vec<Validator> = seats
            .iter()
            .map(|(address, key)| Validator {
                address: *address,
                key: ConsensusKey::new(*key),
                stake: Amount::from_tgrid(1_000),
            })
            .collect();
        validators.sort_by_key(|it| it.address);
        Genesis {
            domain: development_domain(),
            parameters: self.parameters(),
            timestamp: TimestampMs::new(START),
            accounts,
            validators,
        }
    }
}
