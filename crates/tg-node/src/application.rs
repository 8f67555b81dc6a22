//! The loop around [`Core`], and the mailbox through which consensus calls it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use commonware_actor::Feedback;
use commonware_codec::{Decode as _, Encode as _};
use commonware_consensus::simplex::Plan;
use commonware_consensus::simplex::types::{Activity, Finalization};
use commonware_consensus::{
    Automaton, CertifiableAutomaton, Epochable as _, Relay, Reporter, Viewable as _,
};
use commonware_cryptography::certificate::Verifier as _;
use commonware_cryptography::sha256;
use commonware_macros::select_loop;
use commonware_p2p::{Blocker, Receiver, Recipients, Sender};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock as RuntimeClock, Metrics, Spawner};
use commonware_utils::channel::{mpsc, oneshot};
use commonware_utils::ordered::Set;
use rand_core::CryptoRng;
use tg_types::chain::{Equivocation, TrustRoot, VoteCertificate, VoteKind};
use tg_types::{BlockId, Heartbeat, TimestampMs};

use crate::blob::{BlobError, BlobStore};
use crate::canary::{NodeCanary, is_armed};
use crate::clock::{Clock, WallClock};
use crate::core::{Core, Effect, Fatal};
use crate::cpu::thread_cpu_time;
use crate::evidence::{CheckError, EvidenceChecker};
use crate::faults::{self, CertifiedViews};
use crate::fetch::{Need, NeededFor};
use crate::handle::NodeStatus;
use crate::key::public_bytes;
use crate::limits::{HEARTBEATS_MAX, MAILBOX_MAX, PUBLIC_MODEL_BYTES_MAX};
use crate::peers::{Peer, Proposal, Scheme, block_id};
use crate::signer::VoteSigner;
use crate::submit::Submission;
use crate::term::{SeatTerm, SeatedPeer};
use tg_ledger::{EvidenceTask, Outcome};

/// Messages handled before the machine makes progress once for all of them.
const BATCH: usize = 64;

/// What consensus tells the application.
pub(crate) enum Message {
    Propose {
        context: Proposal,
        reply: oneshot::Sender<sha256::Digest>,
    },
    Verify {
        context: Proposal,
        digest: sha256::Digest,
        reply: oneshot::Sender<bool>,
    },
    Broadcast {
        digest: sha256::Digest,
        recipients: Recipients<Peer>,
    },
    Finalized {
        id: BlockId,
        certificate: Vec<u8>,
    },
    /// A view was skipped, by this certificate.
    Skipped(Vec<u8>),
    Fault(Box<Activity<Scheme, sha256::Digest>>),
    /// Two certificates that contradict each other.
    Contradiction(Box<[VoteCertificate; 2]>),
}

/// Consensus' side of the application.
#[derive(Clone)]
pub(crate) struct Mailbox {
    messages: mpsc::Sender<Message>,
    node_status: Arc<NodeStatus>,
    certified: Arc<Mutex<CertifiedViews>>,
}

impl Mailbox {
    pub(crate) fn new(node_status: Arc<NodeStatus>) -> (Self, mpsc::Receiver<Message>) {
        let (messages, receiver) = mpsc::channel(MAILBOX_MAX);
        (
            Self {
                messages,
                node_status,
                certified: Arc::default(),
            },
            receiver,
        )
    }

    /// Compares a certificate with those of its view before it: where two contradict each other, the loop is told.
    fn compare(&self, kind: VoteKind, bytes: &[u8]) {
        let Ok(new) = VoteCertificate::read(kind, bytes) else {
            tracing::error!(?kind, "a certificate of consensus cannot be read");
            return;
        };
        let certified = self.certified.lock();
        let mut certified = certified.unwrap_or_else(PoisonError::into_inner);
        let old = certified.add(new.clone());
        drop(certified);
        if let Some(old) = old {
            let _ = self.send(Message::Contradiction(Box::new([old, new])));
        }
    }

    /// Sends without waiting. A lost finalisation is covered by the next one, a lost broadcast by a fetch.
    fn send(&self, message: Message) -> Feedback {
        match self.messages.try_send(message) {
            Ok(()) => Feedback::Ok,
            Err(mpsc::error::TrySendError::Full(_)) => {
                tracing::warn!("application loop is behind, a message of consensus was dropped");
                Feedback::Backoff
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Feedback::Closed,
        }
    }
}

impl Automaton for Mailbox {
    type Context = Proposal;
    type Digest = sha256::Digest;

