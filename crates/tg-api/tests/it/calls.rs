//! A job from order to receipt, through the typed client.

use std::sync::Arc;
use std::time::Duration;

use tg_api::{
    ApiConfig, ApiServer, BlobNames, GridPort as _, Upload, UploadAllowance, named_blobs,
};
use tg_sdk::dto::{
    FaucetRequestDto, JobStateDto, LeaseDto, LeaseEndDto, ModeDto, ModelStateDto,
    TransactionStateDto,
};
use tg_sdk::{Client, JobFilter};
use tg_types::{
    Amount, Digest, DurationMs, JobId, JobNeeds, JobOrder, Label, Machine, ModeSet, ModelId,
    OfferTerms, Pricing, Receipt, SignedUpload, Tier, TimestampMs, Transaction, UploadPermit,
    VerificationMode,
};

use crate::grid::{FACTS, Grid, wallet};

pub(crate) const MODEL: ModelId = ModelId::new([9; 32]);

pub(crate) fn terms(price: u64) -> OfferTerms {
    OfferTerms {
        hardware: Label::new("a test").unwrap(),
        price_base: Amount::from_tgrid(price),
        price_per_mmac: Amount::new(1),
        latency_base_ms: DurationMs::new(100),
        speed_mmac_per_s: 100,
        memory_bytes: 1 << 30,
        slots: 2,
        collateral_per_lease: Amount::from_tgrid(5),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

pub(crate) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within 5 s");
}

/// A grid with a model whose registration is on its way.
pub(crate) async fn registered(grid: &Arc<Grid>) -> (ApiServer, Client) {
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let register = Transaction::RegisterModel {
        model: MODEL,
        public_blob: Digest::of_blob(b"public"),
        weights_blob: Digest::of_blob(b"weights"),
        name: Label::new("digits").unwrap(),
    };
    client
        .sign_and_submit(&wallet("bob"), register)
        .await
        .unwrap();
    (server, client)
}

/// A grid with a registered model.
pub(crate) async fn start(grid: &Arc<Grid>) -> (ApiServer, Client) {
    let (server, client) = registered(grid).await;
    active(&client).await;
    (server, client)
}

/// Waits until the model can be ordered.
pub(crate) async fn active(client: &Client) {
    until(async || client.model(MODEL).await.unwrap().state == ModelStateDto::Active).await;
}

async fn offer(client: &Client, price: u64) {
    let offer = Transaction::PostOffer {
        terms: terms(price),
    };
    client
        .sign_and_submit(&wallet("carol"), offer)
        .await
        .unwrap();
}

/// What Alice orders.
async fn wanted(client: &Client, max_price: u64) -> JobOrder {
    let status = client.status().await.unwrap();
    JobOrder {
        model: MODEL,
        input: Digest::of_blob(b"1234"),
        input_len: 4,
        mode: VerificationMode::Proof,
        max_price: Amount::from_tgrid(max_price),
        deadline: TimestampMs::new(status.timestamp_ms + 60_000),
        max_attempts: 2,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    }
}

/// Alice orders a job.
pub(crate) async fn order(client: &Client, max_price: u64) -> JobId {
    let status = client.status().await.unwrap();
    let order = wanted(client, max_price).await;
    let signed = client
        .sign_and_submit(&wallet("alice"), Transaction::SubmitJob { order })
        .await
        .unwrap();
    tg_types::signed::job_id(signed.id(&status.domain.into()))
}

async fn carols_lease(client: &Client) -> LeaseDto {
    let carol = wallet("carol").address();
    until(async || !client.leases(carol).await.unwrap().is_empty()).await;
    client.leases(carol).await.unwrap().remove(0)
}

/// Carol does everything a provider does for a lease; returns the evidence.
async fn deliver(client: &Client, lease: &LeaseDto, output: &[u8]) -> Digest {
    let lease = lease.id;
    let receipt = Receipt {
        program: FACTS.program,
        model: MODEL,
        input: Digest::of_blob(b"1234"),
        output: Digest::of_blob(output),
        trace: Digest::default(),
        tier: Tier::Tgx1,
    };
    let evidence = client.put_blob(b"proof".to_vec()).await.unwrap().digest;
    let steps = [
        Transaction::StartLease { lease },
        Transaction::CommitReceipt { lease, receipt },
        Transaction::SubmitEvidence {
            lease,
            evidence,
            size: 5,
        },
    ];
    for step in steps {
        client
            .sign_and_submit(&wallet("carol"), step)
            .await
            .unwrap();
    }
    evidence
}

#[tokio::test]
async fn status_and_accounts_speak_of_money() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let status = client.status().await.unwrap();
    assert_eq!(status.network, "test");
    assert_eq!(status.validators, 1);
    assert!(status.development && status.parameters.unverified_jobs);
    assert_eq!(status.totals.minted, Amount::from_tgrid(5_000));
    assert_eq!(status.totals.stake, Amount::from_tgrid(1_000));
    let payment = Transaction::Transfer {
        to: wallet("nobody").address(),
        amount: Amount::from_tgrid(2),
    };
    let alice = wallet("alice");
    let signed = client.sign_and_submit(&alice, payment).await.unwrap();
    until(async || client.account(alice.address()).await.unwrap().nonce == 1).await;
    let nobody = wallet("nobody").address();
    let account = client.account(nobody).await.unwrap();
    // A new account's nonces begin with the height of its first block.
    assert_eq!(account.balance, Amount::from_tgrid(2));
    assert_eq!(account.nonce % (1 << 20), 0);
    let fate = client.transaction(signed.id(&status.domain.into())).await;
    assert_eq!(fate.unwrap().state, TransactionStateDto::Final);
    let unknown = client.transaction(tg_types::TransactionId::default()).await;
    assert!(unknown.unwrap_err().is_not_found());
    let refused = client.submit(&signed).await.unwrap_err();
    assert_eq!(refused.status(), Some(422));
    assert!(refused.code().unwrap().starts_with("TG-LED-"), "{refused}");
}

