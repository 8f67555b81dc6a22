//! Machines against each other: honest, silent, restarted and lying ones.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, which print their seeds and times"
)]

mod bytes;
mod grid;
mod timing;

use std::collections::BTreeSet;

use grid::{Flight, NETWORK, SeedGrid};
use tg_types::{Decode as _, DurationMs, Encode as _};

use crate::wire::{DealtShare, SeedMessage};

use super::{NoShare, SeedRefusal, SeedStanding, key_of_dealings, verify_seed};

fn check_seeds(grid: &mut SeedGrid, heights: &[u64]) {
    grid.want(heights);
    let seeds = grid.until_seeds();
    assert_eq!(seeds.keys().copied().collect::<Vec<_>>(), heights);
    let key = grid.key.unwrap();
    for (height, seed) in &seeds {
        assert!(verify_seed(&NETWORK, &key, grid.round, *height, seed));
        assert!(!verify_seed(&NETWORK, &key, grid.round, *height + 1, seed));
        assert!(!verify_seed(&NETWORK, &key, grid.round + 1, *height, seed));
        assert!(!verify_seed(&[0; 32], &key, grid.round, *height, seed));
    }
    assert_eq!(seeds.values().collect::<BTreeSet<_>>().len(), heights.len());
}

fn assert_all_hold(grid: &SeedGrid) {
    for machine in grid.machines.iter().flatten() {
        assert_eq!(machine.standing(), SeedStanding::Holding);
        assert_eq!(machine.dealing(), None);
    }
}

#[test]
fn honest_validators_make_a_key_and_seeds() {
    for (count, seed) in [(1, 1), (2, 2), (4, 3), (7, 4)] {
        println!("count {count}, seed {seed}");
        let mut grid = SeedGrid::new(count, seed);
        grid.until_ready();
        assert_all_hold(&grid);
        check_seeds(&mut grid, &[5, 6, 7]);
        check_seeds(&mut grid, &[7, 9]);
        assert_eq!(grid.refusals, []);
        let first = grid.key;
        grid.next_round();
        grid.until_ready();
        assert_all_hold(&grid);
        assert_ne!(grid.key, first);
        check_seeds(&mut grid, &[11]);
    }
}

#[test]
fn silent_validators_stop_nothing_and_have_shares_when_they_come() {
    for (count, silent, seed) in [(4, 1, 5), (7, 2, 6)] {
        println!("count {count}, seed {seed}");
        let mut grid = SeedGrid::new(count, seed);
        for place in 0..silent {
            grid.stop(place);
            grid.disks[place] = None;
        }
        grid.flights.retain(|flight| flight.from >= silent);
        grid.until_ready();
        assert_all_hold(&grid);
        check_seeds(&mut grid, &[5, 6]);
        // Their shares stand in the logs.
        for place in 0..silent {
            grid.start(place);
            assert_eq!(grid.standing(place), SeedStanding::Holding);
        }
        grid.until_seeds();
        check_seeds(&mut grid, &[8]);
    }
}

#[test]
fn more_than_f_silent_validators_stop_it() {
    let mut grid = SeedGrid::new(4, 7);
    grid.stop(0);
    grid.stop(1);
    for _ in 0..3_000 {
        grid.step();
    }
    assert!(grid.dealings.is_empty());
    assert_eq!(grid.key, None);
}

/// The first one keeps its parts of seeds to itself.
fn but_parts_of_one(from: usize, _to: usize, message: SeedMessage) -> Option<SeedMessage> {
    let is_part = matches!(message, SeedMessage::Partial { .. });
    (!is_part || from >= 1).then_some(message)
}

/// The first two do.
fn but_parts_of_two(from: usize, to: usize, message: SeedMessage) -> Option<SeedMessage> {
    but_parts_of_one(from.saturating_sub(1), to, message)
}

