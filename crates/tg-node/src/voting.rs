//! When this validator votes, and from where: consensus starts at the newest finality certificate, and only with the
//! journal of the votes that were cast.
//!
//! # Without the journal
//!
//! Votes are journaled before they are sent. A validator whose journal is gone does not know what it signed, and could sign
//! the opposite, which convicts it. So it *abstains*: it follows certificates and signs nothing, neither votes for blocks nor
//! votes to leave a view, until a block is final whose height is a multiple of [`VOTE_EPOCH`] and at least
//! [`ABSTAIN_MARGIN`] above the final height that `f + 1` of the others told, of whom one is honest. Then it starts a new
//! journal at the newest certificate and votes in later views only. The height is kept on disk, so that stopping and starting
//! in between shortens nothing.
//!
//! Why this is enough: it voted only in views that it had entered, and it enters a view by a certificate of the view before,
//! which `f + 1` honest validators signed; so its last vote is at most one view ahead of theirs. Each final block is of a
//! later view than its parent, and [`ABSTAIN_MARGIN`] of them lie between what was final and where it starts again.
//!
//! # When more than `f` journals are gone
//!
//! Then the rest is no quorum, no block becomes final and nobody may vote again: the operators must start a new *consensus
//! epoch*. Votes name their epoch, so those of the new one contradict none of the old. It begins at the highest final block
//! that any of the stores holds; blocks that were not final are left, and their transactions may be sent again. All
//! validators must use the same number and block, and nobody may go on in the old one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use commonware_codec::Decode as _;
use commonware_consensus::simplex::types::Finalization;
use commonware_consensus::simplex::{
    self, Engine, Floor, ForwardPolicy, SkipBudget, SkipPolicy, elector::RoundRobin,
};
use commonware_consensus::types::{Epoch, ViewDelta};
use commonware_consensus::{Epochable as _, Viewable as _};
use commonware_cryptography::certificate::Verifier as _;
use commonware_cryptography::{Sha256, sha256};
use commonware_p2p::{Blocker, Message, Receiver, Sender};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_utils::channel::mpsc;
use commonware_utils::{NZDuration, NZU16, NZUsize};
use rand_core::CryptoRng;
use tg_types::BlockId;

use crate::application::Mailbox;
use crate::handle::Board;
use crate::limits::{ABSTAIN_MARGIN, Timers, VOTE_EPOCH};
use crate::peers::{Peer, Scheme, payload};
use crate::store::{History, Store, StoreError};

/// How long consensus waits for connected peers before it starts without them.
const START_WAIT_MAX: Duration = Duration::from_secs(3);

/// How often it looks.
const START_POLL: Duration = Duration::from_millis(20);

/// How often an abstaining validator looks whether it may vote again.
const ABSTAIN_POLL: Duration = Duration::from_millis(100);

/// Messages of consensus that wait for an abstaining validator's engine.
const TAP_MAX: usize = 1_024;

/// Consensus of one validator before it runs.
pub(crate) struct Consensus<B> {
    pub(crate) store: Arc<Store>,
    pub(crate) board: Arc<Board>,
    pub(crate) signer: Scheme,
    /// The same without the key.
    pub(crate) watcher: Scheme,
    pub(crate) mailbox: Mailbox,
    /// Locked since blockers may be used by one thread at a time.
    pub(crate) blocker: Mutex<B>,
    pub(crate) genesis: BlockId,
    pub(crate) timers: Timers,
    /// Names journals within the runtime's storage.
    pub(crate) partition: String,
    pub(crate) history: History,
    pub(crate) validators: usize,
}

/// The channels of consensus.
pub(crate) struct Lines<S, R> {
    pub(crate) votes: (S, R),
    pub(crate) certificates: (S, R),
    pub(crate) resolver: (S, R),
}

/// How a validator takes part when it starts.
enum Part {
    /// With the journal of this name.
    Vote(String),
    /// Without one, until this height, if it is known.
    Abstain(Option<u64>),
}

impl<B: Blocker<PublicKey = Peer>> Consensus<B> {
    /// Runs until the runtime stops or consensus ends.
    pub(crate) async fn run<E, S, R>(self, context: E, lines: Lines<S, R>) -> Result<(), StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
        R: Receiver<PublicKey = Peer>,
    {
        let quorum = quorum_of_others(self.validators);
        match self.part(&context).await? {
            Part::Vote(journal) => {
                self.await_peers(&context, quorum).await;
                let config = self.config(&context, self.signer.clone(), journal)?;
                let engine = Engine::new(context.child("engine"), config);
                let ended = engine
                    .start(lines.votes, lines.certificates, lines.resolver)
                    .await;
                tracing::error!(?ended, "consensus ended");
            }
            Part::Abstain(until) => {
                tracing::warn!("the journal of votes is gone: this validator abstains");
                self.board
                    .update(|status| status.abstains_until = Some(until.unwrap_or(0)));
                self.await_peers(&context, quorum).await;
                self.abstain(&context, lines, until).await?;
            }
        }
        Ok(())
    }

