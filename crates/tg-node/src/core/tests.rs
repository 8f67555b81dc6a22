//! The machine alone, step by step: time and messages are given by hand.
#![allow(clippy::unwrap_used, reason = "tests")]

use commonware_consensus::types::{Epoch, Round, View};
use commonware_utils::channel::oneshot::error::TryRecvError;
use tg_ledger::{
    ConsensusKey, Genesis, Outcome, Parameters, Proposal as Content, Validator, Verdict,
};
use tg_types::{
    Amount, Digest, Encode as _, Height, Label, ModelId, SignedTransaction, Transaction, Wallet,
};

use super::machine::*;
use crate::chain::{self, Body};
use crate::chain::{Executed, LastSnapshot};
use crate::evidence::CheckError;
use crate::handle::NodeHandle;
use crate::handle::NodeStatus;
use crate::key::ValidatorKey;
use crate::limits::{BODIES_PER_PROPOSER_MAX, HEIGHT_EXECUTED_MAX, SNAPSHOT_INTERVAL};
use crate::peers::{Peer, Proposal, block_id, payload};
use crate::store::Location;
use crate::store::Store;
use crate::submit::{Submission, SubmitError};
use crate::term::{self, SeatTerm};
use crate::wire::{BlockMessage, TransactionMessage};
use commonware_consensus::simplex::types::Context;
use commonware_utils::channel::oneshot;
use std::sync::Arc;
use std::time::Duration;
use tg_types::Decode as _;
use tg_types::{Address, BlockId, CheckedSignatures, TimestampMs};

/// Genesis time.
const START: u64 = 1_000_000;

const fn at(milliseconds: u64) -> TimestampMs {
    TimestampMs::new(START + milliseconds)
}

struct Bench {
    keys: Vec<ValidatorKey>,
    wallet: Wallet,
    genesis: Genesis,
    root: Executed,
}

fn bench() -> Bench {
    let keys: Vec<ValidatorKey> = (0..4).map(ValidatorKey::from_seed).collect();
    let wallet = Wallet::from_seed(b"rich");
    let mut validators: Vec<Validator> = keys
        .iter()
        .map(|key| Validator {
            address: Wallet::from_seed(&key.public()).address(),
            key: ConsensusKey::new(key.public()),
            stake: Amount::from_tgrid(1),
        })
        .collect();
    validators.sort_unstable_by_key(|validator| validator.address);
    let genesis = Genesis {
        domain: tg_ledger::development_domain(),
        parameters: Parameters::development(),
        timestamp: at(0),
        accounts: vec![(wallet.address(), Amount::from_tgrid(1_000))],
        validators,
    };
    let root = chain::genesis(&genesis).unwrap();
    Bench {
        keys,
        wallet,
        genesis,
        root,
    }
}

impl Bench {
    fn peer(&self, index: usize) -> Peer {
        crate::key::peer(&self.keys[index])
    }

    fn address(&self, index: usize) -> Address {
        Wallet::from_seed(&self.keys[index].public()).address()
    }

    fn store(&self, index: usize) -> Arc<Store> {
        let genesis = *self.genesis.id().as_bytes();
        let key = self.keys[index].public();
        Arc::new(Store::open(Location::Memory, &genesis, &key).unwrap())
    }

    /// The machine of validator 0.
    fn core(&self) -> Core {
        let node_status = NodeStatus::new(
            self.keys[0].public(),
            4,
            &self.root,
            (tg_ledger::PROTOCOL_VERSION, crate::open::own_signatures()),
        );
        Core::new(Start {
            me: self.peer(0),
            term: SeatTerm {
                epoch: 0,
                anchor: (0, self.root.id),
                ordered_by: self.root.id,
                seats: term::seats(&self.root.state),
            },
            store: self.store(0),
            node_status: Arc::new(node_status),
            tip: self.root.clone(),
            snapshot: LastSnapshot::default(),
            pace: Pace {
                busy: Duration::from_millis(100),
                idle: Duration::from_millis(400),
            },
            seeds: crate::seed::SeedMachine::new(
                *self.genesis.id().as_bytes(),
                &self.keys[0],
                [7; 32],
                None,
            ),
            forger: None,
        })
    }

    fn transfer(&self, nonce: u64) -> SignedTransaction {
        let transaction = Transaction::Transfer {
            to: Address::new([5; 20]),
            amount: Amount::from_tgrid(1),
        };
        self.wallet.sign(transaction, nonce, &self.genesis.domain)
    }

