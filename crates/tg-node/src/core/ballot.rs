//! Proposals and votes. A request of consensus stays pending until its answer can no longer change.

use std::sync::Arc;

use tg_types::{BlockId, SignedTransaction, TimestampMs, Transaction};

use super::machine::{Core, Effect, Fatal, PendingProposal, PendingVote};
use super::seeds::dealing_holds;
use super::tree::Resolution;
use crate::chain::{self, Body, Executed};
use crate::key::public_bytes;
use crate::limits::{BLOCK_TRANSACTIONS_MAX, BLOCK_VERDICTS_MAX, CLOCK_SKEW_MAX, span};
use crate::mempool::PoolTurns;
use crate::peers::{Peer, Proposal, block_id, payload};
use crate::wire::BlockMessage;
use commonware_cryptography::sha256;
use commonware_p2p::Recipients;
use commonware_utils::channel::oneshot;
use tg_ledger::{State, Subject, TransactionError, TransactionSource, Verdict};
use tg_types::{Encode as _, NonceLane};

/// What a voter says of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ballot {
    /// Not decided yet.
    Pending,
    /// Valid; the body is on disk.
    Yes,
    /// Never valid.
    No,
}

impl Core {
    /// Consensus asks this validator, the leader of a view, for a block.
    pub(crate) fn ask_proposal(
        &mut self,
        context: Proposal,
        reply: oneshot::Sender<sha256::Digest>,
        now: TimestampMs,
    ) {
        self.proposals.push(PendingProposal {
            context,
            asked_at: now,
            reply,
        });
    }

    /// Consensus asks this validator whether it votes for a block.
    pub(crate) fn ask_vote(
        &mut self,
        context: Proposal,
        digest: &sha256::Digest,
        reply: oneshot::Sender<bool>,
        now: TimestampMs,
    ) {
        self.votes.push(PendingVote {
            context,
            id: block_id(digest),
            asked_at: now,
            reply,
        });
    }

    /// Consensus asks this validator to send a block's body.
    pub(crate) fn broadcast(
        &mut self,
        digest: &sha256::Digest,
        recipients: Recipients<Peer>,
    ) -> Result<(), Fatal> {
        let id = block_id(digest);
        let body = match self.tree.body(&id) {
            Some(body) => Some(body.clone()),
            None => self.stored(&id)?,
        };
        if let Some(body) = body {
            let message = BlockMessage::Push(chain::encode(&body.block)).to_bytes();
            self.outbox.push(Effect::Block(recipients, message));
        }
        Ok(())
    }

    pub(super) fn vote(&mut self, now: TimestampMs) -> Result<(), Fatal> {
        // Stops: validators of one machine that agree on blocks of a wrong time.
        if !self.clock_is_trusted {
            self.votes.retain(|pending| !pending.reply.is_closed());
            return Ok(());
        }
        for pending in std::mem::take(&mut self.votes) {
            // Consensus left the view: nobody waits for the answer.
            if pending.reply.is_closed() {
                continue;
            }
            match self.ballot(&pending, now)? {
                Ballot::Pending => self.votes.push(pending),
                decided => {
                    // The receiver may have gone meanwhile, which is the same as an abandoned view.
                    let _ = pending.reply.send(decided == Ballot::Yes);
                }
            }
        }
        Ok(())
    }

    /// Whether a proposed block stands on the one that consensus says, which validators have voted for; if it does not yet, or never will, what to
    /// say of it. Stops: a leader whose block has a height or ancestors that nobody made, which would be fetched and kept.
    fn stands_on_parent(
        &mut self,
        pending: &PendingVote,
        now: TimestampMs,
    ) -> Result<Option<Ballot>, Fatal> {
        let expected = block_id(&pending.context.parent.1);
        if !self.load(&pending.id)? {
            self.want_proposed(pending.id, now);
            return Ok(Some(Ballot::Pending));
        }
        let body = self.tree.body(&pending.id);
        let place = body.map(|it| (it.parent(), it.height()));
        let height = match place {
            Some((parent, height)) if parent == expected => height,
            _ => {
                self.tree.forget(&pending.id);
                return Ok(Some(Ballot::No));
            }
        };
        Ok(match self.resolve(expected)? {
            Resolution::Executed(parent) if parent.height() + 1 == height => None,
            Resolution::Executed(_) | Resolution::Impossible => {
                self.tree.forget(&pending.id);
                Some(Ballot::No)
            }
            Resolution::Missing(id) => {
                self.want(id, now);
                Some(Ballot::Pending)
            }
            Resolution::Ahead => Some(Ballot::Pending),
        })
    }

