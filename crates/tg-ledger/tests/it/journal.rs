//! A journal is reproduced bit for bit, and a flipped bit is found where it is.

use proptest::prelude::*;
use tg_ledger::{Entry, JournalWriter, ReplayError, replay};
use tg_types::{GpuModel, Height};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{World, genesis};

/// A journal of a small market, with the state root at its end and where each entry begins.
fn journal() -> (Vec<u8>, tg_types::StateRoot, Vec<usize>) {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    world.post("dear", gpu_terms(GpuModel::H100, 1, 90));
    for seconds in [60, 90, 30] {
        let job = world.submit("alice", world.order_for(gpu_needs(1, seconds)));
        assert!(world.job(job).live_lease().is_some());
    }
    let mut writer = JournalWriter::new(&genesis());
    let mut state = tg_ledger::State::genesis(&genesis()).unwrap();
    let mut starts = Vec::new();
    for block in &world.blocks {
        starts.push(writer.clone().into_bytes().len());
        let (next, events) = tg_ledger::apply(&state, block).unwrap();
        writer.append(&Entry::of(block, &next, &events));
        state = next;
    }
    assert_eq!(state.root(), world.state.root());
    (writer.into_bytes(), state.root(), starts)
}

#[test]
fn a_journal_is_reproduced() {
    let (bytes, root, starts) = journal();
    let replayed = replay(&bytes).unwrap();
    assert_eq!(replayed.state.root(), root);
    assert_eq!(replayed.blocks, starts.len() as u64);
    assert_eq!(replayed.decisions, 3);
    assert!(matches!(
        replay(b"no journal"),
        Err(ReplayError::NoJournal(_))
    ));
    let cut = replay(&bytes[..bytes.len() - 1]);
    assert!(
        matches!(cut, Err(ReplayError::Unreadable { height, .. }) if height == Height::new(starts.len() as u64))
    );
}

#[test]
fn a_changed_decision_is_named() {
    let (mut bytes, _, starts) = journal();
    // The last entry ends with its only decision (from 8 bytes before it: its start) and the root.
    let at = bytes.len() - 32 - 8 - 1;
    bytes[at] ^= 1;
    match replay(&bytes) {
        Err(ReplayError::Decision {
            height,
            index,
            recorded,
            executed,
        }) => {
            assert_eq!((height.get(), index), (starts.len() as u64, 0));
            assert_ne!(recorded, executed);
        }
        other => panic!("{:?}", other.err()),
    }
    bytes[at] ^= 1;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(
        replay(&bytes),
        Err(ReplayError::ScheduleRoot { .. })
    ));
}

proptest! {
    #![proptest_config(crate::config(96))]

    #[test]
    fn any_flipped_bit_is_found_in_its_block(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let (good, root, starts) = journal();
        let at = at.index(good.len());
        let mut bytes = good;
        bytes[at] ^= 1 << bit;
        let block = starts.iter().filter(|start| **start <= at).count() as u64;
        match replay(&bytes) {
            // Only the name of a proposer who earned nothing is without effect on what follows.
            Ok(replayed) => prop_assert_eq!(replayed.state.root(), root),
            Err(ReplayError::NoJournal(_) | ReplayError::Genesis(_)) => prop_assert_eq!(block, 0),
            Err(
                ReplayError::Unreadable { height, .. }
                | ReplayError::Block { height, .. }
                | ReplayError::Decision { height, .. }
                | ReplayError::ScheduleRoot { height, .. },
            ) => {
                // A changed header shows when the next block does not follow; a changed genesis at once.
                prop_assert!(height.get() == block || height.get() == block + 1);
            }
        }
    }
}
