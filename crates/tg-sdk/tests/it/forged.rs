//! Gateways that lie to a client, one lie a test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tg_sdk::dto::ModeDto;
use tg_sdk::endpoint::funds::{self, LockedBefore};
use tg_sdk::endpoint::session::{EndpointError, EndpointSession, ProvedLease, ServedBy};
use tg_sdk::endpoint::wire::{AnswerPart, EndpointRefusal, EndpointRequest};
use tg_sdk::jobs::{self, JobError, OrderedJob};
use tg_sdk::sealed::{self, GrantTo, JobKey};
use tg_sdk::{
    Address, Amount, ClientError, JobId, LeaseId, ModelId, OrderTerms, SignedTransaction,
    Transaction, Wallet,
};
use tg_types::chunks::ChunkTreeBuilder;
use tg_types::sealing::{SEALED_ANSWER_OVERHEAD, SEALING_KEY_BYTES};
use tg_types::{
    BASE_FEE_USUAL, ChainDomain, Decode as _, Encode as _, Label, SealingPublicKey, signed,
};

use crate::gateway::{
    Asked, BASE_FEE, Gateway, Told, account, domain, job, lease, receipt, refusal, status, told,
};

const JOB: JobId = JobId::new([1; 32]);
const OLD_JOB: JobId = JobId::new([2; 32]);
const MODEL: ModelId = ModelId::new([0xa1; 32]);
const OTHER_MODEL: ModelId = ModelId::new([0xb1; 32]);
const LEASE: LeaseId = LeaseId::new([6; 32]);
const PROVIDER: Address = Address::new([8; 20]);

fn alice() -> Wallet {
    Wallet::from_seed(b"alice")
}

fn payment() -> Transaction {
    Transaction::Transfer {
        to: Address::new([1; 20]),
        amount: Amount::from_tgrid(1),
    }
}

/// A gateway's answers that no test is about.
fn usual(asked: &Asked, nonce: u64) -> Option<Told> {
    match asked.path.as_str() {
        "/v1/status" => Some(told(&status(&domain(), BASE_FEE))),
        path if path.starts_with("/v1/accounts/") => Some(told(&account(alice().address(), nonce))),
        _ => None,
    }
}

/// A gateway that has a job and the receipt of an output for it.
async fn shows(job: Value, lease: Value, input: &'static [u8]) -> Gateway {
    const OUTPUT: &[u8] = b"an answer";
    Gateway::start(move |asked| match asked.path.as_str() {
        path if path.ends_with("/receipt") => Some(told(&receipt(&job, &lease, (input, OUTPUT)))),
        path if path.starts_with("/v1/jobs/") => Some(told(&job)),
        path if path.starts_with("/v1/blobs/") => Some((200, OUTPUT.to_vec())),
        _ => None,
    })
    .await
}

fn ordered() -> OrderedJob {
    OrderedJob::new(JOB, MODEL, b"my input", ModeDto::Proof)
}

