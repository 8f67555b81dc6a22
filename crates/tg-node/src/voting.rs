//! When this validator votes, and from where: consensus starts at the newest finality certificate, and only with the
//! journal of the votes that were cast.
//!
//! # Without the journal
//!
//! Votes are journaled before they are sent. A validator whose journal is gone does not know what it signed, and could sign
//! the opposite, which convicts it. So it *abstains*: it follows certificates and signs nothing, neither votes for blocks nor
//! votes to leave a view, until a block is final whose height is a multiple of [`VOTE_EPOCH`] and at least
//! [`ABSTAIN_MARGIN`] above a final height that honest ones of the others have: of `2 f + 1` that it has heard, the one that `f` are above. As
//! many must be there for any block to become final without it. Then it starts a new
//! journal at the newest certificate and votes in later views only. The height is kept on disk, so that stopping and starting
//! in between shortens nothing.
//!
//! Whose chain alone is gone has its journal still, but may not know its name yet: each epoch of another set of validators has
//! one of its own, and a chain that is fetched anew begins with the first. Once it comes to an epoch whose journal is there
//! it votes with that: who abstains makes none, and a journal is removed with its epoch and before another one of its epoch is begun.
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
use commonware_consensus::simplex::{self, Engine, Floor, ForwardPolicy, SkipBudget, SkipPolicy};
use commonware_consensus::types::{Epoch, ViewDelta};
use commonware_consensus::{Epochable as _, Viewable as _};
use commonware_cryptography::certificate::Verifier as _;
use commonware_cryptography::sha256;
use commonware_p2p::utils::mux::{Error as MuxError, MuxHandle, Muxer, SubReceiver, SubSender};
use commonware_p2p::{Blocker, Receiver, Sender};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Handle, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_utils::channel::mpsc;
use commonware_utils::ordered::Set;
use commonware_utils::{NZDuration, NZU16, NZUsize};
use rand_core::CryptoRng;
use tg_types::BlockId;

use crate::application::Mailbox;
use crate::handle::NodeStatus;
use crate::key::public_bytes;
use crate::leaders::{Leaders, leaders};
use crate::limits::{ABSTAIN_MARGIN, Timers, VOTE_EPOCH};
use crate::peers::{Peer, Scheme, payload};
use crate::signer::VoteSigner;
use crate::store::{History, Store, StoreError};
use crate::term::SeatTerm;

/// Views below the newest final one whose votes consensus keeps, to compare later ones with: half a minute of views of a second. Of each view it
/// keeps three votes of each seat in memory, about 600 bytes a seat, and a file of its journal open. The files are what bounds it: ten
/// validators in one process have 320 of the 1,024 descriptors that a process usually may have. Later votes of older views are not even read;
/// who has two certificates of such a view shows them to the ledger itself ([`tg_types::chain::VoteCertificate`]).
const VIEWS_KEPT: u64 = 32;

/// How long consensus waits for connected peers before it starts without them.
const START_WAIT_MAX: Duration = Duration::from_secs(3);

/// How often it looks.
const START_POLL: Duration = Duration::from_millis(20);

/// How often an abstaining validator looks whether it may vote again.
const ABSTAIN_POLL: Duration = Duration::from_millis(100);

/// Consensus of one validator before it runs.
pub(crate) struct Consensus<B> {
    pub(crate) store: Arc<Store>,
    pub(crate) node_status: Arc<NodeStatus>,
    pub(crate) signer: VoteSigner,
    /// Who votes in the present term.
    pub(crate) participants: Set<Peer>,
    /// The block whose id gives the order of leaders in it.
    pub(crate) ordered_by: BlockId,
    /// The terms that follow.
    pub(crate) terms: mpsc::Receiver<SeatTerm>,
    pub(crate) mailbox: Mailbox,
    /// Locked since blockers may be used by one thread at a time.
    pub(crate) blocker: Mutex<B>,
    pub(crate) genesis: BlockId,
    pub(crate) timers: Timers,
    /// Names journals within the runtime's storage.
    pub(crate) partition: String,
    pub(crate) history: History,
}

/// The channels of consensus.
pub(crate) struct Lines<S, R> {
    pub(crate) votes: (S, R),
    pub(crate) certificates: (S, R),
    pub(crate) resolver: (S, R),
}

/// How a validator takes part when a term begins, or it starts within one.
enum Part {
    /// With the journal of this name.
    Vote(String),
    /// Without one, until this height, if it is known.
    Abstain(Option<u64>),
}

/// Why a term is over for this validator.
enum Over {
    /// Another set votes.
    Next(SeatTerm),
    /// Consensus ended: the runtime or the application stops.
    Ended,
}

