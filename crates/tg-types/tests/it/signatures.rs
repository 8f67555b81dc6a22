//! Signatures and wallets.

use proptest::prelude::*;
use tg_types::{
    Address, Amount, ChainDomain, Signature, SignatureError, Transaction, Wallet, WalletError,
    job_id, keccak256, offer_id,
};

use crate::samples::{any_transaction, domain, own, signed, transactions, wallet};

/// Order of secp256k1.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];

/// `ORDER - s`: the other valid scalar of a signature.
pub(crate) fn negate(s: &[u8; 32]) -> [u8; 32] {
    let mut result = [0; 32];
    let mut borrow = 0i16;
    for index in (0..32).rev() {
        let difference = i16::from(ORDER[index]) - i16::from(s[index]) - borrow;
        borrow = i16::from(difference < 0);
        result[index] = u8::try_from(difference.rem_euclid(256)).unwrap();
    }
    result
}

#[test]
fn keccak_is_the_one_of_ethereum() {
    let hex = |bytes: &[u8]| tg_types::Digest::new(keccak256(bytes)).to_string();
    assert_eq!(
        hex(b""),
        "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    );
    assert_eq!(
        hex(b"abc"),
        "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    );
}

#[test]
fn a_high_s_is_refused_though_it_is_a_signature() {
    let mut signed = signed(transactions()[0].clone());
    let signature = own(&mut signed);
    signature.s = negate(&signature.s);
    signature.y_parity ^= 1;
    assert_eq!(signed.verify(&domain()), Err(SignatureError::HighS));
}

#[test]
fn scalars_out_of_range_are_refused() {
    let good = signed(transactions()[0].clone());
    for bad in [[0; 32], ORDER, [0xff; 32]] {
        let mut signed = good.clone();
        own(&mut signed).r = bad;
        assert_eq!(
            signed.verify(&domain()),
            Err(SignatureError::ScalarOutOfRange)
        );
        let mut signed = good.clone();
        own(&mut signed).s = bad;
        assert_eq!(
            signed.verify(&domain()),
            Err(SignatureError::ScalarOutOfRange)
        );
    }
}

#[test]
fn parity_is_one_bit() {
    let good = signed(transactions()[0].clone());
    for parity in [2, 3, 27, 28, 255] {
        let mut signed = good.clone();
        own(&mut signed).y_parity = parity;
        assert_eq!(
            signed.verify(&domain()),
            Err(SignatureError::BadParity { parity })
        );
    }
}

#[test]
fn an_r_without_a_point_has_no_key() {
    // x = 5 is on no point of secp256k1: 5^3 + 7 = 132 is no square modulo its prime.
    let mut r = [0; 32];
    r[31] = 5;
    let good = wallet().sign_digest(&[1; 32]);
    let signature = Signature { r, ..good };
    assert_eq!(signature.recover(&[1; 32]), Err(SignatureError::NoKey));
}

#[test]
fn rsv_is_as_wallets_write_it() {
    for seed in 0..8 {
        let signature = wallet().sign_digest(&[seed; 32]);
        let rsv = signature.to_rsv();
        assert_eq!(rsv[..32], signature.r);
        assert_eq!(rsv[32..64], signature.s);
        assert_eq!(rsv[64], 27 + signature.y_parity);
    }
}

#[test]
fn a_signature_holds_in_its_own_network_only() {
    let signed = signed(transactions()[0].clone());
    let home = domain();
    let others = [
        ChainDomain {
            chain_id: 1,
            ..home
        },
        ChainDomain {
            verifying_contract: Address::new([1; 20]),
            ..home
        },
        ChainDomain {
            salt: [0; 32],
            ..home
        },
    ];
    for other in others {
        assert!(matches!(
            signed.verify(&other),
            Err(SignatureError::WrongSigner { .. })
        ));
        assert_ne!(signed.id(&home), signed.id(&other));
    }
}

#[test]
fn wallets_take_valid_secrets_and_do_not_show_them() {
    assert!(matches!(Wallet::from_secret(&[0; 32]), Err(WalletError)));
    assert!(matches!(Wallet::from_secret(&ORDER), Err(WalletError)));
    let alice = Wallet::from_seed(b"alice");
    assert_eq!(
        alice.address(),
        Wallet::from_secret(&alice.secret()).unwrap().address()
    );
    assert_ne!(alice.address(), Wallet::from_seed(b"bob").address());
    let shown = format!("{alice:?}");
    assert!(shown.contains(&alice.address().to_string()));
    let secret = tg_types::Digest::new(alice.secret()).to_string();
    assert!(!shown.contains(&secret[2..]));
}

#[test]
fn names_of_things_differ_by_sender_nonce_and_purpose() {
    let (alice, bob) = (Wallet::from_seed(b"alice"), Wallet::from_seed(b"bob"));
    let pay = Transaction::Transfer {
        to: Address::default(),
        amount: Amount::new(1),
    };
    let id = |wallet: &Wallet, nonce| wallet.sign(pay.clone(), nonce, &domain()).id(&domain());
    assert_ne!(id(&alice, 0), id(&alice, 1));
    assert_ne!(id(&alice, 0), id(&bob, 0));
    let transaction = id(&alice, 0);
    assert_ne!(
        job_id(transaction).as_bytes(),
        offer_id(transaction).as_bytes()
    );
}

proptest! {
    #![proptest_config(crate::config(64))]

    #[test]
    fn whoever_signs_is_recovered(transaction in any_transaction(), nonce: u64, seed: [u8; 8]) {
        let wallet = Wallet::from_seed(&seed);
        let signed = wallet.sign(transaction.clone(), nonce, &domain());
        let verified = signed.verify(&domain()).unwrap();
        prop_assert_eq!(verified.sender(), wallet.address());
        prop_assert_eq!(verified.nonce(), nonce);
        prop_assert_eq!(verified.transaction(), &transaction);
        prop_assert_eq!(verified.id(), signed.id(&domain()));
    }

    #[test]
    fn no_signature_bytes_panic(r: [u8; 32], s: [u8; 32], y_parity: u8, digest: [u8; 32]) {
        let _ = Signature { r, s, y_parity }.recover(&digest);
    }
}
