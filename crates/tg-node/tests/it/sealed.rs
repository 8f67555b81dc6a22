//! Sealed jobs over real validators: one is paid and nothing that validators store shows its input; a provider that answers wrongly loses its
//! collateral once the key is shown; of a key that was declined whoever was wrong pays.

use std::path::Path;

use tg_float::job::FloatAnswer;
use tg_ledger::{EndReason, JobState, LeaseEnd, SealingStage, State, StorageRule};
use tg_node::NodeHandle;
use tg_privacy::{JobKey, SealedFor, SealingKey};
use tg_types::sealing::KEY_GRANT_BYTES;
use tg_types::{
    Amount, DeclineReason, Digest, DurationMs, JobId, JobOrder, KeyGrant, Label, LeaseId, Machine,
    ModeSet, OfferTerms, Pricing, Receipt, Transaction, VerificationMode, Wallet,
};

use crate::committee::perform_all;
use crate::floats::{Float, register};
use crate::programs::paid;
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, order_job, send};

/// A grid, and one sealed job after the other on it.
struct Site<'a> {
    network: &'a Network,
    handle: &'a NodeHandle,
    float: &'a Float,
}

/// What a provider hands in.
type Work = fn(&Float) -> Vec<u8>;

impl Site<'_> {
    fn alice(&self) -> &Wallet {
        &self.network.wallets[1]
    }

    async fn send(&self, wallet: &Wallet, what: Transaction) {
        send(self.network, self.handle, wallet, what).await;
    }

    /// A provider with a sealing key and an offer.
    async fn provider(&self, index: usize, milli: u64) -> (&Wallet, SealingKey) {
        let wallet = &self.network.wallets[index];
        let sealing = SealingKey::of(wallet);
        let key = sealing.to_register();
        self.send(wallet, Transaction::RegisterSealingKey { key })
            .await;
        let terms = OfferTerms {
            hardware: Label::new("test machine").unwrap(),
            price_base: Amount::new(u128::from(milli) * 1_000_000_000_000_000),
            price_per_mmac: Amount::ZERO,
            latency_base_ms: DurationMs::from_secs(5),
            speed_mmac_per_s: 1_000,
            memory_bytes: 1 << 30,
            slots: 4,
            collateral_per_lease: Amount::from_tgrid(1),
            modes: ModeSet::ALL,
            machine: Machine::CPU_ONLY,
            price_per_gpu_second: Amount::ZERO,
            pricing: Pricing::Fixed,
        };
        self.send(wallet, Transaction::PostOffer { terms }).await;
        (wallet, sealing)
    }

    fn purpose(&self) -> SealedFor {
        SealedFor {
            model: self.float.model.model_id(),
            requestor: self.alice().address(),
        }
    }

    /// A sealed order of the model on its input.
    async fn order(&self, salt: u8, plain: &[u8]) -> (JobId, JobKey) {
        let key = JobKey::of(self.alice(), &[salt; 32]);
        let sealed = key.seal_input(&[salt; 32], &self.purpose(), plain).unwrap();
        let order = JobOrder {
            mode: VerificationMode::Sealed,
            input: Digest::of_blob(&sealed),
            input_len: u32::try_from(sealed.len()).unwrap(),
            ..self.float.order(&self.handle.snapshot().state)
        };
        let job = order_job((self.network, self.handle), &sealed, order).await;
        (job, key)
    }

    async fn grant(&self, lease: LeaseId, key: &JobKey) {
        let state = self.handle.snapshot().state.clone();
        let to = &state.lease(&lease).unwrap().sealing.as_ref().unwrap().key;
        let grant = key.grant(&lease, to).unwrap();
        self.send(self.alice(), Transaction::GrantKey { lease, grant })
            .await;
    }

    async fn show(&self, lease: LeaseId, key: &JobKey) {
        let key = *key.as_bytes();
        self.send(self.alice(), Transaction::RevealKey { lease, key })
            .await;
    }

    /// Opens what was granted and the input as a provider does.
    fn opened(
        &self,
        sealing: &SealingKey,
        job: &JobId,
        lease: &LeaseId,
    ) -> Option<(JobKey, Vec<u8>)> {
        let state = self.handle.snapshot().state.clone();
        let found = state.lease(lease)?.sealing.clone()?;
        let (grant, _) = found.stage.grant()?;
        let key = sealing.open_grant(lease, grant).ok()?;
        let input = state.job(job)?.order.input;
        let sealed = self.handle.blobs().get(&input, 1 << 20).unwrap()?;
        let plain = key.open_input(&self.purpose(), &sealed).ok()?;
        Some((key, plain))
    }

    /// A provider serves a lease, and hands in what `work` gives.
    async fn serve(
        &self,
        (wallet, sealing): &(&Wallet, SealingKey),
        (job, lease): (JobId, LeaseId),
        work: Work,
    ) {
        let (key, plain) = self.opened(sealing, &job, &lease).unwrap();
        assert_eq!(plain, self.float.input);
        self.send(wallet, Transaction::StartLease { lease }).await;
        let answer = key.seal_answer(&lease, &work(self.float)).unwrap();
        self.handle.blobs().put(&answer, 1 << 20).unwrap();
        let (honest, _) = self.float.honest();
        let state = self.handle.snapshot().state.clone();
        let receipt = Receipt {
            input: state.job(&job).unwrap().order.input,
            output: Digest::of_blob(&answer),
            trace: Digest::default(),
            ..honest
        };
        self.send(wallet, Transaction::CommitReceipt { lease, receipt })
            .await;
    }

    async fn contestable(&self, lease: LeaseId) {
        wait_for(self.handle, "the answer to be held", |state: &State| {
            let check = state.lease(&lease).and_then(|it| it.check.as_ref());
            check.is_some_and(|it| it.stage.round().is_some())
        })
        .await;
    }

    async fn ended(&self, job: JobId) -> (EndReason, Option<LeaseEnd>) {
        wait_for(self.handle, "the end of the job", |state: &State| {
            state.job(&job).is_some_and(|it| it.state().is_final())
        })
        .await;
        let state = self.handle.snapshot().state.clone();
        let found = state.job(&job).unwrap();
        let lease = found.leases().last().copied().unwrap();
        let end = state.lease(&lease).unwrap().end().cloned();
        (found.end().unwrap(), end)
    }
}

