//! Damaged data, lost votes, full disks: one validator of four bears it, the others go on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tg_node::limits::VOTE_EPOCH;
use tg_node::{EmbeddedConfig, NodeHandle, OpenError, Validators, spawn_validators};

use crate::support::{Network, assert_agree, wait_for};

/// Four validators that make blocks fast.
fn quick(network: &Network, directory: &Path) -> EmbeddedConfig {
    let mut config = network.config(directory);
    config.timers.idle = Duration::from_millis(40);
    config.timers.busy = Duration::from_millis(20);
    config.timers.leader = Duration::from_millis(600);
    config.timers.certification = Duration::from_millis(1_200);
    config.timers.retry = Duration::from_millis(1_200);
    config.timers.skip = Duration::from_millis(2_000);
    config
}

fn start(network: &Network, directory: &Path) -> Validators {
    spawn_validators(quick(network, directory)).unwrap()
}

/// Sends transfers of the first wallet until it has sent `until`, to any validator that runs.
async fn transfer(network: &Network, handle: &NodeHandle, until: u64) {
    let mut nonce = network.nonce(&handle.snapshot().state, 0);
    while nonce < until {
        handle.submit(network.transfer(0, nonce)).await.unwrap();
        nonce += 1;
    }
    wait_for(handle, "transfers", |state| {
        network.nonce(state, 0) >= until
    })
    .await;
}

/// Makes a network with some history and stops it; returns the height of its first validator.
async fn history(network: &Network, directory: &Path) -> u64 {
    let validators = start(network, directory);
    for handle in validators.handles() {
        transfer(network, validators.handle(0), 8).await;
        wait_for(handle, "40 blocks", |state| state.head().height.get() >= 40).await;
    }
    let height = validators.handle(0).status().height;
    validators.shutdown();
    height
}

fn folder(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("validator-{index}"))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{what} did not happen"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn no_double_votes(validators: &Validators) {
    for handle in validators.handles() {
        assert!(
            handle.status().equivocators.is_empty(),
            "{:?}",
            handle.status()
        );
    }
}

#[tokio::test]
async fn a_damaged_database_is_rebuilt_from_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let height = history(&network, directory.path()).await;
    let damaged = folder(directory.path(), 2).join("chain.redb");
    fs::write(&damaged, vec![0x5a; 65_536]).unwrap();
    let validators = start(&network, directory.path());
    let rebuilt = validators.handle(2);
    assert_eq!(rebuilt.status().height, 0);
    wait_for(rebuilt, "the old blocks", |state| {
        state.head().height.get() >= height
    })
    .await;
    // Its journal was whole, so it votes.
    assert_eq!(rebuilt.status().abstains_until, None);
    transfer(&network, rebuilt, 12).await;
    assert!(assert_agree(validators.handles()) >= height);
    no_double_votes(&validators);
    assert!(damaged.with_extension("redb.damaged").exists());
    drop(validators);
    // More than the network can spare are not rebuilt from nothing.
    for index in [0, 1] {
        let path = folder(directory.path(), index).join("chain.redb");
        fs::write(path, vec![0x5a; 65_536]).unwrap();
    }
    let error = spawn_validators(quick(&network, directory.path())).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

#[tokio::test]
async fn a_validator_without_its_journal_abstains_to_the_next_boundary() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let height = history(&network, directory.path()).await;
    fs::remove_dir_all(folder(directory.path(), 1).join("consensus")).unwrap();
    let validators = start(&network, directory.path());
    let lost = validators.handle(1);
    until("a height to abstain to", || {
        lost.status().abstains_until.is_some_and(|until| until > 0)
    })
    .await;
    let boundary = lost.status().abstains_until.unwrap();
    assert!(
        boundary.is_multiple_of(VOTE_EPOCH) && boundary > height,
        "{boundary}"
    );
    // Meanwhile it follows, and the others serve.
    transfer(&network, lost, 12).await;
    validators.shutdown();
    // A restart shortens nothing.
    let mut validators = start(&network, directory.path());
    let before = validators.handle(1).status();
    if before.height < boundary {
        until("the same height", || {
            let status = validators.handle(1).status();
            status.abstains_until == Some(boundary) || status.height >= boundary
        })
        .await;
    }
    let lost = validators.handle(1).clone();
    until("its votes", || {
        lost.status().abstains_until.is_none() && lost.status().height > boundary
    })
    .await;
    // Now it counts: without validator 3, nothing is final without it.
    validators.stop(3);
    transfer(&network, &lost, 16).await;
    let others = [0, 1, 2].map(|index| validators.handle(index).clone());
    for handle in &others {
        wait_for(handle, "the last transfer", |state| {
            network.nonce(state, 0) == 16
        })
        .await;
        assert!(handle.status().equivocators.is_empty());
    }
    assert_agree(&others);
}

#[tokio::test]
async fn a_validator_that_lost_all_its_data_is_rebuilt_and_abstains() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let height = history(&network, directory.path()).await;
    fs::remove_dir_all(folder(directory.path(), 3)).unwrap();
    let validators = start(&network, directory.path());
    let lost = validators.handle(3);
    until("a height to abstain to", || {
        lost.status()
            .abstains_until
            .is_some_and(|until| until > height)
    })
    .await;
    wait_for(lost, "the old blocks", |state| {
        state.head().height.get() >= height
    })
    .await;
    until("its votes", || lost.status().abstains_until.is_none()).await;
    transfer(&network, lost, 12).await;
    assert!(assert_agree(validators.handles()) >= height);
    no_double_votes(&validators);
}