    fn ballot(&mut self, pending: &PendingVote, now: TimestampMs) -> Result<Ballot, Fatal> {
        // The last block of a term is proposed again until it is final: validators have voted for it.
        if block_id(&pending.context.parent.1) != pending.id
            && let Some(ballot) = self.stands_on_parent(pending, now)?
        {
            return Ok(ballot);
        }
        let executed = match self.resolve(pending.id)? {
            Resolution::Executed(executed) => executed,
            Resolution::Missing(id) => {
                self.want(id, now);
                return Ok(Ballot::Pending);
            }
            Resolution::Ahead => return Ok(Ballot::Pending),
            Resolution::Impossible => return Ok(Ballot::No),
        };
        // The last block of a term is proposed again until it is final, whoever leads.
        if block_id(&pending.context.parent.1) == pending.id {
            let again = self.ends_term(&executed);
            if again {
                self.persist(&pending.id)?;
            }
            return Ok(if again { Ballot::Yes } else { Ballot::No });
        }
        let header = &executed.block.header;
        // Stops: a block of the old set after the last one that it votes on.
        match self.resolve(header.parent)? {
            Resolution::Executed(parent) if self.ends_term(&parent) => return Ok(Ballot::No),
            _ => {}
        }
        if self.addresses.get(&public_bytes(&pending.context.leader)) != Some(&header.proposer)
            || executed.block.transactions.len() > BLOCK_TRANSACTIONS_MAX
            || executed.block.verdicts.len() > BLOCK_VERDICTS_MAX
        {
            return Ok(Ballot::No);
        }
        let skew = span(CLOCK_SKEW_MAX);
        if header.timestamp.saturating_add(skew) < pending.asked_at {
            return Ok(Ballot::No);
        }
        if header.timestamp > now.saturating_add(skew) {
            // In time the clock gets there; the view may be over by then.
            let ahead = header.timestamp.saturating_since(now.saturating_add(skew));
            self.wake_at(now.saturating_add(ahead));
            return Ok(Ballot::Pending);
        }
        let verdicts = self.judge(&executed)?;
        if verdicts != Ballot::Yes {
            return Ok(verdicts);
        }
        // Last: it takes milliseconds for each dealing, and a vote that pends is looked at with every message.
        if !self.dealings_hold(&executed)? {
            return Ok(Ballot::No);
        }
        self.persist(&pending.id)?;
        Ok(Ballot::Yes)
    }

    /// Whether all that a block has of the making of the seed's key are dealings.
    fn dealings_hold(&mut self, executed: &Executed) -> Result<bool, Fatal> {
        let is_one =
            |it: &&SignedTransaction| matches!(it.transaction, Transaction::PostDealing { .. });
        let mut dealings = executed.block.transactions.iter().filter(is_one).peekable();
        if dealings.peek().is_none() {
            return Ok(true);
        }
        Ok(match self.resolve(executed.block.header.parent)? {
            Resolution::Executed(parent) => {
                dealings.all(|signed| dealing_holds(&parent.state, signed))
            }
            // It was executed on its parent.
            Resolution::Missing(_) | Resolution::Ahead | Resolution::Impossible => true,
        })
    }

    /// Compares the verdicts of a block with the outcomes of this validator's own checks.
    fn judge(&mut self, executed: &Executed) -> Result<Ballot, Fatal> {
        if executed.block.verdicts.is_empty() {
            return Ok(Ballot::Yes);
        }
        let parent = match self.resolve(executed.block.header.parent)? {
            Resolution::Executed(parent) => parent,
            Resolution::Missing(_) | Resolution::Ahead | Resolution::Impossible => {
                return Ok(Ballot::Pending);
            }
        };
        let due = chain::evidence(&parent.state);
        let mut ballot = Ballot::Yes;
        for verdict in &executed.block.verdicts {
            if !chain::is_due(&due, verdict) {
                return Ok(Ballot::No);
            }
            let Verdict {
                subject,
                evidence,
                outcome,
            } = verdict;
            match self.evidence_queue.outcome(subject, evidence) {
                Some(own) if own == outcome => {}
                Some(own) => {
                    tracing::warn!(?subject, ?own, proposed = ?outcome, "verdict is not ours");
                    return Ok(Ballot::No);
                }
                None if Self::is_seed(&parent.state, subject, outcome) => {}
                None if matches!(subject, Subject::Seed(_)) => return Ok(Ballot::No),
                None => ballot = Ballot::Pending,
            }
        }
        Ok(ballot)
    }

    /// Writes a body before a vote for it is cast.
    fn persist(&mut self, id: &BlockId) -> Result<(), Fatal> {
        if let Some((height, bytes)) = self.tree.take_unwritten(id) {
            self.store
                .put_bodies([(id.as_bytes(), height, bytes.as_slice())])?;
        }
        Ok(())
    }