/// f withhold their parts while one more is away: the others have no seed, and nothing weaker, until that one is back. The faulty may know the seed meanwhile,
/// as they have the parts of n - f, but it is the one that there is: they win time and no choice.
#[test]
fn who_withholds_while_another_is_away_wins_time_and_no_choice() {
    for (count, faulty, seed) in [(4, 1, 21), (7, 2, 22)] {
        println!("count {count}, seed {seed}");
        let mut grid = SeedGrid::new(count, seed);
        grid.tamper = match faulty {
            1 => but_parts_of_one as grid::Tamper,
            _ => but_parts_of_two,
        };
        grid.until_ready();
        grid.stop(count - 1);
        let asked = grid.now;
        grid.want(&[5]);
        while grid.now.saturating_since(asked) < DurationMs::from_secs(20) {
            grid.step();
        }
        let seeds = |grid: &SeedGrid, place: usize| {
            let machine = grid.machines[place].as_ref().unwrap();
            machine.signatures()
        };
        for place in faulty..count - 1 {
            assert!(seeds(&grid, place).is_empty(), "validator {place}");
        }
        let known = seeds(&grid, 0);
        let (key, round) = (grid.key.unwrap(), grid.round);
        assert_eq!(known.len(), 1);
        assert!(verify_seed(&NETWORK, &key, round, 5, &known[0].1));
        grid.start(count - 1);
        let back = grid.now;
        assert_eq!(grid.until_seeds()[&5], known[0].1);
        let cost = grid.now.saturating_since(back);
        println!("a seed {} ms after it was back", cost.get());
        assert!(cost <= DurationMs::from_secs(2), "{} ms", cost.get());
    }
}

#[test]
fn lost_messages_are_sent_again() {
    for (count, loss, seed) in [(4, 30, 8), (4, 60, 9), (7, 30, 10)] {
        println!("count {count}, loss {loss} %, seed {seed}");
        let mut grid = SeedGrid::new(count, seed);
        grid.loss = loss;
        grid.until_ready();
        assert_all_hold(&grid);
        check_seeds(&mut grid, &[5, 6, 7]);
        assert_eq!(grid.refusals, []);
    }
}

/// All polynomials that a validator sent in a round.
fn polynomials(grid: &SeedGrid, place: usize) -> BTreeSet<Vec<u8>> {
    let sent = grid.sent.iter().filter(|flight| flight.from == place);
    sent.filter_map(|flight| match SeedMessage::from_bytes(&flight.bytes) {
        Ok(SeedMessage::Dealing { round, public, .. }) if round == grid.round => Some(public),
        _ => None,
    })
    .collect()
}

#[test]
fn a_restarted_validator_deals_the_same_and_has_its_share() {
    for steps in [0, 3, 10, 20, 30, 60] {
        println!("restart after {steps} steps");
        let mut grid = SeedGrid::new(4, 11);
        grid.loss = 20;
        for _ in 0..steps {
            grid.step();
        }
        grid.stop(0);
        for _ in 0..5 {
            grid.step();
        }
        grid.start(0);
        grid.until_ready();
        assert_all_hold(&grid);
        assert_eq!(polynomials(&grid, 0).len(), 1);
        assert_eq!(grid.refusals, []);
        // And once more with the key in the state.
        grid.stop(0);
        grid.start(0);
        assert_eq!(grid.standing(0), SeedStanding::Holding);
        check_seeds(&mut grid, &[5, 6]);
    }
}

#[test]
fn a_validator_without_its_disk_deals_again_in_the_next_round_only() {
    let mut grid = SeedGrid::new(4, 12);
    grid.until("a log", |grid| !grid.dealings.is_empty());
    grid.stop(0);
    grid.disks[0] = None;
    let before = polynomials(&grid, 0);
    grid.start(0);
    assert_eq!(grid.standing(0), SeedStanding::Watching);
    // Once more, now that its disk may have the round: still no dealing.
    grid.until("three logs", |grid| grid.dealings.len() >= 3);
    grid.stop(0);
    grid.start(0);
    assert_eq!(grid.machines[0].as_ref().unwrap().dealing(), None);
    grid.until_ready();
    assert_eq!(polynomials(&grid, 0), before);
    assert_eq!(grid.standing(0), SeedStanding::Without(NoShare::Lost));
    // It signs nothing, and has the seeds all the same.
    let sent = grid.sent.len();
    check_seeds(&mut grid, &[5]);
    let is_partial = |flight: &Flight| flight.bytes[0] == 2;
    let mut partials = grid.sent[sent..].iter().filter(|flight| is_partial(flight));
    assert!(partials.all(|flight| flight.from != 0));
    grid.next_round();
    grid.until_ready();
    assert_eq!(polynomials(&grid, 0).len(), 1);
    assert_all_hold(&grid);
    check_seeds(&mut grid, &[6]);
}

#[test]
fn an_earlier_round_seen_while_catching_up_changes_nothing() {
    let mut grid = SeedGrid::new(4, 13);
    let old = grid.view();
    grid.next_round();
    grid.until("a log", |grid| !grid.dealings.is_empty());
    grid.stop(0);
    let kept = grid.disks[0].clone();
    let now = grid.now;
    grid.start(0);
    // A new machine from the same disk, which sees the old state first.
    let mut machine = super::SeedMachine::new(NETWORK, &grid.keys[0], [99; 32], kept.as_deref());
    machine.view(&old, now);
    assert_eq!(machine.standing(), SeedStanding::Outside);
    machine.progress(now);
    assert_eq!(machine.effects().len(), 0);
    machine.view(&grid.view(), now);
    assert_eq!(machine.standing(), SeedStanding::Dealing);
    machine.view(&old, now);
    assert_eq!(machine.standing(), SeedStanding::Dealing);
}