#[tokio::test]
async fn a_damaged_journal_stops_one_validator_and_then_it_abstains() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    history(&network, directory.path()).await;
    let journals = folder(directory.path(), 0).join("consensus");
    let mut files = 0;
    for partition in fs::read_dir(&journals).unwrap() {
        let partition = partition.unwrap().path();
        // Beside the journals lies the lock of the folder.
        if !partition.is_dir() {
            continue;
        }
        for file in fs::read_dir(partition).unwrap() {
            let path = file.unwrap().path();
            let length = fs::metadata(&path).unwrap().len();
            fs::write(&path, vec![0x5a; usize::try_from(length).unwrap()]).unwrap();
            files += 1;
        }
    }
    assert!(files > 0);
    let validators = start(&network, directory.path());
    let damaged = validators.handle(0);
    until("its end", || damaged.status().stopped.is_some()).await;
    let reason = damaged.status().stopped.unwrap();
    assert!(reason.contains("journal"), "{reason}");
    transfer(&network, validators.handle(1), 12).await;
    validators.shutdown();
    let validators = start(&network, directory.path());
    let damaged = validators.handle(0);
    until("a height to abstain to", || {
        damaged.status().abstains_until.is_some()
    })
    .await;
    until("its votes", || damaged.status().abstains_until.is_none()).await;
    transfer(&network, damaged, 16).await;
    assert_agree(validators.handles());
    no_double_votes(&validators);
}

#[tokio::test]
async fn when_all_journals_are_lost_an_operator_begins_a_new_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let height = history(&network, directory.path()).await;
    for index in 0..4 {
        fs::remove_dir_all(folder(directory.path(), index).join("consensus")).unwrap();
    }
    let error = spawn_validators(quick(&network, directory.path())).unwrap_err();
    assert!(
        matches!(&error, OpenError::NoQuorum { lost, faults: 1, .. } if lost == "1, 2, 3, 4"),
        "{error}"
    );
    assert_eq!(error.code(), "TG-NODE-014");
    let mut config = quick(&network, directory.path());
    config.new_epoch = true;
    let validators = spawn_validators(config).unwrap();
    transfer(&network, validators.handle(0), 12).await;
    for handle in validators.handles() {
        wait_for(handle, "transfers", |state| network.nonce(state, 0) == 12).await;
        assert!(handle.status().height > height);
        assert_eq!(handle.status().abstains_until, None);
    }
    assert_agree(validators.handles());
    validators.shutdown();
    // The epoch is kept: no flag is needed again, and a lost journal means the same in it.
    fs::remove_dir_all(folder(directory.path(), 2).join("consensus")).unwrap();
    let validators = start(&network, directory.path());
    let lost = validators.handle(2);
    until("a height to abstain to", || {
        lost.status()
            .abstains_until
            .is_some_and(|until| until > height)
    })
    .await;
    transfer(&network, validators.handle(0), 16).await;
    until("its votes", || lost.status().abstains_until.is_none()).await;
    transfer(&network, lost, 20).await;
    assert_agree(validators.handles());
    no_double_votes(&validators);
}

/// A file system of some megabytes, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this process may not mount.
    fn mount(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(path)
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self(path.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a thread of the validator may still hold a file.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
async fn a_full_disk_stops_one_validator_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let full = folder(directory.path(), 3);
    let Some(_disk) = SmallDisk::mount(&full, "16m") else {
        eprintln!("SKIPPED: this process may not mount a small disk, so no disk was full");
        return;
    };
    let validators = start(&network, directory.path());
    let filled = validators.handle(3);
    transfer(&network, filled, 4).await;
    // The rest of the disk goes to somebody else.
    let mut bytes = 1 << 20;
    let mut number = 0;
    while bytes > 0 {
        if fs::write(full.join(format!("filler-{number}")), vec![1; bytes]).is_err() {
            bytes /= 2;
        }
        number += 1;
    }
    until("its end", || filled.status().stopped.is_some()).await;
    assert!(!filled.status().running);
    let reason = filled.status().stopped.unwrap();
    assert!(reason.starts_with("disk full"), "{reason}");
    // Blobs are refused for less.
    let refused = filled.blobs().put(b"bytes", 10).unwrap_err();
    assert_eq!(refused.code(), "TG-NODE-022", "{refused}");
    // Another validator may have seen less than the filled one.
    wait_for(validators.handle(0), "transfers", |state| {
        network.nonce(state, 0) >= 4
    })
    .await;
    transfer(&network, validators.handle(0), 12).await;
    let height = validators.handle(0).status().height;
    validators.shutdown();
    // With room again, it goes on where it stood.
    for index in 0..number {
        let _ = fs::remove_file(full.join(format!("filler-{index}")));
    }
    let validators = start(&network, directory.path());
    wait_for(validators.handle(3), "the others' blocks", |state| {
        state.head().height.get() >= height
    })
    .await;
    assert_agree(validators.handles());
    no_double_votes(&validators);
}

#[tokio::test]
async fn uploads_leave_room_for_the_validators_data() {
    let directory = tempfile::tempdir().unwrap();
    let network = Network::new(1);
    let mut config = quick(&network, directory.path());
    // As if nearly all of the disk were taken.
    config.disk_reserve_bytes = u64::MAX / 2;
    let validators = spawn_validators(config).unwrap();
    let handle = validators.handle(0);
    let refused = handle.blobs().put(b"bytes", 10).unwrap_err();
    assert!(
        matches!(refused, tg_node::BlobError::DiskReserve { .. }),
        "{refused}"
    );
    transfer(&network, handle, 3).await;
}