    fn block(
        &self,
        parent: &Executed,
        time: TimestampMs,
        proposer: usize,
        transactions: Vec<SignedTransaction>,
        verdicts: Vec<Verdict>,
    ) -> Executed {
        let content = Content {
            proposer: self.address(proposer),
            timestamp: time,
            transactions: Vec::new(),
            verdicts,
        };
        let mut listed = transactions.into_iter();
        chain::build(parent, content, &mut listed, &CheckedSignatures::none())
            .unwrap()
            .executed
    }

    /// `count` empty blocks on a parent, 100 ms apart, by validator 1.
    fn blocks(&self, parent: &Executed, count: usize) -> Vec<Executed> {
        let mut blocks = vec![parent.clone()];
        for _ in 0..count {
            let parent = blocks.last().unwrap();
            let time = TimestampMs::new(parent.timestamp().get() + 100);
            let block = self.block(parent, time, 1, vec![], vec![]);
            blocks.push(block);
        }
        blocks.split_off(1)
    }

    fn context(&self, leader: usize, view: u64, parent: &BlockId) -> Proposal {
        Context {
            round: Round::new(Epoch::zero(), View::new(view)),
            leader: self.peer(leader),
            parent: (View::new(view - 1), payload(parent)),
        }
    }

    /// Asks the machine for its vote on a block of `leader`.
    fn ask(
        &self,
        core: &mut Core,
        leader: usize,
        block: &Executed,
        now: TimestampMs,
    ) -> oneshot::Receiver<bool> {
        let (reply, answer) = oneshot::channel();
        let context = self.context(leader, 1, &block.block.header.parent);
        core.ask_vote(context, &payload(&block.id), reply, now);
        core.progress(now).unwrap();
        answer
    }

    fn push(&self, core: &mut Core, from: usize, block: &Executed) {
        let message = BlockMessage::Push(chain::encode(&block.block)).to_bytes();
        core.block_message(&self.peer(from), &message, at(0))
            .unwrap();
    }
}

/// Messages about blocks that the machine wants sent, without the regular heights.
fn sent(core: &mut Core) -> Vec<BlockMessage> {
    core.effects()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Block(_, bytes) => Some(BlockMessage::from_bytes(&bytes).unwrap()),
            _ => None,
        })
        .filter(|message| !matches!(message, BlockMessage::Tip { .. }))
        .collect()
}

fn banned(core: &mut Core) -> Vec<&'static str> {
    core.effects()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Ban(_, reason) => Some(reason),
            _ => None,
        })
        .collect()
}

#[test]
fn a_proposal_comes_soon_with_work_and_at_the_heartbeat_without() {
    let bench = bench();
    let mut core = bench.core();
    let (reply, mut answer) = oneshot::channel();
    let context = bench.context(0, 1, &bench.root.id);
    core.ask_proposal(context.clone(), reply, at(10));
    assert_eq!(core.progress(at(399)).unwrap(), at(400));
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    core.progress(at(400)).unwrap();
    let idle = block_id(&answer.try_recv().unwrap());
    let body = core.tree.body(&idle).unwrap();
    assert!(body.block.transactions.is_empty());
    assert_eq!(body.block.header.timestamp, at(400));
    assert!(core.store.body(idle.as_bytes()).unwrap().is_some());

    let (reply, mut answer) = oneshot::channel();
    core.ask_proposal(context, reply, at(20));
    let (taken, mut admitted) = oneshot::channel();
    let signed = bench.transfer(0);
    core.submit(
        Submission {
            signed,
            reply: taken,
        },
        at(30),
    );
    admitted.try_recv().unwrap().unwrap();
    assert_eq!(core.progress(at(99)).unwrap(), at(100));
    assert!(answer.try_recv().is_err());
    core.progress(at(100)).unwrap();
    let busy = block_id(&answer.try_recv().unwrap());
    assert_eq!(core.tree.body(&busy).unwrap().block.transactions.len(), 1);
}

/// Changes the root of the state of every block.
#[derive(Debug)]
struct WrongRoot;

impl crate::forge::BlockForger for WrongRoot {
    fn forge(&self, _: &tg_ledger::State, block: &tg_ledger::Block) -> Option<tg_ledger::Block> {
        let mut block = block.clone();
        block.header.state_root = tg_types::StateRoot::default();
        Some(block)
    }
}

