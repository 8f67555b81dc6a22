//! The version of the protocol that blocks have, and how it changes.

use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{Event, PROTOCOL_VERSION, State, TransactionError, Upgrade};
use tg_types::CheckedSignatures;
use tg_types::{Address, Decode as _, Encode as _, Height, Transaction};

use crate::seats::Village;
use crate::world::{World, wallet};

const NEXT: u16 = PROTOCOL_VERSION + 1;

/// The validator with this number says that it executes `version`.
fn ready(village: &mut Village, number: u8, version: u16) -> Vec<Event> {
    let transaction = Transaction::ReadyForProtocol { version };
    village
        .world
        .send(&format!("validator {number}"), transaction)
}

fn versions(village: &Village, last: usize) -> Vec<u16> {
    let blocks = village.world.blocks.iter().rev().take(last);
    let mut versions: Vec<u16> = blocks.map(|it| it.header.version).collect();
    versions.reverse();
    versions
}

fn announced(events: &[Event]) -> Option<(u16, u64)> {
    events.iter().find_map(|event| match event {
        Event::ProtocolAnnounced { version, from } => Some((*version, from.get())),
        _ => None,
    })
}

#[test]
fn a_version_begins_an_epoch_after_two_thirds_of_the_seats_are_ready() {
    let mut village = Village::new();
    ready(&mut village, 0, NEXT);
    ready(&mut village, 1, NEXT);
    assert_eq!(announced(&village.epoch()), None, "two of four are too few");
    ready(&mut village, 2, NEXT);
    let from = 2 * EPOCH_BLOCKS + EPOCH_BLOCKS + 1;
    assert_eq!(announced(&village.epoch()), Some((NEXT, from)));
    let upgrade = Upgrade {
        version: NEXT,
        from: Height::new(from),
    };
    assert_eq!(village.state().seats().upgrade, Some(upgrade));
    let stored = State::from_bytes(&village.state().to_bytes()).unwrap();
    assert_eq!(stored.root(), village.state().root());
    // The last one may still say so; nothing else happens until then.
    assert_eq!(village.state().next_protocol(), PROTOCOL_VERSION);
    ready(&mut village, 3, NEXT);
    village.epoch();
    assert_eq!(village.state().next_protocol(), NEXT);
    assert_eq!(village.state().head().protocol, PROTOCOL_VERSION);
    let events = village.step();
    assert!(events.contains(&Event::ProtocolBegan { version: NEXT }));
    assert_eq!(versions(&village, 2), [PROTOCOL_VERSION, NEXT]);
    assert_eq!(village.state().seats().upgrade, None);
    assert_eq!(village.state().ready_seats(), 0);
    // The same again, for the one after it.
    for number in 0..3 {
        ready(&mut village, number, NEXT + 1);
    }
    assert!(announced(&village.epoch()).is_some());
    village.epoch();
    village.step();
    assert_eq!(versions(&village, 2), [NEXT, NEXT + 1]);
}

#[test]
fn a_version_is_put_off_if_too_few_are_ready_when_it_would_begin() {
    let mut village = Village::new();
    for number in 0..3 {
        ready(&mut village, number, NEXT);
    }
    assert!(announced(&village.epoch()).is_some());
    // A fifth seat: now four must be ready, and three are.
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    let events = village.epoch();
    assert_eq!(village.count(), 5);
    assert!(events.contains(&Event::ProtocolPutOff { version: NEXT }));
    village.step();
    assert_eq!(versions(&village, 1), [PROTOCOL_VERSION]);
    assert_eq!(village.state().ready_seats(), 3, "they are ready still");
    // The newcomer is what was missing: announced anew, and begun.
    village
        .world
        .send("alice", Transaction::ReadyForProtocol { version: NEXT });
    assert!(announced(&village.epoch()).is_some());
    village.epoch();
    village.step();
    assert_eq!(versions(&village, 1), [NEXT]);
}

fn refusal(world: &World, name: &str, version: u16) -> TransactionError {
    let who = wallet(name);
    let nonce = world.state.nonce(&who.address());
    let transaction = Transaction::ReadyForProtocol { version };
    let signed = who.sign(transaction, nonce, world.state.domain());
    tg_ledger::check_transaction(&world.state, &signed, &CheckedSignatures::none()).unwrap_err()
}

#[test]
fn only_validators_say_so_once_and_for_the_next_version() {
    let mut village = Village::new();
    let sender: Address = wallet("alice").address();
    assert_eq!(
        refusal(&village.world, "alice", NEXT),
        TransactionError::NotValidator { sender }
    );
    for got in [0, PROTOCOL_VERSION, NEXT + 1, u16::MAX] {
        let now = PROTOCOL_VERSION;
        assert_eq!(
            refusal(&village.world, "validator 0", got),
            TransactionError::NotNextProtocol { got, now }
        );
    }
    ready(&mut village, 0, NEXT);
    assert_eq!(
        refusal(&village.world, "validator 0", NEXT),
        TransactionError::ReadyAlready { version: NEXT }
    );
}
