#![allow(warnings)]
use super::blobs::*;
use super::*;
use crate::limits::*;
use tg_types::*;
fn encode_BlockMessage(it: &BlockMessage, writer: &mut Writer) {
    match it {
        BlockMessage::Push(bytes) => {
            writer.u8(0);
            writer.bytes(bytes);
        }
        BlockMessage::Fetch { id, above } => {
            writer.u8(1);
            writer.raw(id);
            writer.u64(*above);
        }
        BlockMessage::Blocks(blocks) => {
            writer.u8(2);
            write_all(writer, blocks);
        }
        BlockMessage::Tip { height } => {
            writer.u8(3);
            writer.u64(*height);
        }
        BlockMessage::Heartbeats(all) => {
            writer.u8(4);
            writer.seq(all);
        }
        BlockMessage::AskFinal { epoch } => {
            writer.u8(5);
            writer.u64(*epoch);
        }
        BlockMessage::Final(certificate) => {
            writer.u8(6);
            writer.bytes(certificate);
        }
    }
}
fn decode_BlockMessage(reader: &mut Reader<'_>) -> Result<BlockMessage, DecodeError> {
    match reader.u8()? {
        0 => Ok(BlockMessage::Push(
            reader.bytes("block", BLOCK_BYTES_MAX)?.to_vec(),
        )),
        1 => Ok(BlockMessage::Fetch {
            id: reader.array()?,
            above: reader.u64()?,
        }),
        2 => Ok(BlockMessage::Blocks(read_all(
            reader,
            "blocks",
            FETCH_BLOCKS_MAX,
            BLOCK_BYTES_MAX.min(FETCH_BYTES_MAX),
        )?)),
        3 => Ok(BlockMessage::Tip {
            height: reader.u64()?,
        }),
        4 => Ok(BlockMessage::Heartbeats(reader.seq(
            "heartbeats",
            HEARTBEATS_MAX,
            HEARTBEAT_BYTES,
        )?)),
        5 => Ok(BlockMessage::AskFinal {
            epoch: reader.u64()?,
        }),
        6 => {
            let certificate = reader.bytes("certificate", CERTIFICATE_BYTES_MAX)?;
            Ok(BlockMessage::Final(certificate.to_vec()))
        }
        tag => Err(DecodeError::Invalid {
            field: "block message",
            value: u64::from(tag),
        }),
    }
}
fn encode_TransactionMessage(it: &TransactionMessage, writer: &mut Writer) {
    write_all(writer, &it.0);
}
fn decode_TransactionMessage(reader: &mut Reader<'_>) -> Result<TransactionMessage, DecodeError> {
    Ok(TransactionMessage(read_all(
        reader,
        "transactions",
        GOSSIP_TRANSACTIONS_MAX,
        tg_types::limits::TRANSACTION_BYTES_MAX,
    )?))
}
fn encode_BlobMessage(it: &BlobMessage, writer: &mut Writer) {
    match it {
        BlobMessage::Ask { digest, offset } => {
            writer.u8(0);
            writer.raw(digest.as_bytes());
            writer.u64(*offset);
        }
        BlobMessage::Chunk {
            digest,
            offset,
            total,
            bytes,
        } => {
            writer.u8(1);
            writer.raw(digest.as_bytes());
            writer.u64(*offset);
            writer.u64(*total);
            writer.bytes(bytes);
        }
        BlobMessage::Absent { digest } => {
            writer.u8(2);
            writer.raw(digest.as_bytes());
        }
    }
}
fn decode_BlobMessage(reader: &mut Reader<'_>) -> Result<BlobMessage, DecodeError> {
    let tag = reader.u8()?;
    if tag > 2 {
        return Err(DecodeError::Invalid {
            field: "blob message",
            value: u64::from(tag),
        });
    }
    let digest = Digest::new(reader.array()?);
    Ok(match tag {
        0 => BlobMessage::Ask {
            digest,
            offset: reader.u64()?,
        },
        1 => BlobMessage::Chunk {
            digest,
            offset: reader.u64()?,
            total: reader.u64()?,
            bytes: reader.bytes("blob chunk", BLOB_CHUNK_BYTES)?.to_vec(),
        },
        _ => BlobMessage::Absent { digest },
    })
}
fn write_all(writer: &mut Writer, items: &[Vec<u8>]) {
    writer.count(items.len());
    for item in items {
        writer.bytes(item);
    }
}