    async fn propose(&mut self, context: Proposal) -> oneshot::Receiver<sha256::Digest> {
        let (reply, receiver) = oneshot::channel();
        // A closed loop drops the reply, which declines the view.
        let _ = self
            .messages
            .send(Message::Propose { context, reply })
            .await;
        receiver
    }

    async fn verify(
        &mut self,
        context: Proposal,
        digest: sha256::Digest,
    ) -> oneshot::Receiver<bool> {
        let (reply, receiver) = oneshot::channel();
        let message = Message::Verify {
            context,
            digest,
            reply,
        };
        // A closed loop drops the reply: no vote is cast.
        let _ = self.messages.send(message).await;
        receiver
    }
}

/// Certification is left to its default: f + 1 honest voters hold a notarised body on disk.
impl CertifiableAutomaton for Mailbox {}

impl Relay for Mailbox {
    type Digest = sha256::Digest;
    type PublicKey = Peer;
    type Plan = Plan<Peer>;

    fn broadcast(&mut self, digest: sha256::Digest, plan: Plan<Peer>) -> Feedback {
        let recipients = match plan {
            Plan::Prepare { .. } | Plan::Propose { .. } => Recipients::All,
            Plan::Forward { recipients, .. } => recipients,
        };
        self.send(Message::Broadcast { digest, recipients })
    }
}

impl Reporter for Mailbox {
    type Activity = Activity<Scheme, sha256::Digest>;

    fn report(&mut self, activity: Self::Activity) -> Feedback {
        let view = activity.view().get();
        match activity {
            Activity::Finalization(finalization) => {
                self.node_status
                    .update(|status| status.view = status.view.max(view));
                let certificate = finalization.encode().to_vec();
                self.compare(VoteKind::Finalize, &certificate);
                self.send(Message::Finalized {
                    id: block_id(&finalization.proposal.payload),
                    certificate,
                })
            }
            Activity::Notarization(notarization) if is_armed(NodeCanary::NotarizedIsFinal) => self
                .send(Message::Finalized {
                    id: block_id(&notarization.proposal.payload),
                    certificate: notarization.encode().to_vec(),
                }),
            Activity::Notarization(_) => {
                self.node_status
                    .update(|status| status.view = status.view.max(view));
                Feedback::Ok
            }
            Activity::Nullification(nullification) => {
                self.node_status
                    .update(|status| status.view = status.view.max(view));
                let certificate = nullification.encode().to_vec();
                self.compare(VoteKind::Nullify, &certificate);
                self.send(Message::Skipped(certificate))
            }
            fault @ (Activity::ConflictingNotarize(_)
            | Activity::ConflictingFinalize(_)
            | Activity::NullifyFinalize(_)) => self.send(Message::Fault(Box::new(fault))),
            Activity::Notarize(_)
            | Activity::Nullify(_)
            | Activity::Finalize(_)
            | Activity::Certification(_) => Feedback::Ok,
        }
    }
}

/// What the loop is made of.
pub(crate) struct Application<E> {
    pub(crate) context: E,
    pub(crate) core: Core,
    pub(crate) node_status: Arc<NodeStatus>,
    pub(crate) clock: Clock,
    pub(crate) wall: WallClock,
    /// By how much the wall clock was said to have jumped.
    pub(crate) jumped: Option<i64>,
    pub(crate) blobs: Arc<BlobStore>,
    /// Tells the fetching loop which blob a check waits for.
    pub(crate) urgent: mpsc::Sender<Need>,
    pub(crate) checker: Arc<dyn EvidenceChecker>,
    pub(crate) scheme: Scheme,
    pub(crate) participants: Set<Peer>,
    pub(crate) signer: VoteSigner,
    /// Tells consensus which set votes from now on.
    pub(crate) terms: mpsc::Sender<SeatTerm>,
    /// Tells whoever dials the validators.
    pub(crate) seated: mpsc::Sender<Vec<SeatedPeer>>,
}

/// Where the loop's inputs come from and its messages go.
pub(crate) struct Ports<B, S, R> {
    pub(crate) messages: mpsc::Receiver<Message>,
    pub(crate) submissions: mpsc::Receiver<Submission>,
    /// Heartbeats that reached this node first.
    pub(crate) beats: mpsc::Receiver<Heartbeat>,
    pub(crate) blocks: (S, R),
    pub(crate) transactions: (S, R),
    pub(crate) seeds: (S, R),
    pub(crate) blocker: B,
}

/// Where the machine's effects go.
struct Outlets<B, S> {
    blocks: S,
    transactions: S,
    seeds: S,
    blocker: B,
    checked: mpsc::Sender<Checked>,
}

/// What came, and what came after it by now.
fn with_waiting<T>(first: T, rest: &mut mpsc::Receiver<T>) -> impl Iterator<Item = T> {
    std::iter::once(first).chain(std::iter::from_fn(|| rest.try_recv().ok()))
}

/// What a node takes in that others send without being asked.
#[derive(Debug, Clone, Copy)]
enum Intake {
    Blocks,
    Transactions,
    Seeds,
    Submissions,
    Beats,
}

/// Which had their turn in this round: each has one before any has another. Stops: a peer whose messages are always there, so
/// that nothing else is ever taken in.
#[derive(Debug, Default)]
struct IntakeTurns([AtomicBool; 5]);

impl IntakeTurns {
    /// What is taken in, unless it had its turn.
    async fn of<F: Future>(&self, intake: Intake, taken: F) -> F::Output {
        let had = &self.0[intake as usize];
        if had.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let taken = taken.await;
        had.store(true, Ordering::Relaxed);
        taken
    }

