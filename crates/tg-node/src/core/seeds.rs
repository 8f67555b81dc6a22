//! Passes the final state to the [`SeedMachine`](crate::seed::SeedMachine), and turns the seeds that it signs into verdicts.

use tg_ledger::{EvidenceTask, Outcome, SeedKeyPhase, State, Subject};
use tg_types::{Decode as _, Encode as _, Height, SignedTransaction, TimestampMs, Transaction};

use super::machine::{Core, Effect, Fatal};
use crate::peers::Peer;
use crate::seed::{SeedEffect, SeedPhase, SeedView, check_dealing, verify_seed};
use crate::wire::SeedMessage;

impl Core {
    /// A message on the channel of seeds.
    pub(crate) fn seed_message(&mut self, peer: &Peer, bytes: &[u8]) {
        match SeedMessage::from_bytes(bytes) {
            Ok(message) => self.seeds.message(peer, &message),
            Err(_) => self.ban(peer, "seed message is malformed"),
        }
    }

    /// Tells the machine what the final state says.
    pub(super) fn show_seeds(&mut self, now: TimestampMs) {
        let view = seed_view(&self.tip.state);
        self.seeds.view(&view, now);
    }

    /// Does what the machine wants done.
    pub(super) fn run_seeds(&mut self, now: TimestampMs) -> Result<(), Fatal> {
        let wake = self.seeds.progress(now);
        self.wake_at(wake);
        for effect in self.seeds.effects() {
            match effect {
                SeedEffect::Send(recipients, message) => {
                    self.outbox
                        .push(Effect::Seed(recipients, message.to_bytes()));
                }
                SeedEffect::Keep(bytes) => self.store.keep_seed(&bytes)?,
                SeedEffect::Refuse(peer, refusal) if refusal.is_fault() => {
                    tracing::warn!(%peer, %refusal, "seed message is refused");
                }
                SeedEffect::Refuse(peer, refusal) => {
                    tracing::debug!(%peer, %refusal, "seed message is dropped");
                }
            }
        }
        self.node_status.deals(self.seeds.dealing());
        for (height, signature) in self.seeds.signatures() {
            self.learn_seed(Height::new(height), signature);
        }
        Ok(())
    }

    /// Notes a seed that was signed, if the final state wants it.
    fn learn_seed(&mut self, height: Height, signature: [u8; 48]) {
        let seeds = self.tip.state.seeds();
        let Some(key) = seeds.key() else {
            return;
        };
        let task = EvidenceTask::Seed {
            network: self.tip.state.network(),
            round: seeds.round,
            height,
            key: *key,
        };
        if self
            .evidence_queue
            .outcome(&task.subject(), &task.evidence())
            .is_none()
        {
            self.evidence_queue
                .learn(task, Outcome::Seed(signature), self.tip.height());
        }
    }

    /// Whether a seed in a block is the one of its height, by the key of the state before it: whoever lacks parts of the
    /// signature need not have them.
    pub(super) fn is_seed(state: &State, subject: &Subject, outcome: &Outcome) -> bool {
        let (Subject::Seed(height), Outcome::Seed(signature)) = (subject, outcome) else {
            return false;
        };
        let seeds = state.seeds();
        seeds.key().is_some_and(|key| {
            let network = state.network();
            verify_seed(
                network.as_bytes(),
                key,
                seeds.round,
                height.get(),
                signature,
            )
        })
    }
}

/// Whether a dealing that a block has, or would have, is one of its sender: the ledger keeps the bytes and reads none of them.
/// Stops: faulty validators that fill the list with what gives no key. About 1 ms with four validators, 11 ms with 64.
pub(super) fn dealing_holds(state: &State, signed: &SignedTransaction) -> bool {
    let Transaction::PostDealing { round, log } = &signed.transaction else {
        return true;
    };
    let all = state.validators().iter();
    let seats: Vec<[u8; 32]> = all.map(|it| *it.key.as_bytes()).collect();
    let dealer = check_dealing(state.network().as_bytes(), *round, &seats, log.as_bytes());
    let mut validators = state.validators().iter();
    let sender = validators.find(|it| it.address == signed.sender);
    sender.is_some_and(|it| dealer == Ok(*it.key.as_bytes()))
}

/// What a state says of seeds.
fn seed_view(state: &State) -> SeedView {
    let seeds = state.seeds();
    let key_of = |dealer| {
        let mut validators = state.validators().iter();
        let found = validators.find(|it| it.address == dealer);
        found.map(|it| *it.key.as_bytes())
    };
    let all = state.validators().iter().map(|it| *it.key.as_bytes());
    let phase = match &seeds.phase {
        SeedKeyPhase::Dealing => SeedPhase::Dealing {
            dealt: seeds
                .dealings
                .iter()
                .filter_map(|it| key_of(it.dealer))
                .collect(),
        },
        // Nobody deals any more.
        SeedKeyPhase::Closed => SeedPhase::Dealing {
            dealt: all.clone().collect(),
        },
        SeedKeyPhase::Ready { key, .. } => SeedPhase::Ready {
            key: *key,
            dealings: seeds
                .dealings
                .iter()
                .map(|it| it.log.as_bytes().to_vec())
                .collect(),
        },
    };
    SeedView {
        round: seeds.round,
        participants: all.collect(),
        phase,
        wanted: state.seeds_wanted().iter().map(|it| it.get()).collect(),
    }
}
