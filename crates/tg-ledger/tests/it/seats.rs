//! Validators that join, leave, fall silent, and are convicted after they left.

use tg_ledger::limits::{EPOCH_BLOCKS, SILENCE_BLOCKS};
use tg_ledger::{
    ConsensusKey, Event, Genesis, Outcome, Parameters, State, StorageRule, TransactionError,
    Validator,
};
use tg_types::chain::{Equivocation, VoteKind};
use tg_types::{
    Address, Amount, BlockId, Decode as _, DurationMs, Encode as _, Label, StorageSubject,
    Transaction,
};

use crate::voter::Voter;
use crate::world::{TICK, World, address, genesis, wallet};

const BOND: Amount = Amount::from_tgrid(50);

const UNBONDING_MS: u64 = 600_000;

/// A network of which validators come and go; nobody makes blocks whom it is told to leave out.
pub(crate) struct Village {
    pub(crate) world: World,
    genesis: BlockId,
    silent: Vec<Address>,
}

impl Village {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Genesis)) -> Self {
        let mut genesis = genesis();
        genesis.parameters = Parameters {
            seat_bond: BOND,
            unbonding: DurationMs::new(UNBONDING_MS),
            ..genesis.parameters
        };
        change(&mut genesis);
        Self {
            world: World::with(&genesis),
            genesis: genesis.id(),
            silent: Vec::new(),
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.world.state
    }

    pub(crate) fn join(&self, name: &str, key: u8) -> Transaction {
        let voter = Voter::new(key);
        Transaction::JoinValidators {
            key: voter.public,
            endpoint: Label::lossy("10.0.0.7:7100"),
            possession: voter.possession(&self.genesis, &address(name)),
        }
    }

    fn leave(key: u8) -> Transaction {
        let key = Voter::new(key).public;
        Transaction::LeaveValidators { key }
    }

    /// One block by a validator that is not silent.
    pub(crate) fn step(&mut self) -> Vec<Event> {
        let state = self.state();
        let speaks = |it: &&Address| !self.silent.contains(it);
        let all: Vec<Address> = state.validators().iter().map(|it| it.address).collect();
        let all: Vec<&Address> = all.iter().filter(speaks).collect();
        let turn = state.head().height.get() as usize % all.len();
        let proposer = *all[turn];
        self.world.block_by(proposer, vec![], vec![]).events
    }

    /// Blocks until an epoch ends, and the events of the last one.
    pub(crate) fn epoch(&mut self) -> Vec<Event> {
        loop {
            let events = self.step();
            if self.height().is_multiple_of(EPOCH_BLOCKS) {
                return events;
            }
        }
    }

    pub(crate) fn height(&self) -> u64 {
        self.state().head().height.get()
    }

    fn sits(&self, name: &str) -> bool {
        self.state().seat_of(&address(name)).is_some()
    }

    pub(crate) fn count(&self) -> usize {
        self.state().validators().len()
    }
}

fn changed(events: &[Event]) -> Option<(&[Address], &[Address])> {
    events.iter().find_map(|event| match event {
        Event::SeatsChanged { joined, left, .. } => Some((joined.as_slice(), left.as_slice())),
        _ => None,
    })
}

#[test]
fn who_bonds_has_a_seat_when_the_epoch_ends() {
    let mut village = Village::new();
    let before = village.world.balance("alice");
    let join = village.join("alice", 21);
    let events = village.world.send("alice", join);
    assert!(events.contains(&Event::SeatBonded {
        validator: address("alice"),
        amount: BOND
    }));
    let fee = before.get() - village.world.balance("alice").get() - BOND.get();
    assert!(fee > 0 && fee < BOND.get() / 100);
    assert!(!village.sits("alice"));
    // What waits is in the state, and a stored one goes on alike.
    let stored = State::from_bytes(&village.state().to_bytes()).unwrap();
    assert_eq!(stored.seats(), village.state().seats());
    let last = loop {
        assert!(!village.sits("alice"));
        let events = village.step();
        if village.height() == EPOCH_BLOCKS {
            break events;
        }
    };
    assert_eq!(
        changed(&last),
        Some(([address("alice")].as_slice(), [].as_slice()))
    );
    assert_eq!((village.count(), village.state().quorum()), (5, 4));
    let seats = village.state().seats();
    assert_eq!((seats.term, seats.since.get()), (1, EPOCH_BLOCKS));
    assert!(seats.applicants.is_empty());
    // The last block of the old set names the new one, which votes on the next.
    let blocks = &village.world.blocks;
    let headers: Vec<_> = blocks
        .iter()
        .rev()
        .take(2)
        .map(|it| it.header.seats)
        .collect();
    assert_ne!(headers[0], headers[1]);
    // It makes blocks, and has its share of fees.
    village.world.block_by(address("alice"), vec![], vec![]);
}

