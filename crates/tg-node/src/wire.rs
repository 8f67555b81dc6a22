//! Messages between validators beside votes: block bodies, fetches, heights and transactions.
//!
//! There are four p2p channels beside the three of consensus, each with a closed set of messages in the canonical codec of
//! `tg-types`. Decoding is bounded by the message size that the network enforces; the bytes of blocks and transactions are
//! decoded by their owner.

use tg_types::limits::TRANSACTION_BYTES_MAX;
use tg_types::{
    Decode, DecodeError, Encode, Heartbeat, Reader, Writer, decode_field, encode_field, variants,
};

use crate::limits::{
    CERTIFICATE_BYTES_MAX, FETCH_BLOCKS_MAX, FETCH_BYTES_MAX, GOSSIP_TRANSACTIONS_MAX,
    HEARTBEATS_MAX, PUSH_BYTES_MAX,
};

/// Bytes of one heartbeat.
const HEARTBEAT_BYTES: usize = 73;

mod blobs;
mod seed;

pub use blobs::BlobMessage;
pub use seed::{DealtShare, SEED_COMMITMENT_BYTES_MAX, SEED_PARTICIPANTS_MAX, SeedMessage};

/// P2p channel numbers. Changing one is a breaking change of the network.
pub mod channel {
    /// Votes of simplex.
    pub const VOTES: u64 = 0;
    /// Certificates of simplex.
    pub const CERTIFICATES: u64 = 1;
    /// Fetches of missing certificates.
    pub const RESOLVER: u64 = 2;
    /// Block bodies: [`super::BlockMessage`].
    pub const BLOCKS: u64 = 3;
    /// Transactions: [`super::TransactionMessage`].
    pub const TRANSACTIONS: u64 = 4;
    /// Blobs: [`super::BlobMessage`].
    pub const BLOBS: u64 = 5;
    /// The seed: [`super::SeedMessage`].
    pub const SEED: u64 = 6;
}

/// A message about blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockMessage {
    /// A block that its proposer, or a peer that has it, sends unasked.
    Push(Vec<u8>),
    /// Asks for a block and, if there is room, its ancestors above a height.
    Fetch {
        /// The block's id.
        id: [u8; 32],
        /// Ancestors at or below this height are not needed.
        above: u64,
    },
    /// Answers a fetch: the block and its ancestors, newest first.
    Blocks(Vec<Vec<u8>>),
    /// Heartbeats of providers that reached the sender first.
    Heartbeats(Vec<Heartbeat>),
    /// Asks for what makes the newest block of an epoch final: the sender sees that others are ahead and hears nothing of how.
    AskFinal {
        /// The consensus epoch of the sender.
        epoch: u64,
    },
    /// Answers that: the certificate of the last block of the epoch, or of its newest one while it goes on.
    Final(Vec<u8>),
    /// The sender's finalised height, sent every second; it also shows that the sender is there.
    Tip {
        /// The height.
        height: u64,
    },
}

/// Transactions that the sender accepted into its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionMessage(pub Vec<Vec<u8>>);

variants! {
    BlockMessage: "block message" {
        0 = Push(block: bytes("block", PUSH_BYTES_MAX)),
        1 = Fetch { id, above },
        2 = Blocks(blocks: lists("blocks", FETCH_BLOCKS_MAX, PUSH_BYTES_MAX.min(FETCH_BYTES_MAX))),
        3 = Tip { height },
        4 = Heartbeats(all: seq("heartbeats", HEARTBEATS_MAX, HEARTBEAT_BYTES)),
        5 = AskFinal { epoch },
        6 = Final(certificate: bytes("certificate", CERTIFICATE_BYTES_MAX)),
    }
}

impl Encode for TransactionMessage {
    fn encode(&self, writer: &mut Writer) {
        let Self(transactions) = self;
        encode_field!(writer, transactions, lists);
    }
}

impl Decode for TransactionMessage {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (most, bytes) = (GOSSIP_TRANSACTIONS_MAX, TRANSACTION_BYTES_MAX);
        Ok(Self(decode_field!(
            reader,
            lists("transactions", most, bytes)
        )))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(message: &BlockMessage, hex: &str) {
        let bytes = message.to_bytes();
        assert_eq!(tg_types::digest::hex(&bytes), hex);
        assert_eq!(&BlockMessage::from_bytes(&bytes).unwrap(), message);
        for end in 0..bytes.len() {
            BlockMessage::from_bytes(&bytes[..end]).unwrap_err();
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(matches!(
            BlockMessage::from_bytes(&longer),
            Err(DecodeError::Trailing { extra: 1 })
        ));
    }

    #[test]
    fn block_messages_have_one_encoding() {
        check(&BlockMessage::Push(vec![7, 8]), "00020000000708");
        check(
            &BlockMessage::Fetch {
                id: [0xab; 32],
                above: 5,
            },
            &format!("01{}0500000000000000", "ab".repeat(32)),
        );
        check(
            &BlockMessage::Blocks(vec![vec![1], vec![]]),
            "0202000000010000000100000000",
        );
        let wallet = tg_types::Wallet::from_seed(b"provider");
        let beat = Heartbeat::new(
            tg_types::TimestampMs::new(7),
            &wallet,
            &tg_ledger::development_domain(),
        );
        assert_eq!(beat.to_bytes().len(), HEARTBEAT_BYTES);
        let hex = tg_types::digest::hex(&beat.to_bytes());
        check(
            &BlockMessage::Heartbeats(vec![beat, beat]),
            &format!("0402000000{hex}{hex}"),
        );
        check(&BlockMessage::Tip { height: 258 }, "030201000000000000");
        check(&BlockMessage::AskFinal { epoch: 3 }, "050300000000000000");
        check(&BlockMessage::Final(vec![7, 8]), "06020000000708");
    }

    #[test]
    fn oversized_and_unknown_messages_are_refused_without_allocating() {
        let mut writer = Writer::new();
        writer.u8(0);
        writer.u32(u32::MAX);
        assert!(matches!(
            BlockMessage::from_bytes(&writer.into_bytes()),
            Err(DecodeError::TooLong { field: "block", .. })
        ));
        let mut writer = Writer::new();
        writer.u8(2);
        writer.u32(u32::MAX);
        assert!(matches!(
            BlockMessage::from_bytes(&writer.into_bytes()),
            Err(DecodeError::TooLong {
                field: "blocks",
                ..
            })
        ));
        assert!(matches!(
            BlockMessage::from_bytes(&[7]),
            Err(DecodeError::Invalid {
                field: "block message",
                value: 7
            })
        ));
        let mut writer = Writer::new();
        writer.u8(4);
        writer.u32(u32::MAX);
        assert!(matches!(
            BlockMessage::from_bytes(&writer.into_bytes()),
            Err(DecodeError::TooLong {
                field: "heartbeats",
                ..
            })
        ));
        let many = TransactionMessage(vec![vec![]; GOSSIP_TRANSACTIONS_MAX + 1]);
        assert!(matches!(
            TransactionMessage::from_bytes(&many.to_bytes()),
            Err(DecodeError::TooLong {
                field: "transactions",
                ..
            })
        ));
        let some = TransactionMessage(vec![vec![1, 2], vec![3]]);
        assert_eq!(TransactionMessage::from_bytes(&some.to_bytes()), Ok(some));
    }
}
