//! A stored state is the same state.

use proptest::prelude::*;
use tg_ledger::{Block, Genesis, GenesisError, Outcome, State, apply};
use tg_types::{Amount, Decode, DecodeError, Encode};

use crate::world::{World, genesis, rejected};

/// A state with jobs that were paid, rejected, are leased and wait.
fn busy() -> World {
    let mut world = World::with_offers();
    let paid = world.submit("alice", world.order());
    let task = world.work(paid);
    world.decide(&task, Outcome::LeaseAccepted);
    let lied = world.submit("alice", world.order());
    let task = world.work(lied);
    world.decide(&task, rejected());
    for _ in 0..5 {
        world.submit("alice", world.order());
    }
    world
}

#[test]
fn a_stored_state_goes_on_as_if_nothing_had_happened() {
    let mut world = busy();
    let bytes = world.state.to_bytes();
    let restored = State::from_bytes(&bytes).unwrap();
    assert_eq!(restored.root(), world.state.root());
    assert_eq!(restored.head(), world.state.head());
    assert_eq!(restored.to_bytes(), bytes);
    let ids = |state: &State| -> Vec<_> { state.queued_jobs().map(|it| it.id).collect() };
    assert_eq!(ids(&restored), ids(&world.state));
    let ended = |state: &State| -> Vec<_> { state.ended_jobs().map(|it| it.id).collect() };
    assert_eq!(ended(&restored), ended(&world.state));
    world.wait_until(world.time + 60_000);
    let (next, _) = apply(&restored, world.blocks.last().unwrap()).unwrap();
    assert_eq!(next.root(), world.state.root());
}

#[test]
fn genesis_and_blocks_replay_to_the_same_state() {
    let world = busy();
    let stored = Genesis::from_bytes(&genesis().to_bytes()).unwrap();
    assert_eq!(stored, genesis());
    let mut state = State::genesis(&stored).unwrap();
    for block in &world.blocks {
        let block = Block::from_bytes(&block.to_bytes()).unwrap();
        state = apply(&state, &block).unwrap().0;
    }
    assert_eq!(state.root(), world.state.root());
    assert_eq!(state.to_bytes(), world.state.to_bytes());
}

#[test]
fn a_truncated_state_is_refused() {
    let bytes = busy().state.to_bytes();
    for end in (0..bytes.len()).step_by(97) {
        assert!(State::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(
        State::from_bytes(&longer).unwrap_err(),
        DecodeError::Trailing { extra: 1 }
    );
    let mut future = bytes;
    future[0] = 6;
    assert_eq!(
        State::from_bytes(&future).unwrap_err(),
        DecodeError::Invalid {
            field: "state version",
            value: 6
        }
    );
}

#[test]
fn a_genesis_is_checked() {
    type Spoil = fn(&mut Genesis);
    let cases: [(Spoil, GenesisError); 6] = [
        (|it| it.validators.clear(), GenesisError::NoValidator),
        (
            |it| it.accounts.swap(0, 1),
            GenesisError::UnsortedAccounts { index: 1 },
        ),
        (
            |it| it.accounts[1] = it.accounts[0],
            GenesisError::UnsortedAccounts { index: 1 },
        ),
        (
            |it| it.validators.swap(1, 2),
            GenesisError::UnsortedValidators { index: 2 },
        ),
        (
            |it| it.accounts[0].1 = Amount::MAX,
            GenesisError::TooMuchMoney,
        ),
        (
            |it| it.validators = vec![it.validators[0].clone(); 129],
            GenesisError::TooManyValidators { count: 129 },
        ),
    ];
    for (spoil, expected) in cases {
        let mut genesis = genesis();
        spoil(&mut genesis);
        assert_eq!(State::genesis(&genesis).unwrap_err(), expected);
    }
    let mut other = genesis();
    other.domain.salt[0] ^= 1;
    assert_ne!(other.id(), genesis().id());
}

proptest! {
    #![proptest_config(crate::config(64))]

    #[test]
    fn flipped_bytes_of_a_state_never_panic(at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let state = busy_bytes();
        let mut bytes = state.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(read) = State::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_no_block_or_a_canonical_one(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(block) = Block::from_bytes(&bytes) {
            prop_assert_eq!(block.to_bytes(), bytes);
        }
    }
}

fn busy_bytes() -> &'static Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| busy().state.to_bytes())
}
