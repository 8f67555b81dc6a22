//! Random streams of valid and invalid requests: money is conserved, nothing panics, and every validator agrees.

use proptest::prelude::*;
use tg_ledger::{Block, Event, Outcome, Proposal, State, Subject, Verdict, apply, propose};
use tg_types::{
    Amount, Decode, Digest, DurationMs, Encode, JobId, JobOrder, LeaseId, ModeSet, OfferId,
    Receipt, TimestampMs, Transaction, VerificationMode,
};

use crate::due::next_timeout;
use crate::world::{
    MODEL, PEOPLE, World, address, commit, evidence, facts, receipt, register, rejected, terms,
};

/// What a random actor wants; indices choose among what exists when its turn comes.
#[derive(Debug, Clone)]
enum Wish {
    Pay {
        to: usize,
        amount: u128,
    },
    Register,
    Post {
        price: u64,
        slots: u16,
        collateral: u64,
        quick: bool,
    },
    Withdraw {
        offer: usize,
    },
    Order {
        price: u64,
        seconds: u64,
        attempts: u8,
        zk: bool,
    },
    Cancel {
        job: usize,
    },
    Start {
        lease: usize,
    },
    Commit {
        lease: usize,
        honest: bool,
    },
    Name {
        lease: usize,
        size: u32,
    },
    Replay,
}

#[derive(Debug, Clone)]
struct Turn {
    wishes: Vec<(usize, Wish)>,
    verdicts: Vec<(usize, bool)>,
    wait: u64,
    as_holder: bool,
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let index = || any::<u16>().prop_map(usize::from);
    prop_oneof![
        1 => (0..8usize, 0..u128::from(u64::MAX) * 8)
            .prop_map(|(to, amount)| Wish::Pay { to, amount }),
        1 => Just(Wish::Register),
        2 => (0..200u64, 0..4u16, 5..900u64, any::<bool>()).prop_map(
            |(price, slots, collateral, quick)| Wish::Post { price, slots, collateral, quick }
        ),
        1 => index().prop_map(|offer| Wish::Withdraw { offer }),
        5 => (0..200u64, 0..90u64, 0..4u8, any::<bool>()).prop_map(
            |(price, seconds, attempts, zk)| Wish::Order { price, seconds, attempts, zk }
        ),
        1 => index().prop_map(|job| Wish::Cancel { job }),
        5 => index().prop_map(|lease| Wish::Start { lease }),
        5 => (index(), prop::bool::weighted(0.9))
            .prop_map(|(lease, honest)| Wish::Commit { lease, honest }),
        5 => (index(), prop_oneof![4 => Just(1_000u32), 1 => any::<u32>()])
            .prop_map(|(lease, size)| Wish::Name { lease, size }),
        1 => Just(Wish::Replay),
    ]
}

fn any_turn() -> impl Strategy<Value = Turn> {
    (
        proptest::collection::vec((0..PEOPLE.len(), any_wish()), 0..10),
        proptest::collection::vec((0..6usize, any::<bool>()), 0..4),
        prop_oneof![6 => 0..2_000u64, 1 => 5_000..60_000u64],
        prop::bool::weighted(0.8),
    )
        .prop_map(|(wishes, verdicts, wait, as_holder)| Turn {
            wishes,
            verdicts,
            wait,
            as_holder,
        })
}

fn pick<T: Copy>(items: &[T], index: usize, otherwise: T) -> T {
    match items.len() {
        0 => otherwise,
        count => items[index % count],
    }
}

