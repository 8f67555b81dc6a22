//! A validator that in its turn proposes blocks that do not hold, in ways that are drawn. Its votes are those of the protocol.
//!
//! One that is too large is refused with whoever sends it, for an hour: so it comes late, and after it the seat is as a silent one.

use std::sync::{Arc, Mutex, PoisonError};

use tg_ledger::block::body_digest;
use tg_ledger::limits::TRANSACTIONS_PER_BLOCK_MAX;
use tg_ledger::{Block, Outcome, State, Subject, Verdict};
use tg_node::BlockForger;
use tg_types::{
    Address, Amount, Authorization, Digest, Fees, LeaseId, SignedTransaction, StateRoot,
    TimestampMs, Transaction, Wallet,
};

use crate::draw::SeedStream;
use crate::forged::ForgedBlock;
use crate::grid::SimGrid;

/// How many of a thousand of its blocks do not hold.
const FORGED_PERMILLE: u64 = 800;

/// Blocks that it forges before one may be too large.
const BEFORE_LARGE: u32 = 40;

/// How many of a thousand are too large then.
const LARGE_PERMILLE: u64 = 100;

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    /// The root of the state is another one.
    Root,
    /// A transaction comes before its turn.
    Early,
    /// A transaction is executed twice.
    Twice,
    /// A transaction spends what its sender does not have.
    Unpaid,
    /// A transaction is not signed by its sender.
    Unsigned,
    /// A result that was not handed in is accepted.
    Verdict,
    /// Money moves by a verdict that is not in the block.
    WithoutVerdict,
    /// Its time is before its parent's.
    Past,
    /// It has more transactions than a block may have.
    Large,
}

impl Forgery {
    /// Those that may come at any time.
    const USUAL: [Self; 8] = [
        Self::Root,
        Self::Early,
        Self::Twice,
        Self::Unpaid,
        Self::Unsigned,
        Self::Verdict,
        Self::WithoutVerdict,
        Self::Past,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Root => "another root of the state",
            Self::Early => "a transaction before its turn",
            Self::Twice => "a transaction twice",
            Self::Unpaid => "a transaction that cannot be paid",
            Self::Unsigned => "a transaction with a wrong signature",
            Self::Verdict => "a verdict on a result that was not handed in",
            Self::WithoutVerdict => "money that moves without a verdict",
            Self::Past => "a time before its parent's",
            Self::Large => "too many transactions",
        }
    }

    /// What it makes of a block that was built on a state; nothing if the block has nothing that it could change.
    fn of(self, (parent, block): (&State, &Block), account: &Wallet) -> Option<Block> {
        let mut forged = block.clone();
        let (transactions, verdicts) = (&mut forged.transactions, &mut forged.verdicts);
        match self {
            Self::Root => {
                let mut root = *block.header.state_root.as_bytes();
                root[0] ^= 1;
                forged.header.state_root = StateRoot::new(root);
            }
            Self::Early => transactions.push(transfer((parent, block), account, (1, 5))),
            Self::Twice => transactions.push(transactions.first()?.clone()),
            Self::Unpaid => {
                let all = Amount::from_tgrid(1_000_000_000).get();
                transactions.push(transfer((parent, block), account, (all, 0)));
            }
            Self::Unsigned => {
                let mut signed = transfer((parent, block), account, (1, 0));
                if let Authorization::Account(signature) = &mut signed.authorization {
                    signature.s[31] ^= 1;
                }
                transactions.push(signed);
            }
            Self::Verdict => {
                let lease = parent.live_leases().next();
                let lease: Option<LeaseId> = lease.map(|(_, lease)| lease.id);
                verdicts.push(Verdict {
                    subject: Subject::Lease(lease.unwrap_or_default()),
                    evidence: Digest::default(),
                    outcome: Outcome::LeaseAccepted,
                });
            }
            Self::WithoutVerdict => {
                verdicts.pop()?;
            }
            Self::Past => {
                let before = parent.head().timestamp.get().saturating_sub(1_000);
                forged.header.timestamp = TimestampMs::new(before);
            }
            Self::Large => {
                let one = transfer((parent, block), account, (1, 0));
                *transactions = vec![one; TRANSACTIONS_PER_BLOCK_MAX + 1];
            }
        }
        forged.header.body = body_digest(&forged.transactions, &forged.verdicts);
        Some(forged)
    }
}

/// A transfer by an account, so many places after its turn.
fn transfer(
    (parent, block): (&State, &Block),
    account: &Wallet,
    (amount, late): (u128, u64),
) -> SignedTransaction {
    let me = account.address();
    let mine = block.transactions.iter().filter(|it| it.sender == me);
    let nonce = mine.fold(parent.nonce(&me), |nonce, _| nonce + 1) + late;
    let transfer = Transaction::Transfer {
        to: Address::new([0x5a; 20]),
        amount: Amount::new(amount),
    };
    let fees = Fees::from_base_fee(parent.base_fee());
    account.sign_with_fees(transfer, nonce, fees, parent.domain())
}

/// A validator that proposes such blocks.
#[derive(Debug)]
pub(crate) struct SimForger {
    grid: Arc<SimGrid>,
    seat: usize,
    account: Wallet,
    turns: Mutex<ForgerTurns>,
}

#[derive(Debug)]
struct ForgerTurns {
    draw: SeedStream,
    /// Blocks that it forged.
    forged: u32,
}