#[test]
fn a_wrong_share_is_refused_and_revealed() {
    let mut grid = SeedGrid::new(4, 14);
    grid.tamper = |from, to, message| match (from, to, message) {
        (
            0,
            1,
            SeedMessage::Dealing {
                round,
                public,
                mut private,
            },
        ) => {
            private.0[31] ^= 1;
            Some(SeedMessage::Dealing {
                round,
                public,
                private,
            })
        }
        (_, _, message) => Some(message),
    };
    grid.flights.clear();
    for place in 0..4 {
        grid.stop(place);
        grid.disks[place] = None;
        grid.start(place);
    }
    grid.until_ready();
    // Once: the second time it is not looked at.
    assert_eq!(grid.refusals, [(1, 0, SeedRefusal::Dealing)]);
    assert!(SeedRefusal::Dealing.is_fault());
    let dealer = grid.keys[0].public();
    assert!(grid.dealings.iter().any(|(other, _)| *other == dealer));
    assert_all_hold(&grid);
    check_seeds(&mut grid, &[5]);
}

#[test]
fn wrong_partial_signatures_make_no_seed() {
    let mut grid = SeedGrid::new(4, 15);
    // Validator 0 signs another height than it says.
    grid.tamper = |from, _, message| match (from, message) {
        (
            0,
            SeedMessage::Partial {
                round,
                height,
                signature,
            },
        ) => Some(SeedMessage::Partial {
            round,
            height: height ^ 1,
            signature,
        }),
        (_, message) => Some(message),
    };
    grid.until_ready();
    check_seeds(&mut grid, &[4, 5]);
    check_seeds(&mut grid, &[6, 7]);
    let faults: Vec<_> = grid.refusals.iter().filter(|(at, ..)| *at != 0).collect();
    assert!(!faults.is_empty());
    for (_, from, refusal) in faults {
        assert_eq!(*from, 0);
        assert!(matches!(refusal, SeedRefusal::Partial { height: 4..=7 }));
        assert!(refusal.is_fault());
    }
}

/// The partial signatures of height 5 by all.
fn partials_of(grid: &mut SeedGrid) -> Vec<SeedMessage> {
    let start = grid.sent.len();
    grid.want(&[5]);
    let sent = &grid.sent[start..];
    (0..grid.keys.len())
        .map(|place| {
            let mut own = sent.iter().filter(|flight| flight.from == place);
            SeedMessage::from_bytes(&own.next().unwrap().bytes).unwrap()
        })
        .collect()
}

#[test]
fn any_quorum_gives_the_same_seed_and_no_fewer_give_any() {
    let mut grid = SeedGrid::new(7, 16);
    grid.until_ready();
    let partials = partials_of(&mut grid);
    grid.flights.clear();
    let mut seeds = BTreeSet::new();
    for at in 0..7 {
        for skipped in [1, 3] {
            // Forgets what it heard.
            grid.stop(at);
            grid.start(at);
            // Itself and four others: five of seven.
            let others = (0..7).map(|step| (at + skipped + step) % 7);
            let others: Vec<_> = others.filter(|other| *other != at).take(4).collect();
            for (heard, from) in others.iter().enumerate() {
                let peer = grid.peer(*from);
                let machine = grid.machines[at].as_mut().unwrap();
                assert_eq!(machine.signatures(), [], "{heard} others gave a seed");
                // Twice is once.
                machine.message(&peer, &partials[*from]);
                machine.message(&peer, &partials[*from]);
            }
            let machine = grid.machines[at].as_mut().unwrap();
            let [(5, seed)] = machine.signatures()[..] else {
                panic!("no seed of five");
            };
            seeds.insert(seed);
        }
    }
    assert_eq!(seeds.len(), 1);
}

