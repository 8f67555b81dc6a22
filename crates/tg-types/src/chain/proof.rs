//! Proofs that a leaf is in a state, or that no leaf has a given key. Checking one needs the state's root and nothing else.

use super::leaf::{LeafHead, LeafKey, Link};
use crate::{Decode, DecodeError, Encode, Reader, StateRoot, Writer, keccak256, variants};

/// Levels between a leaf and the root.
pub const DEPTH: usize = 32;

/// What a node of the tree holds.
#[must_use]
pub fn node_hash(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(left);
    bytes[32..].copy_from_slice(right);
    keccak256(&bytes)
}

/// A leaf's place, its link, and the siblings up to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafPath {
    /// Where the leaf stands.
    pub index: u32,
    /// Its key and the next.
    pub link: Link,
    /// The siblings, from the leaf's own level up.
    pub siblings: [[u8; 32]; DEPTH],
}

impl LeafPath {
    /// The root of the tree in which a leaf with this path has `body`.
    #[must_use]
    pub fn root(&self, body: &[u8; 32]) -> StateRoot {
        let mut hash = self.link.leaf(body);
        for (height, sibling) in self.siblings.iter().enumerate() {
            hash = match self.index >> height & 1 {
                0 => node_hash(&hash, sibling),
                _ => node_hash(sibling, &hash),
            };
        }
        StateRoot::new(hash)
    }
}

/// Proof of what a state has under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateProof {
    /// There is a leaf.
    Present {
        /// The leaf's path.
        path: LeafPath,
        /// What it says.
        head: LeafHead,
        /// [`content_digest`](super::content_digest) of the record.
        content: [u8; 32],
    },
    /// There is none: the leaf before it in the order of keys is linked to one after it.
    Absent {
        /// The path of the leaf before it.
        path: LeafPath,
        /// The hash of that leaf's head and content.
        body: [u8; 32],
    },
}

/// Why a proof does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// It is about another leaf.
    #[error("the proof is about leaf {got}, not {expected}")]
    WrongKey {
        /// The key that was asked for.
        expected: LeafKey,
        /// The proof's.
        got: LeafKey,
    },
    /// It says that a leaf is missing, but the key is not between its two leaves.
    #[error("{key} is not between {low} and the leaf that follows it, {next}")]
    NotBetween {
        /// The key that was asked for.
        key: LeafKey,
        /// The key before it.
        low: LeafKey,
        /// The key after it; zeros if there is none.
        next: LeafKey,
    },
    /// It leads to another root.
    #[error("the proof leads to the state root {got}, not {expected}")]
    WrongRoot {
        /// The root that was asked for.
        expected: StateRoot,
        /// The proof's.
        got: StateRoot,
    },
}

impl StateProof {
    /// What the state of `root` has under `key`: the head of its leaf and the digest of its content, or nothing.
    ///
    /// # Errors
    /// [`ProofError`] says why this proof shows neither.
    pub fn verify(
        &self,
        root: &StateRoot,
        key: &LeafKey,
    ) -> Result<Option<(LeafHead, [u8; 32])>, ProofError> {
        let (got, found) = match self {
            Self::Present {
                path,
                head,
                content,
            } => {
                if path.link.key != *key {
                    return Err(ProofError::WrongKey {
                        expected: *key,
                        got: path.link.key,
                    });
                }
                (path.root(&head.body(content)), Some((*head, *content)))
            }
            Self::Absent { path, body } => {
                if !path.link.excludes(key) {
                    return Err(ProofError::NotBetween {
                        key: *key,
                        low: path.link.key,
                        next: path.link.next_key,
                    });
                }
                (path.root(body), None)
            }
        };
        match got == *root {
            true => Ok(found),
            false => Err(ProofError::WrongRoot {
                expected: *root,
                got,
            }),
        }
    }
}

impl Encode for LeafPath {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            index,
            link,
            siblings,
        } = self;
        writer.u32(*index);
        writer.raw(link.key.as_bytes());
        writer.raw(link.next_key.as_bytes());
        writer.u32(link.next_index);
        siblings.iter().for_each(|sibling| writer.raw(sibling));
    }
}

impl Decode for LeafPath {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let index = reader.u32()?;
        let link = Link {
            key: LeafKey::new(reader.array()?),
            next_key: LeafKey::new(reader.array()?),
            next_index: reader.u32()?,
        };
        let mut siblings = [[0; 32]; DEPTH];
        for sibling in &mut siblings {
            *sibling = reader.array()?;
        }
        Ok(Self {
            index,
            link,
            siblings,
        })
    }
}

variants! {
    StateProof: "state proof" {
        0 = Absent { path, body },
        1 = Present { path, head, content },
    }
}
