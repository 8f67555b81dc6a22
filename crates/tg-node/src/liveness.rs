//! Which providers a validator reaches, reported to the ledger once per epoch as changes.
//!
//! An agent signs a [`Heartbeat`] every ten seconds, and whichever node receives it forwards it to all validators. A provider
//! that was heard and then fell silent for [`PROVIDER_SILENCE_MAX`] is reported lost; one that is heard again is reported
//! back. The ledger acts when validators with more than two thirds of the stake agree. A provider that was never heard is not
//! judged, so a validator that has just started reports nothing. A heartbeat counts once, if its time is within
//! [`HEARTBEAT_WINDOW`] of the last block's and later than the one before, so that a copied one cannot be replayed and only
//! the provider itself can appear alive. If one node withholds heartbeats, a provider can use another.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Instant;

use tg_ledger::limits::LOST_PER_VALIDATOR_MAX;
use tg_ledger::{Schedule, State};
use tg_types::{Address, Heartbeat, SignatureError, TimestampMs, Transaction};

use crate::limits::{
    HEARTBEAT_LEAST, HEARTBEAT_WINDOW, PROVIDER_SILENCE_MAX, PROVIDERS_HEARD_MAX, span,
};

/// When each provider was heard last.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    heard: BTreeMap<Address, TimestampMs>,
    /// The time in the newest heartbeat of each.
    newest: BTreeMap<Address, TimestampMs>,
}

/// Why a heartbeat does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// Nobody can have made the signature.
    #[error("nobody can have signed the heartbeat")]
    Signature(#[from] SignatureError),
    /// It is of another time.
    #[error("the heartbeat is of {at}, more than {} s from the last block, {ledger}", HEARTBEAT_WINDOW.as_secs())]
    Time {
        /// Its time.
        at: TimestampMs,
        /// The ledger's.
        ledger: TimestampMs,
    },
    /// The account that signed has no offer, and never had.
    #[error("{account} is no provider of this network")]
    NoProvider {
        /// The account.
        account: Address,
    },
}

impl HeartbeatError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Signature(_) => "TG-NODE-060",
            Self::Time { .. } => "TG-NODE-061",
            Self::NoProvider { .. } => "TG-NODE-062",
        }
    }
}

impl Watch {
    /// Whose heartbeat it is on the last final state. It recovers a signature.
    ///
    /// # Errors
    /// [`HeartbeatError`] if it does not count.
    pub(crate) fn provider_of(
        heartbeat: &Heartbeat,
        state: &State,
    ) -> Result<Address, HeartbeatError> {
        let (at, ledger) = (heartbeat.at, state.head().timestamp);
        // First: it costs nothing.
        let apart = at
            .saturating_since(ledger)
            .get()
            .max(ledger.saturating_since(at).get());
        if apart > span(HEARTBEAT_WINDOW).get() {
            return Err(HeartbeatError::Time { at, ledger });
        }
        let account = heartbeat.account(state.domain())?;
        if state.provider(&account).is_none() {
            return Err(HeartbeatError::NoProvider { account });
        }
        Ok(account)
    }

    /// Notes that a heartbeat of `account` says `at`; false if it is not newer than the last one, or comes sooner after it than
    /// heartbeats do.
    pub(crate) fn beat(&mut self, account: Address, at: TimestampMs, now: TimestampMs) -> bool {
        // Stops: a copy that keeps a dead provider alive.
        let newest = self.newest.get(&account);
        if newest.is_some_and(|newest| *newest >= at) {
            return false;
        }
        // Stops: one provider's beats, each passed on, in whose crowd those of others are left out.
        let heard = self.heard.get(&account).filter(|_| newest.is_some());
        if heard.is_some_and(|heard| now.saturating_since(*heard) < span(HEARTBEAT_LEAST)) {
            return false;
        }
        self.note(account, now);
        self.newest
            .retain(|provider, _| self.heard.contains_key(provider));
        self.newest.insert(account, at);
        true
    }