    /// Ready once one has had its turn: those that come before it in the loop are not.
    async fn round(&self) {
        if !self.0.iter().any(|had| had.load(Ordering::Relaxed)) {
            std::future::pending::<()>().await;
        }
    }

    /// Begins the next round.
    fn begin(&self) {
        for had in &self.0 {
            had.store(false, Ordering::Relaxed);
        }
    }
}

type Checked = (EvidenceTask, Result<Outcome, CheckError>);

impl<E: RuntimeClock + CryptoRng + Spawner + Metrics> Application<E> {
    /// Runs until the runtime stops, consensus ends, or the machine must stop.
    pub(crate) async fn run<B, S, R>(mut self, ports: Ports<B, S, R>) -> Result<(), Fatal>
    where
        B: Blocker<PublicKey = Peer>,
        S: Sender<PublicKey = Peer>,
        R: Receiver<PublicKey = Peer>,
    {
        let Ports {
            mut messages,
            mut submissions,
            mut beats,
            blocks: (blocks, mut block_receiver),
            transactions: (transactions, mut transaction_receiver),
            seeds: (seeds, mut seed_receiver),
            blocker,
        } = ports;
        let (checked_sender, mut checked) = mpsc::channel::<Checked>(MAILBOX_MAX);
        let mut outlets = Outlets {
            blocks,
            transactions,
            seeds,
            blocker,
            checked: checked_sender,
        };
        let mut wake = self.now();
        let (mut open, mut beating) = (true, true);
        let turns = IntakeTurns::default();
        // The first branch that is ready is taken, so those behind it would have no turn while one before them always is.
        select_loop! {
            self.context,
            on_stopped => {},
            Some(message) = messages.recv() else break => {
                let now = self.now();
                for message in with_waiting(message, &mut messages).take(BATCH) {
                    self.message(message, now)?;
                }
            },
            Ok((peer, bytes)) = turns.of(Intake::Blocks, block_receiver.recv()) else break => {
                let now = self.now();
                self.core.block_message(&peer, bytes.as_ref(), now)?;
            },
            Some((task, result)) = checked.recv() else break => {
                let now = self.now();
                self.core.checked(&task, result, now);
            },
            Ok((peer, bytes)) = turns.of(Intake::Transactions, transaction_receiver.recv()) else break => {
                let now = self.now();
                self.core.transaction_message(&peer, bytes.as_ref(), now);
            },
            Ok((peer, bytes)) = turns.of(Intake::Seeds, seed_receiver.recv()) else break => {
                self.core.seed_message(&peer, bytes.as_ref());
            },
            submission = turns.of(Intake::Submissions, next(&mut submissions, open)) => match submission {
                Some(first) => self.submitted(first, &mut submissions),
                // All handles are gone; the validator goes on without clients.
                None => open = false,
            },
            beat = turns.of(Intake::Beats, next(&mut beats, beating)) => match beat {
                Some(beat) => self.core.send_heartbeats(
                    with_waiting(beat, &mut beats).take(HEARTBEATS_MAX).collect(),
                ),
                None => beating = false,
            },
            () = turns.round() => turns.begin(),
            _ = self.context.sleep_until(self.clock.steady(wake)) => {},
            on_end => {
                let now = self.now();
                wake = self.core.progress(now)?;
                for effect in self.core.effects() {
                    self.act(effect, &mut outlets).await;
                }
            },
        }
        Ok(())
    }