    pub(super) fn propose(&mut self, now: TimestampMs) -> Result<(), Fatal> {
        if !self.clock_is_trusted {
            self.proposals.retain(|pending| !pending.reply.is_closed());
            return Ok(());
        }
        for pending in std::mem::take(&mut self.proposals) {
            if pending.reply.is_closed() {
                continue;
            }
            match self.resolve(block_id(&pending.context.parent.1))? {
                // Dropping the reply declines the view.
                Resolution::Executed(parent)
                    if self.node_status.executes_after(&parent.state).is_err() => {}
                Resolution::Executed(parent) if self.ends_term(&parent) => {
                    let _ = pending.reply.send(payload(&parent.id));
                }
                Resolution::Executed(parent) => {
                    if self.is_time(&parent, pending.asked_at, now) {
                        let id = self.build(&parent, now)?;
                        // An abandoned view leaves a block that nobody voted for.
                        let _ = pending.reply.send(payload(&id));
                    } else {
                        self.proposals.push(pending);
                    }
                }
                Resolution::Missing(id) => {
                    self.want(id, now);
                    self.proposals.push(pending);
                }
                Resolution::Ahead => self.proposals.push(pending),
                // Dropping the reply declines the view.
                Resolution::Impossible => {}
            }
        }
        Ok(())
    }

    /// Whether the next block is due: soon while there is work, at the heartbeat while there is none.
    fn is_time(&mut self, parent: &Executed, asked_at: TimestampMs, now: TimestampMs) -> bool {
        // A parent from a fast clock must not make this proposer wait longer than one from a right clock.
        let since = parent.timestamp().min(asked_at);
        let soon = since.saturating_add(span(self.pace.busy));
        let heartbeat = since.saturating_add(span(self.pace.idle));
        let due = if self.has_work(parent, now) {
            soon
        } else {
            heartbeat
        };
        if now < due {
            self.wake_at(due);
        }
        now >= due
    }

    fn has_work(&self, parent: &Executed, now: TimestampMs) -> bool {
        let base_fee = parent.state.base_fee();
        self.mempool
            .has_ready(|lane| parent.state.nonce_in(lane), base_fee)
            || self
                .evidence_queue
                .has_verdict(chain::evidence(&parent.state), (parent.height(), now))
    }

    fn build(&mut self, parent: &Executed, now: TimestampMs) -> Result<BlockId, Fatal> {
        let at = (parent.height(), now);
        let tasks = chain::evidence(&parent.state);
        let verdicts = self.evidence_queue.propose(tasks, BLOCK_VERDICTS_MAX, at);
        let timestamp = now.max(
            parent
                .timestamp()
                .saturating_add(tg_types::DurationMs::new(1)),
        );
        let base_fee = parent.state.base_fee();
        let next_nonce = |lane: &NonceLane| parent.state.nonce_in(lane);
        let mut candidates = WithoutBadDealings {
            state: &parent.state,
            turns: self.mempool.turns(next_nonce, base_fee),
            bad: Vec::new(),
        };
        let proposal = tg_ledger::Proposal {
            verdicts,
            ..tg_ledger::Proposal::empty(self.address, timestamp)
        };
        let signatures = self.node_status.signatures();
        let mut built = chain::build(parent, proposal, &mut candidates, signatures)?;
        built.refused.append(&mut candidates.bad);
        for (sender, nonce, error) in &built.refused {
            self.mempool.refuse(sender, *nonce, *error);
        }
        self.note_dropped();
        if let Some(id) = self.forge(parent, &built.executed)? {
            return Ok(id);
        }
        let id = built.executed.id;
        let bytes = chain::encode(&built.executed.block);
        self.store
            .put_bodies([(id.as_bytes(), built.executed.height(), bytes.as_slice())])?;
        self.expect_evidence(&built.executed);
        self.tree.add_executed(built.executed);
        Ok(id)
    }

    /// Keeps what simulations have this validator propose in the place of a block that it built, and names it. Nothing is executed: it need not hold.
    fn forge(&mut self, parent: &Executed, built: &Executed) -> Result<Option<BlockId>, Fatal> {
        let forger = self.forger.as_ref();
        let Some(block) = forger.and_then(|it| it.forge(&parent.state, &built.block)) else {
            return Ok(None);
        };
        let id = block.id();
        let bytes = chain::encode(&block);
        self.store
            .put_bodies([(id.as_bytes(), built.height(), bytes.as_slice())])?;
        let block = Arc::new(block);
        self.tree.add(Body { id, block }, true);
        Ok(Some(id))
    }

    pub(super) fn expect_evidence(&mut self, executed: &Executed) {
        self.evidence_queue
            .expect(chain::evidence(&executed.state), executed.height());
    }
}

/// The transactions of a pool, without dealings that are none.
struct WithoutBadDealings<'a> {
    state: &'a State,
    turns: PoolTurns<'a>,
    bad: Vec<(NonceLane, u64, TransactionError)>,
}

impl TransactionSource for WithoutBadDealings<'_> {
    fn next(&mut self) -> Option<SignedTransaction> {
        loop {
            let signed = self.turns.next()?;
            if dealing_holds(self.state, &signed) {
                return Some(signed);
            }
            let round = self.state.seeds().round;
            let error = TransactionError::BadDealing { round };
            self.bad.push((signed.lane(), signed.nonce, error));
            self.turns.has_place(false);
        }
    }

    fn has_place(&mut self, has_place: bool) {
        self.turns.has_place(has_place);
    }
}