impl ForgerTurns {
    /// What is wrong with the next block; nothing if that one holds.
    fn drawn(&mut self) -> Option<Forgery> {
        let is_forged = self.draw.chance(FORGED_PERMILLE);
        let usual = self.draw.pick(&Forgery::USUAL);
        let is_large = self.draw.chance(LARGE_PERMILLE) && self.forged >= BEFORE_LARGE;
        if !is_forged {
            return None;
        }
        self.forged += 1;
        Some(if is_large { Forgery::Large } else { usual })
    }
}

impl SimForger {
    /// The forger of a seat that is started for the `start`-th time in a run.
    pub(crate) fn new(grid: Arc<SimGrid>, (seat, start): (usize, u64), account: Wallet) -> Self {
        let draw = SeedStream::new(grid.plan.seed, &format!("forger {seat} {start}"));
        Self {
            grid,
            seat,
            account,
            turns: Mutex::new(ForgerTurns { draw, forged: 0 }),
        }
    }
}

impl BlockForger for SimForger {
    fn forge(&self, parent: &State, block: &Block) -> Option<Block> {
        let turns = self.turns.lock();
        let mut how = turns.unwrap_or_else(PoisonError::into_inner).drawn()?;
        let forged = how.of((parent, block), &self.account).or_else(|| {
            how = Forgery::Root;
            how.of((parent, block), &self.account)
        })?;
        let id = forged.id();
        let height = block.header.height.get();
        let at_ms = block.header.timestamp.get();
        let (seat, how) = (self.seat, how.name());
        let entry = ForgedBlock {
            seat,
            height,
            at_ms,
            how,
        };
        self.grid.checks().facts.forged.add(id, entry);
        let what = format!("proposes {id} at height {height}: {how}");
        self.grid.log().line(at_ms, &format!("seat{seat}"), &what);
        Some(forged)
    }
}

#[cfg(test)]
mod tests {
    use tg_ledger::{ConsensusKey, Genesis, Parameters, Proposal, Validator, apply, propose};
    use tg_node::ValidatorKey;

    use super::*;

    fn account(index: u64) -> Wallet {
        Wallet::from_seed(&index.to_be_bytes())
    }

    /// Genesis with four validators, and a block on it with a transaction of the first.
    fn state_and_block() -> (State, Block) {
        let validators = (0..4).map(|index| Validator {
            address: account(index).address(),
            key: ConsensusKey::new(ValidatorKey::from_seed(index).public()),
            stake: Amount::from_tgrid(1),
        });
        let mut validators: Vec<Validator> = validators.collect();
        validators.sort_unstable_by_key(|it| it.address);
        let genesis = Genesis {
            domain: tg_ledger::development_domain(),
            parameters: Parameters::development(),
            timestamp: TimestampMs::new(5_000),
            accounts: vec![(account(0).address(), Amount::from_tgrid(1_000))],
            validators,
        };
        let state = State::genesis(&genesis).expect("a genesis has a state");
        let empty = Proposal::empty(account(0).address(), TimestampMs::new(5_100));
        let built = propose(&state, empty.clone()).expect("an empty block holds");
        let signed = transfer(
            (&state, &built.block),
            &account(0),
            (Amount::from_tgrid(1).get(), 0),
        );
        let transactions = vec![signed];
        let proposal = Proposal {
            transactions,
            ..empty
        };
        let built = propose(&state, proposal).expect("a block can be built");
        assert_eq!(built.block.transactions.len(), 1);
        (state, built.block)
    }

    #[test]
    fn every_forged_block_is_another_one_and_refused() {
        let (state, block) = state_and_block();
        assert!(apply(&state, &block).is_ok());
        let mut names = std::collections::BTreeSet::new();
        for how in Forgery::USUAL.into_iter().chain([Forgery::Large]) {
            names.insert(how.name());
            let Some(forged) = how.of((&state, &block), &account(0)) else {
                assert_eq!(how, Forgery::WithoutVerdict, "the block has none");
                continue;
            };
            assert_ne!(forged.id(), block.id(), "{how:?}");
            assert!(apply(&state, &forged).is_err(), "{how:?}");
        }
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn a_verdict_is_taken_out_and_its_money_stays() {
        let (state, block) = state_and_block();
        let with = Forgery::Verdict.of((&state, &block), &account(0));
        let with = with.expect("a verdict can be added to any block");
        let without = Forgery::WithoutVerdict.of((&state, &with), &account(0));
        let without = without.expect("there is one to take out");
        assert!(without.verdicts.is_empty());
        assert_eq!(without.header.state_root, with.header.state_root);
        assert_eq!(without.header.body, block.header.body);
    }

    #[test]
    fn a_block_is_too_large_only_after_many_that_are_wrong() {
        let draw = SeedStream::new(13, "forger");
        let mut turns = ForgerTurns { draw, forged: 0 };
        let drawn: Vec<Option<Forgery>> = (0..400).map(|_| turns.drawn()).collect();
        let large = drawn.iter().position(|it| *it == Some(Forgery::Large));
        assert!(large.is_some_and(|it| it >= BEFORE_LARGE as usize));
        for how in Forgery::USUAL {
            assert!(drawn.contains(&Some(how)), "{how:?}");
        }
        assert!(drawn.contains(&None));
    }
}
