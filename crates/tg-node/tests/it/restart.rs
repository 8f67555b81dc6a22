//! What a killed process leaves is what its successor finds.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tg_ledger::{JobState, State};
use tg_types::{Amount, Encode as _, Height};

use crate::support::{Network, assert_agree, wait_for};
use crate::work::one_paid_job;

const DIRECTORY: &str = "TG_NODE_TEST_DIRECTORY";

/// The process that is killed: it makes blocks with transfers until it dies. Without the variable there is nothing
/// to do.
#[tokio::test]
async fn child_that_makes_blocks_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let network = Network::new(4);
    let validators = network.start_checking(Path::new(&directory));
    let handle = validators.handle(0);
    if handle.snapshot().state.jobs().is_empty() {
        one_paid_job(&network, handle).await;
    }
    let mut nonce = network.nonce(&handle.snapshot().state, 0);
    let mut blocks = handle.subscribe();
    loop {
        for _ in 0..3 {
            handle.submit(network.transfer(0, nonce)).await.unwrap();
            nonce += 1;
        }
        let last = blocks.recv().await.unwrap();
        #[expect(clippy::print_stdout, reason = "the parent process reads it")]
        {
            println!("height {}", last.block.header.height);
        }
    }
}

fn child(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "restart::child_that_makes_blocks_until_it_is_killed",
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the child until it has made `blocks` blocks, kills it, and returns the last height it told.
fn run_and_kill(directory: &Path, blocks: usize) -> u64 {
    let mut child = child(directory);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let height = lines
        .filter_map(|line| line.unwrap().strip_prefix("height ")?.parse::<u64>().ok())
        .nth(blocks - 1)
        .expect("the child makes blocks");
    // On Unix this is SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    height
}

#[tokio::test]
async fn restart_after_sigkill_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    // More blocks than lie between two snapshots, so that a snapshot and a replay are both used.
    let first = run_and_kill(folder.path(), 36);
    let second = run_and_kill(folder.path(), 4);
    assert!(second > first, "{second} follows {first}");
    let validators = network.start(folder.path());
    let before: Vec<State> = validators
        .handles()
        .map(|handle| State::clone(&handle.snapshot().state))
        .collect();
    // The first validator told the height, so it holds it. The others may have been killed while they were behind:
    // consensus needs three of four, and nobody waits for the last.
    let heights: Vec<u64> = before
        .iter()
        .map(|state| state.head().height.get())
        .collect();
    assert!(heights[0] >= second, "{heights:?} {second}");
    for (handle, state) in validators.handles().zip(&before) {
        // Every block from the first on is there, and leads to the state that was restored.
        let mut again = State::genesis(&network.genesis).unwrap();
        for height in 1..=state.head().height.get() {
            let block = handle.block(height).unwrap().unwrap();
            again = tg_ledger::apply(&again, &block).unwrap().0;
        }
        assert_eq!(again.to_bytes(), state.to_bytes());
    }
    // What was behind catches up, and then everybody has everything.
    let mut holders = 0;
    for handle in validators.handles() {
        wait_for(handle, "the height before the kill", |state| {
            state.head().height >= Height::new(second)
        })
        .await;
        let state = State::clone(&handle.snapshot().state);
        assert!(network.nonce(&state, 0) >= 3);
        // The job, what its provider committed to, and its settlement.
        let job = state.jobs().iter().next().unwrap();
        assert_eq!(job.state(), JobState::Paid);
        assert_eq!(job.settlement().unwrap().price, Amount::from_tgrid(2));
        let lease = state.lease(job.leases().last().unwrap()).unwrap();
        assert_eq!(lease.receipt().as_ref().unwrap().model, job.order.model);
        let evidence = lease.evidence().unwrap().digest;
        holders += usize::from(handle.blobs().contains(&evidence));
    }
    // Those whose verdict made it final, at least.
    assert!(holders >= 3, "{holders}");
    assert!(assert_agree(validators.handles()) >= second);
    // And it goes on.
    let next = network.nonce(&before[0], 0);
    let second_nonce = network.nonce(&before[0], 1);
    let _ = validators
        .handle(0)
        .submit(network.transfer(1, second_nonce))
        .await
        .unwrap();
    for handle in validators.handles() {
        wait_for(handle, "a transfer after the restart", |state| {
            network.nonce(state, 1) == second_nonce + 1 && network.nonce(state, 0) >= next
        })
        .await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_agree(validators.handles());
}