#[tokio::test]
async fn a_job_goes_from_order_to_receipt() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    let mut events = client.events().await.unwrap();
    offer(&client, 1).await;
    let quotes = client.quotes(MODEL, ModeDto::Proof).await.unwrap();
    assert_eq!(quotes.len(), 1);
    assert!(quotes[0].chosen && quotes[0].lacks.is_empty());
    let ask = quotes[0].price.unwrap();
    assert_eq!(ask, Amount::from_tgrid(1).saturating_add(Amount::new(3)));

    let id = order(&client, 3).await;
    let lease = carols_lease(&client).await;
    assert_eq!((lease.job, lease.state), (id, JobStateDto::Leased));
    assert_eq!(lease.price, ask);
    let carol = wallet("carol").address();
    let account = client.account(carol).await.unwrap();
    assert_eq!(account.collateral, Amount::from_tgrid(5));
    assert!(client.job_receipt(id).await.unwrap_err().is_not_found());
    assert_eq!(client.job_why(id).await.unwrap().state, JobStateDto::Leased);
    // Who signs that it is there is there.
    let status = client.status().await.unwrap();
    let at = tg_types::TimestampMs::new(status.timestamp_ms);
    let heartbeat = tg_types::Heartbeat::new(at, &wallet("carol"), &status.domain.into());
    client.heartbeat(&heartbeat).await.unwrap();
    let carol = wallet("carol").address();
    assert!(grid.heard.lock().unwrap().contains(&carol));

    let evidence = deliver(&client, &lease, b"12").await;
    until(async || client.job(id).await.unwrap().state == JobStateDto::Paid).await;
    let receipt = client.job_receipt(id).await.unwrap();
    assert_eq!(receipt.settlement.price, ask);
    assert_eq!(receipt.evidence, Some(evidence));
    assert_eq!(receipt.lease.end, Some(LeaseEndDto::Fulfilled));
    assert_eq!(receipt.job.history.last().unwrap().state, JobStateDto::Paid);
    let provider = client.provider(carol).await.unwrap();
    assert_eq!(provider.reputation.accepted, 1);
    assert_eq!(provider.offers.len(), 1);
    assert!(client.leases(carol).await.unwrap().is_empty());
    // What she did stays to be found; Bob, who registered the model, did nothing.
    for (name, found) in [("carol", vec![id]), ("bob", vec![])] {
        let filter = JobFilter {
            provider: Some(wallet(name).address()),
            ..JobFilter::default()
        };
        let jobs = client.jobs(filter).await.unwrap();
        let ids: Vec<JobId> = jobs.iter().map(|it| it.id).collect();
        assert_eq!(ids, found, "{name}");
    }

    let mut kinds = Vec::new();
    while !kinds.contains(&"job_ended".to_owned()) {
        kinds.push(events.next().await.unwrap().unwrap().kind);
    }
    assert!(kinds.contains(&"lease_made".to_owned()), "{kinds:?}");
}