#[test]
fn a_block_that_a_simulation_forges_is_proposed_and_gets_no_vote() {
    let bench = bench();
    let mut liar = bench.core();
    liar.forger = Some(Arc::new(WrongRoot));
    let (reply, mut answer) = oneshot::channel();
    liar.ask_proposal(bench.context(0, 1, &bench.root.id), reply, at(10));
    liar.progress(at(400)).unwrap();
    let id = block_id(&answer.try_recv().unwrap());
    let bytes = chain::encode(&liar.tree.body(&id).unwrap().block);
    let _ = sent(&mut liar);
    liar.broadcast(&payload(&id), commonware_p2p::Recipients::All)
        .unwrap();
    assert_eq!(sent(&mut liar), [BlockMessage::Push(bytes.clone())]);

    let mut core = bench.core();
    let message = BlockMessage::Push(bytes).to_bytes();
    core.block_message(&bench.peer(0), &message, at(400))
        .unwrap();
    let (reply, mut answer) = oneshot::channel();
    let context = bench.context(0, 1, &bench.root.id);
    core.ask_vote(context, &payload(&id), reply, at(400));
    core.progress(at(400)).unwrap();
    assert_eq!(answer.try_recv(), Ok(false));
    assert!(core.store.body(id.as_bytes()).unwrap().is_none());
    // States differ for many reasons: nobody is refused for it.
    assert!(banned(&mut core).is_empty());
}

#[test]
fn a_vote_waits_for_the_body_and_is_cast_when_it_is_on_disk() {
    let bench = bench();
    let mut core = bench.core();
    let blocks = bench.blocks(&bench.root, 2);
    let mut answer = bench.ask(&mut core, 1, &blocks[1], at(200));
    assert_eq!(sent(&mut core), []);
    // Neither the block nor its parent is here; peers are asked in turn until one answers.
    for (time, asked) in [(240, 1), (300, 0), (540, 1), (840, 1)] {
        core.progress(at(time)).unwrap();
        let fetches = sent(&mut core);
        assert_eq!(fetches.len(), asked, "at {time}");
        for fetch in fetches {
            let id = *blocks[1].id.as_bytes();
            // It is only proposed: nothing but itself is wanted.
            let above = u64::MAX;
            assert_eq!(fetch, BlockMessage::Fetch { id, above });
        }
    }
    let all = BlockMessage::Blocks(vec![
        chain::encode(&blocks[1].block),
        chain::encode(&blocks[0].block),
    ]);
    core.block_message(&bench.peer(2), &all.to_bytes(), at(850))
        .unwrap();
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    // The leader's block alone is taken; its parent, which validators voted for, is asked for by itself.
    core.progress(at(850)).unwrap();
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    core.progress(at(890)).unwrap();
    let id = *blocks[0].id.as_bytes();
    assert_eq!(sent(&mut core), [BlockMessage::Fetch { id, above: 0 }]);
    let parent = BlockMessage::Blocks(vec![chain::encode(&blocks[0].block)]);
    core.block_message(&bench.peer(2), &parent.to_bytes(), at(890))
        .unwrap();
    core.progress(at(890)).unwrap();
    assert_eq!(answer.try_recv(), Ok(true));
    for block in &blocks {
        assert!(core.store.body(block.id.as_bytes()).unwrap().is_some());
    }
    // Nobody needs it any more.
    core.progress(at(5_000)).unwrap();
    assert_eq!(sent(&mut core), []);
}

/// A faulty leader answers a fetch of its block with ancestors, or a height, that nobody made.
#[test]
fn what_nobody_voted_for_is_neither_kept_nor_followed() {
    let bench = bench();
    let mut core = bench.core();
    let block = |parent: BlockId, height: u64| {
        let real = bench.block(&bench.root, at(100), 1, vec![], vec![]);
        let mut block = (*real.block).clone();
        block.header.parent = parent;
        block.header.height = Height::new(height);
        block
    };
    let first = block(BlockId::new([7; 32]), 70);
    let second = block(first.id(), 71);
    let wrong = block(bench.root.id, u64::MAX);
    let far = block(bench.root.id, HEIGHT_EXECUTED_MAX);
    for (proposed, answer) in [
        (&second, vec![&second, &first]),
        (&wrong, vec![&wrong]),
        (&far, vec![&far]),
    ] {
        let (reply, mut vote) = oneshot::channel();
        let context = bench.context(1, 1, &bench.root.id);
        core.ask_vote(context, &payload(&proposed.id()), reply, at(150));
        core.progress(at(150)).unwrap();
        core.progress(at(250)).unwrap();
        let answer = answer.into_iter().map(chain::encode).collect();
        let answer = BlockMessage::Blocks(answer).to_bytes();
        core.block_message(&bench.peer(1), &answer, at(260))
            .unwrap();
        core.progress(at(300)).unwrap();
        assert_ne!(vote.try_recv(), Ok(true));
        assert_eq!(core.tree.len(), 0);
        for it in [&first, &second, &wrong, &far] {
            assert!(core.store.body(it.id().as_bytes()).unwrap().is_none());
        }
    }
}

