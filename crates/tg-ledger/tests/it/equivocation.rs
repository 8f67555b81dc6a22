//! Validators that sign votes which contradict each other.

use tg_ledger::{ConsensusKey, Event, Genesis, State, TransactionError};
use tg_types::chain::{Equivocation, EquivocationError, VoteKind};
use tg_types::{Address, Amount, BlockId, Transaction};

use crate::voter::Voter;
use crate::world::{World, address, genesis};

const VIEW: u8 = 9;

/// A network of which the test knows one seat, and the votes that convict it.
struct Court {
    world: World,
    genesis: BlockId,
    seat: Voter,
    address: Address,
}

impl Court {
    fn new() -> Self {
        let seat = Voter::new(7);
        let mut genesis: Genesis = genesis();
        genesis.validators[0].key = ConsensusKey::new(seat.public);
        let address = genesis.validators[0].address;
        Self {
            world: World::with(&genesis),
            genesis: genesis.id(),
            seat,
            address,
        }
    }

    fn proof(&self, first: (VoteKind, u8, u8), second: (VoteKind, u8, u8)) -> Equivocation {
        let vote = |(kind, view, block)| self.seat.vote(&self.genesis, kind, view, block);
        Equivocation {
            seat: self.seat.public,
            first: vote(first),
            second: vote(second),
        }
    }

    fn two_notarizes(&self) -> Equivocation {
        self.proof((VoteKind::Notarize, VIEW, 1), (VoteKind::Notarize, VIEW, 2))
    }

    fn stake(&self) -> Amount {
        stake(&self.world.state, &self.address)
    }

    fn refused(&mut self, proof: Equivocation) -> TransactionError {
        let report = Transaction::ReportEquivocation { proof };
        self.world.refusal("alice", report)
    }
}

fn stake(state: &State, address: &Address) -> Amount {
    let mut validators = state.validators().iter();
    validators.find(|it| it.address == *address).unwrap().stake
}

#[test]
fn contradicting_votes_take_the_stake_once() {
    let cases = [
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Notarize, VIEW, 2)),
        ((VoteKind::Finalize, VIEW, 1), (VoteKind::Finalize, VIEW, 2)),
        ((VoteKind::Nullify, VIEW, 0), (VoteKind::Finalize, VIEW, 2)),
    ];
    for (first, second) in cases {
        let mut court = Court::new();
        let stake = court.stake();
        assert!(!stake.is_zero());
        let before = court.world.state.money();
        let proof = court.proof(first, second);
        let events = court
            .world
            .send("alice", Transaction::ReportEquivocation { proof });
        let slashed = events.iter().find_map(|event| match event {
            Event::ValidatorSlashed {
                validator,
                burned,
                reporter,
                reward,
            } => Some((*validator, *burned, *reporter, *reward)),
            _ => None,
        });
        let (validator, burned, reporter, reward) = slashed.unwrap();
        assert_eq!(validator, court.address);
        assert_eq!(reporter, address("alice"));
        assert_eq!(burned.get() + reward.get(), stake.get());
        // What showing it cost, and no more than a twentieth.
        assert!(!reward.is_zero() && reward.get() <= stake.get() / 20);
        assert!(court.stake().is_zero());
        let after = court.world.state.money();
        assert!(after.is_conserved());
        assert_eq!(before.stakes.get() - after.stakes.get(), stake.get());
        // Once: there is nothing left to take, whatever else it signed.
        let again = court.two_notarizes();
        assert!(matches!(
            court.refused(again),
            TransactionError::NoStake { .. }
        ));
        // It has no share of fees any more.
        let transfer = Transaction::Transfer {
            to: address("bob"),
            amount: Amount::new(1),
        };
        let events = court.world.send("alice", transfer);
        let is_paid = |event: &Event| matches!(event, Event::Rewarded { validator, .. } if *validator == court.address);
        assert!(!events.iter().any(is_paid));
        let stored = tg_types::Encode::to_bytes(&court.world.state);
        let read = <State as tg_types::Decode>::from_bytes(&stored).unwrap();
        assert_eq!(read.root(), court.world.state.root());
    }
}

#[test]
fn votes_that_an_honest_seat_may_sign_convict_nobody() {
    let mut court = Court::new();
    let honest = [
        // One vote twice.
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Notarize, VIEW, 1)),
        // Another block is finalised than the one voted for, or the view skipped after a vote.
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Finalize, VIEW, 2)),
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Nullify, VIEW, 0)),
        ((VoteKind::Nullify, VIEW, 0), (VoteKind::Nullify, VIEW, 0)),
        // The order is fixed, so that a fault has one form.
        ((VoteKind::Finalize, VIEW, 2), (VoteKind::Nullify, VIEW, 0)),
    ];
    for (first, second) in honest {
        let proof = court.proof(first, second);
        let error = court.refused(proof);
        assert_eq!(
            error,
            TransactionError::NoEquivocation(EquivocationError::NoContradiction)
        );
    }
    let views = court.proof(
        (VoteKind::Notarize, VIEW, 1),
        (VoteKind::Notarize, VIEW + 1, 2),
    );
    assert_eq!(
        court.refused(views),
        TransactionError::NoEquivocation(EquivocationError::Views)
    );
    assert!(!court.stake().is_zero());
}

#[test]
fn nobody_is_convicted_by_what_it_did_not_sign() {
    let mut court = Court::new();
    let proof = court.two_notarizes();
    let signature =
        |place| TransactionError::NoEquivocation(EquivocationError::Signature { place });
    // Votes of another network.
    let other = BlockId::new([1; 32]);
    let mut foreign = proof;
    foreign.second = court.seat.vote(&other, VoteKind::Notarize, VIEW, 2);
    assert_eq!(court.refused(foreign), signature(1));
    // Another seat's votes under this seat's key, and the other way round.
    let liar = Voter::new(8);
    let mut framed = proof;
    framed.first = liar.vote(&court.genesis, VoteKind::Notarize, VIEW, 1);
    assert_eq!(court.refused(framed), signature(0));
    let mut stranger = proof;
    stranger.seat = liar.public;
    assert!(matches!(
        court.refused(stranger),
        TransactionError::NoSeat { .. }
    ));
    // A nullify that names a block is no vote.
    let mut odd = court.proof((VoteKind::Nullify, VIEW, 0), (VoteKind::Finalize, VIEW, 2));
    odd.first.parent_view = 3;
    assert_eq!(
        court.refused(odd),
        TransactionError::NoEquivocation(EquivocationError::NullifyNamesBlock)
    );
    // Any changed bit.
    let bytes = tg_types::Encode::to_bytes(&proof);
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        let Ok(changed) = <Equivocation as tg_types::Decode>::from_bytes(&changed) else {
            continue;
        };
        assert!(changed.check(&court.genesis).is_err(), "{place}");
    }
    assert_eq!(proof.check(&court.genesis), Ok(()));
    assert!(!court.stake().is_zero());
}
