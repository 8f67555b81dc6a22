//! Permits to store a blob.

use tg_types::{
    BlobHasher, ChainDomain, Decode, DecodeError, Digest, Encode, SignatureError, SignedUpload,
    TimestampMs, UploadPermit,
};

use crate::samples::{domain, wallet};

fn permit() -> UploadPermit {
    UploadPermit {
        digest: Digest::of_blob(b"an input"),
        length: 8,
        expires: TimestampMs::new(1_800_000_000_000),
    }
}

#[test]
fn a_permit_names_its_owner_and_survives_its_text() {
    let signed = SignedUpload::new(permit(), &wallet(), &domain());
    assert_eq!(signed.owner(&domain()), Ok(wallet().address()));
    assert_eq!(signed.to_bytes().len(), 113);
    assert_eq!(SignedUpload::from_hex(&signed.to_string()), Some(signed));
    assert_eq!(SignedUpload::from_hex("0x12"), None);
    let mut long = signed.to_bytes();
    long.push(0);
    assert_eq!(
        SignedUpload::from_bytes(&long),
        Err(DecodeError::Trailing { extra: 1 })
    );
}

#[test]
fn what_is_signed_is_pinned() {
    let digest = Digest::new(permit().signing_digest(&domain()));
    assert_eq!(
        digest.to_string(),
        "0xd4a0edf338919d68a07b7015db36d0ae0443be75be6780905d19e0735a023b4f"
    );
}

#[test]
fn a_changed_permit_is_another_accounts() {
    let signed = SignedUpload::new(permit(), &wallet(), &domain());
    let other_network = ChainDomain {
        chain_id: domain().chain_id + 1,
        ..domain()
    };
    assert_ne!(signed.owner(&other_network), Ok(wallet().address()));
    let changes = [
        UploadPermit {
            length: 9,
            ..permit()
        },
        UploadPermit {
            digest: Digest::of_blob(b"another"),
            ..permit()
        },
        UploadPermit {
            expires: TimestampMs::new(1),
            ..permit()
        },
    ];
    for permit in changes {
        let changed = SignedUpload { permit, ..signed };
        assert_ne!(changed.owner(&domain()), Ok(wallet().address()));
    }
    let mut zero = signed;
    zero.signature.r = [0; 32];
    assert_eq!(zero.owner(&domain()), Err(SignatureError::ScalarOutOfRange));
}

#[test]
fn a_blob_hashed_in_pieces_has_the_digest_of_the_whole() {
    let bytes: Vec<u8> = (0..100_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    let mut hasher = BlobHasher::default();
    bytes.chunks(7_001).for_each(|piece| hasher.update(piece));
    assert_eq!(hasher.digest(), Digest::of_blob(&bytes));
}