/// Blobs that are longer do not stay for what these records cost.
#[tokio::test]
async fn records_name_blobs_with_the_bytes_that_they_may_have() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    offer(&client, 1).await;
    let id = order(&client, 3).await;
    let lease = carols_lease(&client).await;
    deliver(&client, &lease, b"12").await;
    until(async || client.job(id).await.unwrap().state == JobStateDto::Paid).await;
    let named = named_blobs(&grid.state());
    // An answer is as long as the model's output, or as what its input asks to write.
    let answer = u64::from(FACTS.output_len.max(FACTS.input_len));
    for (bytes, longest) in [
        (&b"1234"[..], Some(4)),
        (b"12", Some(answer)),
        (b"proof", Some(5)),
        (b"public", Some(u64::MAX)),
        (b"weights", Some(u64::MAX)),
        (b"else", None),
    ] {
        let found = named.get(&Digest::of_blob(bytes)).copied();
        assert_eq!(found, longest, "{bytes:?}");
    }
}

/// Without money that lies still each may send what its own record waits for.
#[tokio::test]
async fn a_record_names_blobs_for_the_account_whose_it_is() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    offer(&client, 1).await;
    let id = order(&client, 3).await;
    let lease = carols_lease(&client).await;
    deliver(&client, &lease, b"12").await;
    until(async || client.job(id).await.unwrap().state == JobStateDto::Paid).await;
    let state = grid.state();
    let names = BlobNames::of(&state);
    let is_of = |name: &str, bytes: &[u8], size: u64| {
        let (wallet, digest) = (wallet(name), Digest::of_blob(bytes));
        let permit = UploadPermit {
            digest,
            length: size,
            expires: TimestampMs::new(1),
        };
        names.is_of_sender(&Upload {
            digest,
            size,
            owner: wallet.address(),
            allowance: UploadAllowance::default(),
            now: TimestampMs::new(1),
            permit: SignedUpload::new(permit, &wallet, state.domain()),
        })
    };
    for (name, bytes) in [
        ("alice", &b"1234"[..]),
        ("bob", b"public"),
        ("bob", b"weights"),
        ("carol", b"proof"),
        ("carol", b"12"),
    ] {
        let size = bytes.len() as u64;
        assert!(names.contains(&Digest::of_blob(bytes)));
        for sender in ["alice", "bob", "carol"] {
            assert_eq!(is_of(sender, bytes, size), sender == name, "{bytes:?}");
        }
    }
    // An input is no longer than its order says; of a model's files nobody says how long they are.
    assert!(!is_of("alice", b"1234", 5) && is_of("bob", b"weights", 1 << 28));
    assert!(!is_of("alice", b"else", 4) && !names.contains(&Digest::of_blob(b"else")));
}

#[tokio::test]
async fn a_job_that_waits_says_why() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    let id = order(&client, 1).await;
    let why = client.job_why(id).await.unwrap();
    assert_eq!(why.queue_position, Some(0));
    assert!(why.summary.contains("there is no offer"), "{}", why.summary);
    assert!(why.hint.contains("tensorgrid provider"), "{}", why.hint);

    offer(&client, 7).await;
    let why = client.job_why(id).await.unwrap();
    assert_eq!(why.constraints.len(), 1);
    assert_eq!(why.constraints[0].rejected, 1);
    assert_eq!(
        why.offers[0].lacks,
        ["asks more than the job's maximum price"]
    );
    let raise = format!("tensorgrid job raise {id} --max-price 7.");
    assert!(why.hint.starts_with(&raise), "{}", why.hint);

    let cancel = Transaction::CancelJob { job: id };
    let alice = wallet("alice");
    client.sign_and_submit(&alice, cancel).await.unwrap();
    let job = client.job(id).await.unwrap();
    assert_eq!(job.state, JobStateDto::Cancelled);
    assert_eq!(job.reason.as_deref(), Some("the requestor took it back"));
    for (name, count) in [("alice", 1), ("bob", 0)] {
        let filter = JobFilter {
            requestor: Some(wallet(name).address()),
            provider: None,
            mode: None,
            limit: Some(5),
        };
        assert_eq!(client.jobs(filter).await.unwrap().len(), count);
    }
}