#[test]
fn newcomers_come_one_after_the_other_and_only_while_the_last_one_is_there() {
    let mut village = Village::new();
    for (name, key) in [("alice", 21), ("bob", 22), ("mallory", 23)] {
        let join = village.join(name, key);
        village.world.send(name, join);
    }
    village.silent = vec![address("alice")];
    for _ in 0..3 {
        village.epoch();
        // Four bear one silent seat of five; with two of six nothing would be final any more.
        assert_eq!(village.count(), 5);
        assert!(village.sits("alice"));
    }
    village.silent.clear();
    village.epoch();
    village.epoch();
    assert!(village.sits("bob"), "{}", village.count());
}

/// Bonds with nobody behind them, a few in each epoch: the validators that are there stay a quorum.
#[test]
fn seats_that_never_made_a_block_are_never_more_than_the_faults_that_a_set_bears() {
    let bidders: Vec<String> = (0..12).map(|it| format!("bidder {it}")).collect();
    let mut village = Village::with(|genesis| {
        genesis.parameters = genesis.parameters.wide_enough_for(40);
        for index in 4..16u8 {
            genesis.validators.push(Validator {
                address: address(&format!("validator {index}")),
                key: ConsensusKey::new([index; 32]),
                stake: Amount::from_tgrid(1_000),
            });
        }
        genesis.validators.sort_by_key(|it| it.address);
        let bidders = bidders
            .iter()
            .map(|it| (address(it), Amount::from_tgrid(100)));
        genesis.accounts.extend(bidders);
        genesis.accounts.sort();
    });
    for (index, name) in bidders.iter().enumerate() {
        let join = village.join(name, 40 + u8::try_from(index).unwrap());
        village.world.send(name, join);
    }
    village.silent = bidders.iter().map(|it| address(it)).collect();
    for epoch in 0..5 {
        village.epoch();
        let silent = village.silent.iter();
        let silent = silent.filter(|it| village.state().seat_of(it).is_some());
        let (silent, all) = (silent.count(), village.count());
        assert!(silent <= (all - 1) / 3, "{silent} of {all}");
        assert!(epoch > 0 || silent > 0);
        // One that sits leaves, so that the set changes again.
        let sits = (0..12).find(|&it| village.sits(&bidders[it]));
        let index = sits.unwrap();
        let leave = Village::leave(40 + u8::try_from(index).unwrap());
        village.world.send(&bidders[index], leave);
    }
}

/// Validators that come and go in each epoch leave the others the time to make the key of seeds, though not without end.
#[test]
fn a_set_changes_once_its_key_of_seeds_is_known_or_is_long_in_the_making() {
    let mut village = Village::new();
    let (mut changes, began) = (Vec::new(), village.world.time);
    for (name, key) in [("alice", 21), ("bob", 22)] {
        let join = village.join(name, key);
        village.world.send(name, join);
    }
    // Epochs of 6.4 s, in which nobody deals.
    while changes.len() < 2 {
        village.world.time -= TICK - 100;
        if changed(&village.step()).is_some() {
            changes.push(village.world.time - began);
        }
    }
    let [first, second] = [changes[0], changes[1] - changes[0]];
    assert!((20_000..30_000).contains(&first), "{changes:?}");
    assert!((20_000..30_000).contains(&second), "{changes:?}");
}

#[test]
fn a_set_of_four_is_left_when_another_comes() {
    let mut village = Village::new();
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    village.epoch();
    village.epoch();
    assert_eq!(village.count(), 5);
    let balance = village.world.balance("alice");
    village.world.send("alice", Village::leave(21));
    let again = village.world.refusal("alice", Village::leave(21));
    assert_eq!(
        again,
        TransactionError::LeavesAlready {
            account: address("alice")
        }
    );
    village.epoch();
    assert_eq!(village.count(), 4);
    assert!(!village.sits("alice"));
    let unbonding = &village.state().seats().unbonding[0];
    assert_eq!(unbonding.validator.stake, BOND);
    let until = unbonding.until.get();
    // Neither the account nor the key sits again before the bond is back.
    let join = village.join("alice", 24);
    let error = village.world.refusal("alice", join);
    assert_eq!(
        error,
        TransactionError::HasSeat {
            account: address("alice")
        }
    );
    let join = village.join("bob", 21);
    let error = village.world.refusal("bob", join);
    assert!(matches!(error, TransactionError::KeyHasSeat { .. }));
    while village.world.time < until {
        assert_eq!(village.state().seats().unbonding.len(), 1);
        village.step();
    }
    assert!(village.state().seats().unbonding.is_empty());
    let now = village.world.balance("alice");
    assert!(now.get() > balance.get() + BOND.get() * 99 / 100);
    // Nobody leaves four, until somebody comes.
    let join = village.join("alice", 25);
    village.world.send("alice", join);
    village.epoch();
    assert_eq!(village.count(), 5);
}