    /// Notes that `provider` spoke; beyond [`PROVIDERS_HEARD_MAX`] the one that was silent longest is forgotten.
    fn note(&mut self, provider: Address, now: TimestampMs) {
        self.heard.insert(provider, now);
        if self.heard.len() > PROVIDERS_HEARD_MAX {
            let oldest = self.heard.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(provider, _)| *provider) {
                self.heard.remove(&oldest);
            }
        }
    }

    /// What the validator `me` has to report on `state` at `now`: nothing if it reported in this epoch, or nothing changed.
    #[must_use]
    pub fn report(&self, state: &State, me: &Address, now: TimestampMs) -> Option<Transaction> {
        let epoch = Schedule::epoch(state.head().height.next());
        let last = state.liveness_reports().get(me);
        if last.is_some_and(|it| it.epoch >= epoch) {
            return None;
        }
        let known: &[Address] = last.map_or(&[], |it| &it.lost);
        let is_silent = |at: &TimestampMs| now.saturating_since(*at) > span(PROVIDER_SILENCE_MAX);
        let is_known = |provider: &Address| known.binary_search(provider).is_ok();
        let heard = self.heard.iter();
        let back: Vec<Address> = heard
            .clone()
            .filter(|(provider, at)| is_known(provider) && !is_silent(at))
            .map(|(provider, _)| *provider)
            .collect();
        let room = (LOST_PER_VALIDATOR_MAX + back.len()).saturating_sub(known.len());
        let lost: Vec<Address> = heard
            .filter(|(provider, at)| {
                is_silent(at) && !is_known(provider) && state.provider(provider).is_some()
            })
            .map(|(provider, _)| *provider)
            .take(room)
            .collect();
        let changed = !lost.is_empty() || !back.is_empty();
        changed.then_some(Transaction::ReportLiveness { epoch, lost, back })
    }
}