    /// Does what the machine wants done.
    async fn act<B, S>(&mut self, effect: Effect, outlets: &mut Outlets<B, S>)
    where
        B: Blocker<PublicKey = Peer>,
        S: Sender<PublicKey = Peer>,
    {
        match effect {
            Effect::Block(recipients, bytes) => {
                outlets.blocks.send(recipients, bytes, true);
            }
            Effect::Transactions(recipients, bytes) => {
                outlets.transactions.send(recipients, bytes, false);
            }
            Effect::Seed(recipients, bytes) => {
                outlets.seeds.send(recipients, bytes, false);
            }
            Effect::Check(task) => self.check(task, outlets.checked.clone()),
            Effect::CheckFinal(certificate) => self.check_final(&certificate),
            Effect::Turn(term) => self.turn(term).await,
            Effect::Ban(peer, reason) => {
                commonware_p2p::block!(outlets.blocker, peer, reason);
            }
        }
    }

    /// Takes what clients have submitted by now, so that the others are told of it in one message.
    fn submitted(&mut self, first: Submission, rest: &mut mpsc::Receiver<Submission>) {
        let now = self.now();
        for submission in with_waiting(first, rest).take(BATCH) {
            self.core.submit(submission, now);
        }
    }

    fn message(&mut self, message: Message, now: TimestampMs) -> Result<(), Fatal> {
        match message {
            Message::Propose { context, reply } => self.core.ask_proposal(context, reply, now),
            Message::Verify {
                context,
                digest,
                reply,
            } => self.core.ask_vote(context, &digest, reply, now),
            Message::Broadcast { digest, recipients } => {
                return self.core.broadcast(&digest, recipients);
            }
            Message::Finalized { id, certificate } => {
                self.compare_on_disk(VoteKind::Finalize, &certificate);
                self.core.finalised(id, certificate);
            }
            Message::Skipped(certificate) => {
                self.compare_on_disk(VoteKind::Nullify, &certificate);
            }
            Message::Fault(activity) => self.fault(&activity),
            Message::Contradiction(certificates) => self.contradiction(&certificates),
        }
        Ok(())
    }

    /// Takes a block as final if a quorum of this epoch signed it.
    fn check_final(&mut self, certificate: &[u8]) {
        let limit = self.scheme.certificate_codec_config();
        let decoded =
            Finalization::<Scheme, sha256::Digest>::decode_cfg(certificate.to_vec(), &limit);
        let Ok(decoded) = decoded else { return };
        let is_of_epoch = decoded.epoch().get() == self.core.epoch();
        if is_of_epoch && decoded.verify(&mut self.context, &self.scheme, &Sequential) {
            self.compare_on_disk(VoteKind::Finalize, certificate);
            let id = block_id(&decoded.proposal.payload);
            self.core.finalised(id, certificate.to_vec());
        }
    }

    /// Goes on with another set of validators.
    async fn turn(&mut self, term: SeatTerm) {
        self.participants = term.participants();
        self.scheme = self.signer.of(&self.participants);
        let count = self.participants.len();
        self.node_status.update(|status| status.validators = count);
        // Without somebody who dials, there is nobody to tell.
        let _ = self.seated.try_send(self.core.seated());
        // Consensus ended, and with it soon this loop.
        let _ = self.terms.send(term).await;
    }