/// The transaction a wish stands for, and who sends it.
fn realise(world: &World, who: usize, wish: &Wish, as_holder: bool) -> (&'static str, Transaction) {
    let name = PEOPLE[who];
    match wish {
        Wish::Pay { to, amount } => {
            let to = PEOPLE
                .get(*to)
                .map_or(address("newcomer"), |it| address(it));
            let amount = Amount::new(*amount);
            (name, Transaction::Transfer { to, amount })
        }
        Wish::Register | Wish::Replay => (name, register()),
        Wish::Post {
            price,
            slots,
            collateral,
            quick,
        } => {
            let mut terms = terms(*price);
            terms.slots = *slots;
            terms.collateral_per_lease = crate::world::tgrid(*collateral);
            if !quick {
                terms.latency_base_ms = DurationMs::from_secs(30);
                terms.modes = ModeSet::of(&[VerificationMode::Proof]);
            }
            (name, Transaction::PostOffer { terms })
        }
        Wish::Withdraw { offer } => {
            let offers: Vec<OfferId> = world.state.offers().iter().map(|it| it.id).collect();
            let offer = pick(&offers, *offer, OfferId::default());
            (name, Transaction::WithdrawOffer { offer })
        }
        Wish::Order {
            price,
            seconds,
            attempts,
            zk,
        } => {
            let order = JobOrder {
                max_price: crate::world::tgrid(*price),
                deadline: TimestampMs::new(world.time + seconds * 1_000),
                max_attempts: *attempts,
                mode: match zk {
                    true => VerificationMode::Proof,
                    false => VerificationMode::None,
                },
                ..world.order()
            };
            (name, Transaction::SubmitJob { order })
        }
        Wish::Cancel { .. } | Wish::Start { .. } | Wish::Commit { .. } | Wish::Name { .. } => {
            realise_on_job(world, name, wish, as_holder)
        }
    }
}

/// Wishes about a job or a lease that exists; the right account sends them if `as_holder` says so.
fn realise_on_job(
    world: &World,
    name: &'static str,
    wish: &Wish,
    as_holder: bool,
) -> (&'static str, Transaction) {
    let leases: Vec<LeaseId> = world.state.live_leases().map(|(_, it)| it.id).collect();
    let lease_of = |index| pick(&leases, index, LeaseId::default());
    let holder = |lease: LeaseId| {
        let found = world.state.lease(&lease).filter(|_| as_holder);
        let is_holder = |it: &&str| found.is_some_and(|lease| address(it) == lease.provider);
        PEOPLE.into_iter().find(is_holder).unwrap_or(name)
    };
    match wish {
        Wish::Cancel { job } => {
            let jobs: Vec<JobId> = world.state.queued_jobs().map(|it| it.id).collect();
            let job = pick(&jobs, *job, JobId::default());
            let owner = world.state.job(&job).map(|it| it.requestor);
            let is_owner = |it: &&str| as_holder && Some(address(it)) == owner;
            let name = PEOPLE.into_iter().find(is_owner).unwrap_or(name);
            (name, Transaction::CancelJob { job })
        }
        Wish::Start { lease } => {
            let lease = lease_of(*lease);
            (holder(lease), Transaction::StartLease { lease })
        }
        Wish::Commit { lease, honest } => {
            let lease = lease_of(*lease);
            let wrong = Receipt {
                input: Digest::default(),
                ..receipt()
            };
            let transaction = match honest {
                true => commit(lease),
                false => Transaction::CommitReceipt {
                    lease,
                    receipt: wrong,
                },
            };
            (holder(lease), transaction)
        }
        Wish::Name { lease, size } => {
            let lease = lease_of(*lease);
            let Transaction::SubmitEvidence { evidence, .. } = evidence(lease) else {
                return (name, register());
            };
            let size = *size;
            (
                holder(lease),
                Transaction::SubmitEvidence {
                    lease,
                    evidence,
                    size,
                },
            )
        }
        Wish::Pay { .. }
        | Wish::Register
        | Wish::Post { .. }
        | Wish::Withdraw { .. }
        | Wish::Order { .. }
        | Wish::Replay => (name, register()),
    }
}

fn verdicts(world: &World, turn: &Turn) -> Vec<Verdict> {
    let tasks: Vec<_> = world.state.pending_evidence().collect();
    let verdicts = turn.verdicts.iter().filter_map(|(index, accept)| {
        let task = tasks.get(*index)?;
        Some(task.verdict(match (task.subject(), accept) {
            (_, false) => rejected(),
            (Subject::Model(_), true) => Outcome::ModelAccepted(facts()),
            (Subject::Lease(_), true) => Outcome::LeaseAccepted,
            (Subject::SeedKey(_), true) => Outcome::SeedKey([7; 96]),
            (Subject::Seed(_), true) => Outcome::Seed([9; 48]),
            (Subject::Accusation(..) | Subject::Grant(_), true) => Outcome::Refuted,
        }))
    });
    verdicts.collect()
}