impl<B: Blocker<PublicKey = Peer>> Consensus<B> {
    /// Runs until the runtime stops or consensus ends.
    pub(crate) async fn run<E, S, R>(
        mut self,
        context: E,
        lines: Lines<S, R>,
    ) -> Result<(), StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
        R: Receiver<PublicKey = Peer>,
    {
        let mut epochs = EpochLines::new(&context, lines);
        let mut entered = false;
        loop {
            let over = match self.part(&context, entered).await? {
                Part::Vote(journal) => {
                    let scheme = self.signer.of(&self.participants);
                    self.vote(&context, &mut epochs, scheme, journal).await?
                }
                Part::Abstain(until) => {
                    tracing::warn!("the journal of votes is gone: this validator abstains");
                    self.node_status
                        .update(|status| status.abstains_until = Some(until.unwrap_or(0)));
                    self.abstain(&context, &mut epochs, until).await?
                }
            };
            let Over::Next(mut term) = over else {
                return Ok(());
            };
            // Who catches up passes several: only the last one counts.
            while let Ok(later) = self.terms.try_recv() {
                term = later;
            }
            self.participants = term.participants();
            self.ordered_by = term.ordered_by;
            entered = true;
            // It abstained as long as it had to: what it lost are votes of epochs that are over.
            // Stops: a set that shrinks while some abstain, who did so anew in each epoch until they were started again, and were no quorum without them.
            if self.store.voting()?.abstains_until.is_none() {
                self.history = History::New;
            }
        }
    }

    /// Whether the journal that belongs to the store is there. `entered`: an epoch has just begun for it, in which it did
    /// not abstain before.
    async fn part<E: Storage>(&self, context: &E, entered: bool) -> Result<Part, StoreError> {
        let voting = self.store.voting()?;
        let journal = format!("{}{}", self.partition, voting.journal_suffix());
        if voting.epoch > 0 {
            // Stops: the journal of the first epoch, left behind by a process that was killed as it ended: whoever loses its database later
            // takes it for a sign that no vote was lost.
            let _nothing_there = context.remove(&self.partition, None).await;
        }
        let is_there = context
            .scan(&journal)
            .await
            .is_ok_and(|sections| !sections.is_empty());
        match voting.abstains_until {
            None => {}
            Some(_) if entered && is_there => {
                tracing::info!(journal, "the journal of votes is there after all");
                self.store.vote_on()?;
            }
            Some(until) => return Ok(Part::Abstain((until > 0).then_some(until))),
        }
        if is_there || !voting.has_voted(self.store.height()?, self.history) {
            return Ok(Part::Vote(journal));
        }
        self.store.abstain_until(0)?;
        Ok(Part::Abstain(None))
    }

    /// Votes, or follows with a scheme that signs nothing, until the term is over.
    async fn vote<E, S>(
        &mut self,
        context: &E,
        epochs: &mut EpochLines<S>,
        scheme: Scheme,
        journal: String,
    ) -> Result<Over, StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
    {
        self.await_peers(context).await;
        self.node_status
            .update(|status| status.abstains_until = None);
        let engine = self.start(context, epochs, scheme, journal.clone());
        let Some(mut engine) = engine.await? else {
            return Ok(Over::Ended);
        };
        commonware_macros::select! {
            ended = &mut engine => {
                tracing::error!(?ended, "consensus ended");
                Ok(Over::Ended)
            },
            term = self.terms.recv() => {
                stop(engine).await;
                // Whoever tells of terms is gone: the epoch goes on.
                let Some(term) = term else {
                    return Ok(Over::Ended);
                };
                // No vote of this epoch is cast again.
                let removed = context.remove(&journal, None).await;
                tracing::debug!(?removed, journal, "journal of an epoch that ended");
                Ok(Over::Next(term))
            },
        }
    }

    /// Starts an engine in the present epoch; nothing if the network is gone.
    async fn start<E, S>(
        &self,
        context: &E,
        epochs: &mut EpochLines<S>,
        scheme: Scheme,
        journal: String,
    ) -> Result<Option<Handle<()>>, StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
    {
        let config = self.config(context, scheme, journal)?;
        let epoch = self.store.voting()?.epoch;
        let Some([votes, certificates, resolver]) = epochs.of(context, epoch).await else {
            return Ok(None);
        };
        let engine = Engine::new(context.child("engine"), config);
        Ok(Some(engine.start(votes, certificates, resolver)))
    }

    /// Follows certificates without signing, and votes once the height is reached; a term that ends meanwhile changes
    /// whose certificates they are.
    async fn abstain<E, S>(
        &mut self,
        context: &E,
        epochs: &mut EpochLines<S>,
        until: Option<u64>,
    ) -> Result<Over, StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
    {
        self.await_peers(context).await;
        let voting = self.store.voting()?;
        let watched = format!("watch-{}{}", self.partition, voting.journal_suffix());
        let scheme = self.signer.watcher(&self.participants);
        let Some(watcher) = self.start(context, epochs, scheme, watched).await? else {
            return Ok(Over::Ended);
        };
        let mut until = until;
        loop {
            if until.is_none() {
                until = self.decide_until()?;
            }
            let newest = self.store.newest_certificate()?.map(|(height, _)| height);
            if let Some(until) = until.filter(|until| newest.is_some_and(|it| it >= *until)) {
                stop(watcher).await;
                return self.vote_again(context, epochs, until).await;
            }
            commonware_macros::select! {
                () = context.sleep(ABSTAIN_POLL) => {},
                term = self.terms.recv() => {
                    stop(watcher).await;
                    return Ok(term.map_or(Over::Ended, Over::Next));
                },
            }
        }
    }