#[test]
fn partial_signatures_that_come_early_are_used_and_bounded() {
    let mut grid = SeedGrid::new(4, 17);
    grid.until_ready();
    let partials = partials_of(&mut grid);
    grid.stop(3);
    grid.want(&[]);
    grid.start(3);
    for (from, partial) in partials.iter().enumerate().take(2) {
        let peer = grid.peer(from);
        grid.machines[3].as_mut().unwrap().message(&peer, partial);
    }
    grid.want(&[5]);
    let machine = grid.machines[3].as_ref().unwrap();
    assert_eq!(machine.signatures().len(), 1);
    // Many heights of one peer push out its own, and nobody else's.
    grid.stop(3);
    grid.want(&[]);
    grid.start(3);
    for (from, partial) in partials.iter().enumerate().take(2) {
        let peer = grid.peer(from);
        grid.machines[3].as_mut().unwrap().message(&peer, partial);
    }
    let peer = grid.peer(0);
    for height in 100..200 {
        let message = SeedMessage::Partial {
            round: 1,
            height,
            signature: [0; 48],
        };
        grid.machines[3].as_mut().unwrap().message(&peer, &message);
    }
    grid.want(&[5]);
    assert_eq!(grid.machines[3].as_ref().unwrap().signatures(), []);
    let peer = grid.peer(0);
    let machine = grid.machines[3].as_mut().unwrap();
    machine.message(&peer, &partials[0]);
    assert_eq!(machine.signatures().len(), 1);
    assert_eq!(grid.refusals, []);
}

#[test]
fn strangers_and_other_rounds_are_refused() {
    let mut grid = SeedGrid::new(4, 18);
    let stranger = crate::key::peer(&crate::key::ValidatorKey::from_seed(99));
    let message = |round| SeedMessage::Partial {
        round,
        height: 1,
        signature: [1; 48],
    };
    let own = grid.peer(0);
    let other = grid.peer(1);
    let machine = grid.machines[0].as_mut().unwrap();
    machine.effects();
    machine.message(&stranger, &message(1));
    machine.message(&own, &message(1));
    machine.message(&other, &message(2));
    let refusals: Vec<_> = machine
        .effects()
        .into_iter()
        .map(|effect| match effect {
            super::SeedEffect::Refuse(_, refusal) => refusal,
            other => panic!("{other:?}"),
        })
        .collect();
    let other_round = SeedRefusal::OtherRound {
        ours: Some(1),
        theirs: 2,
    };
    assert_eq!(
        refusals,
        [SeedRefusal::Outsider, SeedRefusal::Outsider, other_round]
    );
    assert!(!other_round.is_fault());
}

#[test]
fn a_second_polynomial_of_a_dealer_is_not_acknowledged() {
    let mut grid = SeedGrid::new(4, 19);
    grid.until("a log", |grid| !grid.dealings.is_empty());
    let dealing = |grid: &SeedGrid, from: usize| {
        let mut sent = grid.sent.iter().filter(|flight| flight.from == from);
        sent.find(|flight| flight.to == 1 && flight.bytes[0] == 0)
            .map(|flight| flight.bytes.clone())
            .unwrap()
    };
    let (first, second) = (dealing(&grid, 0), dealing(&grid, 2));
    let peer = grid.peer(0);
    let machine = grid.machines[1].as_mut().unwrap();
    machine.message(&peer, &SeedMessage::from_bytes(&first).unwrap());
    machine.effects();
    machine.message(&peer, &SeedMessage::from_bytes(&second).unwrap());
    let effects = machine.effects();
    let [super::SeedEffect::Refuse(_, SeedRefusal::SecondDealing)] = effects[..] else {
        panic!("{effects:?}");
    };
    // The first is acknowledged as often as it comes, with the same bytes.
    let mut answers = BTreeSet::new();
    for _ in 0..2 {
        machine.message(&peer, &SeedMessage::from_bytes(&first).unwrap());
        let effects = machine.effects();
        let [super::SeedEffect::Send(_, message)] = &effects[..] else {
            panic!("{effects:?}");
        };
        answers.insert(message.to_bytes());
    }
    assert_eq!(answers.len(), 1);
}

#[test]
fn the_key_does_not_depend_on_order_or_on_invalid_logs() {
    let mut grid = SeedGrid::new(4, 20);
    grid.until_ready();
    let (participants, logs) = (grid.participants(), grid.logs());
    let key = |logs: &[Vec<u8>]| key_of_dealings(&NETWORK, 1, &participants, logs);
    let right = grid.key.unwrap();
    let mut reversed = logs.clone();
    reversed.reverse();
    assert_eq!(key(&reversed), Ok(right));
    let mut rotated = participants.clone();
    rotated.rotate_left(1);
    assert_eq!(key_of_dealings(&NETWORK, 1, &rotated, &logs), Ok(right));
    let twice = [logs.as_slice(), &logs].concat();
    assert_eq!(key(&twice), Ok(right));
    let mut wrong = logs[0].clone();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let noisy = [
        vec![vec![], vec![0; 100], wrong.clone()],
        logs.clone(),
        vec![wrong],
    ]
    .concat();
    assert_eq!(key(&noisy), Ok(right));
    // n - f logs make a key, and another one if they are others; fewer make none.
    key(&logs[..3]).unwrap();
    assert_ne!(key(&logs[..3]), key(&logs[1..]));
    let few = super::DealingsError::Insufficient {
        found: 2,
        required: 3,
    };
    assert_eq!(key(&logs[..2]), Err(few));
    // The logs of another round or network are none of this one.
    let none = super::DealingsError::Insufficient {
        found: 0,
        required: 3,
    };
    assert_eq!(
        key_of_dealings(&NETWORK, 2, &participants, &logs),
        Err(none)
    );
    assert_eq!(
        key_of_dealings(&[0; 32], 1, &participants, &logs),
        Err(none)
    );
    let share = DealtShare([7; 32]);
    assert_eq!(format!("{share:?}"), "DealtShare(..)");
}

