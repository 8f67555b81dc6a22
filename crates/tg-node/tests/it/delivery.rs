//! Answers that nobody checks, over real validators: paid when a quorum holds them, and not for a commitment.

use tg_exec::sample::wide::random_program;
use tg_ir::{ElementType, GenerationRequest, Sampling};
use tg_ledger::{
    AbandonedBecause, AnswerLength, JobState, LeaseEnd, State, StorageRule, StorageTask, StoredFile,
};
use tg_node::duties::look_at_files;
use tg_node::storage::Holding;
use tg_node::{BlobStore, NodeHandle};
use tg_proof::PublicModel;
use tg_prover::ProvingModel;
use tg_types::{
    Digest, DurationMs, LeaseId, Receipt, StorageSubject, Transaction, VerificationMode, Wallet,
};

use crate::committee::{offer_milli, perform_all};
use crate::programs::{Program, order_in, paid, register};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, public_bytes, send};

const LIMIT: u64 = 1 << 24;

async fn commit(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    lease: LeaseId,
    receipt: Receipt,
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
}

/// Waits until a lease ends; it must end as one whose answer nobody could get.
async fn ends_undelivered(handle: &NodeHandle, lease: &LeaseId) {
    let end = |state: &State| state.lease(lease).and_then(|it| it.end().cloned());
    wait_for(handle, "the end of the lease", |state| end(state).is_some()).await;
    let expected = LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered);
    assert_eq!(end(&handle.snapshot().state), Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_commits_and_delivers_nothing_is_not_paid() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    network.genesis.parameters.storage = StorageRule::Stated;
    network.genesis.parameters.verification_timeout = DurationMs::from_secs(9);
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let program = Program::pi();
    let facts = register(&network, handle, &program).await;
    wait_for(handle, "statements about the program", |state| {
        state.models().iter().all(|it| state.is_held(&it.storage))
    })
    .await;

    // The cheapest commits to the right answer, and keeps it.
    let [silent, longer, honest] = [2, 3, 0].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, silent, 10).await;
    let job = order_in(&network, handle, &program, VerificationMode::None).await;
    let (receipt, answer) = program.honest();
    let lease = lease_of(handle, &job, silent.address()).await;
    commit(&network, handle, silent, lease, receipt.clone()).await;
    assert_eq!(
        handle.snapshot().state.job(&job).unwrap().state(),
        JobState::Delivering
    );
    offer_milli(&network, handle, longer, 20).await;
    ends_undelivered(handle, &lease).await;
    let state = handle.snapshot().state.clone();
    let record = state.provider(&silent.address()).unwrap();
    assert!(record.earned.is_zero() && !record.lost.is_zero());

    // The next one delivers what is longer than the program may answer, to all of them.
    let bytes = vec![7; facts.output_len as usize + 1];
    for other in validators.handles() {
        other.blobs().put(&bytes, 4 << 20).unwrap();
    }
    let lease = lease_of(handle, &job, longer.address()).await;
    let output = Digest::of_blob(&bytes);
    let too_long = Receipt {
        output,
        ..receipt.clone()
    };
    commit(&network, handle, longer, lease, too_long).await;
    offer_milli(&network, handle, honest, 30).await;
    ends_undelivered(handle, &lease).await;

    // The third gives it to one validator, some time after it committed to it.
    let lease = lease_of(handle, &job, honest.address()).await;
    commit(&network, handle, honest, lease, receipt).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(
        handle.snapshot().state.job(&job).unwrap().state(),
        JobState::Delivering
    );
    let output = validators.handle(3).blobs().put(&answer, 1 << 20).unwrap();
    paid(handle, &job).await;
    let holders = validators.handles();
    let holders = holders.filter(|it| it.blobs().contains(&output)).count();
    assert!(holders >= 3, "{holders}");
    let state = handle.snapshot().state.clone();
    let settled = state.job(&job).unwrap().settlement().copied().unwrap();
    assert_eq!(settled.price, tg_types::Amount::new(30_000_000_000_000_000));
    assert_agree(validators.handles());
}

fn store() -> (tempfile::TempDir, BlobStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(&folder.path().join("blobs"), 1 << 30).unwrap();
    (folder, store)
}

/// What a validator finds that has these bytes for an answer.
fn found(store: &BlobStore, bytes: &[u8], length: AnswerLength) -> Holding {
    let digest = store.put(bytes, LIMIT).unwrap();
    let task = StorageTask {
        subject: StorageSubject::Lease(LeaseId::new([1; 32])),
        files: vec![StoredFile::Answer { digest, length }],
        is_recheck: false,
    };
    look_at_files(store, vec![task])[0].1
}

/// Looks at answers of so many bytes, of which those that are named alone must be held.
fn only(store: &BlobStore, length: AnswerLength, held: &[usize]) {
    for bytes in 0..20 {
        let answer = vec![2; bytes];
        let expected = match held.contains(&bytes) {
            true => Holding::Held,
            false => Holding::Wrong(Digest::of_blob(&answer)),
        };
        assert_eq!(found(store, &answer, length), expected, "{bytes}");
    }
}

/// Stops: pay for no answer, or for one of another length than any that the model gives.
#[test]
fn an_answer_is_held_if_the_model_may_give_as_many_bytes() {
    let (_folder, store) = store();
    only(&store, AnswerLength::AtMost(5), &[1, 2, 3, 4, 5]);
    // A model that takes no tokens gives all of its output, whatever its input begins with.
    let program = PublicModel::decode_program(&public_bytes()).unwrap();
    assert_ne!(program.input.element_type(), ElementType::I32);
    let public = store.put(&public_bytes(), LIMIT).unwrap();
    let mut ask = vec![0; 64];
    ask[..4].copy_from_slice(b"TGQ\0");
    let input = store.put(&ask, LIMIT).unwrap();
    let of_model = |public, input| AnswerLength::OfModel {
        output: 10,
        public,
        input,
        input_len: 64,
    };
    only(&store, of_model(public, input), &[10]);
    // What is needed to tell is fetched; of an answer as long as the output nothing is needed.
    let absent = Digest::of_blob(b"absent");
    assert_eq!(
        found(&store, &[2; 10], of_model(absent, absent)),
        Holding::Held
    );
    for (public, input) in [(absent, input), (public, absent)] {
        let length = of_model(public, input);
        assert_eq!(found(&store, &[2; 8], length), Holding::Missing(absent));
    }
}

/// What a model wrote is as long as the tokens that it was asked for, at most.
#[test]
fn what_was_written_is_held_up_to_the_limit_of_its_request() {
    let (_folder, store) = store();
    let (public, window) = (0..10_000)
        .find_map(|seed| {
            let (compiled, _) = random_program(seed);
            let bytes = compiled.program.input_bytes();
            let has_room = GenerationRequest::prompt_max(&compiled.program).is_some();
            let proving = ProvingModel::new(compiled).ok().filter(|_| has_room)?;
            Some((proving.register().ok()?.encode(), bytes))
        })
        .unwrap();
    let public = store.put(&public, LIMIT).unwrap();
    let request = GenerationRequest {
        prompt: vec![1],
        limit: 3,
        stop: None,
        sampling: Sampling::greatest(),
    };
    let input = request.to_input(window).unwrap();
    let input = store.put(&input, LIMIT).unwrap();
    let length = AnswerLength::OfModel {
        output: 1_000,
        public,
        input,
        input_len: u32::try_from(window).unwrap(),
    };
    only(&store, length, &[4, 8, 12]);
}
