//! Who is drawn into a committee, of more validators than it has seats.

use std::collections::{BTreeMap, BTreeSet};

use tg_types::{Address, Amount, Digest, LeaseId, TimestampMs, Wallet};

use crate::limits::COMMITTEE_SEATS;
use crate::{ConsensusKey, Genesis, Parameters, State, Validator, development_domain};

fn network(validators: u8) -> State {
    let seat = |index: u8| Validator {
        address: Wallet::from_seed(&[index]).address(),
        key: ConsensusKey::new([index; 32]),
        stake: Amount::from_tgrid(1_000),
    };
    let mut validators: Vec<Validator> = (0..validators).map(seat).collect();
    validators.sort_by_key(|it| it.address);
    State::genesis(&Genesis {
        domain: development_domain(),
        parameters: Parameters::development().wide_enough_for(validators.len()),
        timestamp: TimestampMs::new(1_000),
        accounts: vec![(
            Wallet::from_seed(b"alice").address(),
            Amount::from_tgrid(10),
        )],
        validators,
    })
    .unwrap()
}

/// The members by the seed and the lease of a number.
fn drawn(state: &State, turn: u64, number: u8) -> Vec<Address> {
    let seed = Digest::of_blob(&turn.to_le_bytes());
    let lease = LeaseId::new(*Digest::of_blob(b"lease").as_bytes());
    state.committee(&seed, &lease, number, COMMITTEE_SEATS)
}

#[test]
fn sixteen_of_forty_are_drawn_each_as_often_and_others_when_they_are_silent() {
    let state = network(40);
    let all: BTreeSet<Address> = state.validators.iter().map(|it| it.address).collect();
    let mut times: BTreeMap<Address, u32> = BTreeMap::new();
    for turn in 0..1_000 {
        let first = drawn(&state, turn, 0);
        assert_eq!(first.len(), COMMITTEE_SEATS);
        // In the order of addresses, each once.
        assert!(first.is_sorted_by(|a, b| a < b), "{turn}");
        assert!(first.iter().all(|it| all.contains(it)));
        let second = drawn(&state, turn, 1);
        assert_eq!(second.len(), COMMITTEE_SEATS);
        assert!(second.is_sorted_by(|a, b| a < b), "{turn}");
        assert_ne!(first, second, "{turn}");
        let whole: BTreeSet<Address> = drawn(&state, turn, 2).into_iter().collect();
        assert_eq!(whole, all);
        for member in first {
            *times.entry(member).or_default() += 1;
        }
    }
    // 400 times each, with a deviation of 15.5.
    assert_eq!(times.len(), 40);
    assert!(
        times.values().all(|it| (320..=480).contains(it)),
        "{times:?}"
    );
}

#[test]
fn another_lease_of_the_same_seed_has_other_members() {
    let state = network(40);
    let seed = Digest::of_blob(b"seed");
    let of = |lease: u8| state.committee(&seed, &LeaseId::new([lease; 32]), 0, COMMITTEE_SEATS);
    let committees: BTreeSet<Vec<Address>> = (0..100).map(of).collect();
    assert_eq!(committees.len(), 100);
}

#[test]
fn up_to_sixteen_validators_are_all_members() {
    for validators in [4, 16] {
        let state = network(validators);
        for number in 0..4 {
            assert_eq!(
                drawn(&state, 7, number).len(),
                usize::from(validators),
                "{number}"
            );
        }
    }
    assert_eq!(drawn(&network(17), 7, 0).len(), COMMITTEE_SEATS);
}
