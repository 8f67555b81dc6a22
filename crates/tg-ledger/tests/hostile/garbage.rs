//! Transactions and blocks that must be refused, each with the error that says why.

use tg_lab::synthetic::Draws;
use tg_ledger::{Block, BlockError, State, TransactionError, apply};
use tg_types::{
    Address, Amount, BidId, DeclineReason, Decode, DecodeError, Digest, Encode, Fees, JobId,
    LeaseId, OfferId, Receipt, SignedTransaction, StateRoot, Tier, Transaction, Wallet,
};

use crate::net::{digest, milli};

/// A transaction that must not hold, and the code of the error.
#[derive(Debug)]
pub(crate) struct Garbage {
    pub(crate) signed: SignedTransaction,
    pub(crate) code: &'static str,
}

/// What a spammer with an account sends: each time another kind of nonsense.
pub(crate) fn spam(spammer: &Wallet, state: &State, draws: &mut Draws) -> Garbage {
    let domain = state.domain();
    let nonce = state.nonce(&spammer.address());
    let pay = |amount| Transaction::Transfer {
        to: spammer.address(),
        amount,
    };
    let usual = Fees::from_base_fee(state.base_fee());
    let sign = |transaction, nonce, fees| spammer.sign_with_fees(transaction, nonce, fees, domain);
    let (signed, code) = match draws.below(8) {
        0 if nonce > 0 => (sign(pay(Amount::new(1)), nonce - 1, usual), "TG-LED-002"),
        0 | 1 => (sign(pay(Amount::new(1)), nonce + 3, usual), "TG-LED-003"),
        2 => {
            let cheap = Fees::up_to(Amount::new(state.base_fee().get() - 1));
            (sign(pay(Amount::new(1)), nonce, cheap), "TG-LED-008")
        }
        3 => (sign(pay(Amount::MAX), nonce, usual), "TG-LED-005"),
        4 => {
            // Signed, and then changed.
            let mut signed = sign(pay(Amount::new(1)), nonce, usual);
            signed.transaction = pay(Amount::new(2));
            (signed, "TG-LED-001")
        }
        5 => {
            let mut signed = sign(pay(Amount::new(1)), nonce, usual);
            if let tg_types::Authorization::Account(signature) = &mut signed.authorization {
                signature.s = [0xff; 32];
            }
            (signed, "TG-LED-001")
        }
        6 => {
            let mut signed = sign(pay(Amount::new(1)), nonce, usual);
            signed.sender = Address::new([7; 20]);
            (signed, "TG-LED-001")
        }
        _ => {
            let (transaction, code) = nonsense(state, draws);
            (sign(transaction, nonce, usual), code)
        }
    };
    Garbage { signed, code }
}

/// A well signed request for what is not there or not the sender's.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
fn nonsense(state: &State, draws: &mut Draws) -> (Transaction, &'static str) {
    let name = *digest(draws).as_bytes();
    let lease = LeaseId::new(name);
    let receipt = Receipt {
        program: tg_types::ProgramId::new(name),
        model: tg_types::ModelId::new(name),
        input: Digest::new(name),
        output: Digest::new(name),
        trace: Digest::new(name),
        tier: Tier::Tgx1,
    };
    let strange = state.live_members().next().map(|(_, lease)| lease.id);
    let reason = DeclineReason::Unwilling;
    match draws.below(14) {
        0 => (Transaction::StartLease { lease }, "TG-LED-050"),
        1 => (Transaction::CommitReceipt { lease, receipt }, "TG-LED-050"),
        2 => (Transaction::CommitPart { lease, receipt }, "TG-LED-050"),
        3 => (Transaction::DeclineLease { lease, reason }, "TG-LED-050"),
        4 => {
            let offer = OfferId::new(name);
            (Transaction::WithdrawOffer { offer }, "TG-LED-046")
        }
        5 => {
            let job = JobId::new(name);
            (Transaction::CancelJob { job }, "TG-LED-031")
        }
        6 => {
            let job = JobId::new(name);
            (Transaction::RateJob { job, stars: 5 }, "TG-LED-031")
        }
        7 => {
            let job = JobId::new(name);
            (Transaction::RateJob { job, stars: 6 }, "TG-LED-064")
        }
        8 => {
            let (record, amount) = (Digest::new(name), milli(1));
            (Transaction::PayRent { record, amount }, "TG-LED-111")
        }
        9 => {
            let (held, missing) = (vec![], vec![]);
            (Transaction::ReportStorage { held, missing }, "TG-LED-075")
        }
        10 => {
            let (lost, back) = (vec![], vec![]);
            let epoch = 0;
            let report = Transaction::ReportLiveness { epoch, lost, back };
            (report, "TG-LED-075")
        }
        11 => {
            let (commitment, deposit) = (Digest::new(name), Amount::new(1));
            let bid = Transaction::CommitBid {
                commitment,
                deposit,
            };
            (bid, "TG-LED-061")
        }
        12 => {
            let (to, amount) = (Address::new([9; 20]), Amount::new(1));
            (Transaction::Transfer { to, amount }, "TG-LED-007")
        }
        _ => match strange {
            Some(lease) => (Transaction::StartLease { lease }, "TG-LED-051"),
            None => (
                Transaction::RaiseJob {
                    job: JobId::new(*BidId::new(name).as_bytes()),
                    max_price: Amount::MAX,
                    max_attempts: 1,
                },
                "TG-LED-031",
            ),
        },
    }
}

