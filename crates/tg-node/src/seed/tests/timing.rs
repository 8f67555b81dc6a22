//! What the steps cost: `TG_SEED_TIMES=4,16,64 cargo test --release -p tg-node --lib seed::tests::timing -- --nocapture`.

use std::time::Duration;

use commonware_utils::Participant;
use rustix::time::{ClockId, clock_gettime};
use tg_types::TimestampMs;

use crate::key::{ValidatorKey, peer};
use crate::seed::dealer::OwnDealing;
use crate::seed::kept::DealerSecret;
use crate::seed::partials::Partials;
use crate::seed::player::{DealingAnswer, ReceivedDealings};
use crate::seed::round::Round;
use crate::seed::signature::SeedScope;
use crate::seed::{check_dealing, dealing_bytes_max, key_of_dealings, verify_seed};
use crate::wire::SeedMessage;

use super::grid::NETWORK;

/// The processor time of the thread in milliseconds.
fn milliseconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let span = Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap(),
    );
    span.as_secs_f64() * 1e3
}

fn timed<T>(name: &str, count: usize, work: impl FnOnce() -> T) -> T {
    let start = milliseconds();
    let done = work();
    let each = (milliseconds() - start) / count as f64;
    println!("  {name}: {each:.3} ms");
    done
}

#[test]
fn the_steps_of_a_round_are_timed() {
    let counts = std::env::var("TG_SEED_TIMES").unwrap_or_else(|_| "4".into());
    for count in counts.split(',') {
        time_round(count.parse().unwrap());
    }
}

fn time_round(count: u64) {
    println!("{count} validators");
    let keys: Vec<_> = (0..count).map(ValidatorKey::from_seed).collect();
    let participants: Vec<_> = keys.iter().map(ValidatorKey::public).collect();
    let round = Round::new(NETWORK, 1, &participants).unwrap();
    let quorum = round.quorum();
    let now = TimestampMs::new(1);
    let mut dealings = timed("dealing, one dealer", keys.len(), || {
        let deal = |key: &ValidatorKey| {
            OwnDealing::new(&round, key.private(), &DealerSecret(key.public()), now)
        };
        keys.iter().map(deal).collect::<Vec<_>>()
    });
    dealings.truncate(quorum);
    let mut players: Vec<_> = keys
        .iter()
        .map(|key| ReceivedDealings::new(&round, key.private(), vec![]))
        .collect();
    players.truncate(quorum);
    let mut answers = Vec::new();
    timed("receiving one dealing", quorum * quorum, || {
        for (dealer, dealing) in keys.iter().zip(&dealings) {
            for (player, key) in players.iter_mut().zip(&keys) {
                let Some(SeedMessage::Dealing {
                    public, private, ..
                }) = dealing.to(&round, &peer(key))
                else {
                    panic!("dealt to all");
                };
                let answer = player.dealing(&round, &peer(dealer), &public, &private);
                let Ok(DealingAnswer::New(answer)) = answer else {
                    panic!("a good dealing");
                };
                answers.push(answer);
            }
        }
    });
    timed("one acknowledgement", quorum * quorum, || {
        for (dealing, answers) in dealings.iter_mut().zip(answers.chunks(quorum)) {
            for (key, answer) in keys.iter().zip(answers) {
                dealing.acknowledged(&peer(key), answer).unwrap();
            }
        }
    });
    let logs: Vec<_> = dealings
        .iter_mut()
        .map(|dealing| {
            dealing.progress(&round, TimestampMs::new(10_000), &mut Vec::new());
            dealing.log().unwrap().to_vec()
        })
        .collect();
    println!(
        "  log: {} of at most {} bytes",
        logs[0].len(),
        dealing_bytes_max(keys.len())
    );
    timed("check_dealing", 1, || {
        check_dealing(&NETWORK, 1, &participants, &logs[0])
    })
    .unwrap();
    let key = timed("key_of_dealings", 1, || {
        key_of_dealings(&NETWORK, 1, &participants, &logs)
    })
    .unwrap();
    let outcomes = timed("share and polynomial", quorum, || {
        let finalise = |player: ReceivedDealings| player.finalise(&round, &key, &logs);
        players.into_iter().map(finalise).collect::<Vec<_>>()
    });
    time_seed(&round, key, outcomes);
}

fn time_seed(round: &Round, key: [u8; 96], outcomes: Vec<crate::seed::player::KeyShare>) {
    let now = TimestampMs::new(1);
    let quorum = round.quorum();
    let index = |place: u64| {
        let key = ValidatorKey::from_seed(place);
        Participant::from_usize(round.peers.position(&peer(&key)).unwrap())
    };
    let mut all: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| {
            let scope = SeedScope::new(&NETWORK, 1);
            Partials::new(
                scope,
                outcome.sharing.unwrap(),
                Some(outcome.share.unwrap()),
            )
        })
        .collect();
    timed("partial signature, signing", quorum, || {
        for partials in &mut all {
            partials.want(&[5], now);
        }
    });
    let sent: Vec<_> = all
        .iter_mut()
        .map(|partials| partials.due(now).0[0].1)
        .collect();
    let one = quorum.saturating_sub(2);
    timed("partial signature, taking", one.max(1), || {
        for (place, signature) in (1_u64..).zip(&sent[1..]).take(one) {
            assert!(all[0].take(index(place), 5, signature).is_empty());
        }
    });
    let last = quorum as u64 - 1;
    timed("recovery with its check", 1, || {
        all[0].take(index(last), 5, &sent[quorum - 1])
    });
    let [(5, seed)] = all[0].seeds()[..] else {
        panic!("no seed");
    };
    let valid = timed("verify_seed", 10, || {
        (0..10).all(|_| verify_seed(&NETWORK, &key, 1, 5, &seed))
    });
    assert!(valid);
    // The first participant lies: all are checked one by one.
    timed("recovery when one lies, the search included", 1, || {
        let mut liar = sent[0];
        liar.copy_from_slice(&seed);
        all[1].take(index(0), 5, &liar);
        for (place, signature) in (2_u64..).zip(&sent[2..]) {
            all[1].take(index(place), 5, signature);
        }
    });
}