/// Networks of all kinds: loss, restarts from disk at any time, up to f validators that lie or stop for good.
#[test]
fn random_networks_make_keys_and_seeds() {
    let runs = std::env::var("TG_SEED_RUNS").map_or(8, |runs| runs.parse().unwrap());
    for seed in 100..100 + runs {
        let mut draw = SeedGrid::new(1, seed);
        let count = [4, 7][usize::try_from(draw.draw(2)).unwrap()];
        let loss = draw.draw(50);
        let faulty = usize::try_from(draw.draw((count as u64 - 1) / 3 + 1)).unwrap();
        let liar = draw.draw(2) == 0;
        println!("seed {seed}: {count} validators, loss {loss} %, faulty {faulty}, lying {liar}");
        let mut grid = SeedGrid::new(count, seed);
        grid.loss = loss;
        for place in 0..faulty {
            grid.lies[place] = liar;
            if !liar && grid.draw(2) == 0 {
                grid.stop(place);
            }
        }
        for round in 0..2 {
            random_restarts(&mut grid, faulty);
            grid.until_ready();
            for place in faulty..count {
                assert_eq!(grid.standing(place), SeedStanding::Holding);
                assert_eq!(polynomials(&grid, place).len(), 1);
            }
            let quorum = grid.quorum();
            assert!(grid.dealings.len() >= quorum);
            grid.want(&[5, 6]);
            random_restarts(&mut grid, faulty);
            grid.until_seeds();
            check_seeds(&mut grid, &[6, 7 + round]);
            grid.next_round();
        }
        let faults = grid
            .refusals
            .iter()
            .filter(|(at, _, refusal)| *at >= faulty && refusal.is_fault());
        for (at, from, refusal) in faults {
            assert!(*from < faulty, "{at} blames {from}: {refusal}");
        }
    }
}

/// Some steps in which honest validators stop and start again from their disks.
fn random_restarts(grid: &mut SeedGrid, faulty: usize) {
    for _ in 0..grid.draw(4) {
        let place = usize::try_from(grid.draw(grid.keys.len() as u64)).unwrap();
        for _ in 0..grid.draw(30) {
            grid.step();
        }
        if place >= faulty {
            grid.stop(place);
            for _ in 0..grid.draw(10) {
                grid.step();
            }
            grid.start(place);
        }
    }
}

#[test]
fn the_formats_are_pinned() {
    const fn is_send<T: Send + 'static>() {}
    is_send::<super::SeedMachine>();
    let mut grid = SeedGrid::new(1, 25);
    grid.until_ready();
    grid.want(&[5]);
    let seed = grid.until_seeds()[&5];
    let hash = blake3::hash(&grid.logs()[0]).to_hex();
    let key = tg_types::digest::hex(&grid.key.unwrap());
    let pinned = [hash.as_str(), &key, &tg_types::digest::hex(&seed)];
    assert_eq!(pinned, [LOG_HASH, KEY, SEED]);
}

/// The BLAKE3 of the log of one validator alone, with `[1; 32]` as entropy; what it makes; and a seed of it.
const LOG_HASH: &str = "adb8a6b553b97cc1505c3a3f00a04037c0f0fea202f533ecd32ff21ea7edef16";
const KEY: &str = "85c48f686964d846424cf0ebb4de98d103f3df410c78baa1f9b43b4a1ebbad335ccc9f8410f1d1f6c15413eb29db941f\
                   07166442ab7327a413a342506d65d51cde4e31499e1d70c4811c021fb635d269a324113b750de387cbf1e576871de5da";
const SEED: &str = "892c95ff5b2768a9b0bdd3f45517fb69af7befc9beb1874cd1ba24b1e4427ca172abc715e3575ec35e36d2f150c8d0be";
