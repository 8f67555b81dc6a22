//! One transaction of each kind, the same as in `tests/data/eip712.py`, and strategies for random ones.

use proptest::prelude::*;
use tg_types::{
    Address, Amount, ChainDomain, Digest, DurationMs, JobId, JobOrder, Label, LeaseId, ModeSet,
    ModelId, OfferId, OfferTerms, ProgramId, Receipt, Tier, TimestampMs, Transaction,
    VerificationMode, Wallet,
};

pub(crate) const NONCE: u64 = 7;

pub(crate) fn domain() -> ChainDomain {
    ChainDomain {
        chain_id: 31_337,
        verifying_contract: Address::new([0xc0; 20]),
        salt: [0x5a; 32],
    }
}

pub(crate) fn wallet() -> Wallet {
    Wallet::from_secret(&[0x42; 32]).unwrap()
}

pub(crate) fn terms() -> OfferTerms {
    OfferTerms {
        hardware: Label::new("2 CPU cores").unwrap(),
        price_base: Amount::new(10_000_000_000_000_000),
        price_per_mmac: Amount::new(3_000_000_000_000_000),
        latency_base_ms: DurationMs::new(250),
        speed_mmac_per_s: 4_000,
        memory_bytes: 1 << 30,
        slots: 2,
        collateral_per_lease: Amount::new(100_000_000_000_000_000),
        modes: ModeSet::ALL,
    }
}

pub(crate) fn order() -> JobOrder {
    JobOrder {
        model: ModelId::new([0x11; 32]),
        input: Digest::new([0x31; 32]),
        input_len: 784,
        mode: VerificationMode::Zk,
        max_price: Amount::new(50_000_000_000_000_000),
        deadline: TimestampMs::new(1_800_000_000_000),
        max_attempts: 3,
    }
}

pub(crate) fn receipt() -> Receipt {
    Receipt {
        program: ProgramId::new([0x10; 32]),
        model: ModelId::new([0x11; 32]),
        input: Digest::new([0x31; 32]),
        output: Digest::new([0x34; 32]),
        trace: Digest::new([0x35; 32]),
        tier: Tier::Tgx1,
    }
}

pub(crate) fn transactions() -> Vec<Transaction> {
    let lease = LeaseId::new([0x33; 32]);
    vec![
        Transaction::Transfer {
            to: Address::new([0xa1; 20]),
            amount: Amount::new(1_500_000_000_000_000_000),
        },
        Transaction::RegisterModel {
            model: ModelId::new([0x11; 32]),
            public_blob: Digest::new([0x12; 32]),
            weights_blob: Digest::new([0x13; 32]),
            name: Label::new("lenet-28").unwrap(),
        },
        Transaction::PostOffer { terms: terms() },
        Transaction::WithdrawOffer {
            offer: OfferId::new([0x21; 32]),
        },
        Transaction::SubmitJob { order: order() },
        Transaction::CancelJob {
            job: JobId::new([0x32; 32]),
        },
        Transaction::StartLease { lease },
        Transaction::CommitReceipt {
            lease,
            receipt: receipt(),
        },
        Transaction::SubmitEvidence {
            lease,
            evidence: Digest::new([0x36; 32]),
            size: 123_456,
        },
    ]
}

pub(crate) fn any_label() -> impl Strategy<Value = Label> {
    "\\PC{0,16}".prop_map(|text| Label::lossy(&text))
}

fn any_terms() -> impl Strategy<Value = OfferTerms> {
    (
        (any_label(), any::<u128>(), any::<u128>(), any::<u64>()),
        (
            any::<u64>(),
            any::<u64>(),
            any::<u16>(),
            any::<u128>(),
            0..4u8,
        ),
    )
        .prop_map(|((hardware, base, per_mmac, latency), rest)| OfferTerms {
            hardware,
            price_base: Amount::new(base),
            price_per_mmac: Amount::new(per_mmac),
            latency_base_ms: DurationMs::new(latency),
            speed_mmac_per_s: rest.0,
            memory_bytes: rest.1,
            slots: rest.2,
            collateral_per_lease: Amount::new(rest.3),
            modes: ModeSet::of(
                &VerificationMode::ALL
                    .into_iter()
                    .filter(|mode| rest.4 & 1 << mode.tag() != 0)
                    .collect::<Vec<_>>(),
            ),
        })
}

fn any_order() -> impl Strategy<Value = JobOrder> {
    (
        any::<[u8; 32]>(),
        any::<[u8; 32]>(),
        any::<u32>(),
        any::<bool>(),
        any::<u128>(),
        any::<u64>(),
        any::<u8>(),
    )
        .prop_map(|it| JobOrder {
            model: ModelId::new(it.0),
            input: Digest::new(it.1),
            input_len: it.2,
            mode: match it.3 {
                true => VerificationMode::Zk,
                false => VerificationMode::None,
            },
            max_price: Amount::new(it.4),
            deadline: TimestampMs::new(it.5),
            max_attempts: it.6,
        })
}

pub(crate) fn any_transaction() -> impl Strategy<Value = Transaction> {
    let id = || any::<[u8; 32]>();
    prop_oneof![
        (any::<[u8; 20]>(), any::<u128>()).prop_map(|(to, amount)| Transaction::Transfer {
            to: Address::new(to),
            amount: Amount::new(amount),
        }),
        (id(), id(), id(), any_label()).prop_map(|(model, public, weights, name)| {
            Transaction::RegisterModel {
                model: ModelId::new(model),
                public_blob: Digest::new(public),
                weights_blob: Digest::new(weights),
                name,
            }
        }),
        any_terms().prop_map(|terms| Transaction::PostOffer { terms }),
        any_order().prop_map(|order| Transaction::SubmitJob { order }),
        id().prop_map(|id| Transaction::WithdrawOffer {
            offer: OfferId::new(id)
        }),
        id().prop_map(|id| Transaction::CancelJob {
            job: JobId::new(id)
        }),
        id().prop_map(|id| Transaction::StartLease {
            lease: LeaseId::new(id)
        }),
        (id(), id(), id(), id()).prop_map(|(lease, input, output, trace)| {
            Transaction::CommitReceipt {
                lease: LeaseId::new(lease),
                receipt: Receipt {
                    input: Digest::new(input),
                    output: Digest::new(output),
                    trace: Digest::new(trace),
                    ..receipt()
                },
            }
        }),
        (id(), id(), any::<u32>()).prop_map(|(lease, evidence, size)| {
            Transaction::SubmitEvidence {
                lease: LeaseId::new(lease),
                evidence: Digest::new(evidence),
                size,
            }
        }),
    ]
}