#[test]
fn a_vote_is_refused_for_what_can_never_be_right() {
    let bench = bench();
    let good = bench.block(&bench.root, at(100), 1, vec![], vec![]);
    let mut core = bench.core();
    bench.push(&mut core, 1, &good);
    assert_eq!(bench.ask(&mut core, 1, &good, at(150)).try_recv(), Ok(true));
    // The same block as if another validator led the view.
    assert_eq!(
        bench.ask(&mut core, 2, &good, at(150)).try_recv(),
        Ok(false)
    );
    // As if the view had another parent.
    let (reply, mut answer) = oneshot::channel();
    let context = bench.context(1, 1, &BlockId::new([1; 32]));
    core.ask_vote(context, &payload(&good.id), reply, at(150));
    core.progress(at(150)).unwrap();
    assert_eq!(answer.try_recv(), Ok(false));
    // More than two seconds old when it is proposed.
    assert_eq!(
        bench.ask(&mut core, 1, &good, at(2_101)).try_recv(),
        Ok(false)
    );
    assert_eq!(
        bench.ask(&mut core, 1, &good, at(2_100)).try_recv(),
        Ok(true)
    );
    // A state root that the block does not lead to.
    let mut header = good.block.header;
    header.state_root = tg_types::StateRoot::new([1; 32]);
    let mut wrong = tg_ledger::Block::clone(&good.block);
    wrong.header = header;
    let message = BlockMessage::Push(wrong.to_bytes()).to_bytes();
    core.block_message(&bench.peer(1), &message, at(150))
        .unwrap();
    let (reply, mut answer) = oneshot::channel();
    let context = bench.context(1, 1, &bench.root.id);
    core.ask_vote(context, &payload(&wrong.id()), reply, at(150));
    core.progress(at(150)).unwrap();
    assert_eq!(answer.try_recv(), Ok(false));
}

#[test]
fn a_block_from_a_fast_clock_waits_for_the_voters_clock() {
    let bench = bench();
    let mut core = bench.core();
    let early = bench.block(&bench.root, at(2_500), 1, vec![], vec![]);
    bench.push(&mut core, 1, &early);
    let mut answer = bench.ask(&mut core, 1, &early, at(400));
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    assert!(core.progress(at(450)).unwrap() <= at(500));
    assert!(answer.try_recv().is_err());
    core.progress(at(500)).unwrap();
    assert_eq!(answer.try_recv(), Ok(true));
}

#[test]
fn other_transactions_cannot_be_attached_to_a_good_header() {
    let bench = bench();
    let mut core = bench.core();
    let good = bench.block(&bench.root, at(100), 1, vec![bench.transfer(0)], vec![]);
    let mut forged = tg_ledger::Block::clone(&good.block);
    forged.transactions.clear();
    assert_eq!(forged.id(), good.id);
    let message = BlockMessage::Push(forged.to_bytes()).to_bytes();
    core.block_message(&bench.peer(2), &message, at(0)).unwrap();
    assert_eq!(banned(&mut core), ["pushed block is malformed"]);
    bench.push(&mut core, 1, &good);
    assert_eq!(bench.ask(&mut core, 1, &good, at(100)).try_recv(), Ok(true));
}

#[test]
fn what_no_honest_validator_sends_is_named() {
    let bench = bench();
    let mut core = bench.core();
    let peer = bench.peer(1);
    core.block_message(&peer, &[9], at(0)).unwrap();
    let push = BlockMessage::Push(vec![1, 2, 3]).to_bytes();
    core.block_message(&peer, &push, at(0)).unwrap();
    let blocks = BlockMessage::Blocks(vec![vec![]]).to_bytes();
    core.block_message(&peer, &blocks, at(0)).unwrap();
    core.transaction_message(&peer, &[1], at(0));
    let transactions = TransactionMessage(vec![vec![0]]).to_bytes();
    core.transaction_message(&peer, &transactions, at(0));
    assert_eq!(
        banned(&mut core),
        [
            "block message is malformed",
            "pushed block is malformed",
            "fetched block is malformed",
            "transaction message is malformed",
            "transaction is malformed",
        ]
    );
}