    /// Votes with a new journal, which begins at a height.
    async fn vote_again<E, S>(
        &mut self,
        context: &E,
        epochs: &mut EpochLines<S>,
        until: u64,
    ) -> Result<Over, StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        S: Sender<PublicKey = Peer>,
    {
        // An old journal must never be taken for the newest, should the database be rebuilt one day.
        let suffix = self.store.voting()?.journal_suffix();
        let old = format!("{}{suffix}", self.partition);
        let removed = context.remove(&old, None).await;
        tracing::debug!(?removed, old, "old journal of votes");
        self.store.vote_again(until)?;
        let suffix = self.store.voting()?.journal_suffix();
        let journal = format!("{}{suffix}", self.partition);
        tracing::info!(until, "this validator votes again");
        let scheme = self.signer.of(&self.participants);
        self.vote(context, epochs, scheme, journal).await
    }

    /// Once enough others have told their height: keeps the height up to which this validator abstains.
    fn decide_until(&self) -> Result<Option<u64>, StoreError> {
        let faults = (self.participants.len() - 1) / 3;
        let seats = self.participants.iter().map(public_bytes);
        let Some(told) = self.node_status.honestly_told(seats, faults) else {
            return Ok(None);
        };
        let until = votes_again(told.max(self.store.height()?));
        self.store.abstain_until(until)?;
        self.node_status
            .update(|status| status.abstains_until = Some(until));
        tracing::warn!(until, "this validator votes again after this height");
        Ok(Some(until))
    }

    /// Votes of the first view would be lost if nobody is connected yet, and the view with them.
    async fn await_peers<E: Clock>(&self, context: &E) {
        let quorum = quorum_of_others(self.participants.len());
        let deadline = context.current() + START_WAIT_MAX;
        while self.node_status.peers() < quorum && context.current() < deadline {
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
        let scheme = self.signer.watcher(&self.participants);
        let limit = scheme.certificate_codec_config();
        let decoded = Finalization::<Scheme, sha256::Digest>::decode_cfg(bytes, &limit).ok();
        let mut rng = context.child("floor");
        Ok(match decoded {
            Some(certificate)
                if certificate.epoch() == Epoch::new(voting.epoch)
                    && !certificate.view().is_zero()
                    && certificate.verify(&mut rng, &scheme, &Sequential) =>
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
            elector: leaders(&self.ordered_by),
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
            view_retention: ViewDelta::new(VIEWS_KEPT),
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

type Config<B> =
    simplex::Config<Scheme, Leaders, B, sha256::Digest, Mailbox, Mailbox, Mailbox, Sequential>;

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

/// Stops an engine and waits until it wrote what it had.
async fn stop(engine: Handle<()>) {
    engine.abort();
    // An aborted task ends with an error that says so.
    let _ = engine.await;
}

/// A sender and a receiver of one epoch.
type EpochLine<S> = (SubSender<S>, SubReceiver<Peer>);

/// The channels of consensus by epoch: messages of another epoch reach no engine, which would take their sender for a liar.
struct EpochLines<S: Sender<PublicKey = Peer>> {
    channels: [MuxHandle<S>; 3],
}

impl<S: Sender<PublicKey = Peer>> EpochLines<S> {
    fn new<E, R>(context: &E, lines: Lines<S, R>) -> Self
    where
        E: Spawner + Metrics,
        R: Receiver<PublicKey = Peer>,
    {
        let split = |name: &'static str, (sender, receiver): (S, R)| {
            let (muxer, handle) = Muxer::new(context.child(name), sender, receiver);
            muxer.start();
            handle
        };
        Self {
            channels: [
                split("votes", lines.votes),
                split("certificates", lines.certificates),
                split("resolver", lines.resolver),
            ],
        }
    }

    /// The channels of an epoch, once an engine that had them before has dropped them; nothing if the network is gone.
    async fn of<E: Clock>(&mut self, context: &E, epoch: u64) -> Option<[EpochLine<S>; 3]> {
        let [votes, certificates, resolver] = &mut self.channels;
        Some([
            registered(context, votes, epoch).await?,
            registered(context, certificates, epoch).await?,
            registered(context, resolver, epoch).await?,
        ])
    }
}

async fn registered<E: Clock, S: Sender<PublicKey = Peer>>(
    context: &E,
    channel: &mut MuxHandle<S>,
    epoch: u64,
) -> Option<EpochLine<S>> {
    loop {
        match channel.register(epoch).await {
            Ok(line) => return Some(line),
            // Parts of an engine that was stopped end a little later than it.
            Err(MuxError::AlreadyRegistered(_)) => context.sleep(START_POLL).await,
            Err(_) => return None,
        }
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