#[tokio::test]
async fn an_answer_about_another_job_names_both() {
    let old = job(OLD_JOB, MODEL, b"an old input", "proof");
    let old_lease = lease(LEASE, OLD_JOB, PROVIDER, "1");
    let gateway = shows(old, old_lease, b"an old input").await;
    let error = jobs::follow(&gateway.client, JOB, &mut |_| {}).await;
    let error = error.unwrap_err();
    let JobError::Call { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(
        matches!(source, ClientError::OtherAnswer { .. }),
        "{source}"
    );
    let text = source.to_string();
    assert!(text.contains(&JOB.to_string()), "{text}");
    assert!(text.contains(&OLD_JOB.to_string()), "{text}");
    let error = gateway.client.job_receipt(JOB).await.unwrap_err();
    assert!(matches!(error, ClientError::OtherAnswer { .. }), "{error}");
}

#[tokio::test]
async fn an_old_result_under_the_id_of_a_new_job_is_refused() {
    // The job is told as it was ordered but for one thing, which the old proof is about.
    for (input, model, mode, what) in [
        (&b"an old input"[..], MODEL, "proof", "input"),
        (b"my input", OTHER_MODEL, "proof", "model"),
        (b"my input", MODEL, "none", "mode"),
    ] {
        let told = job(JOB, model, input, mode);
        let gateway = shows(told, lease(LEASE, JOB, PROVIDER, "1"), b"my input").await;
        let followed = jobs::follow(&gateway.client, JOB, &mut |_| {}).await;
        let followed = followed.unwrap();
        let error = jobs::collect_output(&gateway.client, &ordered(), &followed).await;
        let error = error.unwrap_err();
        let JobError::OtherJob { what: differs, .. } = &error else {
            panic!("{what}: {error:?}");
        };
        assert_eq!(*differs, what);
        assert!(gateway.asked("GET", "/v1/blobs").is_empty());
    }
}

#[tokio::test]
async fn a_receipt_of_another_input_is_refused() {
    let right = job(JOB, MODEL, b"my input", "proof");
    let of_job = lease(LEASE, JOB, PROVIDER, "1");
    let gateway = shows(right.clone(), of_job.clone(), b"an old input").await;
    let followed = gateway.client.job(JOB).await.unwrap();
    let error = jobs::collect_output(&gateway.client, &ordered(), &followed).await;
    let error = error.unwrap_err();
    assert!(
        matches!(
            error,
            JobError::OtherJob {
                what: "result's input",
                ..
            }
        ),
        "{error:?}"
    );
    // What is about the order is taken.
    let gateway = shows(right, of_job, b"my input").await;
    let (_, output) = jobs::collect_output(&gateway.client, &ordered(), &followed)
        .await
        .unwrap();
    assert_eq!(output, b"an answer");
}

#[tokio::test]
async fn a_base_fee_that_would_move_the_balance_is_not_signed() {
    let gateway = Gateway::start(|asked| match asked.path.as_str() {
        "/v1/status" => Some(told(&status(&domain(), "0.5"))),
        _ => usual(asked, 7),
    })
    .await;
    let error = jobs::submit(&gateway.client, &alice(), &payment(), "pay").await;
    let error = error.unwrap_err();
    assert!(
        matches!(error.call(), Some(ClientError::BaseFee { .. })),
        "{error:?}"
    );
    assert!(gateway.transactions().is_empty());
}

#[tokio::test]
async fn a_high_base_fee_moves_a_bounded_tip() {
    // 6,000 times the least base fee: a tenth of it would be 600 times.
    let gateway = Gateway::start(|asked| match asked.path.as_str() {
        "/v1/status" => Some(told(&status(&domain(), "0.0000003"))),
        _ => usual(asked, 7),
    })
    .await;
    let signed = gateway.client.signed(&alice(), payment()).await.unwrap();
    assert_eq!(
        signed.fees.max_tip_per_gas,
        BASE_FEE_USUAL.saturating_mul(100)
    );
    // A thousandth is drawn on top, so that two are told apart.
    assert!(signed.fees.max_fee_per_gas <= BASE_FEE_USUAL.saturating_mul(128_128));
}

/// What is told of a transaction that was sent.
fn fate(path: &str, state: &str, reason: Option<&str>) -> Told {
    let id = path.rsplit('/').next().unwrap();
    let height = (state == "final").then_some(9);
    told(&json!({ "transaction": id, "state": state, "height": height, "reason": reason }))
}

/// Orders an endpoint from a gateway whose looks at the transaction give these in turn, the last one again and again.
async fn orders(looks: &'static [fn(&str) -> Option<Told>]) -> (Gateway, Result<JobId, JobError>) {
    let look = AtomicU64::new(0);
    let gateway = Gateway::start(move |asked| match asked.path.as_str() {
        "/v1/transactions" => {
            let sent = SignedTransaction::from_bytes(&asked.body).unwrap();
            let id = sent.id(&domain());
            Some(told(&json!({ "transaction": id.to_string() })))
        }
        path if path.starts_with("/v1/transactions/") => {
            let at = look.fetch_add(1, Ordering::Relaxed) as usize;
            looks.get(at).or(looks.last()).unwrap()(path)
        }
        _ => usual(asked, 7),
    })
    .await;
    let terms = OrderTerms::new(Amount::from_tgrid(1));
    let ordered = jobs::order_endpoint(&gateway.client, &alice(), MODEL, terms).await;
    (gateway, ordered)
}

#[tokio::test]
async fn an_order_that_its_gateway_forgot_is_sent_again_as_it_is() {
    // Two looks are refused, as by a limit of rates or a key; then nobody knows it, and then it is final.
    let (gateway, ordered) = orders(&[
        |_| Some(refusal(403, "TG-API-003")),
        |_| Some(refusal(429, "TG-API-029")),
        |_| None,
        |path| Some(fate(path, "pending", None)),
        |path| Some(fate(path, "final", None)),
    ])
    .await;
    let sent = gateway.transactions();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
    assert_eq!(ordered.unwrap(), signed::job_id(sent[0].id(&domain())));
}

#[tokio::test]
async fn an_order_that_was_given_up_says_why_and_not_that_it_was_refused() {
    let looks: &[fn(&str) -> Option<Told>] =
        &[|path| Some(fate(path, "dropped", Some("no money")))];
    let (gateway, ordered) = orders(looks).await;
    let error = ordered.unwrap_err();
    assert!(
        matches!(&error, JobError::Dropped { reason, .. } if reason == "no money"),
        "{error:?}"
    );
    // Who ordered would else order again what another node may have.
    assert!(error.call().is_none());
    assert!(error.hint().contains("before it is ordered again"));
    assert_eq!(gateway.transactions().len(), 1);
}

/// A gateway that tells a nonce more each time, and refuses each transaction with the next of some codes, at last with the last one.
async fn refuses(codes: &'static [&'static str]) -> Gateway {
    let (nonces, refused) = (AtomicU64::new(7), AtomicU64::new(0));
    Gateway::start(move |asked| match asked.path.as_str() {
        "/v1/transactions" => {
            let at = refused.fetch_add(1, Ordering::Relaxed) as usize;
            let code = codes.get(at).or(codes.last()).unwrap();
            Some(refusal(409, code))
        }
        path if path.starts_with("/v1/accounts/") => {
            let nonce = nonces.fetch_add(1, Ordering::Relaxed);
            Some(told(&account(alice().address(), nonce)))
        }
        _ => usual(asked, 0),
    })
    .await
}