    /// Notes a validator that signed what contradicts itself, and what shows it. The signatures are checked first.
    fn fault(&mut self, activity: &Activity<Scheme, sha256::Digest>) {
        let Some((signer, votes)) = faults::votes(activity) else {
            return;
        };
        if !activity.verify(&mut self.context, &self.scheme, &Sequential) {
            return;
        }
        let index = usize::try_from(signer.get()).unwrap_or(usize::MAX);
        let Some(peer) = self.participants.iter().nth(index) else {
            return;
        };
        let [first, second] = votes;
        let proof = Equivocation {
            seat: public_bytes(peer),
            first,
            second,
        };
        self.convict(&proof);
    }

    /// Compares a certificate whose signatures hold with those on disk, and keeps a nullification there.
    fn compare_on_disk(&self, kind: VoteKind, certificate: &[u8]) {
        match self.core.compare_on_disk((kind, certificate)) {
            Ok(None) => {}
            Ok(Some(certificates)) => self.contradiction(&certificates),
            Err(error) => {
                tracing::error!(?kind, %error, "a certificate is not compared with those on disk");
            }
        }
    }

    /// Notes every validator of this epoch that signed both of two certificates which contradict each other.
    fn contradiction(&self, [first, second]: &[VoteCertificate; 2]) {
        let keys = self.participants.iter().map(public_bytes).collect();
        let latest = self.node_status.latest().state.trust_root();
        let Ok(root) = latest.and_then(|it| TrustRoot::new(it.genesis(), keys)) else {
            return;
        };
        // Of an epoch before this one the places may be of other seats: then signatures do not hold, and nobody is convicted.
        for proof in root.equivocations(first, second) {
            self.convict(&proof);
        }
    }

    /// Notes what convicts a validator, and keeps it on disk.
    fn convict(&self, proof: &Equivocation) {
        let seat = tg_types::digest::hex(&proof.seat);
        if self.node_status.convict(*proof) {
            tracing::warn!(%seat, "validator signed conflicting votes");
            if let Err(error) = self.core.keep_fault(proof) {
                tracing::error!(%seat, %error, "the conflicting votes are not on disk");
            }
        }
    }

    /// Checks evidence on a thread that may block.
    fn check(&self, task: EvidenceTask, done: mpsc::Sender<Checked>) {
        let (checker, blobs) = (self.checker.clone(), self.blobs.clone());
        let urgent = self.urgent.clone();
        let context = self.context.child("evidence").shared(true);
        context.spawn(move |_| async move {
            let check = AssertUnwindSafe(|| checker.check(&task, &blobs));
            let before = thread_cpu_time();
            let result = std::panic::catch_unwind(check).unwrap_or_else(|_| {
                tracing::error!(?task, "evidence checker panicked");
                Err(CheckError::Panicked)
            });
            let took = thread_cpu_time().saturating_sub(before);
            let cpu_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            let is_decided = result.is_ok();
            tracing::debug!(target: "tg_node::check", subject = %task.subject(), is_decided, cpu_us, "evidence was looked at");
            if let Err(
                CheckError::Missing { digest } | CheckError::Blob(BlobError::Damaged { digest }),
            ) = &result
            {
                // With many at once, the next try of the check asks again.
                let _ = urgent.try_send(Need {
                    digest: *digest,
                    limit: PUBLIC_MODEL_BYTES_MAX,
                    exact: None,
                    used_for: NeededFor::Results,
                });
            }
            // The loop may have stopped meanwhile.
            let _ = done.send((task, result)).await;
        });
    }

    /// The time by the wall clock, as far as it is trusted.
    fn now(&mut self) -> TimestampMs {
        let steady = self.context.current();
        let reading = self.clock.read(self.wall.read(steady), steady);
        if reading.set || self.jumped != reading.jumped {
            self.jumped = reading.jumped;
            match reading.jumped {
                Some(by) => tracing::warn!(by, "wall clock jumped: no proposals and votes"),
                None => tracing::info!(now = %reading.now, "wall clock is trusted"),
            }
            self.node_status
                .update(|status| status.clock_jumped_ms = reading.jumped);
            self.core.clock(reading.jumped.is_none(), reading.set);
        }
        reading.now
    }
}

/// What a handle sends next; never, once all handles are gone.
async fn next<T>(receiver: &mut mpsc::Receiver<T>, open: bool) -> Option<T> {
    if open {
        receiver.recv().await
    } else {
        std::future::pending().await
    }
}
