//! Final blocks as the block explorer shows them: read from their canonical bytes, each id computed from them.

use serde_json::{Value, json};
use tg_types::chain::{BlockHeader, ChainPage, TrustRoot};
use tg_types::{
    Address, BlockId, ChainDomain, Decode as _, DecodeError, Digest, Domain, Reader,
    SignedTransaction, Transaction, job_id, keccak256_of, with_sources,
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

/// The seats whose certificates are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSeats {
    /// The network and the consensus keys that vote in it now.
    root: TrustRoot,
    /// The last block that the set before voted on.
    since: u64,
}

/// The present seats of a network: lines of a name (`genesis`, the id of block 0; `since`, the last block that the set before
/// voted on; `seat`, a consensus key, once for each) and its value.
#[must_use]
pub fn seats(bytes: &[u8]) -> Option<NamedSeats> {
    let (mut genesis, mut since, mut keys) = (None, None, Vec::new());
    for line in std::str::from_utf8(bytes).ok()?.lines() {
        let (name, value) = line.split_once(' ')?;
        match name {
            "genesis" => genesis = Some(BlockId::from_hex(value)?),
            "since" => since = Some(value.parse().ok()?),
            "seat" => keys.push(*Digest::from_hex(value)?.as_bytes()),
            _ => return None,
        }
    }
    Some(NamedSeats {
        root: TrustRoot::new(genesis?, keys).ok()?,
        since: since?,
    })
}

/// The blocks of a page, ascending. `linked` says of a block that its body is the one that its header names, and that its
/// parent is the block before it in the page, if one is.
///
/// `signed` says that a quorum of `seats` made it final, or a block that leads to it, and that its body is its own. `finality`
/// says of the page what was found: `signed`, `wrong` if its certificate does not hold, `older` if it is of a set of validators
/// before `seats` (nothing is checked then), and `unchecked` without seats.
///
/// # Errors
/// If the bytes are not a page of blocks.
pub fn page(
    bytes: &[u8],
    domain: &ChainDomain,
    seats: Option<&NamedSeats>,
) -> Result<Value, DecodeError> {
    let page = ChainPage::from_bytes(bytes)?;
    let mut before = None;
    let mut blocks = Vec::with_capacity(page.blocks.len());
    for bytes in &page.blocks {
        let block = one(&bytes.0, before.as_ref(), domain)?;
        before = Some(block.header);
        blocks.push(block);
    }
    let finality = PageFinality::of(&page, before.as_ref(), seats);
    let mut expected = finality.block();
    for block in blocks.iter_mut().rev() {
        // Stops: blocks that the one that was signed does not lead to.
        let is_final = expected == Some(block.header.id());
        block.value["signed"] = json!(is_final && block.is_body);
        expected = Some(block.header.parent).filter(|_| is_final);
    }
    let blocks: Vec<Value> = blocks.into_iter().map(|it| it.value).collect();
    Ok(json!({ "tip": page.tip, "blocks": blocks, "finality": finality.value() }))
}

/// What is known of who signed the last block of a page.
enum PageFinality {
    /// Nobody is known who could have, or there is no block.
    Unchecked,
    /// A set of validators before the one that is known.
    Older,
    /// Nobody did, and why not.
    Wrong(String),
    /// So many at least, of so many seats.
    Signed {
        block: BlockId,
        quorum: usize,
        seats: usize,
    },
}

impl PageFinality {
    fn of(page: &ChainPage, last: Option<&BlockHeader>, seats: Option<&NamedSeats>) -> Self {
        let (Some(last), Some(NamedSeats { root, since })) = (last, seats) else {
            return Self::Unchecked;
        };
        if last.height.get() <= *since {
            return Self::Older;
        }
        match page.proof.check(root) {
            Err(error) => Self::Wrong(with_sources(&error)),
            // Stops: the certificate of another block.
            Ok(header) if header.id() != last.id() => {
                let height = header.height.get();
                let reason = format!("it is of another block, of height {height}");
                Self::Wrong(reason)
            }
            Ok(header) => Self::Signed {
                block: header.id(),
                quorum: root.quorum(),
                seats: root.seats().len(),
            },
        }
    }

    /// The block that is shown to be final.
    const fn block(&self) -> Option<BlockId> {
        match self {
            Self::Signed { block, .. } => Some(*block),
            Self::Unchecked | Self::Older | Self::Wrong(_) => None,
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Unchecked => json!({ "state": "unchecked" }),
            Self::Older => json!({ "state": "older" }),
            Self::Wrong(reason) => json!({ "state": "wrong", "reason": reason }),
            Self::Signed {
                block: _,
                quorum,
                seats,
            } => json!({ "state": "signed", "quorum": quorum, "seats": seats }),
        }
    }
}

/// A block that was read.
struct ReadBlock {
    header: BlockHeader,
    /// Whether its body is the one that its header names.
    is_body: bool,
    value: Value,
}

fn one(
    bytes: &[u8],
    before: Option<&BlockHeader>,
    domain: &ChainDomain,
) -> Result<ReadBlock, DecodeError> {
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
    Ok(ReadBlock {
        header,
        is_body,
        value,
    })
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
