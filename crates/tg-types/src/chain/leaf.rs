//! Leaves of the state tree: their content and how they are hashed.
//!
//! All numbers in a leaf are big-endian, so that an L1 contract reads them as words. See
//! `docs/adr/0005-leaves-and-the-indexed-tree.md`.

use std::sync::LazyLock;

use crate::{Address, Amount, Domain, Encode, Writer, fields, keccak256};

/// The value at a place of the tree: the hash of what is there, or zeros where nothing ever was.
pub type Leaf = [u8; 32];

/// What a place holds that was never used.
pub const EMPTY_LEAF: Leaf = [0; 32];

/// Kinds of leaves. Kinds 1, 7 and 16 to 31 hold money that an L1 contract moves; the others hold content.
pub mod kind {
    /// Leaf 0: numbers that belong to no record.
    pub const GLOBALS: u8 = 0;
    /// An account; money.
    pub const ACCOUNT: u8 = 1;
    /// An offer.
    pub const OFFER: u8 = 2;
    /// A provider's record.
    pub const PROVIDER: u8 = 3;
    /// A model.
    pub const MODEL: u8 = 4;
    /// A job without its money.
    pub const JOB: u8 = 5;
    /// A lease without its collateral.
    pub const LEASE: u8 = 6;
    /// A sealed bid; money.
    pub const BID: u8 = 7;
    /// A liveness report.
    pub const REPORT: u8 = 8;
    /// An answer that validators keep.
    pub const RETAINED: u8 = 9;
    /// A question whether a validator still has what it stated to keep.
    pub const QUESTION: u8 = 10;
    /// What an open job locks; money.
    pub const ESCROW: u8 = 16;
    /// What a live lease locks; money.
    pub const COLLATERAL: u8 = 17;
    // The others are free, 18 to 31 for money (ADR 5).
}

static KEY: LazyLock<[u8; 32]> = LazyLock::new(|| prefix(Domain::StateKey));
static CONTENT: LazyLock<[u8; 32]> = LazyLock::new(|| prefix(Domain::StateContent));
static LEAF: LazyLock<[u8; 32]> = LazyLock::new(|| prefix(Domain::StateLeaf));
static FREE: LazyLock<[u8; 32]> = LazyLock::new(|| prefix(Domain::StateFree));

/// As in `keccak256_of`, but hashed once for the many leaves of a block.
fn prefix(domain: Domain) -> [u8; 32] {
    keccak256(domain.as_str().as_bytes())
}

/// What a leaf is found by: the hash of its kind and of its record's key. Zeros are leaf 0's, before all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LeafKey([u8; 32]);

impl LeafKey {
    /// The key of leaf 0.
    pub const FIRST: Self = Self([0; 32]);

    /// A key from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key of the leaf of a kind for the record that is found by `key`.
    #[must_use]
    pub fn of(kind: u8, key: &[u8]) -> Self {
        let mut bytes = KEY.to_vec();
        bytes.push(kind);
        bytes.extend_from_slice(key);
        Self(keccak256(&bytes))
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for LeafKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for LeafKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LeafKey({self})")
    }
}

/// What an L1 contract reads of a record without the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafHead {
    /// What the record is: one of [`kind`].
    pub kind: u8,
    /// Where it stands: the tag of the record's state, 0 where there is none.
    pub state: u8,
    /// Whose it is.
    pub owner: Address,
    /// Money that lies in it.
    pub amount: Amount,
    /// Who gets the deposit back, and nobody else.
    pub payer: Address,
    /// What secures its rent.
    pub deposit: Amount,
}

/// Bytes of a head.
const HEAD_BYTES: usize = 1 + 1 + 20 + 16 + 20 + 16;

impl LeafHead {
    /// A head without money and deposit.
    #[must_use]
    pub fn of(kind: u8, owner: Address) -> Self {
        Self {
            kind,
            owner,
            ..Self::default()
        }
    }

    /// The head with the deposit of a record and who paid it.
    #[must_use]
    pub fn with_deposit(self, payer: Address, deposit: Amount) -> Self {
        Self {
            payer,
            deposit,
            ..self
        }
    }

    /// The bytes that are hashed: kind, state, owner, amount, payer, deposit.
    #[must_use]
    pub fn to_be_bytes(&self) -> [u8; HEAD_BYTES] {
        let Self {
            kind,
            state,
            owner,
            amount,
            payer,
            deposit,
        } = self;
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = *kind;
        bytes[1] = *state;
        bytes[2..22].copy_from_slice(owner.as_bytes());
        bytes[22..38].copy_from_slice(&amount.get().to_be_bytes());
        bytes[38..58].copy_from_slice(payer.as_bytes());
        bytes[58..74].copy_from_slice(&deposit.get().to_be_bytes());
        bytes
    }

    /// The hash of the head and of the digest of the content.
    #[must_use]
    pub fn body(&self, content: &[u8; 32]) -> [u8; 32] {
        let mut bytes = [0; HEAD_BYTES + 32];
        bytes[..HEAD_BYTES].copy_from_slice(&self.to_be_bytes());
        bytes[HEAD_BYTES..].copy_from_slice(content);
        keccak256(&bytes)
    }
}

fields! { LeafHead { kind, state, owner, amount, payer, deposit } }

/// The digest of a record's content: its kind and its canonical encoding.
#[must_use]
pub fn content_digest(kind: u8, record: &impl Encode) -> [u8; 32] {
    let mut writer = Writer::new();
    writer.raw(&*CONTENT);
    writer.u8(kind);
    record.encode(&mut writer);
    keccak256(&writer.into_bytes())
}

/// The place of a leaf in the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// The leaf's own key.
    pub key: LeafKey,
    /// The least key above it; zeros if there is none.
    pub next_key: LeafKey,
    /// Where that leaf stands; 0 if there is none.
    pub next_index: u32,
}

impl Link {
    /// The value of the leaf with this link and a body.
    #[must_use]
    pub fn leaf(&self, body: &[u8; 32]) -> Leaf {
        let Self {
            key,
            next_key,
            next_index,
        } = self;
        let mut bytes = [0; 132];
        bytes[..32].copy_from_slice(&*LEAF);
        bytes[32..64].copy_from_slice(&key.0);
        bytes[64..96].copy_from_slice(&next_key.0);
        bytes[96..100].copy_from_slice(&next_index.to_be_bytes());
        bytes[100..].copy_from_slice(body);
        keccak256(&bytes)
    }

    /// Whether no leaf with `key` can be in a tree that has this one: it lies strictly between this leaf and its next.
    #[must_use]
    pub fn excludes(&self, key: &LeafKey) -> bool {
        self.key < *key && (self.next_key == LeafKey::FIRST || *key < self.next_key)
    }
}

/// The value of a place that was used and is free; `next` is the free place that is taken after it, 0 if there is none.
#[must_use]
pub fn free_leaf(next: u32) -> Leaf {
    let mut bytes = [0; 36];
    bytes[..32].copy_from_slice(&*FREE);
    bytes[32..].copy_from_slice(&next.to_be_bytes());
    keccak256(&bytes)
}
