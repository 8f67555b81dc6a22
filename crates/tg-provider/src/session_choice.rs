//! Which session key signs for an agent's leases, and what it may cost.

use tg_sdk::{MachineSession, SessionPolicy};
use tg_types::{Amount, OfferTerms, SessionScope, SessionWallet, Wallet};

/// What the session key of an agent may cost in fees, in thousandths of a TGRID: claims of endpoints and answers in disputes have some, the rest is prepaid.
const FEES_MILLI: u64 = 1_000;

/// Replaced when it has less than this left for them.
const FEES_LEFT_MILLI: u64 = 250;

/// A thousandth of a TGRID.
const MILLI: Amount = Amount::new(1_000_000_000_000_000);

/// Which session key signs what serves an agent's leases.
#[derive(Debug, Clone)]
pub enum SessionChoice {
    /// None: the account's own key signs everything.
    Off,
    /// One that the agent makes of the account's key, registers and replaces.
    Own(SessionPolicy),
    /// One of scope `serve` that somebody registered.
    Given(SessionWallet),
}

impl SessionChoice {
    /// The session key of an account; nothing if it is off.
    pub(crate) fn of(&self, wallet: &Wallet) -> Option<MachineSession> {
        let scope = SessionScope::Serve;
        match self {
            Self::Off => None,
            Self::Own(_) => Some(MachineSession::of_account(wallet.clone(), scope)),
            Self::Given(session) => Some(MachineSession::given(session.clone(), scope)),
        }
    }

    /// How the key is looked at, and replaced where it is the agent's own.
    pub(crate) fn policy(&self, terms: &OfferTerms) -> SessionPolicy {
        match self {
            Self::Own(policy) => *policy,
            Self::Off | Self::Given(_) => serving_policy(terms),
        }
    }
}

/// What the session key of whoever offers these terms may cost: the collateral of all its leases twice, and fees. So much is at risk while the leases
/// of one key go over to the next; one that may lose less than the collateral of all its leases is replaced.
#[must_use]
pub fn serving_policy(terms: &OfferTerms) -> SessionPolicy {
    let slots = u64::from(terms.slots);
    let once = terms.collateral_per_lease.saturating_mul(slots);
    SessionPolicy::new(
        once.saturating_mul(2)
            .saturating_add(MILLI.saturating_mul(FEES_MILLI)),
        once.saturating_add(MILLI.saturating_mul(FEES_LEFT_MILLI)),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_types::{DurationMs, Label, Machine, ModeSet, Pricing};

    use super::*;

    #[test]
    fn a_key_may_lose_what_its_leases_put_up_twice_and_pay_some_fees() {
        let terms = |slots, collateral| OfferTerms {
            hardware: Label::new("a test").unwrap(),
            price_base: Amount::ZERO,
            price_per_mmac: Amount::ZERO,
            latency_base_ms: DurationMs::ZERO,
            speed_mmac_per_s: 1,
            memory_bytes: 1 << 30,
            slots,
            collateral_per_lease: Amount::from_tgrid(collateral),
            modes: ModeSet::UNSEALED,
            machine: Machine::CPU_ONLY,
            price_per_gpu_second: Amount::ZERO,
            pricing: Pricing::Fixed,
        };
        let policy = serving_policy(&terms(3, 5));
        assert_eq!(policy.cap, Amount::from_tgrid(31));
        assert!(policy.left_min > Amount::from_tgrid(15));
        assert!(policy.left_min < Amount::from_tgrid(16));
        assert_eq!(serving_policy(&terms(3, 0)).cap, Amount::from_tgrid(1));
    }

    #[test]
    fn an_agent_has_a_key_unless_it_is_off() {
        let wallet = Wallet::from_seed(b"carol");
        assert!(SessionChoice::Off.of(&wallet).is_none());
        let given = SessionWallet::from_secret(&[7; 32], wallet.address());
        for choice in [
            SessionChoice::Own(SessionPolicy::new(Amount::ZERO, Amount::ZERO)),
            SessionChoice::Given(given),
        ] {
            let session = choice.of(&wallet).unwrap();
            assert_eq!(session.account(), wallet.address());
            // Before the ledger has it the account's own key signs.
            assert!(
                session
                    .signing(tg_types::TransactionKind::StartLease)
                    .is_none()
            );
        }
    }
}