#[tokio::test]
async fn a_dry_run_says_what_ordering_comes_to_and_orders_nothing() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    let alice = wallet("alice").address();
    let fee = client
        .status()
        .await
        .unwrap()
        .parameters
        .zk_verification_fee;
    // Nobody is there, then somebody who asks too much, then somebody who fits.
    let waits = client
        .dry_run(alice, &wanted(&client, 9).await)
        .await
        .unwrap();
    assert_eq!((waits.job.state, waits.charge), (JobStateDto::Queued, None));
    assert!(waits.why.summary.contains("there is no offer"));
    offer(&client, 7).await;
    let cheap = client
        .dry_run(alice, &wanted(&client, 1).await)
        .await
        .unwrap();
    assert_eq!(cheap.why.constraints.len(), 1);
    assert_eq!(cheap.why.relaxations.len(), 1);
    let fits = client
        .dry_run(alice, &wanted(&client, 9).await)
        .await
        .unwrap();
    assert_eq!(fits.job.state, JobStateDto::Leased);
    assert_eq!(fits.charge_max, Amount::from_tgrid(9).saturating_add(fee));
    let charge = fits.charge.unwrap();
    assert!(charge <= fits.charge_max);
    assert!(client.jobs(JobFilter::default()).await.unwrap().is_empty());
    // Ordering it gives the same lease at the same price.
    let id = order(&client, 9).await;
    let job = client.job(id).await.unwrap();
    assert_eq!(job.state, JobStateDto::Leased);
    assert_eq!(job.leases[0].price.saturating_add(fee), charge);
    assert_eq!(job.leases[0].offer, fits.job.leases[0].offer);
    // What would be refused is refused with the ledger's code.
    let mut unknown = wanted(&client, 9).await;
    unknown.model = tg_types::ModelId::new([0x77; 32]);
    let refused = client.dry_run(alice, &unknown).await.unwrap_err();
    assert_eq!(refused.code(), Some("TG-LED-020"));
}

#[tokio::test]
async fn a_rejected_lease_names_the_check() {
    let grid = Grid::with(Box::new(|_| false), FACTS, true);
    let (_server, client) = start(&grid).await;
    offer(&client, 1).await;
    let id = order(&client, 3).await;
    let lease = carols_lease(&client).await;
    deliver(&client, &lease, b"no").await;
    until(async || client.job(id).await.unwrap().leases[0].end.is_some()).await;
    let job = client.job(id).await.unwrap();
    let rejection = job.leases[0].rejection.clone().unwrap();
    assert_eq!((rejection.code, rejection.check.as_str()), (7, "opening"));
    assert_eq!(job.leases[0].state, JobStateDto::Verifying);
    assert_eq!(job.state, JobStateDto::Queued);
    let why = client.job_why(id).await.unwrap();
    assert!(why.summary.contains("earlier attempts"), "{}", why.summary);
}

#[tokio::test]
async fn development_calls_are_only_for_development_networks() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let accounts = client.development_accounts().await.unwrap();
    assert_eq!(accounts[0].name, "alice");
    let request = FaucetRequestDto {
        address: wallet("nobody").address(),
        amount: Amount::from_tgrid(3),
    };
    client.faucet(&request).await.unwrap();
    let account = client.account(request.address).await.unwrap();
    assert_eq!(account.balance, Amount::from_tgrid(3));

    let plain = Grid::with(Box::new(|_| true), FACTS, false);
    let (_server, client) = plain.serve(ApiConfig::default()).await;
    let error = client.faucet(&request).await.unwrap_err();
    assert_eq!(error.status(), Some(404));
    assert_eq!(error.code(), Some("TG-API-005"));
}

#[tokio::test]
async fn the_certificate_of_a_skipped_view_is_given_out() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let certificate = client.skipped_view((1, 9)).await.unwrap();
    assert_eq!(certificate.as_deref(), Some(&b"skipped"[..]));
    for round in [(9, 1), (1, 8)] {
        assert_eq!(client.skipped_view(round).await.unwrap(), None);
    }
}

#[tokio::test]
async fn stopping_ends_streams_and_frees_the_address() {
    let grid = Grid::new();
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let mut events = client.events().await.unwrap();
    let address = server.address();
    let stop = server.stop(Duration::from_secs(4));
    tokio::time::timeout(Duration::from_secs(3), stop)
        .await
        .unwrap();
    while let Ok(Some(_)) = events.next().await {}
    assert!(client.status().await.unwrap_err().is_transient());
    let config = ApiConfig {
        listen: address,
        ..ApiConfig::default()
    };
    let port: Arc<dyn tg_api::GridPort> = grid;
    let again = ApiServer::start(port, config).await.unwrap();
    assert_eq!(again.address(), address);
}
