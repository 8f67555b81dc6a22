//! Every field of a signed transaction changed, one at a time: the signature must stop to hold.

use tg_types::{
    Address, Amount, DealingLog, Decode, Digest, DurationMs, Encode, JobId, JobOrder, Label,
    LeaseId, ModeSet, ModelId, OfferId, OfferTerms, ProgramId, Receipt, SignatureError,
    SignedTransaction, TimestampMs, Transaction, VerificationMode, Vote,
};

use crate::samples::{
    FEES, NONCE, domain, order, own, receipt, signed, terms, transactions, wallet,
};

type Change<T> = (&'static str, fn(&mut T));

fn order_changes() -> Vec<Change<JobOrder>> {
    vec![
        ("model", |it| it.model = ModelId::new([9; 32])),
        ("input", |it| it.input = Digest::new([9; 32])),
        ("input_len", |it| it.input_len += 1),
        ("mode", |it| it.mode = VerificationMode::None),
        ("max_price", |it| it.max_price = Amount::new(9)),
        ("deadline", |it| it.deadline = TimestampMs::new(9)),
        ("max_attempts", |it| it.max_attempts += 1),
        ("retention", |it| {
            it.retention = DurationMs::new(it.retention.get() + 1)
        }),
        ("value_at_risk", |it| {
            it.needs.value_at_risk = Amount::new(9)
        }),
    ]
}

fn terms_changes() -> Vec<Change<OfferTerms>> {
    vec![
        ("hardware", |it| it.hardware = Label::lossy("other")),
        ("price_base", |it| it.price_base = Amount::new(9)),
        ("price_per_mmac", |it| it.price_per_mmac = Amount::new(9)),
        ("latency_base_ms", |it| {
            it.latency_base_ms = DurationMs::new(9);
        }),
        ("speed_mmac_per_s", |it| it.speed_mmac_per_s += 1),
        ("memory_bytes", |it| it.memory_bytes += 1),
        ("slots", |it| it.slots += 1),
        ("collateral_per_lease", |it| {
            it.collateral_per_lease = Amount::new(9);
        }),
        ("modes", |it| {
            it.modes = ModeSet::of(&[VerificationMode::Proof])
        }),
    ]
}

/// The tier has one value in this version, so it cannot be changed; its tag is covered by the golden vectors.
fn receipt_changes() -> Vec<Change<Receipt>> {
    vec![
        ("program", |it| it.program = ProgramId::new([9; 32])),
        ("model", |it| it.model = ModelId::new([9; 32])),
        ("input", |it| it.input = Digest::new([9; 32])),
        ("output", |it| it.output = Digest::new([9; 32])),
        ("trace", |it| it.trace = Digest::new([9; 32])),
    ]
}

fn changed<T: Clone>(good: &T, change: fn(&mut T)) -> T {
    let mut changed = good.clone();
    change(&mut changed);
    changed
}

/// A name, a transaction, and the transaction with one field changed.
type Case = (String, Transaction, Transaction);

/// Each sample with each of its fields changed.
fn changed_contents() -> Vec<Case> {
    let samples = transactions();
    let mut cases = Vec::new();
    for (name, change) in simple_changes().into_iter().chain(vote_changes()) {
        for good in &samples {
            let bad = changed(good, change);
            if bad != *good {
                cases.push((format!("{}.{name}", good.kind()), good.clone(), bad));
            }
        }
    }
    cases.extend(nested_contents());
    cases
}

/// Each field of what is nested in a transaction.
fn nested_contents() -> Vec<Case> {
    let submit = |order| Transaction::SubmitJob { order };
    let post = |terms| Transaction::PostOffer { terms };
    let lease = LeaseId::new([0x33; 32]);
    let commit = |receipt| Transaction::CommitReceipt { lease, receipt };
    let orders = order_changes().into_iter().map(|(name, change)| {
        let bad = changed(&order(), change);
        (format!("order.{name}"), submit(order()), submit(bad))
    });
    let offers = terms_changes().into_iter().map(|(name, change)| {
        let bad = changed(&terms(), change);
        (format!("terms.{name}"), post(terms()), post(bad))
    });
    let receipts = receipt_changes().into_iter().map(|(name, change)| {
        let bad = changed(&receipt(), change);
        (format!("receipt.{name}"), commit(receipt()), commit(bad))
    });
    orders.chain(offers).chain(receipts).collect()
}

/// Those of what validators deal and vote.
fn vote_changes() -> Vec<Change<Transaction>> {
    vec![
        ("round", |it| {
            if let Transaction::PostDealing { round, .. } = it {
                *round += 1;
            }
        }),
        ("log", |it| {
            if let Transaction::PostDealing { log, .. } = it {
                *log = DealingLog::new(vec![9]).unwrap();
            }
        }),
        ("votes.lease", |it| match it {
            Transaction::CommitVotes { votes } => votes[1].lease = LeaseId::new([9; 32]),
            Transaction::RevealVotes { votes } => votes[1].lease = LeaseId::new([9; 32]),
            _ => {}
        }),
        ("votes.commitment", |it| {
            if let Transaction::CommitVotes { votes } = it {
                votes[1].commitment = Digest::new([9; 32]);
            }
        }),
        ("votes.vote", |it| {
            if let Transaction::RevealVotes { votes } = it {
                votes[1].vote = Vote::Right { checksum: 0 };
            }
        }),
        ("votes.checksum", |it| {
            if let Transaction::RevealVotes { votes } = it {
                votes[0].vote = Vote::Right { checksum: 78 };
            }
        }),
        ("votes.salt", |it| {
            if let Transaction::RevealVotes { votes } = it {
                votes[1].salt = Digest::new([9; 32]);
            }
        }),
    ]
}

/// Changes of fields that belong to one kind; on every other kind they do nothing.
fn simple_changes() -> Vec<Change<Transaction>> {
    vec![
        ("to", |it| {
            if let Transaction::Transfer { to, .. } = it {
                *to = Address::new([9; 20]);
            }
        }),
        ("amount", |it| {
            if let Transaction::Transfer { amount, .. } = it {
                *amount = Amount::new(9);
            }
        }),
        ("model", |it| {
            if let Transaction::RegisterModel { model, .. } = it {
                *model = ModelId::new([9; 32]);
            }
        }),
        ("public_blob", |it| {
            if let Transaction::RegisterModel { public_blob, .. } = it {
                *public_blob = Digest::new([9; 32]);
            }
        }),
        ("weights_blob", |it| {
            if let Transaction::RegisterModel { weights_blob, .. } = it {
                *weights_blob = Digest::new([9; 32]);
            }
        }),
        ("name", |it| {
            if let Transaction::RegisterModel { name, .. } = it {
                *name = Label::lossy("other");
            }
        }),
        ("offer", |it| {
            if let Transaction::WithdrawOffer { offer } = it {
                *offer = OfferId::new([9; 32]);
            }
        }),
        ("job", |it| {
            if let Transaction::CancelJob { job } = it {
                *job = JobId::new([9; 32]);
            }
        }),
        ("lease", |it| {
            if let Transaction::StartLease { lease }
            | Transaction::CommitReceipt { lease, .. }
            | Transaction::SubmitEvidence { lease, .. } = it
            {
                *lease = LeaseId::new([9; 32]);
            }
        }),
        ("kept answer", |it| {
            if let Transaction::AskStored { job, .. } = it {
                *job = JobId::new([9; 32]);
            }
        }),
        ("asked seat", |it| {
            if let Transaction::AskStored { seat, .. } = it {
                *seat = Address::new([9; 20]);
            }
        }),
        ("evidence", |it| {
            if let Transaction::SubmitEvidence { evidence, .. } = it {
                *evidence = Digest::new([9; 32]);
            }
        }),
        ("size", |it| {
            if let Transaction::SubmitEvidence { size, .. } = it {
                *size += 1;
            }
        }),
    ]
}

#[test]
fn every_field_of_every_kind_is_signed() {
    let cases = changed_contents();
    // Two of a transfer, four of a registration, one each of five names, two of evidence, two of a question, two of a dealing, two of sealed votes and
    // four of open ones; then what is nested.
    assert_eq!(cases.len(), (2 + 4 + 5 + 2 + 2 + 2 + 2 + 4) + (9 + 9 + 5));
    for (name, good, bad) in cases {
        assert_ne!(good, bad, "{name}");
        let mut signed = signed(good);
        assert!(signed.verify(&domain()).is_ok(), "{name}");
        signed.transaction = bad;
        let claimed = wallet().address();
        match signed.verify(&domain()) {
            Err(SignatureError::WrongSigner { claimed: found, .. }) => {
                assert_eq!(found, claimed, "{name}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn every_field_around_the_content_is_signed() {
    let good = signed(transactions()[0].clone());
    let changes: Vec<Change<SignedTransaction>> = vec![
        ("nonce", |it| it.nonce += 1),
        ("max fee", |it| it.fees.max_fee_per_gas = Amount::ZERO),
        ("max tip", |it| it.fees.max_tip_per_gas = Amount::ZERO),
        ("sender", |it| it.sender = Address::new([9; 20])),
        ("signature.y_parity", |it| own(it).y_parity ^= 1),
        ("signature.s", |it| own(it).s[31] ^= 1),
    ];
    for (name, change) in changes {
        let bad = changed(&good, change);
        assert!(
            matches!(
                bad.verify(&domain()),
                Err(SignatureError::WrongSigner { .. })
            ),
            "{name}"
        );
    }
    // A changed r is the x of another point, or of none.
    let bad = changed(&good, |it| own(it).r[31] ^= 1);
    assert!(matches!(
        bad.verify(&domain()),
        Err(SignatureError::WrongSigner { .. } | SignatureError::NoKey)
    ));
}

/// Fields of every kind, however deep: whatever byte of the encoding changes, what is signed changes with it.
#[test]
fn every_byte_of_every_kind_is_signed() {
    for good in transactions() {
        let bytes = good.to_bytes();
        let expected = tg_types::eip712::struct_hash(&good, NONCE, &FEES);
        let mut read = 0;
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            let Ok(bad) = Transaction::from_bytes(&bytes) else {
                continue;
            };
            read += 1;
            assert_ne!(good, bad, "{} byte {at}", good.kind());
            let hash = tg_types::eip712::struct_hash(&bad, NONCE, &FEES);
            assert_ne!(hash, expected, "{} byte {at}", good.kind());
        }
        assert!(read * 2 > bytes.len(), "{}: {read}", good.kind());
    }
}
