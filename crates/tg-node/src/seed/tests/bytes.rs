//! Bytes of liars at every entry: nothing panics, nothing passes, and the round goes on.

use commonware_cryptography::bls12381::dkg::feldman_desmedt::Dealer;
use commonware_cryptography::bls12381::primitives::variant::MinSig;
use commonware_utils::N3f1;
use tg_types::{Decode as _, Encode as _};

use crate::key::ValidatorKey;
use crate::seed::kept::KeptRound;
use crate::seed::round::Round;
use crate::seed::{
    DealingError, DealingsError, SeedMachine, SeedPhase, SeedStanding, SeedView, check_dealing,
    dealing_bytes_max, key_of_dealings, verify_seed,
};
use crate::wire::SeedMessage;

use super::grid::{NETWORK, SeedGrid};

/// Variants of some bytes: each cut short in places, longer, and with one bit flipped in places.
fn variants(bytes: &[u8], count: usize) -> Vec<Vec<u8>> {
    let stride = (bytes.len() / count).max(1);
    let mut all = vec![vec![], vec![0xff; bytes.len()], vec![0; bytes.len()]];
    all.push([bytes, &[0]].concat());
    for (number, place) in (0..bytes.len()).step_by(stride).enumerate() {
        all.push(bytes[..place].to_vec());
        let mut flipped = bytes.to_vec();
        flipped[place] ^= 1 << (number % 8);
        all.push(flipped);
    }
    all
}

#[test]
fn changed_messages_stop_no_round() {
    let mut grid = SeedGrid::new(4, 21);
    grid.until("a log", |grid| !grid.dealings.is_empty());
    // A restarted validator with a fresh memory of whom it refused hears what 3 sent, changed.
    let heard: Vec<_> = grid.sent.iter().filter(|flight| flight.from == 3).collect();
    let heard: Vec<_> = heard
        .into_iter()
        .map(|flight| flight.bytes.clone())
        .collect();
    let liar = grid.peer(3);
    let mut fed = 0;
    for bytes in heard.iter().take(6) {
        for variant in variants(bytes, 40) {
            let Ok(message) = SeedMessage::from_bytes(&variant) else {
                continue;
            };
            fed += 1;
            let key = ValidatorKey::from_seed(0);
            let mut fresh = SeedMachine::new(NETWORK, &key, [9; 32], None);
            fresh.view(&grid.view(), grid.now);
            fresh.message(&liar, &message);
            fresh.progress(grid.now);
            if let Some(machine) = &mut grid.machines[0] {
                machine.message(&liar, &message);
            }
            grid.settle(0);
        }
    }
    assert!(fed > 100, "{fed} messages");
    grid.until_ready();
    grid.want(&[5]);
    for bytes in partial_of(&grid, 3) {
        for variant in variants(&bytes, 65) {
            if let Ok(message) = SeedMessage::from_bytes(&variant) {
                grid.machines[0].as_mut().unwrap().message(&liar, &message);
                grid.settle(0);
            }
        }
    }
    grid.until_seeds();
    for place in 0..3 {
        assert_eq!(grid.standing(place), SeedStanding::Holding);
    }
}

fn partial_of(grid: &SeedGrid, place: usize) -> Vec<Vec<u8>> {
    let sent = grid.sent.iter().filter(|flight| flight.from == place);
    sent.filter(|flight| flight.bytes[0] == 2)
        .map(|flight| flight.bytes.clone())
        .take(1)
        .collect()
}

#[test]
fn changed_logs_are_refused_and_change_no_key() {
    let mut grid = SeedGrid::new(4, 22);
    grid.until_ready();
    let (participants, logs) = (grid.participants(), grid.logs());
    let right = grid.key.unwrap();
    let mut reasons = [0; 2];
    for log in &logs {
        assert!(log.len() <= dealing_bytes_max(4));
    }
    for variant in variants(&logs[0], 200) {
        match check_dealing(&NETWORK, 1, &participants, &variant) {
            Err(DealingError::Malformed) => reasons[0] += 1,
            Err(DealingError::Signature) => reasons[1] += 1,
            other => panic!("{other:?}"),
        }
        let list = [vec![variant], logs.clone()].concat();
        assert_eq!(
            key_of_dealings(&NETWORK, 1, &participants, &list),
            Ok(right)
        );
    }
    assert!(reasons[0] > 0 && reasons[1] > 0, "{reasons:?}");
    let huge = vec![1; dealing_bytes_max(4) + 1];
    let refused = check_dealing(&NETWORK, 1, &participants, &huge);
    assert_eq!(refused, Err(DealingError::Malformed));
    for wrong in [vec![], vec![[2; 32]; 4], vec![participants[0]; 2]] {
        let refused = key_of_dealings(&NETWORK, 1, &wrong, &logs);
        assert_eq!(refused, Err(DealingsError::Participants));
        let refused = check_dealing(&NETWORK, 1, &wrong, &logs[0]);
        assert_eq!(refused, Err(DealingError::Participants));
    }
    let many: Vec<_> = (0..129)
        .map(|seed| ValidatorKey::from_seed(seed).public())
        .collect();
    let refused = key_of_dealings(&NETWORK, 1, &many, &logs);
    assert_eq!(refused, Err(DealingsError::Participants));
    // A participant's own log is a stranger's among others.
    let others = [&participants[1..], &[many[100]]].concat();
    let refused = check_dealing(&NETWORK, 1, &others, &logs[0]);
    assert_eq!(refused, Err(DealingError::Signature));
}

