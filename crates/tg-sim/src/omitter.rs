//! A validator that leaves the seeds that it knows out of its blocks, and does everything else: all that the maker of a block can do against a seed
//! that it does not like (`docs/PROTOCOL.md`, *What withholding costs*). Its blocks hold, and others make them final.

use std::sync::Arc;

use tg_ledger::{Block, Proposal, State, Subject, propose};
use tg_node::BlockForger;
use tg_types::Height;

use crate::grid::SimGrid;

/// A validator that proposes such blocks.
#[derive(Debug)]
pub(crate) struct SeedOmitter {
    grid: Arc<SimGrid>,
    seat: usize,
}

impl SeedOmitter {
    /// That of a seat.
    pub(crate) const fn new(grid: Arc<SimGrid>, seat: usize) -> Self {
        Self { grid, seat }
    }
}

impl BlockForger for SeedOmitter {
    fn forge(&self, parent: &State, block: &Block) -> Option<Block> {
        let (without, heights) = without_seeds(parent, block)?;
        let at_ms = block.header.timestamp.get();
        for height in heights {
            let what = format!("leaves out the seed of block {height}");
            let who = format!("seat{}", self.seat);
            self.grid.log().line(at_ms, &who, &what);
        }
        Some(without)
    }
}

/// A block that was built on a state, without the seeds that it names, and of which blocks these are; nothing if it names none.
fn without_seeds(parent: &State, block: &Block) -> Option<(Block, Vec<Height>)> {
    let mut heights = Vec::new();
    let mut verdicts = block.verdicts.clone();
    verdicts.retain(|verdict| {
        if let Subject::Seed(height) = &verdict.subject {
            heights.push(*height);
            return false;
        }
        true
    });
    if heights.is_empty() {
        return None;
    }
    let proposal = Proposal {
        proposer: block.header.proposer,
        timestamp: block.header.timestamp,
        transactions: block.transactions.clone(),
        verdicts,
    };
    let built = propose(parent, proposal).ok()?;
    Some((built.block, heights))
}

#[cfg(test)]
mod tests {
    use tg_ledger::block::body_digest;
    use tg_ledger::{
        ConsensusKey, Genesis, Outcome, Parameters, SEED_SIGNATURE_BYTES, Validator, Verdict, apply,
    };
    use tg_node::ValidatorKey;
    use tg_types::{Amount, Digest, TimestampMs, Wallet};

    use super::*;

    /// A block with a seed is as if it had been built without, and holds; one without stays as it is.
    #[test]
    fn a_block_is_as_if_the_seed_were_not_known() {
        let address = Wallet::from_seed(b"omitter").address();
        let genesis = Genesis {
            domain: tg_ledger::development_domain(),
            parameters: Parameters::development(),
            timestamp: TimestampMs::new(5_000),
            accounts: vec![(address, Amount::from_tgrid(1_000))],
            validators: vec![Validator {
                address,
                key: ConsensusKey::new(ValidatorKey::from_seed(0).public()),
                stake: Amount::from_tgrid(1),
            }],
        };
        let state = State::genesis(&genesis).expect("a genesis has a state");
        let empty = Proposal::empty(address, TimestampMs::new(5_100));
        let built = propose(&state, empty).expect("an empty block holds");
        assert!(without_seeds(&state, &built.block).is_none());
        let mut with = built.block.clone();
        with.verdicts.push(Verdict {
            subject: Subject::Seed(Height::default()),
            evidence: Digest::default(),
            outcome: Outcome::Seed([9; SEED_SIGNATURE_BYTES]),
        });
        with.header.body = body_digest(&with.transactions, &with.verdicts);
        assert_ne!(with.id(), built.block.id());
        let (without, heights) = without_seeds(&state, &with).expect("it names a seed");
        assert_eq!(heights, [Height::default()]);
        assert_eq!(without.id(), built.block.id());
        assert!(apply(&state, &without).is_ok());
    }
}
