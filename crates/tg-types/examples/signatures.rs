//! Prints the processor time that a verified transaction takes, by who signed it: an account's own key (secp256k1, the signer is recovered), a
//! session key (ed25519, checked by itself), and session keys of a block checked together.
//!
//! ```text
//! cargo run --release -p tg-types --example signatures -- 1000
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement"
)]

use std::hint::black_box;
use std::time::Instant;

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity as _, VartimeMultiscalarMul as _};
use sha2::{Digest as _, Sha512};
use tg_types::{
    Address, Authorization, ChainDomain, Fees, LeaseId, SessionWallet, SignedTransaction,
    Transaction, Wallet,
};

fn main() {
    let count = std::env::args().nth(1).and_then(|it| it.parse().ok());
    let count: u32 = count.unwrap_or(1_000);
    let domain = ChainDomain {
        chain_id: 31_337,
        verifying_contract: Address::new([0xc0; 20]),
        salt: [0x5a; 32],
    };
    let start = |number: u32| {
        let mut lease = [0; 32];
        lease[..4].copy_from_slice(&number.to_le_bytes());
        let lease = LeaseId::new(lease);
        Transaction::StartLease { lease }
    };
    // Sixteen providers.
    let wallets: Vec<Wallet> = (0..16u8).map(|it| Wallet::from_seed(&[it])).collect();
    let sessions: Vec<SessionWallet> = wallets
        .iter()
        .map(|it| SessionWallet::from_secret(&it.secret(), it.address()))
        .collect();
    let of = |number: u32| usize::try_from(number).unwrap() % wallets.len();
    let own: Vec<SignedTransaction> = (0..count)
        .map(|it| wallets[of(it)].sign_with_fees(start(it), it.into(), Fees::NONE, &domain))
        .collect();
    let by_key: Vec<SignedTransaction> = (0..count)
        .map(|it| sessions[of(it)].sign_with_fees(start(it), it.into(), Fees::NONE, &domain))
        .collect();
    let micros = |since: Instant| since.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    let mut bests = [f64::MAX; 4];
    for _ in 0..5 {
        let since = Instant::now();
        for signed in &own {
            black_box(domain.signing_digest_in(
                &signed.lane(),
                &signed.transaction,
                signed.nonce,
                &signed.fees,
            ));
        }
        bests[0] = bests[0].min(micros(since));
        let since = Instant::now();
        own.iter().for_each(|it| drop(it.verify(&domain).unwrap()));
        bests[1] = bests[1].min(micros(since));
        let since = Instant::now();
        by_key
            .iter()
            .for_each(|it| drop(it.verify(&domain).unwrap()));
        bests[2] = bests[2].min(micros(since));
        let since = Instant::now();
        assert!(all_hold(&by_key, &domain));
        bests[3] = bests[3].min(micros(since));
    }
    let [digest, own, single, batch] = bests;
    println!("{count} starts of leases, microseconds each, best of five:");
    println!("  what is signed (EIP-712)        {digest:7.1}");
    println!("  secp256k1, signer recovered     {own:7.1}");
    println!("  ed25519, one by one             {single:7.1}");
    println!("  ed25519, all in one equation    {batch:7.1}");
}

/// Whether all hold, by one equation of ZIP 215 with weights that follow from all signatures.
fn all_hold(all: &[SignedTransaction], domain: &ChainDomain) -> bool {
    let mut transcript = Sha512::new();
    let mut terms = Vec::with_capacity(all.len());
    for signed in all {
        let Authorization::Session(signature) = signed.authorization else {
            return false;
        };
        let lane = signed.lane();
        let digest =
            domain.signing_digest_in(&lane, &signed.transaction, signed.nonce, &signed.fees);
        let (r, s) = signature.signature.split_at(32);
        let mut hash = Sha512::new();
        hash.update(r);
        hash.update(signature.key);
        hash.update(digest);
        let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        transcript.update(signature.signature);
        transcript.update(k.as_bytes());
        let point = |bytes: &[u8]| CompressedEdwardsY::from_slice(bytes).ok()?.decompress();
        let s = <[u8; 32]>::try_from(s).ok();
        let s = s.and_then(|it| Option::<Scalar>::from(Scalar::from_canonical_bytes(it)));
        let (Some(key), Some(r), Some(s)) = (point(&signature.key), point(r), s) else {
            return false;
        };
        terms.push((key, r, s, k));
    }
    let seed: [u8; 64] = transcript.finalize().into();
    let mut sum = Scalar::ZERO;
    let (mut scalars, mut points) = (Vec::new(), Vec::new());
    for (place, (key, r, s, k)) in terms.into_iter().enumerate() {
        let mut hash = Sha512::new();
        hash.update(seed);
        hash.update(place.to_le_bytes());
        let hash: [u8; 64] = hash.finalize().into();
        let mut weight = [0; 32];
        weight[..16].copy_from_slice(&hash[..16]);
        let weight = Scalar::from_bytes_mod_order(weight);
        sum += weight * s;
        scalars.extend([weight, weight * k]);
        points.extend([r, key]);
    }
    scalars.push(-sum);
    points.push(curve25519_dalek::constants::ED25519_BASEPOINT_POINT);
    EdwardsPoint::vartime_multiscalar_mul(scalars, points)
        .mul_by_cofactor()
        .is_identity()
}