/// Every file below a folder that has some bytes in it.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if let Ok(file) = std::fs::read(&path)
            && file.windows(bytes.len()).any(|it| it == bytes)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

fn honest(float: &Float) -> Vec<u8> {
    float.honest().1
}

fn wrong(float: &Float) -> Vec<u8> {
    float
        .lie(|answer: &mut FloatAnswer| answer.output[40] ^= 1)
        .1
}

/// Keys that are said to open nothing: one that does not, and one that does.
async fn questioned(site: &Site<'_>, honest_one: &(&Wallet, SealingKey)) {
    let (handle, float) = (site.handle, site.float);
    // What was granted opens nothing: the requestor shows a key that it did not grant.
    let (job, key) = site.order(4, &float.input).await;
    let lease = lease_of(handle, &job, honest_one.0.address()).await;
    let grant = KeyGrant::new([7; KEY_GRANT_BYTES]);
    site.send(site.alice(), Transaction::GrantKey { lease, grant })
        .await;
    assert!(site.opened(&honest_one.1, &job, &lease).is_none());
    let reason = DeclineReason::Key;
    site.send(honest_one.0, Transaction::DeclineLease { lease, reason })
        .await;
    site.show(lease, &key).await;
    assert_eq!(
        site.ended(job).await,
        (EndReason::NoKey, Some(LeaseEnd::Ungranted))
    );

    // A right key that is declined: its provider has the penalty.
    let (job, key) = site.order(5, &float.input).await;
    let lease = lease_of(handle, &job, honest_one.0.address()).await;
    site.grant(lease, &key).await;
    site.send(honest_one.0, Transaction::DeclineLease { lease, reason })
        .await;
    let before = handle.snapshot().state.clone();
    let stage = before.lease(&lease).unwrap().sealing.clone().unwrap().stage;
    assert!(matches!(stage, SealingStage::Questioned { .. }));
    site.show(lease, &key).await;
    let (reason, end) = site.ended(job).await;
    assert_eq!(reason, EndReason::KeyShown);
    assert_eq!(end, Some(LeaseEnd::Declined(DeclineReason::Key)));
    let state = handle.snapshot().state.clone();
    assert_eq!(state.job(&job).unwrap().state(), JobState::Refunded);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_provider_reads_a_sealed_job_until_the_key_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    network.genesis.parameters.storage = StorageRule::Stated;
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let float = Float::small();
    register(&network, handle, &float).await;
    wait_for(handle, "statements about the model", |state| {
        state.models().iter().all(|it| state.is_held(&it.storage))
    })
    .await;
    let site = Site {
        network: &network,
        handle,
        float: &float,
    };
    let cheap = site.provider(2, 10).await;

    // Paid, and what validators have of it is sealed: neither of these stretches is in any file.
    let (job, key) = site.order(1, &float.input).await;
    let lease = lease_of(handle, &job, cheap.0.address()).await;
    site.grant(lease, &key).await;
    site.serve(&cheap, (job, lease), honest).await;
    paid(handle, &job).await;
    let state = handle.snapshot().state.clone();
    let receipt = state.lease(&lease).unwrap().receipt().unwrap().clone();
    let sealed = handle
        .blobs()
        .get(&receipt.output, 1 << 20)
        .unwrap()
        .unwrap();
    assert_eq!(key.open_answer(&lease, &sealed).unwrap(), honest(&float));
    for secret in [
        &float.input[100..164],
        &honest(&float)[32..96],
        key.as_bytes(),
    ] {
        assert_eq!(files_with(folder.path(), secret), Vec::<String>::new());
    }
    let shown = files_with(folder.path(), &sealed[..64]);
    assert!(
        shown.len() >= 3,
        "n - f validators have the sealed answer: {shown:?}"
    );

    // A wrong answer: its requestor shows the key, and every validator finds another one.
    let (job, key) = site.order(2, &float.input).await;
    let lease = lease_of(handle, &job, cheap.0.address()).await;
    site.grant(lease, &key).await;
    site.serve(&cheap, (job, lease), wrong).await;
    site.contestable(lease).await;
    site.show(lease, &key).await;
    let (reason, end) = site.ended(job).await;
    assert_eq!(reason, EndReason::KeyShown);
    assert!(
        matches!(end, Some(LeaseEnd::Rejected { code: 91, .. })),
        "{end:?}"
    );

    // A right one that its requestor doubts is paid all the same.
    let honest_one = site.provider(3, 20).await;
    let (job, key) = site.order(3, &float.input).await;
    let lease = lease_of(handle, &job, honest_one.0.address()).await;
    site.grant(lease, &key).await;
    site.serve(&honest_one, (job, lease), honest).await;
    site.contestable(lease).await;
    site.show(lease, &key).await;
    assert_eq!(site.ended(job).await.0, EndReason::Fulfilled);

    questioned(&site, &honest_one).await;
    assert_agree(validators.handles());
}
