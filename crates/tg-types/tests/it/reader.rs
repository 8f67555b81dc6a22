//! The reader and the writer, value by value: what is written is read, and nothing else.

use proptest::prelude::*;
use tg_types::{
    Decode, DecodeError, Digest, Domain, Encode, JobId, Reader, Writer, keccak256, keccak256_of,
};

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.into_bytes()
}

#[test]
fn integers_are_little_endian_and_of_fixed_width() {
    assert_eq!(written(|it| it.u8(0xab)), [0xab]);
    assert_eq!(written(|it| it.u16(0x0102)), [2, 1]);
    assert_eq!(written(|it| it.u32(0x0102_0304)), [4, 3, 2, 1]);
    assert_eq!(written(|it| it.u64(1)), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(written(|it| it.u128(1)).len(), 16);
    assert_eq!(written(|it| it.i32(-2)), [0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(written(|it| it.i64(-1)), [0xff; 8]);
    assert_eq!(written(|it| it.f32(1.0)), [0, 0, 0x80, 0x3f]);
    assert_eq!(written(|it| it.bytes(b"ab")), [2, 0, 0, 0, b'a', b'b']);
    assert_eq!(written(|it| it.str("é")), [2, 0, 0, 0, 0xc3, 0xa9]);
    let ids = [JobId::new([1; 32]), JobId::new([2; 32])];
    let bytes = written(|it| it.seq(&ids));
    assert_eq!(bytes.len(), 4 + 64);
    assert_eq!(Reader::new(&bytes).seq("ids", 2, 32), Ok(ids.to_vec()));
}

#[test]
fn what_is_missing_is_counted() {
    let mut reader = Reader::new(&[1, 2, 3]);
    assert_eq!(reader.u16(), Ok(0x0201));
    assert_eq!((reader.offset(), reader.remaining()), (2, 1));
    assert_eq!(
        reader.u32(),
        Err(DecodeError::Truncated {
            offset: 3,
            needed: 3
        })
    );
    // A failed read takes nothing.
    assert_eq!(reader.u8(), Ok(3));
    assert_eq!(reader.finish(), Ok(()));
    assert_eq!(
        Reader::new(&[0; 5]).finish(),
        Err(DecodeError::Trailing { extra: 5 })
    );
}

#[test]
fn counts_are_checked_before_anything_is_allocated() {
    let huge = written(|it| it.u32(u32::MAX));
    assert_eq!(
        Reader::new(&huge).bytes("blob", 1 << 20),
        Err(DecodeError::TooLong {
            field: "blob",
            count: 0xffff_ffff,
            limit: 1 << 20
        })
    );
    // Within the limit, but more than there is: 1,000 ids of 32 bytes cannot be in 8 bytes.
    let promised = written(|it| {
        it.u32(1_000);
        it.u64(0);
    });
    assert_eq!(
        Reader::new(&promised).seq::<JobId>("ids", 1_000, 32),
        Err(DecodeError::Truncated {
            offset: 12,
            needed: 32_000 - 8
        })
    );
    assert_eq!(
        Reader::new(&huge).count("ids", usize::MAX, usize::MAX),
        Err(DecodeError::Truncated {
            offset: 4,
            needed: usize::MAX
        })
    );
}

#[test]
fn floats_have_one_encoding_each() {
    fn check(value: f32, is_read: bool) {
        let bytes = written(|it| it.f32(value));
        assert_eq!(Reader::new(&bytes).f32("scale").is_ok(), is_read, "{value}");
    }
    check(0.0, true);
    check(-1.5, true);
    check(f32::MIN_POSITIVE / 2.0, true);
    check(-0.0, false);
    check(f32::NAN, false);
    check(f32::INFINITY, false);
    check(f32::NEG_INFINITY, false);
}

#[test]
fn text_is_utf8() {
    let bad = written(|it| it.bytes(&[0xc3, 0x28]));
    assert_eq!(
        Reader::new(&bad).str("name", 10),
        Err(DecodeError::NotUtf8 { field: "name" })
    );
}

#[test]
fn domains_are_distinct_in_both_hashes() {
    let domains = [
        Domain::Program,
        Domain::Weights,
        Domain::Model,
        Domain::Trace,
        Domain::ProofTranscript,
        Domain::RegistrationTranscript,
        Domain::TensorMatrix,
        Domain::TensorBlinding,
        Domain::PrivateWeights,
        Domain::Transaction,
        Domain::Job,
        Domain::Offer,
        Domain::Lease,
        Domain::Block,
        Domain::BlockBody,
        Domain::DevelopmentWallet,
        Domain::StateLeaf,
        Domain::StateKey,
        Domain::StateContent,
        Domain::StateFree,
        Domain::MatchTie,
        Domain::Bid,
        Domain::BidCommitment,
        Domain::Schedule,
        Domain::EpochSeed,
        Domain::Sampling,
        Domain::Upload,
        Domain::Heartbeat,
    ];
    let mut seen = std::collections::BTreeSet::new();
    for domain in domains {
        let name = domain.as_str();
        let version = name
            .rsplit_once("/v")
            .map(|(_, version)| version.parse::<u8>());
        assert!(
            name.starts_with("TG/") && matches!(version, Some(Ok(1..))),
            "{name}"
        );
        assert!(seen.insert(*Digest::of(domain, b"x").as_bytes()));
        let keccak = keccak256_of(domain, b"x");
        assert!(seen.insert(keccak));
        let mut prefixed = keccak256(name.as_bytes()).to_vec();
        prefixed.push(b'x');
        assert_eq!(keccak, keccak256(&prefixed));
    }
}

#[test]
fn blobs_are_named_by_plain_blake3() {
    // The first value of BLAKE3's published test vectors.
    assert_eq!(
        Digest::of_blob(b"").to_string(),
        "0xaf1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    );
    let digest = Digest::of_blob(b"tensor");
    assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
    assert_eq!(Digest::from_bytes(&digest.to_bytes()), Ok(digest));
    assert_eq!(Digest::from_hex("0x00"), None);
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn values_round_trip(
        small: (u8, u16, u32),
        large: (u64, u128, i64, i32),
        text in "\\PC{0,20}",
        blob in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let bytes = written(|it| {
            it.u8(small.0);
            it.u16(small.1);
            it.u32(small.2);
            it.u64(large.0);
            it.u128(large.1);
            it.i64(large.2);
            it.i32(large.3);
            it.str(&text);
            it.bytes(&blob);
        });
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.u8(), Ok(small.0));
        prop_assert_eq!(reader.u16(), Ok(small.1));
        prop_assert_eq!(reader.u32(), Ok(small.2));
        prop_assert_eq!(reader.u64(), Ok(large.0));
        prop_assert_eq!(reader.u128(), Ok(large.1));
        prop_assert_eq!(reader.i64(), Ok(large.2));
        prop_assert_eq!(reader.i32(), Ok(large.3));
        prop_assert_eq!(reader.str("text", 80), Ok(text.as_str()));
        prop_assert_eq!(reader.bytes("blob", 40), Ok(&blob[..]));
        prop_assert_eq!(reader.finish(), Ok(()));
    }
}