    /// Whether the journal that belongs to the store is there.
    async fn part<E: Storage>(&self, context: &E) -> Result<Part, StoreError> {
        let voting = self.store.voting()?;
        if let Some(until) = voting.abstains_until {
            return Ok(Part::Abstain((until > 0).then_some(until)));
        }
        let journal = format!("{}{}", self.partition, voting.journal_suffix());
        let is_there = context
            .scan(&journal)
            .await
            .is_ok_and(|sections| !sections.is_empty());
        if is_there || !voting.has_voted(self.store.height()?, self.history) {
            return Ok(Part::Vote(journal));
        }
        self.store.abstain_until(0)?;
        Ok(Part::Abstain(None))
    }

    /// Follows certificates without signing, and votes once the height is reached.
    async fn abstain<E, S, R>(
        self,
        context: &E,
        lines: Lines<S, R>,
        until: Option<u64>,
    ) -> Result<(), StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
        R: Receiver<PublicKey = Peer>,
    {
        let (vote_sender, certificate_sender, resolver_sender) = (
            lines.votes.0.clone(),
            lines.certificates.0.clone(),
            lines.resolver.0.clone(),
        );
        let mut taps = Taps::new(context, lines);
        let config = self.config(
            context,
            self.watcher.clone(),
            format!("watch-{}", self.partition),
        )?;
        let [votes, certificates, resolver] = taps.turn();
        let watcher = Engine::new(context.child("watcher"), config).start(
            (vote_sender.clone(), votes),
            (certificate_sender.clone(), certificates),
            (resolver_sender.clone(), resolver),
        );
        let until = match until {
            Some(until) => until,
            None => self.decide_until(context).await?,
        };
        self.board
            .update(|status| status.abstains_until = Some(until));
        tracing::warn!(until, "this validator votes again after this height");
        loop {
            let newest = self.store.newest_certificate()?;
            if newest.is_some_and(|(height, _)| height >= until) {
                break;
            }
            context.sleep(ABSTAIN_POLL).await;
        }
        watcher.abort();
        // An aborted task ends with an error that says so.
        let _ = watcher.await;
        // An old journal must never be taken for the newest, should the database be rebuilt one day.
        let old = format!(
            "{}{}",
            self.partition,
            self.store.voting()?.journal_suffix()
        );
        let removed = context.remove(&old, None).await;
        tracing::debug!(?removed, old, "old journal of votes");
        self.store.vote_again(until)?;
        let suffix = self.store.voting()?.journal_suffix();
        let journal = format!("{}{suffix}", self.partition);
        let config = self.config(context, self.signer.clone(), journal)?;
        let [votes, certificates, resolver] = taps.turn();
        self.board.update(|status| status.abstains_until = None);
        tracing::info!(until, "this validator votes again");
        let ended = Engine::new(context.child("engine"), config)
            .start(
                (vote_sender, votes),
                (certificate_sender, certificates),
                (resolver_sender, resolver),
            )
            .await;
        tracing::error!(?ended, "consensus ended");
        Ok(())
    }

    /// Waits until enough others have told their height, and keeps the height up to which this validator abstains.
    async fn decide_until<E: Clock>(&self, context: &E) -> Result<u64, StoreError> {
        let one_honest = (self.validators - 1) / 3 + 1;
        let told = loop {
            if let Some(height) = self.board.told_by(one_honest) {
                break height;
            }
            context.sleep(ABSTAIN_POLL).await;
        };
        let until = votes_again(told.max(self.store.height()?));
        self.store.abstain_until(until)?;
        Ok(until)
    }

    /// Votes of the first view would be lost if nobody is connected yet, and the view with them.
    async fn await_peers<E: Clock>(&self, context: &E, quorum: usize) {
        let deadline = context.current() + START_WAIT_MAX;
        while self.board.peers() < quorum && context.current() < deadline {
            context.sleep(START_POLL).await;
        }
    }

    /// Where consensus starts: at the newest certificate of this epoch, else at the block where the epoch begins.
    fn floor<E: Metrics + CryptoRng>(
        &self,
        context: &E,
    ) -> Result<Floor<Scheme, sha256::Digest>, StoreError> {
        let voting = self.store.voting()?;
        let start = voting.anchor.map_or(self.genesis, |(_, id)| id);
        let genesis = Floor::Genesis(payload(&start));
        let Some((height, bytes)) = self.store.newest_certificate()? else {
            return Ok(genesis);
        };
        let limit = self.signer.certificate_codec_config();
        let decoded = Finalization::<Scheme, sha256::Digest>::decode_cfg(bytes, &limit).ok();
        let mut rng = context.child("floor");
        Ok(match decoded {
            Some(certificate)
                if certificate.epoch() == Epoch::new(voting.epoch)
                    && !certificate.view().is_zero()
                    && certificate.verify(&mut rng, &self.signer, &Sequential) =>
            {
                Floor::Finalized(certificate)
            }
            Some(certificate) if certificate.epoch() != Epoch::new(voting.epoch) => genesis,
            _ => {
                tracing::warn!(height, "stored certificate is damaged");
                genesis
            }
        })
    }