/// Milliseconds since this process first asked, on a clock that nobody sets: a wall clock that is set forward must not make
/// all providers seem silent.
#[must_use]
pub fn steady_now() -> TimestampMs {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    TimestampMs::new(u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_ledger::{
        ConsensusKey, Genesis, Parameters, Proposal, Validator, development_domain, propose,
    };
    use tg_types::{
        Amount, DurationMs, Label, Machine, ModeSet, OfferTerms, Pricing, SignedTransaction,
    };

    use super::*;
    use tg_types::Wallet;

    const START: u64 = 1_000_000;

    fn provider() -> Wallet {
        Wallet::from_seed(b"provider")
    }

    fn validator(index: u8) -> Wallet {
        Wallet::from_seed(&[index])
    }

    fn block(state: &State, transactions: Vec<SignedTransaction>, at: u64) -> State {
        let proposed = propose(
            state,
            Proposal {
                proposer: state.validators()[0].address,
                timestamp: TimestampMs::new(at),
                transactions,
                verdicts: vec![],
            },
        )
        .unwrap();
        assert!(proposed.refused.is_empty(), "{:?}", proposed.refused);
        proposed.state
    }

    /// A ledger of four validators and one provider with an offer.
    fn ledger() -> State {
        let mut validators: Vec<Validator> = (0..4)
            .map(|index| Validator {
                address: validator(index).address(),
                key: ConsensusKey::new([index; 32]),
                stake: Amount::from_tgrid(1),
            })
            .collect();
        validators.sort_by_key(|it| it.address);
        let state = State::genesis(&Genesis {
            domain: development_domain(),
            parameters: Parameters::development(),
            timestamp: TimestampMs::new(START),
            accounts: vec![(provider().address(), Amount::from_tgrid(100))],
            validators,
        })
        .unwrap();
        let terms = OfferTerms {
            hardware: Label::default(),
            price_base: Amount::new(1),
            price_per_mmac: Amount::ZERO,
            latency_base_ms: DurationMs::new(1),
            speed_mmac_per_s: 1,
            memory_bytes: 100,
            slots: 1,
            collateral_per_lease: Amount::from_tgrid(1),
            modes: ModeSet::UNSEALED,
            machine: Machine::CPU_ONLY,
            price_per_gpu_second: Amount::ZERO,
            pricing: Pricing::Fixed,
        };
        let post = provider().sign(Transaction::PostOffer { terms }, 0, state.domain());
        block(&state, vec![post], START + 1)
    }

    fn silence() -> u64 {
        span(PROVIDER_SILENCE_MAX).get()
    }

    #[test]
    fn who_was_heard_and_fell_silent_is_lost_and_comes_back() {
        let mut state = ledger();
        let mut watch = Watch::default();
        let me = validator(0).address();
        let at = |after: u64| TimestampMs::new(START + after);
        // Never heard: not judged.
        assert_eq!(watch.report(&state, &me, at(10 * silence())), None);
        watch.note(provider().address(), at(0));
        assert_eq!(watch.report(&state, &me, at(silence())), None);
        let lost = watch.report(&state, &me, at(silence() + 1)).unwrap();
        let expected = Transaction::ReportLiveness {
            epoch: 0,
            lost: vec![provider().address()],
            back: vec![],
        };
        assert_eq!(lost, expected);
        // Three of four say so, each once: the ledger believes it.
        for index in 0..3 {
            let who = validator(index);
            let report = watch
                .report(&state, &who.address(), at(silence() + 1))
                .unwrap();
            let signed = who.sign(report, 0, state.domain());
            state = block(
                &state,
                vec![signed],
                START + silence() + 2 + u64::from(index),
            );
            let is_offline = state.provider(&provider().address()).unwrap().is_offline;
            assert_eq!(is_offline, index == 2);
            assert_eq!(
                watch.report(&state, &who.address(), at(2 * silence())),
                None
            );
        }
        // It speaks again: said in the next epoch, and only by who had said the other.
        watch.note(provider().address(), at(2 * silence()));
        let mut time = START + 2 * silence();
        while Schedule::epoch(state.head().height.next()) == 0 {
            time += 1;
            state = block(&state, vec![], time);
        }
        let back = watch.report(&state, &me, TimestampMs::new(time)).unwrap();
        let expected = Transaction::ReportLiveness {
            epoch: 1,
            lost: vec![],
            back: vec![provider().address()],
        };
        assert_eq!(back, expected);
        let fourth = validator(3).address();
        assert_eq!(watch.report(&state, &fourth, TimestampMs::new(time)), None);
        let signed = validator(0).sign(back, 1, state.domain());
        state = block(&state, vec![signed], time + 1);
        assert!(!state.provider(&provider().address()).unwrap().is_offline);
    }

    #[test]
    fn a_heartbeat_counts_once_in_its_time_and_from_a_provider() {
        let state = ledger();
        let domain = *state.domain();
        let ledger_time = state.head().timestamp;
        let after = |ms: u64| TimestampMs::new(ledger_time.get() + ms);
        let mut watch = Watch::default();
        let beat = Heartbeat::new(after(5), &provider(), &domain);
        let who = Watch::provider_of(&beat, &state).unwrap();
        assert_eq!(who, provider().address());
        let least = span(HEARTBEAT_LEAST).get();
        // The first one, a copy, an older one, a newer one that comes too soon, and one that does not.
        for (at, heard, counts) in [
            (5, 0, true),
            (5, least + 1, false),
            (4, least + 1, false),
            (6, least - 1, false),
            (6, least, true),
        ] {
            assert_eq!(
                watch.beat(who, after(at), after(heard)),
                counts,
                "{at} {heard}"
            );
        }
        assert_eq!(watch.heard[&who], after(least));
        let window = span(HEARTBEAT_WINDOW).get();
        let early = Heartbeat::new(after(window + 1), &provider(), &domain);
        let late = TimestampMs::new(ledger_time.get() - window - 1);
        for heartbeat in [early, Heartbeat::new(late, &provider(), &domain)] {
            let error = Watch::provider_of(&heartbeat, &state).unwrap_err();
            assert_eq!(error.code(), "TG-NODE-061");
        }
        // Somebody else, and a heartbeat that was changed on its way.
        let stranger = Heartbeat::new(after(6), &validator(0), &domain);
        let changed = Heartbeat {
            at: after(7),
            ..beat
        };
        for heartbeat in [stranger, changed] {
            let error = Watch::provider_of(&heartbeat, &state).unwrap_err();
            assert!(
                matches!(error, HeartbeatError::NoProvider { .. }),
                "{error}"
            );
        }
        assert_eq!(watch.newest.len(), 1);
    }

    #[test]
    fn strangers_are_not_reported_and_do_not_fill_the_memory() {
        let state = ledger();
        let mut watch = Watch::default();
        for index in 0..=PROVIDERS_HEARD_MAX as u64 {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&index.to_be_bytes());
            watch.note(Address::new(bytes), TimestampMs::new(START + index));
        }
        assert_eq!(watch.heard.len(), PROVIDERS_HEARD_MAX);
        let first = Address::new([0; 20]);
        assert!(
            !watch.heard.contains_key(&first),
            "the oldest was forgotten"
        );
        let late = TimestampMs::new(START + 100 * silence());
        assert_eq!(watch.report(&state, &validator(0).address(), late), None);
    }
}