#[test]
fn a_log_with_too_few_acknowledgements_is_faulty() {
    let participants: Vec<_> = (0..4)
        .map(|seed| ValidatorKey::from_seed(seed).public())
        .collect();
    let round = Round::new(NETWORK, 1, &participants).unwrap();
    // The dealer whose log counts in any list.
    let first = (0..4).map(ValidatorKey::from_seed);
    let key = first.min_by_key(ValidatorKey::public).unwrap();
    let (dealer, ..) = Dealer::<MinSig, _>::start::<N3f1>(
        round.transcript().noise(b"test"),
        round.info,
        key.private().clone(),
        None,
    )
    .unwrap();
    let log = commonware_codec::Encode::encode(&dealer.finalize::<N3f1>()).to_vec();
    let refused = check_dealing(&NETWORK, 1, &participants, &log);
    assert_eq!(refused, Err(DealingError::Faulty));
    let refused = check_dealing(&NETWORK, 2, &participants, &log);
    assert_eq!(refused, Err(DealingError::Signature));
    // Of one dealer the first log counts, usable or not.
    let mut grid = SeedGrid::new(4, 26);
    grid.until_ready();
    let own = |(dealer, _): &&([u8; 32], Vec<u8>)| *dealer == key.public();
    let good = grid.dealings.iter().find(own).unwrap().1.clone();
    let others: Vec<_> = grid.logs().into_iter().filter(|log| *log != good).collect();
    let key_of = |first: &[&Vec<u8>]| {
        let first = first.iter().map(|log| (*log).clone());
        let list: Vec<_> = first.chain(others.clone()).collect();
        key_of_dealings(&NETWORK, 1, &participants, &list).unwrap()
    };
    assert_eq!(key_of(&[&good, &log]), key_of(&[&good]));
    assert_eq!(key_of(&[&log, &good]), key_of(&[]));
    assert_ne!(key_of(&[&good]), key_of(&[]));
}

#[test]
fn changed_seeds_and_keys_do_not_verify() {
    let mut grid = SeedGrid::new(4, 23);
    grid.until_ready();
    grid.want(&[5]);
    let seed = grid.until_seeds()[&5];
    let key = grid.key.unwrap();
    for bit in 0..8 * 48 {
        let mut wrong = seed;
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(!verify_seed(&NETWORK, &key, 1, 5, &wrong));
    }
    for bit in 0..8 * 96 {
        let mut wrong = key;
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(!verify_seed(&NETWORK, &wrong, 1, 5, &seed));
    }
    let mut infinity = ([0; 96], [0; 48]);
    (infinity.0[0], infinity.1[0]) = (0xc0, 0xc0);
    for (key, seed) in [
        (infinity.0, infinity.1),
        (key, infinity.1),
        ([0; 96], [0; 48]),
    ] {
        assert!(!verify_seed(&NETWORK, &key, 1, 5, &seed));
    }
}

#[test]
fn kept_bytes_survive_and_changed_ones_stop_no_validator() {
    let mut grid = SeedGrid::new(4, 24);
    grid.until_ready();
    let kept = grid.disks[0].clone().unwrap();
    let decoded = KeptRound::from_bytes(&kept).unwrap();
    assert_eq!(decoded.to_bytes(), kept);
    assert_eq!(decoded.received.len(), 4);
    let text = format!("{decoded:?}");
    assert!(text.contains("DealerSecret(..)") && text.contains("DealtShare(..)"));
    let dealing = SeedView {
        phase: SeedPhase::Dealing { dealt: vec![] },
        ..grid.view()
    };
    for variant in variants(&kept, 60) {
        for view in [&dealing, &grid.view()] {
            let key = ValidatorKey::from_seed(0);
            let mut machine = SeedMachine::new(NETWORK, &key, [1; 32], Some(&variant));
            machine.view(view, grid.now);
            machine.progress(grid.now);
            machine.effects();
        }
    }
    // A state whose key its logs do not make: no share of it is used.
    let other = SeedView {
        phase: SeedPhase::Ready {
            key: [7; 96],
            dealings: grid.logs(),
        },
        wanted: vec![5],
        ..grid.view()
    };
    let key = ValidatorKey::from_seed(0);
    let mut machine = SeedMachine::new(NETWORK, &key, [1; 32], Some(&kept));
    machine.view(&other, grid.now);
    let without = SeedStanding::Without(crate::seed::NoShare::OtherKey);
    assert_eq!(machine.standing(), without);
    machine.progress(grid.now);
    assert_eq!(machine.effects().len(), 0);
}
