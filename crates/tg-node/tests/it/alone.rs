//! Validators that are started one by one, as in processes of their own: nothing but addresses binds them.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tg_node::{
    OpenError, RunningValidator, Seat, ValidatorConfig, back_up_validator, create_validator,
    spawn_validator,
};
use tg_types::Amount;

use crate::support::{Network, assert_agree, wait_for};

/// Seats of a network on loopback, each with a folder of its own; two of them are dialled by name.
pub(crate) struct Seats {
    pub(crate) network: Network,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Seats {
    /// Takes ports that nobody listens on, below those that validators of one process and systems choose.
    pub(crate) fn new(count: u64) -> Self {
        static NETWORKS: AtomicU16 = AtomicU16::new(0);
        let process = u16::try_from(std::process::id() % 97).unwrap();
        let first = 10_000 + process * 100 + NETWORKS.fetch_add(1, Ordering::Relaxed) * 10;
        let free = (first..20_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let free = free.filter(|address| TcpListener::bind(address).is_ok());
        Self {
            network: Network::new(count),
            addresses: free.take(usize::try_from(count).unwrap()).collect(),
        }
    }

    /// With another bond for a seat, in TGRID.
    pub(crate) fn with_bond(mut self, bond: u64) -> Self {
        self.network.genesis.parameters.seat_bond = Amount::from_tgrid(bond);
        self
    }

    pub(crate) fn config(&self, directory: &Path, index: usize) -> ValidatorConfig {
        let seats = self.network.keys.iter().zip(&self.addresses).enumerate();
        let seats = seats.map(|(seat, (key, address))| Seat {
            public: key.public(),
            address: if seat < 2 {
                let text = format!("localhost:{}", address.port());
                text.parse().unwrap()
            } else {
                (*address).into()
            },
        });
        let embedded = self.network.config(directory);
        let mut config = ValidatorConfig::new(
            self.network.genesis.clone(),
            self.network.keys[index].clone(),
            directory.join(index.to_string()),
            (self.addresses[index], seats.collect()),
            embedded.checker,
        );
        config.timers.idle = Duration::from_millis(40);
        config.timers.busy = Duration::from_millis(20);
        config.timers.leader = Duration::from_millis(600);
        config.timers.certification = Duration::from_millis(1_200);
        config.timers.retry = Duration::from_millis(1_200);
        config.timers.skip = Duration::from_millis(2_000);
        config
    }

    pub(crate) fn found(&self, directory: &Path) {
        for index in 0..self.network.keys.len() {
            let config = self.config(directory, index);
            create_validator(&config.directory, &config.genesis, &config.key).unwrap();
        }
    }

    pub(crate) fn start(&self, directory: &Path) -> Vec<RunningValidator> {
        let all = 0..self.network.keys.len();
        all.map(|index| spawn_validator(self.config(directory, index)).unwrap())
            .collect()
    }
}

/// Starts one of the validators again: nothing of the one before may be left, as when its process has ended.
fn restart(seats: &Seats, directory: &Path, running: &mut Vec<RunningValidator>, index: usize) {
    drop(running.remove(index));
    let again = spawn_validator(seats.config(directory, index)).unwrap();
    running.insert(index, again);
}

/// Sends what the account has not sent yet, of so many transfers.
async fn transfer(seats: &Seats, through: &RunningValidator, numbers: std::ops::Range<u64>) {
    let handle = through.handle();
    let until = numbers.end;
    // It may be behind the validator that took those before.
    wait_for(handle, "the transfers before", |state| {
        seats.network.nonce(state, 0) >= numbers.start
    })
    .await;
    for nonce in numbers {
        let transfer = seats.network.transfer(0, nonce);
        handle.submit(transfer).await.unwrap();
    }
    wait_for(handle, "transfers", |state| {
        seats.network.nonce(state, 0) >= until
    })
    .await;
}

#[tokio::test]
async fn one_by_one_they_make_a_network_and_one_that_is_emptied_abstains_and_follows() {
    let directory = tempfile::tempdir().unwrap();
    let seats = Seats::new(4);
    seats.found(directory.path());
    let mut running = seats.start(directory.path());
    transfer(&seats, &running[0], 0..4).await;
    transfer(&seats, &running[3], 4..8).await;
    wait_for(running[2].handle(), "40 blocks", |state| {
        state.head().height.get() >= 40
    })
    .await;
    // None took another for one that lost its votes.
    for validator in &running {
        assert_eq!(validator.handle().status().abstains_until, None);
    }
    let height = running[0].handle().status().height;
    running[1].stop();
    let emptied = seats.config(directory.path(), 1);
    fs::remove_dir_all(&emptied.directory).unwrap();
    restart(&seats, directory.path(), &mut running, 1);
    let lost = running[1].handle().clone();
    let start = Instant::now();
    let boundary = loop {
        if let Some(until) = lost.status().abstains_until.filter(|it| *it > height) {
            break until;
        }
        assert!(start.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    wait_for(&lost, "the old blocks", |state| {
        state.head().height.get() >= height
    })
    .await;
    // Stopping in between shortens nothing: it is known that the database is not that of one who never voted.
    drop(lost);
    restart(&seats, directory.path(), &mut running, 1);
    let lost = running[1].handle().clone();
    while lost.status().height <= boundary || lost.status().abstains_until.is_some() {
        assert!(start.elapsed() < Duration::from_secs(60), "{lost:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    transfer(&seats, &running[1], 8..12).await;
    // Now its vote counts again: three of four are a quorum.
    running[0].stop();
    transfer(&seats, &running[1], 12..16).await;
    let handles: Vec<_> = running[1..].iter().map(RunningValidator::handle).collect();
    for handle in &handles {
        let status = handle.status();
        assert!(status.equivocators.is_empty(), "{status:?}");
        wait_for(handle, "the last transfer", |state| {
            seats.network.nonce(state, 0) == 16
        })
        .await;
    }
    assert!(assert_agree(handles) >= height);
}

#[tokio::test]
async fn a_damaged_database_is_rebuilt_by_the_others_and_kept_aside() {
    let directory = tempfile::tempdir().unwrap();
    let seats = Seats::new(4);
    seats.found(directory.path());
    let mut running = seats.start(directory.path());
    transfer(&seats, &running[0], 0..4).await;
    let height = running[0].handle().status().height;
    // It has taken part, so there is a journal: three of four come this far without it.
    wait_for(running[2].handle(), "the first blocks", |state| {
        state.head().height.get() >= height
    })
    .await;
    running[2].stop();
    let config = seats.config(directory.path(), 2);
    let database = config.directory.join("chain.redb");
    fs::write(&database, vec![0x5a; 65_536]).unwrap();
    restart(&seats, directory.path(), &mut running, 2);
    let rebuilt = running[2].handle();
    wait_for(rebuilt, "the old blocks", |state| {
        state.head().height.get() >= height
    })
    .await;
    // Its journal is whole, so it knows what it signed.
    assert_eq!(rebuilt.status().abstains_until, None);
    assert!(database.with_extension("redb.damaged").exists());
    running[0].stop();
    transfer(&seats, &running[2], 4..8).await;
}

#[tokio::test]
async fn a_validator_of_an_old_copy_follows_and_signs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let seats = Seats::new(4);
    seats.found(directory.path());
    let mut running = seats.start(directory.path());
    transfer(&seats, &running[0], 0..2).await;
    let config = seats.config(directory.path(), 3);
    let copy = directory.path().join("copy");
    let back_up = || back_up_validator(&config.directory, &config.genesis, &config.key, &copy);
    let busy = back_up();
    assert!(matches!(busy, Err(OpenError::InUse { .. })), "{busy:?}");
    assert!(!copy.exists());
    drop(running.remove(3));
    back_up().unwrap();
    let again = back_up();
    assert!(
        matches!(again, Err(OpenError::NotEmpty { .. })),
        "{again:?}"
    );
    assert!(!copy.join("consensus").exists());
    // Of another validator's data, and of none.
    let other = &seats.network.keys[2];
    let elsewhere = directory.path().join("elsewhere");
    let wrong = back_up_validator(&config.directory, &config.genesis, other, &elsewhere);
    assert!(
        matches!(wrong, Err(OpenError::OtherValidator { .. })),
        "{wrong:?}"
    );
    let none = directory.path().join("none");
    let missing = back_up_validator(&none, &config.genesis, &config.key, &elsewhere);
    assert!(matches!(missing, Err(OpenError::Io { .. })), "{missing:?}");
    assert!(!none.exists());

    // It votes on after the copy was made, and is lost.
    running.push(spawn_validator(config.clone()).unwrap());
    transfer(&seats, &running[0], 2..4).await;
    drop(running.remove(3));
    let old = ValidatorConfig {
        directory: copy,
        ..config
    };
    let restored = spawn_validator(old).unwrap();
    let height = running[0].handle().status().height;
    wait_for(restored.handle(), "the blocks since the copy", |state| {
        state.head().height.get() >= height
    })
    .await;
    assert!(restored.handle().status().abstains_until.is_some());
    running.push(restored);
    transfer(&seats, &running[3], 4..8).await;
    for one in &running {
        let seen = one.handle().status().equivocators;
        assert!(seen.is_empty(), "{seen:?}");
    }
}

#[test]
fn what_cannot_start_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let seats = Seats::new(4);
    seats.found(directory.path());
    let config = || seats.config(directory.path(), 0);
    let again = create_validator(
        &config().directory,
        &seats.network.genesis,
        &seats.network.keys[0],
    );
    assert!(matches!(again, Err(OpenError::NotEmpty { .. })));

    let mut lonely = config();
    lonely.seats.pop();
    let error = spawn_validator(lonely).unwrap_err();
    assert!(matches!(error, OpenError::NoAddress { .. }), "{error}");
    let mut stranger = config();
    stranger.key = tg_node::ValidatorKey::from_seed(99);
    let error = spawn_validator(stranger.clone()).unwrap_err();
    assert!(matches!(error, OpenError::OtherValidator { .. }), "{error}");
    stranger.directory = directory.path().join("stranger");
    let error = spawn_validator(stranger).unwrap_err();
    assert!(matches!(error, OpenError::NotAValidator { .. }), "{error}");

    let busy = TcpListener::bind(seats.addresses[0]).unwrap();
    let error = spawn_validator(config()).unwrap_err();
    assert_eq!(error.code(), "TG-NODE-017");
    drop(busy);
    let running = spawn_validator(config()).unwrap();
    let mut second = config();
    second.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let error = spawn_validator(second).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    drop(running);

    // Nobody can rebuild the database of one of three.
    let seats = Seats::new(3);
    let error = spawn_validator(seats.config(&directory.path().join("three"), 1)).unwrap_err();
    assert!(
        matches!(&error, OpenError::NoQuorum { faults: 0, .. }),
        "{error}"
    );
}