#[test]
fn a_verdict_is_voted_for_only_if_it_is_ones_own() {
    let bench = bench();
    let blob = Digest::of_blob(b"public model");
    let model = ModelId::new([3; 32]);
    let register = Transaction::RegisterModel {
        model,
        public_blob: blob,
        weights_blob: Digest::default(),
        name: Label::default(),
    };
    let register = bench.wallet.sign(register, 0, &bench.genesis.domain);
    let first = bench.block(&bench.root, at(100), 1, vec![register], vec![]);
    let task = chain::evidence(&first.state).remove(0);
    let rejected = |code| Outcome::Rejected {
        code,
        check: Label::default(),
    };
    let verdict = task.verdict(rejected(7));
    let second = bench.block(&first, at(200), 1, vec![], vec![verdict.clone()]);
    let mut core = bench.core();
    bench.push(&mut core, 1, &first);
    bench.push(&mut core, 1, &second);
    let mut answer = bench.ask(&mut core, 1, &second, at(200));
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    let checks = |core: &mut Core| {
        let effects = core.effects();
        let checks = effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Check(_)));
        checks.count()
    };
    assert_eq!(checks(&mut core), 1);
    // The blob is not here: the check is due again a little later, the vote goes on waiting.
    let missing = CheckError::Missing { digest: blob };
    core.checked(&task, Err(missing), at(210));
    core.progress(at(210)).unwrap();
    assert_eq!(checks(&mut core), 0);
    assert!(core.progress(at(211)).unwrap() <= at(460));
    core.progress(at(460)).unwrap();
    assert_eq!(checks(&mut core), 1);
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    core.checked(&task, Ok(rejected(7)), at(470));
    core.progress(at(470)).unwrap();
    assert_eq!(answer.try_recv(), Ok(true));
    // Another outcome is not what this validator found.
    let other = bench.block(&first, at(201), 2, vec![], vec![task.verdict(rejected(8))]);
    bench.push(&mut core, 2, &other);
    assert_eq!(
        bench.ask(&mut core, 2, &other, at(480)).try_recv(),
        Ok(false)
    );
    // As a proposer it says the same.
    let (reply, mut answer) = oneshot::channel();
    core.ask_proposal(bench.context(0, 3, &first.id), reply, at(480));
    core.progress(at(480)).unwrap();
    let own = block_id(&answer.try_recv().unwrap());
    assert_eq!(core.tree.body(&own).unwrap().block.verdicts, [verdict]);
}

#[test]
fn final_blocks_are_fetched_executed_written_and_told_in_order() {
    let bench = bench();
    let mut core = bench.core();
    let count = usize::try_from(SNAPSHOT_INTERVAL).unwrap() + 8;
    let blocks = bench.blocks(&bench.root, count);
    core.finalised(blocks[count - 1].id, b"certificate".to_vec());
    let mut now = 0;
    while core.tip.height() < count as u64 {
        now += 100;
        core.progress(at(now)).unwrap();
        for message in sent(&mut core) {
            let BlockMessage::Fetch { id, above } = message else {
                panic!("{message:?}");
            };
            // A peer that has all of it answers with at most ten blocks.
            let newest = blocks.iter().position(|block| *block.id.as_bytes() == id);
            let answer: Vec<Vec<u8>> = blocks[..=newest.unwrap()]
                .iter()
                .rev()
                .take_while(|block| block.height() > above)
                .take(10)
                .map(|block| chain::encode(&block.block))
                .collect();
            let answer = BlockMessage::Blocks(answer).to_bytes();
            core.block_message(&bench.peer(2), &answer, at(now))
                .unwrap();
        }
        assert!(now < 10_000, "stuck at {}", core.tip.height());
    }
    assert_eq!(core.tip.id, blocks[count - 1].id);
    for block in &blocks {
        let stored = core.store.block(block.height()).unwrap().unwrap();
        assert_eq!(Body::decode(&stored).unwrap().id, block.id);
    }
    let (height, certificate) = core.store.certificate(1).unwrap().unwrap();
    assert_eq!(
        (height, certificate),
        (count as u64, b"certificate".to_vec())
    );
    assert!(core.store.snapshot().unwrap().is_some());
    // Told again, as a restarted consensus does: nothing happens.
    core.finalised(blocks[3].id, vec![]);
    core.finalised(blocks[count - 1].id, vec![]);
    core.progress(at(now + 1)).unwrap();
    assert!(core.targets.is_empty());
    assert_eq!(core.tip.height(), count as u64);
}

