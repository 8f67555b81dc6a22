//! Final blocks as the block explorer shows them: read from their canonical bytes, each id computed from them.

use serde_json::{Value, json};
use tg_types::chain::{BlockHeader, ChainPage};
use tg_types::{
    Address, ChainDomain, Decode as _, DecodeError, Digest, Domain, Reader, SignedTransaction,
    Transaction, job_id, keccak256_of,
};

/// Most transactions of a block, as `tg_ledger` has it.
const TRANSACTIONS_MAX: usize = 1_024;

/// Most verdicts of a block, as `tg_ledger` has it.
const VERDICTS_MAX: usize = 256;

/// Bytes of the shortest signed transaction: an id, nonce, sender and signature.
const TRANSACTION_BYTES_MIN: usize = 32 + 8 + 20 + 65;

/// The domain that transactions are signed for: lines of a name (`chain`, `rollup`, `salt`) and its value.
#[must_use]
pub fn domain(bytes: &[u8]) -> Option<ChainDomain> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .into_iter()
            .find(|line| line.0 == name)
            .map(|line| line.1)
    };
    Some(ChainDomain {
        chain_id: value("chain")?.parse().ok()?,
        verifying_contract: Address::from_hex(value("rollup")?)?,
        salt: *Digest::from_hex(value("salt")?)?.as_bytes(),
    })
}

/// The blocks of a page, ascending. `linked` says of a block that its body is the one that its header names, and that its
/// parent is the block before it in the page, if one is. Nothing here says that the blocks are final.
///
/// # Errors
/// If the bytes are not a page of blocks.
pub fn page(bytes: &[u8], domain: &ChainDomain) -> Result<Value, DecodeError> {
    let page = ChainPage::from_bytes(bytes)?;
    let mut before = None;
    let mut blocks = Vec::with_capacity(page.blocks.len());
    for block in &page.blocks {
        let (header, value) = one(&block.0, before.as_ref(), domain)?;
        before = Some(header);
        blocks.push(value);
    }
    Ok(json!({ "tip": page.tip, "blocks": blocks }))
}

fn one(
    bytes: &[u8],
    before: Option<&BlockHeader>,
    domain: &ChainDomain,
) -> Result<(BlockHeader, Value), DecodeError> {
    let mut reader = Reader::new(bytes);
    let header = BlockHeader::decode(&mut reader)?;
    let body = &bytes[bytes.len() - reader.remaining()..];
    let transactions: Vec<SignedTransaction> =
        reader.seq("transactions", TRANSACTIONS_MAX, TRANSACTION_BYTES_MIN)?;
    // Verdicts are the ledger's; their number is enough here.
    let verdicts = reader.count("verdicts", VERDICTS_MAX, 1)?;
    let is_follower = before.is_none_or(|before| before.id() == header.parent);
    let is_body = Digest::new(keccak256_of(Domain::BlockBody, body)) == header.body;
    let transactions = transactions.iter().map(|it| transaction(it, domain));
    let transactions: Vec<Value> = transactions.collect();
    let value = json!({
        "height": header.height.get(),
        "id": header.id().to_string(),
        "parent": header.parent.to_string(),
        "timestamp_ms": header.timestamp.get(),
        "time_ms": header.time.get(),
        "version": header.version,
        "epoch": header.epoch,
        "base_fee": header.base_fee.to_string(),
        "proposer": header.proposer.to_string(),
        "state_root": header.state_root.to_string(),
        "body": header.body.to_string(),
        "bytes": bytes.len(),
        "linked": is_follower && is_body,
        "transactions": transactions,
        "verdicts": verdicts,
    });
    Ok((header, value))
}

fn transaction(signed: &SignedTransaction, domain: &ChainDomain) -> Value {
    let id = signed.id(domain);
    let (about, of) = match &signed.transaction {
        Transaction::SubmitJob { .. } => ("job", job_id(id).to_string()),
        Transaction::CancelJob { job }
        | Transaction::RateJob { job, .. }
        | Transaction::RaiseJob { job, .. } => ("job", job.to_string()),
        Transaction::StartLease { lease }
        | Transaction::CommitReceipt { lease, .. }
        | Transaction::SubmitEvidence { lease, .. } => ("lease", lease.to_string()),
        Transaction::RegisterModel { model, .. } => ("model", model.to_string()),
        Transaction::Transfer { to, amount } => ("pays", format!("{amount} TGRID to {to}")),
        _ => ("", String::new()),
    };
    json!({
        "id": id.to_string(),
        "kind": signed.transaction.kind().as_str(),
        "sender": signed.sender.to_string(),
        "nonce": signed.nonce,
        "about": about,
        "of": of,
    })
}
