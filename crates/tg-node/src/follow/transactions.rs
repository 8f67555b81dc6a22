//! Transactions of a follower's clients: checked on its own state, kept while they wait, handed on until they are final.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tg_ledger::TransactionError;
use tg_types::{Decode as _, Heartbeat, SignedTransaction, TimestampMs, TransactionId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::source::{ChainSource, SourceError};
use super::sources::SourceList;
use crate::chain::{self, Executed};
use crate::handle::NodeStatus;
use crate::limits::{GOSSIP_TRANSACTIONS_MAX, REGOSSIP_INTERVAL, SENDERS_LOOKED_AT_MAX};
use crate::liveness::steady_now;
use crate::mempool::{Admission, Arrival, Mempool, Origin, TransactionStatus};
use crate::submit::{Submission, SubmitError};

/// How long a source may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Calls to sources that are under way at once, of what waits and of heartbeats.
const CALLS_AT_ONCE: usize = 16;

/// Transactions that wait.
#[derive(Debug)]
pub(super) struct WaitingTransactions {
    pool: Mutex<Mempool>,
    node_status: Arc<NodeStatus>,
    /// To how many sources each is handed, so that one of them is honest.
    enough: usize,
}

impl WaitingTransactions {
    pub(super) fn new(tip: &Executed, node_status: Arc<NodeStatus>, enough: usize) -> Self {
        Self {
            pool: Mutex::new(Mempool::new(
                tip.state.base_fee(),
                node_status.nonces().clone(),
            )),
            node_status,
            enough,
        }
    }

    /// To how many sources each is handed.
    pub(super) const fn enough(&self) -> usize {
        self.enough
    }

    fn pool(&self) -> MutexGuard<'_, Mempool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what a new final state has no place for.
    pub(super) fn prune(&self, tip: &Executed) {
        let state = &tip.state;
        let mut pool = self.pool();
        pool.prune(
            |sender| chain::standing(state, sender),
            |prepaid| state.is_owed(prepaid),
            state.base_fee(),
            steady_now(),
        );
        let holds =
            |signed: &_| tg_ledger::check_transaction(state, signed, self.node_status.signatures());
        pool.forget_refused(SENDERS_LOOKED_AT_MAX, holds);
        self.note_dropped(&mut pool);
    }

    fn note_dropped(&self, pool: &mut Mempool) {
        for (id, reason) in pool.take_dropped() {
            self.node_status
                .note(id, TransactionStatus::Dropped(reason));
        }
        let count = pool.len();
        self.node_status.update(|status| status.mempool = count);
    }

    /// Checks a transaction on the last final state and keeps it.
    fn admit(
        &self,
        signed: SignedTransaction,
        now: TimestampMs,
    ) -> Result<(TransactionId, Admission), SubmitError> {
        let state = self.node_status.latest().state.clone();
        let id = chain::check(&state, &signed, self.node_status.signatures())?;
        let sender = signed.sender;
        let standing = chain::standing(&state, &signed.lane())
            .ok_or(SubmitError::Refused(TransactionError::NoAccount { sender }))?;
        let arrival = Arrival {
            id,
            takes: tg_ledger::gas::most_taken(state.parameters(), &signed),
            signed,
            at: now,
            origin: Origin::Local,
        };
        let mut pool = self.pool();
        let admission = pool.insert(arrival, standing);
        self.note_dropped(&mut pool);
        drop(pool);
        let admission = admission.map_err(SubmitError::Mempool)?;
        if admission == Admission::New {
            self.node_status.note(id, TransactionStatus::Waiting);
        }
        Ok((id, admission))
    }
}

/// Takes what clients submit, and hands on again what waits. Ends when nobody can submit any more.
pub(super) async fn hand_on(
    sources: &Arc<SourceList>,
    waiting: &Arc<WaitingTransactions>,
    mut submissions: mpsc::Receiver<Submission>,
) {
    let mut again = tokio::time::interval(REGOSSIP_INTERVAL);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rounds = JoinSet::new();
    loop {
        tokio::select! {
            submission = submissions.recv() => {
                let Some(submission) = submission else { return };
                let (sources, waiting) = (sources.clone(), waiting.clone());
                // Beside the others: a source may take its time.
                tokio::spawn(async move { take(&sources, &waiting, submission).await });
            }
            // Beside what clients submit: one source that never answers holds up a round for minutes.
            _ = again.tick(), if rounds.is_empty() => {
                rounds.spawn(hand_on_again(sources.clone(), waiting.clone()));
            }
            Some(_) = rounds.join_next() => {}
        }
    }
}

/// Hands on what waits once more.
async fn hand_on_again(sources: Arc<SourceList>, waiting: Arc<WaitingTransactions>) {
    let all = waiting.pool().local(GOSSIP_TRANSACTIONS_MAX);
    let mut calls = JoinSet::new();
    for bytes in all {
        let Ok(signed) = SignedTransaction::from_bytes(&bytes) else {
            continue;
        };
        if calls.len() >= CALLS_AT_ONCE {
            calls.join_next().await;
        }
        let (sources, enough) = (sources.clone(), waiting.enough);
        // Refused where it is final already, or by a source that is behind.
        calls.spawn(async move { spread(&sources, enough, &signed).await });
    }
    while calls.join_next().await.is_some() {}
}

/// Hands on heartbeats that reached this node, to so many sources that one of them is honest. Ends when nobody can beat any more.
pub(super) async fn tell_heartbeats(
    sources: &Arc<SourceList>,
    enough: usize,
    mut beats: mpsc::Receiver<Heartbeat>,
) {
    let mut calls = JoinSet::new();
    while let Some(beat) = beats.recv().await {
        while calls.try_join_next().is_some() {}
        if calls.len() >= CALLS_AT_ONCE {
            calls.join_next().await;
        }
        let asked: Vec<_> = sources.in_turn().into_iter().take(enough).collect();
        // Beside the others: a source may take its time, and all providers of this node are lost if their beats wait for it.
        calls.spawn(tell(asked, beat));
    }
}

/// Hands a heartbeat to all of these at once: one that takes its time is waited for by none of the others, of which one is honest.
async fn tell(asked: Vec<Arc<dyn ChainSource>>, beat: Heartbeat) {
    let mut calls = JoinSet::new();
    for source in asked {
        calls.spawn(async move {
            // The next one follows in ten seconds.
            let call = tokio::time::timeout(ANSWER_MAX, source.heartbeat(beat)).await;
            if !matches!(call, Ok(Ok(()))) {
                tracing::debug!(source = source.name(), "heartbeat is not taken");
            }
        });
    }
    while calls.join_next().await.is_some() {}
}

async fn take(sources: &SourceList, waiting: &WaitingTransactions, submission: Submission) {
    let Submission { signed, reply } = submission;
    let admitted = waiting.admit(signed.clone(), steady_now());
    if let Ok((_, Admission::New)) = admitted {
        // It waits here all the same: sources that are away get it later.
        if let Err(error) = spread(sources, waiting.enough, &signed).await {
            tracing::debug!(%error, "transaction is handed on later");
        }
    }
    // A client that went away does not take its transaction back.
    let _ = reply.send(admitted.map(|(id, _)| id));
}

/// Hands a transaction to `enough` sources that take it: to as many at once, and to another for each that does not. One that is
/// cut off, and answers nothing for seconds, then holds up nobody.
async fn spread(
    sources: &SourceList,
    enough: usize,
    signed: &SignedTransaction,
) -> Result<(), SourceError> {
    let mut calls = JoinSet::new();
    let call = |source: Arc<dyn ChainSource>, calls: &mut JoinSet<_>| {
        let signed = signed.clone();
        calls.spawn(async move { (hand(&source, &signed).await, source) });
    };
    let mut others = sources.in_turn().into_iter();
    for source in others.by_ref().take(enough) {
        call(source, &mut calls);
    }
    let mut last = Ok(());
    let mut is_taken = false;
    while let Some(answer) = calls.join_next().await {
        match answer {
            Ok((Ok(()), _)) => is_taken = true,
            Ok((Err(error), source)) => {
                if let SourceError::Unreachable(reason) = &error {
                    sources.failed(&source, reason);
                }
                last = Err(error);
                if let Some(source) = others.next() {
                    call(source, &mut calls);
                }
            }
            // The runtime stops.
            Err(_) => {}
        }
    }
    if is_taken { Ok(()) } else { last }
}

async fn hand(
    source: &Arc<dyn ChainSource>,
    signed: &SignedTransaction,
) -> Result<(), SourceError> {
    let call = source.submit(signed.clone());
    let answer = tokio::time::timeout(ANSWER_MAX, call).await;
    answer.unwrap_or_else(|_| Err(SourceError::Unreachable("it does not answer".to_owned())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::future::pending;
    use std::time::Instant;

    use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
    use tg_types::{ChainDomain, Digest, Wallet};

    use super::super::source::SourceFuture;
    use super::*;
    use crate::blob::BlobStore;

    /// A source that takes heartbeats, or never answers.
    #[derive(Debug)]
    struct Beaten(Option<mpsc::UnboundedSender<Heartbeat>>);

    impl ChainSource for Beaten {
        fn name(&self) -> &str {
            "of this test"
        }

        fn page(&self, _from: u64, _wait: Duration) -> SourceFuture<'_, ChainPage> {
            Box::pin(pending())
        }

        fn snapshot(&self) -> SourceFuture<'_, Option<(SnapshotHead, Vec<u8>)>> {
            Box::pin(pending())
        }

        fn seat_changes(&self, _above: u64) -> SourceFuture<'_, SeatChanges> {
            Box::pin(pending())
        }

        fn checkpoint(&self, _height: u64) -> SourceFuture<'_, Option<CheckpointBlock>> {
            Box::pin(pending())
        }

        fn submit(&self, _signed: SignedTransaction) -> SourceFuture<'_, ()> {
            Box::pin(pending())
        }

        fn heartbeat(&self, heartbeat: Heartbeat) -> SourceFuture<'_, ()> {
            Box::pin(async move {
                match &self.0 {
                    Some(taken) => {
                        taken.send(heartbeat).unwrap();
                        Ok(())
                    }
                    None => pending().await,
                }
            })
        }

        fn blob(
            &self,
            _digest: Digest,
            _limit: u64,
            _store: Arc<BlobStore>,
        ) -> SourceFuture<'_, bool> {
            Box::pin(pending())
        }
    }

    #[tokio::test]
    async fn a_source_that_never_answers_delays_no_heartbeat() {
        let (sender, mut taken) = mpsc::unbounded_channel();
        let domain = ChainDomain {
            chain_id: 1,
            verifying_contract: Wallet::from_seed(b"contract").address(),
            salt: [7; 32],
        };
        let wallet = Wallet::from_seed(b"provider");
        let beat = Heartbeat::new(TimestampMs::new(5), &wallet, &domain);
        let asked: Vec<Arc<dyn ChainSource>> = vec![
            Arc::new(Beaten(None)),
            Arc::new(Beaten(None)),
            Arc::new(Beaten(Some(sender))),
        ];
        let since = Instant::now();
        let telling = tokio::spawn(tell(asked, beat));
        assert_eq!(taken.recv().await, Some(beat));
        assert!(since.elapsed() < ANSWER_MAX);
        telling.abort();
    }
}