#[test]
fn a_final_block_beside_the_final_chain_stops_the_validator() {
    let bench = bench();
    let mut core = bench.core();
    let blocks = bench.blocks(&bench.root, 2);
    let fork = bench.block(&bench.root, at(150), 2, vec![], vec![]);
    for block in &blocks {
        bench.push(&mut core, 1, block);
    }
    bench.push(&mut core, 2, &fork);
    core.finalised(blocks[1].id, vec![]);
    core.progress(at(300)).unwrap();
    core.finalised(fork.id, vec![]);
    core.store
        .put_bodies([(fork.id.as_bytes(), 1, chain::encode(&fork.block).as_slice())])
        .unwrap();
    let error = core.progress(at(300)).unwrap_err();
    assert!(
        matches!(error, Fatal::FaultBound { id, .. } if id == fork.id),
        "{error}"
    );
}

#[test]
fn fetches_are_answered_with_ancestors_and_not_without_end() {
    let bench = bench();
    let mut core = bench.core();
    let blocks = bench.blocks(&bench.root, 5);
    for block in &blocks {
        bench.push(&mut core, 1, block);
    }
    core.finalised(blocks[2].id, vec![]);
    core.progress(at(600)).unwrap();
    sent(&mut core);
    let mut ask = |id: &BlockId, above, now| {
        let fetch = BlockMessage::Fetch {
            id: *id.as_bytes(),
            above,
        };
        core.block_message(&bench.peer(3), &fetch.to_bytes(), at(now))
            .unwrap();
        match sent(&mut core).pop() {
            Some(BlockMessage::Blocks(blocks)) => blocks.len(),
            None => 0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&blocks[4].id, 0, 600), 5);
    assert_eq!(ask(&blocks[4].id, 3, 600), 2);
    assert_eq!(
        ask(&blocks[1].id, 9, 600),
        1,
        "what was asked for always comes"
    );
    assert_eq!(ask(&BlockId::new([7; 32]), 0, 600), 0);
    let answered = (0..100).map(|_| ask(&blocks[0].id, 0, 600)).sum::<usize>();
    assert!(answered < 50, "{answered} answers in one second");
    assert_eq!(ask(&blocks[0].id, 0, 1_700), 1);
}

#[test]
fn unasked_blocks_of_one_peer_are_bounded() {
    let bench = bench();
    let mut core = bench.core();
    for number in 1..=40 {
        let block = bench.block(&bench.root, at(number), 2, vec![], vec![]);
        bench.push(&mut core, 2, &block);
    }
    let good = bench.block(&bench.root, at(100), 1, vec![], vec![]);
    bench.push(&mut core, 1, &good);
    assert_eq!(core.tree.len(), BODIES_PER_PROPOSER_MAX + 1);
    assert_eq!(bench.ask(&mut core, 1, &good, at(100)).try_recv(), Ok(true));
}

#[test]
fn a_final_block_whose_body_was_pushed_out_is_fetched_and_stops_nobody() {
    let bench = bench();
    let mut core = bench.core();
    let blocks = bench.blocks(&bench.root, 3);
    for block in &blocks[1..] {
        bench.push(&mut core, 1, block);
    }
    core.finalised(blocks[2].id, b"certificate".to_vec());
    core.progress(at(300)).unwrap();
    // The way down to the first block was walked. Its sender goes on to send, and its own blocks make room.
    for number in 1..=BODIES_PER_PROPOSER_MAX as u64 {
        let other = bench.block(&blocks[2], at(300 + number), 1, vec![], vec![]);
        bench.push(&mut core, 1, &other);
    }
    assert!(core.tree.body(&blocks[1].id).is_none());
    let mut now = 300;
    while core.tip.height() < 3 {
        now += 50;
        core.progress(at(now)).unwrap();
        for message in sent(&mut core) {
            let BlockMessage::Fetch { id, .. } = message else {
                panic!("{message:?}");
            };
            let asked = blocks.iter().find(|block| *block.id.as_bytes() == id);
            let answer = BlockMessage::Blocks(vec![chain::encode(&asked.unwrap().block)]);
            core.block_message(&bench.peer(2), &answer.to_bytes(), at(now))
                .unwrap();
        }
        assert!(now < 10_000, "stuck at {}", core.tip.height());
    }
    assert_eq!(core.tip.id, blocks[2].id);
}

