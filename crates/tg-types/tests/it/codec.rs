//! The canonical codec over everything that is signed: it round-trips, and survives any bytes.

use proptest::prelude::*;
use tg_types::{Decode, DecodeError, Encode, SignedTransaction, Transaction};

use crate::samples::{any_transaction, signed, transactions};

#[test]
fn every_kind_round_trips_and_is_read_to_its_end() {
    for transaction in transactions() {
        let signed = signed(transaction);
        let bytes = signed.to_bytes();
        assert!(bytes.len() <= tg_types::limits::TRANSACTION_BYTES_MAX);
        assert_eq!(SignedTransaction::from_bytes(&bytes), Ok(signed));
        for end in 0..bytes.len() {
            assert!(
                matches!(
                    SignedTransaction::from_bytes(&bytes[..end]),
                    Err(DecodeError::Truncated { .. })
                ),
                "cut at {end}"
            );
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(
            SignedTransaction::from_bytes(&longer),
            Err(DecodeError::Trailing { extra: 1 })
        );
    }
}

#[test]
fn lanes_of_nonces_beyond_that_of_session_keys_are_reserved() {
    for transaction in transactions() {
        let lane = transaction.to_bytes().len();
        let mut bytes = signed(transaction).to_bytes();
        assert_eq!(bytes[lane], tg_types::eip712::NONCE_LANE_ACCOUNT);
        bytes[lane] = 2;
        assert_eq!(
            SignedTransaction::from_bytes(&bytes),
            Err(DecodeError::Invalid {
                field: "nonce lane",
                value: 2
            })
        );
        // An account's signature is shorter than a session key with its own.
        bytes[lane] = 1;
        let short = SignedTransaction::from_bytes(&bytes);
        assert!(
            matches!(short, Err(DecodeError::Truncated { .. })),
            "{short:?}"
        );
    }
}

#[test]
fn unknown_kinds_are_named() {
    assert_eq!(
        Transaction::from_bytes(&[200]),
        Err(DecodeError::Invalid {
            field: "transaction kind",
            value: 200
        })
    );
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn random_transactions_round_trip(transaction in any_transaction()) {
        let bytes = transaction.to_bytes();
        prop_assert_eq!(Transaction::from_bytes(&bytes), Ok(transaction));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(read) = SignedTransaction::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn what_is_read_after_a_flip_is_canonical(
        transaction in any_transaction(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = transaction.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(read) = Transaction::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }
}
