//! A gateway that answers whatever a test says, as often as it is asked, and keeps what it was sent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tg_sdk::dto::{DomainDto, JobNeedsDto};
use tg_sdk::{Address, Client, Digest, JobId, LeaseId, ModelId, SignedTransaction};
use tg_types::{ChainDomain, Decode as _, JobNeeds, OfferId, ProgramId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// An answer: status and body.
pub(crate) type Told = (u16, Vec<u8>);

/// What a gateway does with a request; nothing is status 404.
type Answer = dyn Fn(&Asked) -> Option<Told> + Send + Sync;

/// A gateway, and what it was asked so far.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    pub(crate) client: Client,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Gateway {
    /// Listens on a free port.
    pub(crate) async fn start(
        answer: impl Fn(&Asked) -> Option<Told> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move { one(stream, &seen, &*answer).await });
            }
        });
        Self {
            client: Client::new(&url).unwrap(),
            asked,
        }
    }

    /// The requests to a path that begins so.
    pub(crate) fn asked(&self, method: &str, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        let of_path = asked
            .iter()
            .filter(|it| it.method == method && it.path.starts_with(path));
        of_path.cloned().collect()
    }

    /// The transactions that it was sent, whatever it said of them.
    pub(crate) fn transactions(&self) -> Vec<SignedTransaction> {
        let sent = self.asked("POST", "/v1/transactions");
        let read = sent
            .iter()
            .map(|it| SignedTransaction::from_bytes(&it.body).unwrap());
        read.collect()
    }
}

/// Answers one request of a connection.
async fn one(mut stream: TcpStream, seen: &Mutex<Vec<Asked>>, answer: &Answer) {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length = text.lines().find_map(|line| {
        let length = line.strip_prefix("content-length:")?;
        length.trim().parse::<usize>().ok()
    });
    while bytes.len() < head + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let first = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut words = first.split_whitespace();
    let asked = Asked {
        method: words.next().unwrap().to_owned(),
        path: words.next().unwrap().to_owned(),
        body: bytes[head..].to_vec(),
    };
    seen.lock().unwrap().push(asked.clone());
    let (status, body) = answer(&asked).unwrap_or_else(|| refusal(404, "TG-API-004"));
    let head = format!(
        "HTTP/1.1 {status} told\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // A client that has gone needs no answer.
    let _gone = stream.write_all(&[head.as_bytes(), &body].concat()).await;
}

/// An answer of JSON.
pub(crate) fn told(value: &Value) -> Told {
    (200, value.to_string().into_bytes())
}

/// A refusal with a code.
pub(crate) fn refusal(status: u16, code: &str) -> Told {
    let body = json!({ "code": code, "message": "as the gateway says", "hint": "" });
    (status, body.to_string().into_bytes())
}

/// The network of these tests.
pub(crate) fn domain() -> ChainDomain {
    ChainDomain {
        chain_id: 1,
        verifying_contract: Address::new([7; 20]),
        salt: [9; 32],
    }
}

/// What a gateway says of itself.
pub(crate) fn status(domain: &ChainDomain, base_fee: &str) -> Value {
    let zeros = format!("0x{}", "0".repeat(64));
    json!({
        "network": "main", "development": false, "domain": DomainDto::from(domain), "height": 9,
        "block": zeros, "state_root": zeros, "timestamp_ms": 1_000, "ledger_time_ms": 1_000, "validators": 4,
        "base_fee_per_gas": base_fee,
        "parameters": {
            "base_fee_min": "0", "registration_fee": "0", "zk_verification_fee": "0", "job_price_min": "0",
            "collateral_min": "0", "unverified_jobs": false, "job_horizon_ms": 0, "auction_slot_ms": 0, "bid_deposit_min": "0",
        },
        "totals": {
            "minted": "0", "balances": "0", "escrow": "0", "stake": "0", "collateral": "0", "burned": "0",
        },
        "jobs": { "submitted": 0, "queued": 0, "active": 0, "ended": 0 },
    })
}

/// The least base fee of a usual network.
pub(crate) const BASE_FEE: &str = "0.00000000005";

/// What a gateway says of an account.
pub(crate) fn account(address: Address, nonce: u64) -> Value {
    json!({
        "address": address.to_string(), "balance": "1000", "escrow": "0", "collateral": "0", "nonce": nonce,
    })
}

/// What a gateway says of a paid job.
pub(crate) fn job(id: JobId, model: ModelId, input: &[u8], mode: &str) -> Value {
    json!({
        "id": id.to_string(), "requestor": Address::new([3; 20]).to_string(), "model": model.to_string(),
        "input": Digest::of_blob(input).to_string(), "input_len": input.len(),
        "needs": JobNeedsDto::from(&JobNeeds::ANY_MACHINE), "mode": mode, "state": "paid", "max_price": "5",
        "deadline_ms": 9_000, "sequence": 1, "macs": 1, "max_attempts": 3, "escrow": "0", "served": "0",
        "verification_fee": "0", "history": [], "leases": [], "reason": null, "settlement": null,
    })
}

/// What a gateway says of a lease.
pub(crate) fn lease(id: LeaseId, job: JobId, provider: Address, price: &str) -> Value {
    json!({
        "id": id.to_string(), "job": job.to_string(), "offer": OfferId::new([4; 32]).to_string(),
        "provider": provider.to_string(), "price": price, "collateral": "0", "state": "running", "matched_ms": 1,
        "started": true, "start_by_ms": 2, "finish_by_ms": 3, "receipt": null, "end": null, "end_text": null,
        "rejection": null,
    })
}

/// What a gateway says of the receipt of a job whose output is `output`.
pub(crate) fn receipt(job: &Value, lease: &Value, (input, output): (&[u8], &[u8])) -> Value {
    json!({
        "job": job, "lease": lease,
        "receipt": {
            "program": ProgramId::new([5; 32]).to_string(), "model": job["model"],
            "input": Digest::of_blob(input).to_string(), "output": Digest::of_blob(output).to_string(),
            "trace": Digest::default().to_string(), "tier": "TGX-1",
        },
        "settlement": { "price": "1", "verification_fee": "0", "refund": "0", "burned": "0" },
        "members": [], "evidence": null,
    })
}