#[test]
fn a_waiting_account_takes_its_bond_back_at_once() {
    let mut village = Village::new();
    let before = village.world.balance("alice");
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    let events = village.world.send("alice", Village::leave(21));
    assert!(events.contains(&Event::StakeReturned {
        validator: address("alice"),
        amount: BOND
    }));
    let lost = before.get() - village.world.balance("alice").get();
    assert!(lost < BOND.get() / 50);
    assert_eq!(changed(&village.epoch()), None);
}

#[test]
fn a_bond_answers_for_votes_after_the_seat_ended() {
    let mut village = Village::new();
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    village.epoch();
    village.epoch();
    village.world.send("alice", Village::leave(21));
    village.epoch();
    assert!(!village.sits("alice"));
    let voter = Voter::new(21);
    let vote = |block| voter.vote(&village.genesis, VoteKind::Notarize, 9, block);
    let proof = Equivocation {
        seat: voter.public,
        first: vote(1),
        second: vote(2),
    };
    let report = Transaction::ReportEquivocation { proof };
    let events = village.world.send("bob", report.clone());
    assert!(events.iter().any(|event| matches!(
        event,
        Event::ValidatorSlashed { validator, burned, reward, .. }
            if *validator == address("alice") && burned.get() + reward.get() == BOND.get()
    )));
    assert!(village.state().seats().unbonding.is_empty());
    let again = village.world.refusal("bob", report);
    assert!(matches!(again, TransactionError::NoSeat { .. }));
    let balance = village.world.balance("alice");
    village
        .world
        .wait_until(village.world.time + 2 * UNBONDING_MS);
    assert!(village.world.balance("alice") <= balance);
}

#[test]
fn a_seat_without_a_stake_has_no_share_of_fees() {
    let mut village = Village::new();
    village.world.send("alice", village.join("alice", 21));
    village.epoch();
    village.epoch();
    assert!(village.sits("alice"));
    let voter = Voter::new(21);
    let vote = |block| voter.vote(&village.genesis, VoteKind::Notarize, 9, block);
    let proof = Equivocation {
        seat: voter.public,
        first: vote(1),
        second: vote(2),
    };
    let rewarded = |events: &[Event]| -> Vec<Address> {
        let rewarded = events.iter().filter_map(|event| match event {
            Event::Rewarded { validator, .. } => Some(*validator),
            _ => None,
        });
        rewarded.collect()
    };
    village
        .world
        .send("bob", Transaction::ReportEquivocation { proof });
    // It sits until the epoch ends.
    assert!(village.sits("alice"));
    let after = rewarded(&village.world.send("bob", crate::world::register()));
    assert_eq!(after.len(), 4);
    assert!(!after.contains(&address("alice")));
}

#[test]
fn silence_ends_a_seat_but_never_below_four() {
    let mut village = Village::new();
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    village.epoch();
    // Two of five say nothing: one may go, then there are four.
    let quiet = village.state().validators()[0].address;
    village.silent = vec![address("alice"), quiet];
    village.silent.dedup();
    while village.height() < SILENCE_BLOCKS {
        assert_eq!(village.count(), 5);
        village.step();
    }
    village.epoch();
    village.epoch();
    assert_eq!(village.count(), 4);
    for _ in 0..(SILENCE_BLOCKS / EPOCH_BLOCKS) {
        village.epoch();
        assert_eq!(village.count(), 4);
    }
}

/// After a pause of the whole network nobody is known to be silent for as long as silence takes.
#[test]
fn silence_before_an_outage_ends_no_seat() {
    let mut village = Village::new();
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    village.epoch();
    village.silent = vec![address("alice")];
    while village.height() < SILENCE_BLOCKS - EPOCH_BLOCKS / 2 {
        village.step();
    }
    let pause = village.state().parameters().outage_min;
    // By one that speaks: whoever made the block after the pause is not silent.
    village.world.time += pause.get();
    village.step();
    let outage = village.state().head().outage.unwrap().height.get();
    while village.height() + EPOCH_BLOCKS <= outage + SILENCE_BLOCKS {
        village.epoch();
        assert_eq!(village.count(), 5, "at {}", village.height());
    }
    village.epoch();
    village.epoch();
    assert_eq!(village.count(), 4);
}

