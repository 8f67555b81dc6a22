//! Validators that bond for a seat, follow the chain until they have it, vote, and leave.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use commonware_cryptography::{Hasher as _, Sha256};
use tg_ledger::State;
use tg_ledger::limits::EPOCH_BLOCKS;
use tg_node::{
    Follower, FollowerConfig, NodeHandle, OpenError, RunningValidator, Seat, ValidatorConfig,
    ValidatorKey, spawn_validator,
};
use tg_types::chain::{FinalityCertificate, TrustRoot};
use tg_types::{Address, BlockId, Label, SignedTransaction, Transaction, Wallet};

use crate::alone::Seats;
use crate::follow::{clock_of_genesis, honest_source};
use crate::support::{assert_agree, wait_for};

/// What a newcomer is.
struct Newcomer {
    key: ValidatorKey,
    wallet: Wallet,
    listen: SocketAddr,
}

impl Newcomer {
    fn new(seats: &Seats, wallet: usize) -> Self {
        let free = (30_000 + std::process::id() % 1_000 * 10..).map(|port| {
            let port = u16::try_from(port).unwrap();
            SocketAddr::from(([127, 0, 0, 1], port))
        });
        let mut free = free.filter(|address| TcpListener::bind(address).is_ok());
        Self {
            key: ValidatorKey::from_seed(70 + wallet as u64),
            wallet: seats.network.wallets[wallet].clone(),
            listen: free.nth(wallet).unwrap(),
        }
    }

    fn join(&self, seats: &Seats, state: &State) -> SignedTransaction {
        let account = self.wallet.address();
        let transaction = Transaction::JoinValidators {
            key: self.key.public(),
            endpoint: Label::new(&self.listen.to_string()).unwrap(),
            possession: self.key.possession(&seats.network.genesis.id(), &account),
        };
        let nonce = state.nonce(&account);
        self.wallet.sign(transaction, nonce, state.domain())
    }

    fn leave(&self, state: &State) -> SignedTransaction {
        let key = self.key.public();
        let nonce = state.nonce(&self.wallet.address());
        let transaction = Transaction::LeaveValidators { key };
        self.wallet.sign(transaction, nonce, state.domain())
    }

    fn config(&self, seats: &Seats, directory: &Path) -> ValidatorConfig {
        let mut config = seats.config(directory, 0);
        let own = seats.network.keys.iter().zip(&seats.addresses);
        config.seats = own
            .map(|(key, address)| Seat {
                public: key.public(),
                address: (*address).into(),
            })
            .collect();
        config.key = self.key.clone();
        config.directory = directory.join("newcomer");
        config.listen = self.listen;
        config
    }

    fn has_seat(&self, state: &State) -> bool {
        state.seat_of(&self.wallet.address()).is_some()
    }

    /// Follows a validator until it has a seat, as the process of a newcomer does, and then votes.
    async fn sit(&self, seats: &Seats, directory: &Path, node: &NodeHandle) -> RunningValidator {
        let config = self.config(seats, directory);
        let sources = vec![honest_source(node)];
        let follower = FollowerConfig {
            validator: Some(self.key.public()),
            wall: clock_of_genesis(),
            ..FollowerConfig::new(config.genesis.clone(), config.directory.clone(), sources)
        };
        let follower = Follower::open(follower).await.unwrap();
        let handle = follower.handle().clone();
        let running = tokio::spawn(follower.run());
        wait_for(&handle, "a seat", |state| self.has_seat(state)).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        drop(handle);
        // The page that was executed at the end holds the database until it is written.
        let since = Instant::now();
        loop {
            match spawn_validator(config.clone()) {
                Err(OpenError::InUse { .. }) if since.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                started => return started.unwrap(),
            }
        }
    }
}

