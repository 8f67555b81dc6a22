//! Whether this program can execute the protocol version of the next block. A program that cannot must neither execute the
//! block nor vote on it: it stops with a reason, and a release that has the version continues from its data.

use tg_ledger::{PROTOCOL_VERSION, State};
use tg_types::{Address, Transaction};

/// The next block has a version that this program does not execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "from block {height} on the network has version {version} of the protocol, and this program executes version {speaks}: start the \
     program of a release that has it, and it goes on from here"
)]
pub struct UnknownProtocol {
    /// The block.
    pub height: u64,
    /// Its version.
    pub version: u16,
    /// The newest version that this program executes.
    pub speaks: u16,
}

/// Whether a program that `speaks` a version executes the block after a state.
pub(crate) fn check(state: &State, speaks: u16) -> Result<(), UnknownProtocol> {
    let version = state.next_protocol();
    // Older ones too: a genesis of another release, whose rules this program does not have any more.
    match (PROTOCOL_VERSION..=speaks).contains(&version) {
        true => Ok(()),
        false => Err(UnknownProtocol {
            height: state.head().height.next().get(),
            version,
            speaks,
        }),
    }
}

/// What a validator that `speaks` a version says of the next one, once.
pub(crate) fn readiness(state: &State, me: &Address, speaks: u16) -> Option<Transaction> {
    let version = state.head().protocol.checked_add(1)?;
    let has_seat = state.seat_of(me).is_some();
    let is_due = has_seat && version <= speaks && !state.is_ready_for_next(me);
    is_due.then_some(Transaction::ReadyForProtocol { version })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_ledger::{ConsensusKey, Genesis, Parameters, Validator, development_domain};
    use tg_types::{Amount, TimestampMs};

    use super::*;

    #[test]
    fn a_network_of_an_older_or_newer_version_is_refused_at_its_first_block() {
        let state = |protocol| {
            let parameters = Parameters {
                protocol,
                ..Parameters::development()
            };
            State::genesis(&Genesis {
                domain: development_domain(),
                parameters,
                timestamp: TimestampMs::new(1),
                accounts: vec![],
                validators: vec![Validator {
                    address: Address::new([1; 20]),
                    key: ConsensusKey::new([1; 32]),
                    stake: Amount::from_tgrid(1),
                }],
            })
            .unwrap()
        };
        let now = PROTOCOL_VERSION;
        assert_eq!(check(&state(now), now), Ok(()));
        assert_eq!(check(&state(now + 1), now + 1), Ok(()));
        for version in [0, now - 1, now + 1, u16::MAX] {
            let unknown = UnknownProtocol {
                height: 1,
                version,
                speaks: now,
            };
            assert_eq!(check(&state(version), now), Err(unknown));
        }
    }
}