#[tokio::test]
async fn a_payment_that_is_refused_is_live_under_one_nonce() {
    // Full, full, the fee was overtaken; and then the nonce is said to be taken.
    let gateway = refuses(&["TG-NODE-042", "TG-NODE-047", "TG-LED-008", "TG-LED-002"]).await;
    let error = jobs::submit(&gateway.client, &alice(), &payment(), "pay").await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, JobError::NonceTaken { nonce: 7, .. }),
        "{error:?}"
    );
    let sent = gateway.transactions();
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|it| it.nonce == 7), "{sent:?}");
    // What is only sent again is the same transaction.
    assert_eq!(sent[0], sent[1]);
    assert_eq!(sent[1], sent[2]);
}

#[tokio::test]
async fn what_has_no_effect_twice_is_signed_again_a_few_times() {
    let gateway = refuses(&["TG-LED-002"]).await;
    let cancel = Transaction::CancelJob { job: JOB };
    let error = jobs::submit(&gateway.client, &alice(), &cancel, "cancel").await;
    assert!(matches!(error.unwrap_err(), JobError::Call { .. }));
    let nonces: Vec<u64> = gateway.transactions().iter().map(|it| it.nonce).collect();
    assert_eq!(nonces, [7, 8, 9]);
}

#[tokio::test]
async fn another_network_gets_no_signature() {
    let other = ChainDomain {
        chain_id: 2,
        ..domain()
    };
    let gateway = Gateway::start(|asked| usual(asked, 7)).await;
    // Known from elsewhere, such as a genesis.
    gateway.client.pin(other).unwrap();
    let error = gateway
        .client
        .sign_and_submit(&alice(), payment())
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::OtherNetwork { .. }), "{error}");
    assert!(gateway.transactions().is_empty());

    // Or by what the same gateway said before.
    let times = AtomicU64::new(0);
    let gateway = Gateway::start(move |asked| match asked.path.as_str() {
        "/v1/status" if times.fetch_add(1, Ordering::Relaxed) > 0 => {
            Some(told(&status(&other, BASE_FEE)))
        }
        _ => usual(asked, 7),
    })
    .await;
    assert_eq!(gateway.client.domain().await.unwrap(), domain());
    let error = gateway.client.clone().signed(&alice(), payment()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ClientError::OtherNetwork { .. }), "{error}");
    assert!(gateway.client.pin(other).is_err());
}

fn model(id: ModelId, name: &str) -> Value {
    json!({
        "id": id.to_string(), "name": name, "owner": PROVIDER.to_string(), "state": "active",
        "public_blob": tg_sdk::Digest::default().to_string(), "weights_blob": tg_sdk::Digest::default().to_string(),
        "registered_ms": 1, "facts": null, "refusal": null,
    })
}