#[test]
fn transactions_are_gossiped_once_and_again_while_they_wait() {
    let bench = bench();
    let mut core = bench.core();
    let gossip = |core: &mut Core| {
        let effects = core.effects();
        let messages = effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Transactions(..)));
        messages.count()
    };
    let submit = |core: &mut Core, signed: SignedTransaction, now| {
        let (reply, mut answer) = oneshot::channel();
        core.submit(Submission { signed, reply }, at(now));
        answer.try_recv().unwrap()
    };
    core.progress(at(0)).unwrap();
    gossip(&mut core);
    submit(&mut core, bench.transfer(0), 10).unwrap();
    assert_eq!(gossip(&mut core), 0, "a turn tells of all that it brought");
    core.progress(at(10)).unwrap();
    assert_eq!(gossip(&mut core), 1);
    submit(&mut core, bench.transfer(0), 20).unwrap();
    core.progress(at(20)).unwrap();
    assert_eq!(gossip(&mut core), 0, "it is known already");
    core.progress(at(1_999)).unwrap();
    assert_eq!(gossip(&mut core), 0);
    core.progress(at(2_000)).unwrap();
    assert_eq!(gossip(&mut core), 1);
    // A peer's transaction is kept, and not told on.
    let message = TransactionMessage(vec![bench.transfer(1).to_bytes()]).to_bytes();
    core.transaction_message(&bench.peer(1), &message, at(2_100));
    assert_eq!(core.mempool.len(), 2);
    core.progress(at(2_100)).unwrap();
    assert_eq!(gossip(&mut core), 0);
    let mut forged = bench.transfer(2);
    forged.nonce = 3;
    let message = TransactionMessage(vec![forged.to_bytes()]).to_bytes();
    core.transaction_message(&bench.peer(1), &message, at(2_100));
    assert_eq!(core.mempool.len(), 2);
    let error = submit(&mut core, forged, 2_100).unwrap_err();
    assert!(matches!(error, SubmitError::Refused(_)), "{error}");
    // Final transactions leave the pool.
    let transactions = vec![bench.transfer(0), bench.transfer(1)];
    let block = bench.block(&bench.root, at(2_200), 1, transactions, vec![]);
    bench.push(&mut core, 1, &block);
    core.finalised(block.id, vec![]);
    core.progress(at(2_300)).unwrap();
    assert_eq!(core.mempool.len(), 0);
    core.progress(at(9_000)).unwrap();
    assert_eq!(gossip(&mut core), 0);
}

fn submit(core: &mut Core, signed: SignedTransaction, now: u64) -> Result<(), SubmitError> {
    let (reply, mut answer) = oneshot::channel();
    core.submit(Submission { signed, reply }, at(now));
    answer.try_recv().unwrap().map(|_| ())
}

/// Transfers of `count` nonces, from the first, of a key made of a number.
fn posts(bench: &Bench, key: u64, from: u64, count: u64) -> Vec<SignedTransaction> {
    let wallet = Wallet::from_seed(&key.to_be_bytes());
    let nonces = from..from + count;
    nonces
        .map(|nonce| {
            let transaction = bench.transfer(0).transaction;
            wallet.sign(transaction, nonce, &bench.genesis.domain)
        })
        .collect()
}

#[test]
#[expect(clippy::print_stdout, reason = "figures of docs/ATTACKS.md")]
fn thousands_of_posts_of_unfunded_keys_take_no_place_in_the_pool() {
    let bench = bench();
    let mut core = bench.core();
    for key in 0..33 {
        for signed in posts(&bench, key, 0, 255) {
            let is_next = signed.nonce == 0;
            let error = submit(&mut core, signed, 10).unwrap_err();
            let expected = if is_next { "TG-LED-005" } else { "TG-LED-009" };
            assert_eq!(error.code(), expected, "{error}");
        }
    }
    let all: Vec<Vec<u8>> = posts(&bench, 34, 1, 100)
        .iter()
        .map(SignedTransaction::to_bytes)
        .collect();
    let message = TransactionMessage(all).to_bytes();
    core.transaction_message(&bench.peer(1), &message, at(20));
    assert_eq!(core.mempool.len(), 0);
    submit(&mut core, bench.transfer(0), 30).unwrap();
    submit(&mut core, bench.transfer(2), 30).unwrap();
    assert_eq!(core.mempool.len(), 2);
    // Nothing was executed, so nobody owns more or less.
    println!(
        "attack-table\t8,415 posts of keys without money, most behind a gap of nonces\tanybody\tnothing of it is kept\t0\t0\t0\t0\t0"
    );
}