fn read_all(
    reader: &mut Reader<'_>,
    field: &'static str,
    limit: usize,
    item_limit: usize,
) -> Result<Vec<Vec<u8>>, DecodeError> {
    let count = reader.count(field, limit, 4)?;
    (0..count)
        .map(|_| Ok(reader.bytes(field, item_limit)?.to_vec()))
        .collect()
}

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
fn mutate(rng: &mut Rng, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + rng.below(3) {
        let n = bytes.len() as u64;
        match rng.below(6) {
            0 if n > 0 => {
                let at = rng.below(n) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
            1 if n > 0 => {
                let at = rng.below(n) as usize;
                bytes[at] = rng.next() as u8;
            }
            2 => {
                bytes.truncate(rng.below(n + 1) as usize);
            }
            3 => {
                let at = rng.below(n + 1) as usize;
                bytes.insert(at, rng.next() as u8);
            }
            4 if n > 0 => {
                bytes.remove(rng.below(n) as usize);
            }
            _ => {
                if n >= 5 {
                    let v =
                        [0u32, 1, 2, 3, 8, 64, 1 << 16, 1 << 20, u32::MAX][rng.below(9) as usize];
                    let at = if rng.below(2) == 0 {
                        1
                    } else {
                        rng.below(n - 4) as usize
                    };
                    if at + 4 <= bytes.len() {
                        bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
                    }
                }
            }
        }
    }
    bytes
}
fn compare<T: Encode + Decode + PartialEq + std::fmt::Debug>(
    name: &str,
    seeds: &[T],
    old_e: fn(&T, &mut Writer),
    old_d: fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) {
    let old = |bytes: &[u8]| {
        let mut r = Reader::new(bytes);
        let v = old_d(&mut r)?;
        r.finish()?;
        Ok::<T, DecodeError>(v)
    };
    let mut rng = Rng(14);
    let (mut ok, mut bad) = (0u32, 0u32);
    let pool: Vec<Vec<u8>> = seeds
        .iter()
        .map(|s| {
            let mut w = Writer::new();
            old_e(s, &mut w);
            let b = w.into_bytes();
            assert_eq!(b, s.to_bytes());
            b
        })
        .collect();
    for _ in 0..1_000_000 {
        let seed = &pool[rng.below(pool.len() as u64) as usize];
        let bytes = mutate(&mut rng, seed);
        let a = old(&bytes);
        let b = T::from_bytes(&bytes);
        assert_eq!(a, b, "{bytes:?}");
        if let Ok(v) = b {
            ok += 1;
            let mut w = Writer::new();
            old_e(&v, &mut w);
            assert_eq!(w.into_bytes(), v.to_bytes());
            assert_eq!(v.to_bytes(), bytes);
        } else {
            bad += 1;
        }
    }
    eprintln!("{name}: {ok} taken, {bad} refused");
}
#[test]
fn old_and_new_agree() {
    let wallet = tg_types::Wallet::from_seed(b"provider");
    let beat = Heartbeat::new(
        tg_types::TimestampMs::new(7),
        &wallet,
        &tg_ledger::development_domain(),
    );
    compare(
        "block",
        &[
            BlockMessage::Push(vec![7, 8]),
            BlockMessage::Push(vec![]),
            BlockMessage::Fetch {
                id: [0xab; 32],
                above: 5,
            },
            BlockMessage::Blocks(vec![vec![1], vec![], vec![2; 9]]),
            BlockMessage::Blocks(vec![]),
            BlockMessage::Heartbeats(vec![beat, beat]),
            BlockMessage::Tip { height: 258 },
            BlockMessage::AskFinal { epoch: 3 },
            BlockMessage::Final(vec![7, 8]),
        ],
        encode_BlockMessage,
        decode_BlockMessage,
    );
    compare(
        "transactions",
        &[
            TransactionMessage(vec![]),
            TransactionMessage(vec![vec![1, 2, 3], vec![], vec![9; 20]]),
        ],
        encode_TransactionMessage,
        decode_TransactionMessage,
    );
    let digest = Digest::new([0xab; 32]);
    compare(
        "blob",
        &[
            BlobMessage::Ask { digest, offset: 5 },
            BlobMessage::Chunk {
                digest,
                offset: 1,
                total: 9,
                bytes: vec![1, 2, 3],
            },
            BlobMessage::Absent { digest },
        ],
        encode_BlobMessage,
        decode_BlobMessage,
    );
}