    fn config<E: Metrics + CryptoRng>(
        &self,
        context: &E,
        scheme: Scheme,
        partition: String,
    ) -> Result<Config<B>, StoreError> {
        let timers = self.timers;
        Ok(simplex::Config {
            scheme,
            elector: RoundRobin::<Sha256>::default(),
            blocker: self
                .blocker
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            automaton: self.mailbox.clone(),
            relay: self.mailbox.clone(),
            reporter: self.mailbox.clone(),
            track_historical_votes: true,
            strategy: Sequential,
            partition,
            mailbox_size: NZUsize!(1024),
            epoch: Epoch::new(self.store.voting()?.epoch),
            floor: self.floor(context)?,
            replay_buffer: NZUsize!(1024 * 1024),
            write_buffer: NZUsize!(64 * 1024),
            page_cache: CacheRef::new(NZU16!(16_384), NZUsize!(32)),
            leader_timeout: timers.leader,
            certification_timeout: timers.certification,
            timeout_retry: timers.retry,
            view_retention: ViewDelta::new(32),
            skip: SkipPolicy::Enabled {
                timeout: timers.skip,
                budget: SkipBudget::Participants,
            },
            fetch_timeout: NZDuration!(Duration::from_secs(1)),
            fetch_retry_delay: Duration::from_millis(100),
            forward: ForwardPolicy::SilentVoters,
        })
    }
}

type Config<B> = simplex::Config<
    Scheme,
    RoundRobin<Sha256>,
    B,
    sha256::Digest,
    Mailbox,
    Mailbox,
    Mailbox,
    Sequential,
>;

/// The height after which a validator without its journal votes again, if `final_height` is final.
const fn votes_again(final_height: u64) -> u64 {
    final_height
        .saturating_add(ABSTAIN_MARGIN)
        .saturating_add(VOTE_EPOCH - 1)
        / VOTE_EPOCH
        * VOTE_EPOCH
}

/// How many others make a quorum together with one validator.
const fn quorum_of_others(validators: usize) -> usize {
    validators - (validators - 1) / 3 - 1
}

type Slot = Arc<Mutex<Option<mpsc::Sender<Message<Peer>>>>>;

/// The receivers of consensus, so that one engine can follow another on the same channels.
struct Taps {
    slots: [Slot; 3],
}

/// One engine's share of a receiver.
#[derive(Debug)]
struct Tap(mpsc::Receiver<Message<Peer>>);

/// The channel was closed.
#[derive(Debug, thiserror::Error)]
#[error("the channel was closed")]
struct TapClosed;

impl Receiver for Tap {
    type Error = TapClosed;
    type PublicKey = Peer;

    async fn recv(&mut self) -> Result<Message<Peer>, TapClosed> {
        self.0.recv().await.ok_or(TapClosed)
    }

    fn capacity(&self) -> std::num::NonZeroUsize {
        NZUsize!(TAP_MAX)
    }
}

impl Taps {
    fn new<E, S, R>(context: &E, lines: Lines<S, R>) -> Self
    where
        E: Spawner,
        R: Receiver<PublicKey = Peer>,
    {
        let slots = [Slot::default(), Slot::default(), Slot::default()];
        let receivers = [lines.votes.1, lines.certificates.1, lines.resolver.1];
        for (slot, mut receiver) in slots.iter().cloned().zip(receivers) {
            context.child("tap").spawn(move |_| async move {
                while let Ok(message) = receiver.recv().await {
                    let sender = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    // A full or closed engine loses messages, as a network does.
                    if let Some(sender) = sender {
                        let _ = sender.try_send(message);
                    }
                }
            });
        }
        Self { slots }
    }

    /// Receivers for the next engine; those of the one before end.
    fn turn(&mut self) -> [Tap; 3] {
        self.slots.each_ref().map(|slot| {
            let (sender, receiver) = mpsc::channel(TAP_MAX);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
            Tap(receiver)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validator_abstains_to_a_boundary_above_what_is_final() {
        for (height, until) in [(0, 64), (55, 64), (56, 64), (57, 128), (63, 128), (64, 128)] {
            assert_eq!(votes_again(height), until, "{height}");
            assert!(until >= height + ABSTAIN_MARGIN);
        }
    }
}