#[test]
fn seats_are_asked_for_in_one_way_only() {
    let mut village = Village::new();
    let genesis = village.genesis;
    let voter = Voter::new(21);
    let alice = address("alice");
    let ask = |key, endpoint: &str, possession| Transaction::JoinValidators {
        key,
        endpoint: Label::lossy(endpoint),
        possession,
    };
    let own = voter.possession(&genesis, &alice);
    let no_key = TransactionError::NoPossession { key: voter.public };
    // Another account's, another network's, a changed one.
    let others = voter.possession(&genesis, &address("bob"));
    let elsewhere = voter.possession(&BlockId::new([9; 32]), &alice);
    let mut changed = own;
    changed[3] ^= 1;
    for wrong in [others, elsewhere, changed] {
        let join = ask(voter.public, "10.0.0.7:7100", wrong);
        assert_eq!(village.world.refusal("alice", join), no_key);
    }
    for endpoint in ["", "10.0.0.7", "10.0.0.7:0", "somewhere over there:80"] {
        let join = ask(voter.public, endpoint, own);
        assert_eq!(
            village.world.refusal("alice", join),
            TransactionError::BadEndpoint
        );
    }
    let sits = village.state().validators()[0].clone();
    let join = ask(*sits.key.as_bytes(), "10.0.0.7:7100", own);
    let error = village.world.refusal("alice", join);
    assert!(matches!(error, TransactionError::KeyHasSeat { .. }));
    let strange = Village::leave(21);
    let error = village.world.refusal("alice", strange);
    assert!(matches!(error, TransactionError::NoSeat { .. }));
    let join = village.join("alice", 21);
    village.world.send("alice", join);
    let second = village.join("alice", 22);
    let error = village.world.refusal("alice", second);
    assert_eq!(error, TransactionError::HasSeat { account: alice });
    // Nobody takes another's bond.
    let error = village.world.refusal("bob", Village::leave(21));
    assert!(matches!(error, TransactionError::NoSeat { .. }));
    // Not without the money.
    let poor = wallet("nobody").address();
    let pay = Transaction::Transfer {
        to: poor,
        amount: Amount::from_tgrid(1),
    };
    village.world.send("bob", pay);
    let join = village.join("nobody", 23);
    let error = village.world.refusal("nobody", join);
    assert!(matches!(error, TransactionError::InsufficientFunds { .. }));
    // Two validators bear no fault, and no newcomer.
    let mut pair = Village::with(|genesis| genesis.validators.truncate(2));
    let join = pair.join("alice", 21);
    let error = pair.world.refusal("alice", join);
    assert_eq!(error, TransactionError::SeatsClosed { validators: 2 });
}

#[test]
fn what_was_stated_about_files_stays_the_statement_of_who_made_it() {
    let mut village = Village::with(|genesis| genesis.parameters.storage = StorageRule::Stated);
    let register = crate::world::register();
    village.world.send("bob", register);
    let subject: StorageSubject = crate::world::MODEL.into();
    let hold = |village: &mut Village, index: usize| {
        let report = Transaction::ReportStorage {
            held: vec![subject],
            missing: vec![],
        };
        village.world.send(&format!("validator {index}"), report);
    };
    // One of the four says nothing, the others hold it.
    let names: Vec<String> = (0..4).map(|index| format!("validator {index}")).collect();
    for index in 0..3 {
        hold(&mut village, index);
    }
    let task = village.state().pending_evidence().next().unwrap();
    let facts = crate::world::facts();
    village.world.decide(&task, Outcome::ModelAccepted(facts));
    let held = |village: &Village, name: &str| {
        let model = village.state().model(&crate::world::MODEL).unwrap();
        let seat = village.state().seat_of(&address(name)).unwrap();
        model.storage.held.contains(seat)
    };
    let is_held = |village: &Village| {
        let model = village.state().model(&crate::world::MODEL).unwrap();
        village.state().is_held(&model.storage)
    };
    assert!(is_held(&village));
    // The same of the input of a job: one says that it is here.
    let job = village.world.submit("mallory", village.world.order());
    let report = Transaction::ReportStorage {
        held: vec![job.into()],
        missing: vec![],
    };
    village.world.send("validator 0", report);
    let input_held = |village: &Village, name: &str| {
        let seat = village.state().seat_of(&address(name)).unwrap();
        village.world.job(job).storage.held.contains(seat)
    };
    for (name, key) in [("alice", 21), ("bob", 22)] {
        let join = village.join(name, key);
        village.world.send(name, join);
        village.epoch();
        village.epoch();
        assert!(village.sits(name));
        for name in &names[..3] {
            assert!(held(&village, name), "{name}");
            assert_eq!(input_held(&village, name), name == "validator 0", "{name}");
        }
        assert!(!held(&village, &names[3]) && !held(&village, name));
        // Four of five, or five of six, must hold it.
        assert!(!is_held(&village));
    }
    hold(&mut village, 3);
    assert!(!is_held(&village));
    let report = Transaction::ReportStorage {
        held: vec![subject],
        missing: vec![],
    };
    village.world.send("bob", report);
    assert!(is_held(&village));
}