#[tokio::test]
async fn a_model_by_id_is_that_model() {
    let gateway = Gateway::start(|asked| match asked.path.as_str() {
        path if path.starts_with("/v1/models?") => {
            let mut twin = [0xa1; 32];
            twin[31] = 0;
            let items = [model(MODEL, "a"), model(ModelId::new(twin), "b")];
            Some(told(&json!({ "items": items, "total": 2, "next": null })))
        }
        path if path.starts_with("/v1/models/") => Some(told(&model(OTHER_MODEL, "a"))),
        _ => None,
    })
    .await;
    let asked = MODEL.to_string();
    let error = jobs::find_model(&gateway.client, &asked).await.unwrap_err();
    let JobError::Call { source, .. } = &error else {
        panic!("{error:?}");
    };
    let text = source.to_string();
    assert!(text.contains(&asked), "{text}");
    assert!(text.contains(&OTHER_MODEL.to_string()), "{text}");
    // A beginning that several have is none's.
    let error = jobs::find_model(&gateway.client, &asked[..10]).await;
    let error = error.unwrap_err();
    assert!(matches!(error, JobError::SeveralModels { .. }), "{error:?}");
}

/// A gateway that says of an endpoint that much was claimed of it, or that another serves it.
async fn endpoint(provider: Address, max_price: &'static str) -> Gateway {
    Gateway::start(move |asked| match asked.path.as_str() {
        path if path.starts_with("/v1/jobs/") => {
            let mut told_job = job(JOB, MODEL, b"", "endpoint");
            let mut told_lease = lease(LEASE, JOB, provider, "2");
            told_lease["meter"] = json!({
                "minute": "1", "vouchers": "999", "answered": 9, "paid": "0", "started_ms": 1, "ends_ms": null,
            });
            told_job["leases"] = json!([told_lease]);
            told_job["state"] = json!("running");
            told_job["max_price"] = json!(max_price);
            Some(told(&told_job))
        }
        path if path.starts_with("/v1/models/") => Some(told(&model(MODEL, "a"))),
        path if path.ends_with("/requests") => {
            let part = AnswerPart::Refused {
                because: EndpointRefusal::Busy,
                detail: Label::lossy("later"),
                last: None,
            };
            let part = part.to_bytes();
            let length = u32::try_from(part.len()).unwrap().to_le_bytes();
            Some((200, [&length[..], &part].concat()))
        }
        _ => usual(asked, 7),
    })
    .await
}

/// What a final state has of the same endpoint.
fn proved() -> ProvedLease {
    ProvedLease {
        lease: LEASE,
        provider: PROVIDER,
        model: MODEL,
        price: Amount::from_tgrid(2),
        minute: Amount::from_tgrid(1),
        answered: 0,
        vouchers: Amount::ZERO,
    }
}

#[tokio::test]
async fn a_session_signs_no_voucher_on_the_word_of_a_gateway() {
    let gateway = endpoint(PROVIDER, "1000").await;
    let by = ServedBy::Proved(proved());
    let error = EndpointSession::open(&gateway.client, &alice(), JOB, &by).await;
    assert!(matches!(
        error.unwrap_err(),
        EndpointError::Refused {
            because: EndpointRefusal::Busy,
            ..
        }
    ));
    let sent = gateway.asked("POST", "/v1/leases/");
    assert_eq!(sent.len(), 1);
    let request = EndpointRequest::from_bytes(&sent[0].body).unwrap();
    assert_eq!(request.voucher.voucher.amount, Amount::ZERO);
}

#[tokio::test]
async fn nothing_is_sent_to_another_provider_or_at_another_price() {
    let by = ServedBy::Proved(proved());
    let gateway = endpoint(Address::new([66; 20]), "1000").await;
    let error = EndpointSession::open(&gateway.client, &alice(), JOB, &by).await;
    let error = error.unwrap_err();
    let is_provider = matches!(
        error,
        EndpointError::OtherLease {
            what: "provider",
            ..
        }
    );
    assert!(is_provider, "{error:?}");
    assert!(gateway.asked("POST", "/v1/leases/").is_empty());

    let cheaper = ServedBy::Proved(ProvedLease {
        price: Amount::from_tgrid(1),
        ..proved()
    });
    let gateway = endpoint(PROVIDER, "1000").await;
    let error = EndpointSession::open(&gateway.client, &alice(), JOB, &cheaper).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, EndpointError::OtherLease { what: "price", .. }),
        "{error:?}"
    );
    assert!(gateway.asked("POST", "/v1/leases/").is_empty());
}

