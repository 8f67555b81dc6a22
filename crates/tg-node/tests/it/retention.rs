//! Answers that are kept, over real validators: one whose disk loses what it keeps is charged when somebody asks for it, one that serves it is not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tg_ledger::{Event, QuestionEnd, State, StorageRule};
use tg_node::NodeHandle;
use tg_types::limits::RETENTION_MIN;
use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, JobOrder, Transaction, VerificationMode, Wallet,
};

use crate::committee::{offer_milli, perform_all};
use crate::programs::{Program, order_of, paid, register};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, order_job, send};

/// Where a validator has a blob.
fn path_of(folder: &Path, validator: usize, digest: &Digest) -> PathBuf {
    let name = digest.to_string();
    let name = name.trim_start_matches("0x");
    let blobs = folder.join(format!("validator-{validator}")).join("blobs");
    blobs.join(&name[..2]).join(name)
}

/// Loses a file for good: a folder that is not empty has its place, so that what is fetched anew cannot be stored.
async fn lose(path: PathBuf) {
    loop {
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::create_dir(&path);
        let _ = std::fs::write(path.join("taken"), "");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn seat(network: &Network, validator: usize) -> Address {
    Wallet::from_seed(&network.keys[validator].public()).address()
}

fn stake(state: &State, seat: Address) -> Amount {
    let found = state.validators().iter().find(|it| it.address == seat);
    found.unwrap().stake
}

/// A paid job of a program whose answer all validators state that they hold.
async fn kept(network: &Network, handle: &NodeHandle, program: &Program) -> JobId {
    let provider = &network.wallets[2];
    offer_milli(network, handle, provider, 10).await;
    let order = JobOrder {
        mode: VerificationMode::None,
        retention: RETENTION_MIN,
        ..order_of(program, &handle.snapshot().state)
    };
    let job = order_job((network, handle), &program.input, order).await;
    let lease = lease_of(handle, &job, provider.address()).await;
    let (receipt, answer) = program.honest();
    handle.blobs().put(&answer, 1 << 20).unwrap();
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    paid(handle, &job).await;
    wait_for(handle, "statements of all", |state| {
        let file = state.retained_of(&job);
        file.is_some_and(|it| it.held.len() == network.keys.len())
    })
    .await;
    job
}

/// Asks a validator for an answer, and waits for what comes of it.
async fn ask(network: &Network, handle: &NodeHandle, job: JobId, seat: Address) -> QuestionEnd {
    let mut blocks = handle.subscribe();
    let ask = Transaction::AskStored { job, seat };
    send(network, handle, &network.wallets[3], ask).await;
    let end = async {
        loop {
            let block = blocks.recv().await.unwrap();
            let end = block.events.iter().find_map(|event| match event {
                Event::AnswerQuestionEnded { seat: of, end, .. } if *of == seat => Some(*end),
                _ => None,
            });
            if let Some(end) = end {
                return end;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), end)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_what_it_keeps_is_charged_and_who_serves_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    let parameters = &mut network.genesis.parameters;
    parameters.storage = StorageRule::Stated;
    parameters.ask_window = DurationMs::from_secs(9);
    for validator in &mut network.genesis.validators {
        validator.stake = Amount::from_tgrid(10);
    }
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let program = Program::pi();
    register(&network, handle, &program).await;
    wait_for(handle, "statements about the program", |state| {
        state.models().iter().all(|it| state.is_held(&it.storage))
    })
    .await;
    let job = kept(&network, handle, &program).await;
    let answer = handle.snapshot().state.retained_of(&job).unwrap().digest;

    let [honest, loser] = [2, 3].map(|it| seat(&network, it));
    let losing = tokio::spawn(lose(path_of(folder.path(), 3, &answer)));
    assert_eq!(
        ask(&network, handle, job, honest).await,
        QuestionEnd::Served
    );
    let before = handle
        .snapshot()
        .state
        .balance(&network.wallets[3].address());
    let end = ask(&network, handle, job, loser).await;
    let QuestionEnd::Missing { burned, returned } = end else {
        panic!("{end:?}");
    };
    let state = handle.snapshot().state.clone();
    let bond = state.retention_bond();
    assert_eq!(burned.saturating_add(returned), bond);
    assert_eq!(stake(&state, honest), Amount::from_tgrid(10));
    assert_eq!(
        stake(&state, loser).saturating_add(bond),
        Amount::from_tgrid(10)
    );
    // What was paid for asking came back, but for the gas.
    let now = state.balance(&network.wallets[3].address());
    let gas = before.checked_sub(now).unwrap();
    assert!(gas < returned && !returned.is_zero(), "{gas}");

    // Once it has the file again it states so, and serves it.
    losing.abort();
    let _ = losing.await;
    std::fs::remove_dir_all(path_of(folder.path(), 3, &answer)).unwrap();
    let (_, bytes) = program.honest();
    let put = validators.handle(3).blobs().put(&bytes, 1 << 20);
    assert_eq!(put.unwrap(), answer);
    wait_for(handle, "its statement", |state| {
        let file = state.retained_of(&job).unwrap();
        file.held.contains(state.seat_of(&loser).unwrap())
    })
    .await;
    assert_eq!(ask(&network, handle, job, loser).await, QuestionEnd::Served);
    assert_agree(validators.handles());
}