/// Runs one stream; [`World::block`] checks every block.
fn run(turns: &[Turn]) -> World {
    let mut world = World::with_offers();
    let mut last = None;
    for turn in turns {
        world.time += turn.wait;
        let mut signed = Vec::new();
        let mut nonces = std::collections::BTreeMap::new();
        for (who, wish) in &turn.wishes {
            if let (Wish::Replay, Some(old)) = (wish, &last) {
                signed.push(tg_types::SignedTransaction::clone(old));
                continue;
            }
            let (name, transaction) = realise(&world, *who, wish, turn.as_holder);
            let sender = crate::world::wallet(name);
            let next = nonces
                .entry(name)
                .or_insert_with(|| world.state.nonce(&sender.address()));
            signed.push(sender.sign(transaction, *next, world.state.domain()));
            // Half of what follows in this block builds on this one, as if it had been taken.
            *next += u64::from(signed.len().is_multiple_of(2));
        }
        let verdicts = verdicts(&world, turn);
        let proposed = world.block(signed, verdicts);
        last = proposed.block.transactions.first().cloned().or(last);
    }
    world
}

proptest! {
    #![proptest_config(crate::config(48))]

    #[test]
    fn money_is_conserved_and_validators_agree(
        turns in proptest::collection::vec(any_turn(), 1..40),
    ) {
        let world = run(&turns);
        // The whole chain again, from stored bytes of the middle state on.
        let again = run(&turns);
        prop_assert_eq!(world.state.to_bytes(), again.state.to_bytes());
        prop_assert!(world.state.model(&MODEL).is_some());
    }

    #[test]
    fn nothing_happens_by_itself_before_the_next_timeout(
        turns in proptest::collection::vec(any_turn(), 1..30),
    ) {
        let world = run(&turns);
        let state = &world.state;
        let idle_at = |time: u64| {
            let proposer = state.validators()[0].address;
            let proposal = Proposal::empty(proposer, TimestampMs::new(time));
            propose(state, proposal).unwrap().events
        };
        // Matching may go on by itself once a suspension ends, so only what time ends is looked at.
        let is_an_end = |event: &Event| {
            matches!(event, Event::LeaseEnded { .. } | Event::JobEnded { .. } | Event::ModelChanged { .. })
        };
        match next_timeout(state) {
            Some(due) => {
                prop_assert!(idle_at(due.get().max(world.time + 1)).iter().any(is_an_end));
                if due.get() > world.time + 1 {
                    prop_assert!(!idle_at(due.get() - 1).iter().any(is_an_end));
                }
            }
            None => prop_assert!(!idle_at(world.time + 1_000_000_000).iter().any(is_an_end)),
        }
    }

    #[test]
    fn a_damaged_block_is_refused_and_never_panics(
        turns in proptest::collection::vec(any_turn(), 3..12),
        damages in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..3),
    ) {
        let world = run(&turns);
        let (last, earlier) = world.blocks.split_last().unwrap();
        let mut state = State::genesis(&crate::world::genesis()).unwrap();
        for block in earlier {
            state = apply(&state, block).unwrap().0;
        }
        let good = last.to_bytes();
        let mut bytes = good.clone();
        for (at, flip) in damages {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        if let Ok(block) = Block::from_bytes(&bytes) {
            let result = apply(&state, &block);
            // Only another proposer's name can hold, if nobody is rewarded in the block.
            if let Ok((next, _)) = result && bytes != good {
                prop_assert_ne!(block.header.proposer, last.header.proposer);
                prop_assert_eq!(next.root(), last.header.state_root);
            }
        }
    }
}

/// The streams above reach what they are meant to reach.
#[test]
fn random_streams_reach_every_end() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(crate::config(1));
    let mut ends = std::collections::BTreeSet::new();
    for _ in 0..24 {
        let strategy = proptest::collection::vec(any_turn(), 40..60);
        let turns = strategy.new_tree(&mut runner).unwrap().current();
        let world = run(&turns);
        ends.extend(world.state.jobs().iter().map(|job| job.state().as_str()));
        let ended = world.state.leases().iter();
        ends.extend(ended.filter_map(|it| it.end()).map(|it| it.as_str()));
    }
    for end in [
        "Paid",
        "Refunded",
        "Expired",
        "Cancelled",
        "Fulfilled",
        "Rejected",
        "Late",
        "Abandoned",
    ] {
        assert!(ends.contains(end), "{end} is missing in {ends:?}");
    }
}