#[tokio::test]
async fn a_top_up_begins_at_what_is_known_to_be_locked() {
    let gateway = endpoint(PROVIDER, "999").await;
    let locked = LockedBefore::Known(Amount::from_tgrid(10));
    let more = Amount::from_tgrid(1);
    let wallet = alice();
    let raised = funds::top_up(&gateway.client, &wallet, JOB, more, locked);
    let error = tokio::time::timeout(Duration::from_secs(20), raised).await;
    let error = error.unwrap().unwrap_err();
    assert!(matches!(error, JobError::OtherJob { .. }), "{error:?}");
    assert!(gateway.transactions().is_empty());
}

#[tokio::test]
async fn a_key_is_neither_granted_nor_shown_about_the_lease_of_another_job() {
    let gateway = Gateway::start(|asked| usual(asked, 7)).await;
    let wallet = alice();
    let key = JobKey::of(&wallet, &[9; 32]);
    // The gateway's own job has a lease that lives, and its own provider.
    let foreign = sealed::lease_of(OLD_JOB, 0);
    let mut to = GrantTo {
        job: JOB,
        lease: foreign,
        key: SealingPublicKey::new(&[0; SEALING_KEY_BYTES]).unwrap(),
    };
    let error = sealed::grant(&gateway.client, &wallet, &to, &key).await;
    let error = error.unwrap_err();
    assert!(matches!(error, JobError::OtherLease { .. }), "{error:?}");
    let error = sealed::reveal(&gateway.client, &wallet, (JOB, foreign), &key).await;
    let error = error.unwrap_err();
    assert!(matches!(error, JobError::OtherLease { .. }), "{error:?}");
    assert!(gateway.transactions().is_empty());
    // One of the job gets it; this gateway has no place for transactions.
    to.lease = sealed::lease_of(JOB, 1);
    let error = sealed::grant(&gateway.client, &wallet, &to, &key).await;
    let error = error.unwrap_err();
    assert!(matches!(error, JobError::Call { .. }), "{error:?}");
    let sent = gateway.transactions();
    let Transaction::GrantKey { lease, .. } = &sent[0].transaction else {
        panic!("{sent:?}");
    };
    assert_eq!(*lease, to.lease);
}

/// A blob as a gateway gives it in chunks, whatever name it is asked by.
fn in_chunks(path: &str, blob: &[u8]) -> Option<Told> {
    if path.ends_with("/chunks") {
        let mut tree = ChunkTreeBuilder::default();
        tree.update(blob);
        return Some((200, tree.finish()?.to_bytes()));
    }
    let (_, index) = path.split_once("/chunks/")?;
    let chunk = blob.chunks(1 << 20).nth(index.parse().ok()?)?;
    Some((200, chunk.to_vec()))
}

#[tokio::test]
async fn the_key_of_a_job_is_that_of_the_input_that_was_asked_for() {
    let wallet = alice();
    let asked_for = sealed::seal(&wallet, MODEL, b"a question").unwrap();
    let other = sealed::seal(&wallet, MODEL, b"another one").unwrap();
    let input = tg_sdk::Digest::of_blob(&asked_for.bytes);
    for (told, is_taken) in [(asked_for.bytes.clone(), true), (other.bytes, false)] {
        let gateway = Gateway::start(move |asked| in_chunks(&asked.path, &told)).await;
        let found = sealed::key_of(&gateway.client, &wallet, input).await;
        assert_eq!(found.is_ok_and(|it| it == asked_for.key), is_taken);
    }
}

#[tokio::test]
async fn a_sealed_answer_may_be_longer_by_the_tag_of_its_cipher() {
    let longest = (1 << 20) + SEALED_ANSWER_OVERHEAD as usize;
    for (length, is_taken) in [(longest, true), (longest + 1, false)] {
        let output = vec![7; length];
        let told_job = job(JOB, MODEL, b"my input", "sealed");
        let told_lease = lease(LEASE, JOB, PROVIDER, "1");
        let gateway = Gateway::start(move |asked| match asked.path.as_str() {
            path if path.ends_with("/receipt") => {
                let both = (&b"my input"[..], output.as_slice());
                Some(told(&receipt(&told_job, &told_lease, both)))
            }
            path if path.starts_with("/v1/jobs/") => Some(told(&told_job)),
            path => in_chunks(path, &output),
        })
        .await;
        let ordered = OrderedJob::new(JOB, MODEL, b"my input", ModeDto::Sealed);
        let followed = gateway.client.job(JOB).await.unwrap();
        let taken = jobs::collect_output(&gateway.client, &ordered, &followed).await;
        assert_eq!(taken.is_ok(), is_taken, "{length}: {:?}", taken.err());
    }
}