#[test]
fn a_dropped_transaction_says_why() {
    use crate::mempool::{DropReason, TransactionStatus};
    let bench = bench();
    let mut core = bench.core();
    let status = |core: &Core, signed: &SignedTransaction| {
        core.node_status
            .transaction(&signed.id(&bench.genesis.domain))
    };
    let (first, second) = (bench.transfer(0), bench.transfer(1));
    assert_eq!(status(&core, &first), None);
    submit(&mut core, first.clone(), 10).unwrap();
    submit(&mut core, second.clone(), 10).unwrap();
    assert_eq!(status(&core, &second), Some(TransactionStatus::Waiting));
    // Another transaction takes the nonce of the second one.
    let all = Transaction::Transfer {
        to: Address::new([6; 20]),
        amount: Amount::from_tgrid(998),
    };
    let other = bench.wallet.sign(all, 1, &bench.genesis.domain);
    let transactions = vec![first.clone(), other.clone()];
    let block = bench.block(&bench.root, at(200), 1, transactions, vec![]);
    assert_eq!(block.block.transactions.len(), 2);
    bench.push(&mut core, 1, &block);
    core.finalised(block.id, vec![]);
    core.progress(at(300)).unwrap();
    let is_final = Some(TransactionStatus::Final { height: 1 });
    assert_eq!(status(&core, &first), is_final);
    assert_eq!(status(&core, &other), is_final);
    let used = DropReason::NonceUsed;
    assert_eq!(
        status(&core, &second),
        Some(TransactionStatus::Dropped(used))
    );
    assert_eq!(used.code(), "TG-NODE-054");
}

#[test]
fn an_opened_store_leads_to_the_state_that_was_left() {
    let bench = bench();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.redb");
    let blobs = Arc::new(crate::blob::BlobStore::open(&folder.path().join("blobs"), 0).unwrap());
    let open = || -> Result<(NodeHandle, crate::engine::Parts), crate::store::OpenError> {
        crate::open::open(crate::open::Opening {
            genesis: &bench.genesis,
            key: bench.keys[0].clone(),
            location: Location::File(&path),
            blobs: blobs.clone(),
            checker: Arc::new(crate::checker::ProofChecker::default()),
            history: crate::store::History::New,
            wall: crate::clock::WallClock::of_runtime(),
            timers: crate::limits::Timers::default(),
            speaks: tg_ledger::PROTOCOL_VERSION,
            signatures: crate::open::own_signatures(),
        })
    };
    let count = usize::try_from(SNAPSHOT_INTERVAL).unwrap() + 5;
    let blocks = bench.blocks(&bench.root, count);
    let write = |store: &Store, blocks: &[Executed], snapshot: Option<&Executed>| {
        let written: Vec<crate::store::FinalBlock> = blocks
            .iter()
            .map(|block| crate::store::FinalBlock {
                height: block.height(),
                id: *block.id.as_bytes(),
                bytes: chain::encode(&block.block),
                certificate: None,
            })
            .collect();
        let state = snapshot.map(|block| chain::encode_state(&block.state));
        store.finalise(&written, state.as_deref()).unwrap();
    };
    let (_, parts) = open().unwrap();
    assert_eq!(parts.tip.id, bench.genesis.id());
    write(&parts.store, &blocks[..30], Some(&blocks[29]));
    write(&parts.store, &blocks[30..], None);
    drop(parts);
    let (handle, parts) = open().unwrap();
    assert_eq!(parts.tip.id, blocks[count - 1].id);
    assert_eq!(parts.snapshot.height, 30);
    assert_eq!(
        parts.tip.state.to_bytes(),
        blocks[count - 1].state.to_bytes()
    );
    assert_eq!(handle.status().height, count as u64);
    assert_eq!(handle.block(1).unwrap().unwrap().id(), blocks[0].id);
    // A snapshot of another block's state.
    let last = bench.blocks(&blocks[count - 1], 1).remove(0);
    write(&parts.store, &[last], Some(&blocks[3]));
    drop((handle, parts));
    let error = open().unwrap_err();
    assert!(
        matches!(error, crate::store::OpenError::Inconsistent { .. }),
        "{error}"
    );
}