/// Waits until a validator made a block after it got its seat.
async fn wait_until_it_leads(node: &NodeHandle, newcomer: &Newcomer) {
    let since = Instant::now();
    loop {
        let state = node.snapshot().state.clone();
        let seat = state.seat_of(&newcomer.wallet.address());
        let led = seat.map(|seat| state.seats().seats[usize::from(seat)].led);
        if led.is_some_and(|led| led > state.seats().since) {
            return;
        }
        assert!(
            since.elapsed() < Duration::from_secs(90),
            "{:?}",
            node.status()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn submit(node: &NodeHandle, signed: SignedTransaction) {
    node.submit(signed).await.unwrap();
}

/// Whom somebody who knows genesis alone trusts in the end.
fn learnt(seats: &Seats, node: &NodeHandle) -> (TrustRoot, usize) {
    let mut root = seats.network.genesis.trust_root().unwrap();
    let (mut height, mut count) = (0, 0);
    loop {
        let changes = node.seat_changes(height).unwrap().0;
        if changes.is_empty() {
            return (root, count);
        }
        for change in changes {
            let mut forged = change.clone();
            let last = forged.seats.len() - 40;
            forged.seats[last] ^= 1;
            root.after(&forged).unwrap_err();
            let (next, at) = root.after(&change).unwrap();
            assert!(at > height);
            (root, height, count) = (next, at, count + 1);
        }
    }
}

/// The seats in the order in which they lead, if a block gives it.
fn order_of_leaders(block: &BlockId, seats: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let mut places: Vec<usize> = (0..seats.len()).collect();
    places.sort_by_cached_key(|place| {
        let place = u32::try_from(*place).unwrap().to_be_bytes();
        Sha256::hash(&[block.as_bytes().as_slice(), place.as_slice()])
    });
    places.into_iter().map(|place| seats[place]).collect()
}

/// Asserts that in each epoch of consensus those made the blocks that led by the order which the last block of the epoch before gives.
fn assert_leaders(seats: &Seats, newcomer: &Newcomer, node: &NodeHandle) {
    let Seats { network, .. } = seats;
    let founders = network.keys.iter().map(ValidatorKey::public);
    let accounts = network.validator_wallets().map(|it| it.address());
    let mut accounts: BTreeMap<[u8; 32], Address> = founders.zip(accounts).collect();
    accounts.insert(newcomer.key.public(), newcomer.wallet.address());
    let root = network.genesis.trust_root().unwrap();
    let mut epochs = vec![(0, network.genesis.id(), root)];
    for change in node.seat_changes(0).unwrap().0 {
        let (root, at) = epochs.last().unwrap().2.after(&change).unwrap();
        let last = node.block(at).unwrap().unwrap().id();
        epochs.push((at, last, root));
    }
    let above = node.status().height + 1;
    for (epoch, (since, last, root)) in epochs.iter().enumerate() {
        let order = order_of_leaders(last, root.seats());
        // The last block of an epoch may be proposed again, by another leader.
        let until = epochs.get(epoch + 1).map_or(above, |(at, ..)| *at);
        let mut looked_at = 0;
        for height in since + 1..until {
            // The view of a block is known if it was made final itself.
            let certificate = node.certificate(height).unwrap();
            let Some((_, bytes)) = certificate.filter(|(at, _)| *at == height) else {
                continue;
            };
            let finality = FinalityCertificate::read(&bytes).unwrap().finality;
            assert_eq!(finality.epoch, epoch as u64);
            let turn = usize::try_from(finality.epoch + finality.view).unwrap();
            let leader = order[turn % order.len()];
            let block = node.block(height).unwrap().unwrap();
            assert_eq!(block.header.proposer, accounts[&leader], "{finality:?}");
            looked_at += 1;
        }
        assert!(looked_at > 0, "of epoch {epoch} no block has a certificate");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::too_many_lines,
    reason = "one story, in the order in which it happens"
)]
async fn a_validator_joins_votes_is_needed_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let seats = Seats::new(4).with_bond(5);
    seats.found(folder.path());
    let mut running = seats.start(folder.path());
    let first = running[0].handle().clone();
    wait_for(&first, "blocks", |state| state.head().height.get() >= 2).await;
    let newcomer = Newcomer::new(&seats, 1);
    submit(&first, newcomer.join(&seats, &first.snapshot().state)).await;
    wait_for(&first, "the bond", |state| {
        !state.seats().applicants.is_empty()
    })
    .await;
    // Nobody deals a key of seeds here, for which a change of the set waits.
    let began = seats.network.genesis.timestamp.get();
    wait_for(&first, "the patience with dealers", |state| {
        state.head().time.get() > began + 20_000
    })
    .await;
    // One validator is gone while the set changes, and comes back to a network of another epoch. Not for long before: nobody
    // would get a seat while it is quiet.
    wait_for(&first, "the end of an epoch", |state| {
        (46..60).contains(&(state.head().height.get() % EPOCH_BLOCKS))
    })
    .await;
    running[3].stop();
    let fifth = newcomer.sit(&seats, folder.path(), &first).await;
    // The newcomer does not know yet that it signed nothing before: the four others are the quorum of five.
    drop(running.remove(3));
    running.push(spawn_validator(seats.config(folder.path(), 3)).unwrap());
    let height = first.status().height;
    wait_for(&first, "blocks of five", |state| {
        state.head().height.get() > height + 10
    })
    .await;
    assert_eq!(first.status().validators, 5);
    wait_until_it_leads(&first, &newcomer).await;
    let fourth = running[3].handle().clone();
    wait_for(&fourth, "the fifth seat there too", |state| {
        newcomer.has_seat(state)
    })
    .await;
    // Four of five are a quorum with the newcomer, and only with it.
    let behind = first.status().height;
    wait_for(&fourth, "it catches up", |state| {
        state.head().height.get() >= behind
    })
    .await;
    running[2].stop();
    let height = first.status().height;
    wait_for(&first, "blocks without one of the founders", |state| {
        state.head().height.get() > height + 20
    })
    .await;
    drop(running.remove(2));
    running.insert(2, spawn_validator(seats.config(folder.path(), 2)).unwrap());
    // Whoever knows genesis learns who votes now.
    let (root, changes) = learnt(&seats, &first);
    assert_eq!((root.seats().len(), changes), (5, 1));
    assert_eq!(root, first.snapshot().state.trust_root().unwrap());
    // A node that begins at a snapshot learns it too.
    let mut later = FollowerConfig::new(
        seats.network.genesis.clone(),
        folder.path().join("follower"),
        vec![honest_source(&first)],
    );
    later.wall = clock_of_genesis();
    let later = Follower::open(later).await.unwrap();
    let following = later.handle().clone();
    assert!(following.status().height > 0, "it began at a snapshot");
    let task = tokio::spawn(later.run());
    let height = first.status().height;
    wait_for(&following, "it follows", |state| {
        state.head().height.get() >= height
    })
    .await;
    assert_eq!(learnt(&seats, &following), (root, 1));
    task.abort();
    // It leaves, and the rest goes on.
    submit(&first, newcomer.leave(&first.snapshot().state)).await;
    wait_for(&first, "the end of the seat", |state| {
        !newcomer.has_seat(state)
    })
    .await;
    let height = first.status().height;
    wait_for(&first, "blocks of four", |state| {
        state.head().height.get() > height + 10
    })
    .await;
    let since = Instant::now();
    while fifth.handle().status().running {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "it has no seat, and runs"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let stopped = fifth.handle().status().stopped.unwrap();
    assert!(stopped.contains("has no seat after block"), "{stopped}");
    assert_eq!(learnt(&seats, &first).1, 2);
    // Two of the founders started again in the epoch of five, of whom a quorum then needed one.
    assert_leaders(&seats, &newcomer, &first);
    assert_agree(running.iter().map(RunningValidator::handle));
    let money = first.snapshot().state.money();
    assert!(money.is_conserved());
}
