//! Interim ledger with transfers only.
#![allow(missing_docs, reason = "interim")]

use std::collections::BTreeMap;
use tg_types::*;

#[derive(Debug, Clone)]
pub struct Genesis {
    pub domain: ChainDomain,
    pub timestamp: TimestampMs,
    pub validators: Vec<[u8; 32]>,
    pub accounts: Vec<(Address, Amount)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHeader {
    pub height: Height,
    pub parent: BlockId,
    pub timestamp: TimestampMs,
    pub proposer: [u8; 32],
    pub state_root: StateRoot,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub header: BlockHeader,
    pub transactions: Vec<SignedTransaction>,
    pub verdicts: Vec<Verdict>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Model(ModelId),
    Lease(LeaseId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    LeaseAccepted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub subject: Subject,
    pub evidence: Digest,
    pub outcome: Outcome,
}

#[derive(Debug, Clone)]
pub struct EvidenceTask {
    pub subject: Subject,
    pub evidence: Digest,
}

impl Block {
    pub fn id(&self) -> BlockId {
        BlockId::new(*Digest::of(Domain::Block, &self.to_bytes()).as_bytes())
    }
}

impl Encode for Block {
    fn encode(&self, w: &mut Writer) {
        self.header.height.encode(w);
        self.header.parent.encode(w);
        self.header.timestamp.encode(w);
        w.raw(&self.header.proposer);
        self.header.state_root.encode(w);
        w.seq(&self.transactions);
    }
}
impl Decode for Block {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            header: BlockHeader {
                height: Height::decode(r)?,
                parent: BlockId::decode(r)?,
                timestamp: TimestampMs::decode(r)?,
                proposer: r.array()?,
                state_root: StateRoot::decode(r)?,
            },
            transactions: r.seq("transactions", 512, 64)?,
            verdicts: vec![],
        })
    }
}

#[derive(Debug, Clone)]
pub struct State {
    pub domain: ChainDomain,
    pub height: Height,
    pub timestamp: TimestampMs,
    pub accounts: BTreeMap<Address, (u128, u64)>,
}
#[derive(Debug, Clone)]
pub enum Event {
    Transfer,
}
#[derive(Debug, thiserror::Error)]
#[error("bad block")]
pub struct BlockError;
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    #[error("nonce")]
    Nonce,
    #[error("funds")]
    Funds,
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

impl State {
    pub fn genesis(g: &Genesis) -> Self {
        Self {
            domain: g.domain.clone(),
            height: Height::ZERO,
            timestamp: g.timestamp,
            accounts: g.accounts.iter().map(|(a, v)| (*a, (v.get(), 0))).collect(),
        }
    }
    pub fn root(&self) -> StateRoot {
        StateRoot::new(*Digest::of(Domain::StateNode, &self.to_bytes()).as_bytes())
    }
    pub fn nonce(&self, a: &Address) -> u64 {
        self.accounts.get(a).map_or(0, |x| x.1)
    }
    pub fn balance(&self, a: &Address) -> u128 {
        self.accounts.get(a).map_or(0, |x| x.0)
    }
    pub fn execute(&mut self, t: &SignedTransaction) -> Result<(), TransactionError> {
        t.verify(&self.domain)?;
        let Transaction::Transfer { to, amount } = &t.transaction else {
            return Err(TransactionError::Funds);
        };
        let from = self.accounts.entry(t.sender).or_default();
        if from.1 != t.nonce {
            return Err(TransactionError::Nonce);
        }
        from.0 = from.0.checked_sub(amount.get()).ok_or(TransactionError::Funds)?;
        from.1 += 1;
        self.accounts.entry(*to).or_default().0 += amount.get();
        Ok(())
    }
}
impl Encode for State {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.domain.chain_id);
        self.domain.verifying_contract.encode(w);
        w.raw(&self.domain.salt);
        self.height.encode(w);
        self.timestamp.encode(w);
        w.count(self.accounts.len());
        for (a, (b, n)) in &self.accounts {
            a.encode(w);
            w.u128(*b);
            w.u64(*n);
        }
    }
}
impl Decode for State {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let domain = ChainDomain {
            chain_id: r.u64()?,
            verifying_contract: Address::decode(r)?,
            salt: r.array()?,
        };
        let height = Height::decode(r)?;
        let timestamp = TimestampMs::decode(r)?;
        let n = r.count("accounts", usize::MAX, 44)?;
        let mut accounts = BTreeMap::new();
        for _ in 0..n {
            let a = Address::decode(r)?;
            accounts.insert(a, (r.u128()?, r.u64()?));
        }
        Ok(Self { domain, height, timestamp, accounts })
    }
}
