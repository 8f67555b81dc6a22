//! A network goes over to another version of the protocol while it runs: validators are started again one after the other, with a
//! program that executes it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_ledger::PROTOCOL_VERSION;
use tg_node::{
    Follower, FollowerConfig, NodeHandle, OpenError, ProofChecker, RunningValidator,
    perform_duties, spawn_validator, steady_now,
};

use tokio::task::JoinHandle;

use crate::alone::Seats;
use crate::follow::{clock_of_genesis, honest_source};
use crate::support::{assert_agree, wait_for};

const NEXT: u16 = PROTOCOL_VERSION + 1;

/// A validator, and what its account says by itself.
struct Process {
    validator: RunningValidator,
    duties: JoinHandle<()>,
}

impl Process {
    /// Starts the program of a release that executes versions up to `speaks`.
    fn start(seats: &Seats, folder: &Path, index: usize, speaks: u16) -> Self {
        let mut config = seats.config(folder, index);
        config.speaks = speaks;
        config.checker = Arc::new(ProofChecker::default());
        let checker = config.checker.clone();
        let validator = spawn_validator(config).unwrap();
        let account = seats.network.validator_wallets().nth(index).unwrap();
        let node = validator.handle().clone();
        Self {
            validator,
            duties: tokio::spawn(perform_duties(node, account, checker, steady_now)),
        }
    }

    fn node(&self) -> &NodeHandle {
        self.validator.handle()
    }

    /// Ends it, with all that holds its folder.
    async fn end(self) {
        self.duties.abort();
        // Aborted, or at its end before.
        let _ = self.duties.await;
        drop(self.validator);
    }
}

/// Waits until a node has stopped by itself, and why.
async fn reason(node: &NodeHandle) -> String {
    let since = Instant::now();
    loop {
        if let Some(reason) = node.status().stopped {
            return reason;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{node:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one upgrade from beginning to end")]
async fn a_network_is_upgraded_while_it_runs_and_an_old_program_stops_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let seats = Seats::new(4);
    seats.found(folder);
    let mut running: Vec<Process> = (0..4)
        .map(|index| Process::start(&seats, folder, index, PROTOCOL_VERSION))
        .collect();
    wait_for(running[3].node(), "blocks", |state| {
        state.head().height.get() >= 3
    })
    .await;
    let follower = |speaks, source: &Process| {
        let sources = vec![honest_source(source.node())];
        let genesis = seats.network.genesis.clone();
        let config = FollowerConfig::new(genesis, folder.join("gateway"), sources);
        let wall = clock_of_genesis();
        FollowerConfig {
            speaks,
            wall,
            ..config
        }
    };
    let old = follower(PROTOCOL_VERSION, &running[3]);
    let gateway = Follower::open(old).await.unwrap();
    let old_gateway = gateway.handle().clone();
    let old_gateway_runs = tokio::spawn(gateway.run());
    // One after the other, while the rest goes on.
    for index in 0..3 {
        let height = running[3].node().status().height;
        running.remove(index).end().await;
        running.insert(index, Process::start(&seats, folder, index, NEXT));
        wait_for(running[index].node(), "blocks", |state| {
            state.head().height.get() > height + 2
        })
        .await;
    }
    wait_for(running[0].node(), "the new version", |state| {
        state.head().protocol == NEXT
    })
    .await;
    let expected = format!("version {NEXT} of the protocol, and this program executes version");
    for old in [running[3].node(), &old_gateway] {
        let reason = reason(old).await;
        assert!(reason.contains(&expected), "{reason}");
        let state = &old.snapshot().state;
        assert_eq!(state.head().protocol, PROTOCOL_VERSION);
        assert_eq!(state.next_protocol(), NEXT);
    }
    old_gateway_runs.await.unwrap();
    // An old program does not begin again either, and loses nothing by trying.
    running.remove(3).end().await;
    let Err(error) = spawn_validator(seats.config(folder, 3)) else {
        panic!("an old program began on blocks of another version");
    };
    assert!(matches!(error, OpenError::Protocol(_)), "{error}");
    running.push(Process::start(&seats, folder, 3, NEXT));
    let height = running[0].node().status().height;
    let handles: Vec<&NodeHandle> = running.iter().map(Process::node).collect();
    for handle in &handles {
        wait_for(handle, "blocks of the new version", |state| {
            state.head().height.get() > height + 5 && state.head().protocol == NEXT
        })
        .await;
    }
    assert!(assert_agree(handles) > height);
    drop(old_gateway);
    let new = follower(NEXT, &running[3]);
    let gateway = Follower::open(new).await.unwrap();
    let new_gateway = gateway.handle().clone();
    let new_gateway_runs = tokio::spawn(gateway.run());
    wait_for(&new_gateway, "the new version", |state| {
        state.head().protocol == NEXT
    })
    .await;
    new_gateway_runs.abort();
}