/// Changes a block that holds in every way that a bad leader may, and expects the error of each.
pub(crate) fn tamper(state: &State, block: &Block) -> Vec<&'static str> {
    let root = state.root();
    let mut seen = Vec::new();
    let mut expect = |what: &str, block: &Block, fits: fn(&BlockError) -> bool| {
        let error = apply(state, block).expect_err(what);
        assert!(fits(&error), "{what}: {error:?}");
        seen.push(error.code());
    };
    let mut bad = block.clone();
    bad.header.state_root = StateRoot::new([1; 32]);
    expect("another root", &bad, |it| {
        matches!(it, BlockError::WrongStateRoot { .. })
    });
    let mut bad = block.clone();
    bad.header.timestamp = state.head().timestamp;
    expect("no time passed", &bad, |it| {
        matches!(it, BlockError::TimeNotIncreasing { .. })
    });
    let mut bad = block.clone();
    bad.header.parent = tg_types::BlockId::new([2; 32]);
    expect("another parent", &bad, |it| {
        matches!(it, BlockError::WrongParent { .. })
    });
    let mut bad = block.clone();
    bad.header.proposer = Address::new([3; 20]);
    expect("a leader that is none", &bad, |it| {
        matches!(it, BlockError::UnknownProposer { .. })
    });
    let mut bad = block.clone();
    bad.header.base_fee = Amount::new(bad.header.base_fee.get() + 1);
    expect("another base fee", &bad, |it| {
        matches!(it, BlockError::WrongHeader { .. })
    });
    if let Some(first) = block.transactions.first() {
        let mut bad = block.clone();
        bad.transactions.push(first.clone());
        bad.header.body = tg_ledger::block::body_digest(&bad.transactions, &bad.verdicts);
        expect("a transaction twice", &bad, |it| {
            matches!(
                it,
                BlockError::Transaction {
                    source: TransactionError::NonceUsed { .. }
                        | TransactionError::ReportedBefore { .. }
                        | TransactionError::BadStatement { .. },
                    ..
                }
            )
        });
        let mut bad = block.clone();
        bad.transactions.clear();
        expect("a transaction left out", &bad, |it| {
            matches!(it, BlockError::WrongBody { .. })
        });
    }
    if let Some(verdict) = block.verdicts.first() {
        let mut bad = block.clone();
        bad.verdicts.push(verdict.clone());
        bad.header.body = tg_ledger::block::body_digest(&bad.transactions, &bad.verdicts);
        expect("a verdict twice", &bad, |it| {
            matches!(it, BlockError::Verdict { .. })
        });
    }
    assert_eq!(state.root(), root);
    seen
}

/// Bytes cut or changed anywhere are refused or mean something else; nothing panics.
pub(crate) fn scramble(block: &Block, draws: &mut Draws) -> Option<DecodeError> {
    let mut bytes = block.to_bytes();
    let at = draws.below(bytes.len() as u64) as usize;
    if draws.below(2) == 0 {
        bytes.truncate(at);
    } else {
        bytes[at] ^= 1 << draws.below(8);
    }
    match Block::from_bytes(&bytes) {
        Ok(changed) => {
            assert_ne!(&changed, block, "an encoding has one meaning");
            None
        }
        Err(error) => Some(error),
    }
}
