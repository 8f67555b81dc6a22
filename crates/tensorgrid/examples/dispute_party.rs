//! What `cargo xtask dispute-test` needs beside the programs: an accuser that lies or withholds, and what a dispute put on the chain.
//!
//! - `dispute_party accuse URL KEY JOB HOW` challenges the result of a job. HOW says what it claims then: `silent` nothing, `unstored` a file
//!   that nobody can get, `product`, `scores` or `softmax` a run that is right but for that part.
//! - `dispute_party chain URL LEASE FROM TO` prints the bytes of all that blocks of these heights say of a lease, and of the files that were
//!   handed in, as JSON.
#![allow(clippy::print_stdout, reason = "an example")]

#[path = "disputes/mod.rs"]
mod disputes;

use std::time::{Duration, Instant};

use tg_float::job::{FloatModel, is_float_file};
use tg_ir::CompiledModel;
use tg_ledger::Block;
use tg_node::claim_file;
use tg_sdk::dto::JobDto;
use tg_sdk::{Client, Digest, Wallet, jobs};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Decode as _, Encode as _, JobId, LeaseId, Transaction};

use disputes::{DisputedPart, Failure, forged};

/// How long the accuser's turn may take to come.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Between two looks at the job.
const POLL: Duration = Duration::from_millis(100);

/// Most bytes of a model's file.
const MODEL_FILE_MAX: usize = 256 << 20;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["accuse", url, key, job, how] => {
            let key = Digest::from_hex(std::fs::read_to_string(key)?.trim());
            let wallet = Wallet::from_secret(key.ok_or("no key file")?.as_bytes())?;
            let job = JobId::from_hex(job).ok_or("JOB is no id")?;
            Box::pin(accuse(&Client::new(url)?, &wallet, job, how)).await
        }
        ["chain", url, lease, from, to] => {
            let lease = LeaseId::from_hex(lease).ok_or("LEASE is no id")?;
            let heights = (from.parse()?, to.parse()?);
            let told = said_of(&Client::new(url)?, lease, heights).await?;
            println!("{told}");
            Ok(())
        }
        _ => Err("usage: dispute_party accuse URL KEY JOB HOW, or chain URL LEASE FROM TO".into()),
    }
}

/// Challenges, and claims what is asked for once that is due.
async fn accuse(client: &Client, wallet: &Wallet, id: JobId, how: &str) -> Result<(), Failure> {
    let job = client.job(id).await?;
    let live = job.leases.iter().find(|it| it.end.is_none());
    let lease = live.ok_or("nobody has the job")?.id;
    let challenge = Transaction::ChallengeResult { lease };
    jobs::submit(client, wallet, &challenge, "challenge the result").await?;
    let started = Instant::now();
    let is_due = |job: &JobDto| {
        let mut leases = job.leases.iter().filter(|it| it.id == lease);
        leases.any(|it| jobs::waits_for_claim(it, &wallet.address()))
    };
    while !is_due(&client.job(id).await?) {
        if started.elapsed() > TURN_MAX {
            return Err("the turn of the accuser does not come".into());
        }
        tokio::time::sleep(POLL).await;
    }
    match how {
        "silent" => {}
        "unstored" => {
            let argue = Transaction::ArgueResult {
                lease,
                file: Digest::of_blob(b"a claim that nobody can get"),
                size: 4_096,
            };
            jobs::submit(client, wallet, &argue, "name a claim").await?;
        }
        _ => {
            let part = DisputedPart::read(how).ok_or("there is no such claim")?;
            let claim = false_claim(client, &job, part).await?;
            jobs::claim(client, wallet, lease, claim).await?;
        }
    }
    Ok(())
}

/// What a right run of a job gives, but for one part.
async fn false_claim(
    client: &Client,
    job: &JobDto,
    part: DisputedPart,
) -> Result<Vec<u8>, Failure> {
    let model = client.model(job.model).await?;
    let file = client.blob(model.weights_blob, MODEL_FILE_MAX).await?;
    let input = client.blob(job.input, INPUT_BYTES_MAX as usize).await?;
    let right = match is_float_file(&file) {
        true => FloatModel::read(&file)?.claim(&input).to_bytes(),
        false => claim_file(&CompiledModel::read(&file)?, &input),
    };
    forged(&file, &right, part)
}

/// What blocks say of a lease.
async fn said_of(
    client: &Client,
    lease: LeaseId,
    (from, to): (u64, u64),
) -> Result<serde_json::Value, Failure> {
    let (mut next, mut bytes) = (from, 0);
    let (mut transactions, mut verdicts, mut files) = (Vec::new(), Vec::new(), Vec::new());
    let names = |encoded: &[u8]| encoded.windows(32).any(|it| it == lease.as_bytes());
    while next <= to {
        let page = client.chain_page(next, Duration::ZERO).await?;
        if page.blocks.is_empty() {
            return Err(format!("there is no block {next}").into());
        }
        for block in &page.blocks {
            if next > to {
                break;
            }
            let block = Block::from_bytes(&block.0)?;
            for signed in &block.transactions {
                let encoded = signed.to_bytes();
                if !names(&encoded) {
                    continue;
                }
                bytes += encoded.len();
                let kind = format!("{:?}", signed.transaction.kind());
                transactions.push(serde_json::json!({"kind": kind, "bytes": encoded.len()}));
                if let Transaction::ArgueResult { size, .. } = signed.transaction {
                    let sender = signed.sender.to_string();
                    files.push(serde_json::json!({"sender": sender, "bytes": size}));
                }
            }
            for encoded in block.verdicts.iter().map(tg_types::Encode::to_bytes) {
                if names(&encoded) {
                    bytes += encoded.len();
                    verdicts.push(encoded.len());
                }
            }
            next += 1;
        }
    }
    Ok(serde_json::json!({
        "bytes": bytes,
        "transactions": transactions,
        "verdicts": verdicts,
        "files": files,
    }))
}
