//! Which source is asked, and what is known of each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::source::ChainSource;
use crate::handle::NodeStatus;
use crate::liveness::steady_now;

/// How often every source is asked where it stands.
const WATCH: Duration = Duration::from_secs(2);

/// A source that gave nothing is not asked for so long, if there is another; twice as long each time, until it answers.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Most such doublings: about a minute.
const DOUBLINGS_MAX: u32 = 6;

/// How long a source may take for a page beyond the time for which it is told to wait: small pages of one that is near, and
/// those of one that is to give many blocks.
const PAGE_LATE: Duration = Duration::from_millis(500);
const LONG_PAGE_LATE: Duration = Duration::from_secs(10);

/// Blocks of a page that is small.
const NEAR: u64 = 8;

/// The same for one whose blocks did not hold.
const PAUSE_AFTER_LIE: Duration = Duration::from_secs(60);

/// A source may be so many blocks behind another before that one is asked.
const BEHIND_MAX: u64 = 3;

/// What is known of one source.
#[derive(Debug, Clone, Copy, Default)]
struct SourceRecord {
    /// The height that it says it has.
    tip: u64,
    /// Until when it is not asked, as it gave nothing.
    paused: Option<Instant>,
    /// Until when it is not asked, as it lied.
    banned: Option<Instant>,
    /// How often it gave nothing since it answered last.
    failures: u32,
}

impl SourceRecord {
    /// From when on it is asked, if not at once.
    fn asked_from(&self) -> Option<Instant> {
        self.paused.max(self.banned)
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.asked_from().is_some_and(|until| until > now)
    }

    /// The height that it says it has, of one that gave what it was asked for last: a height that nobody has costs nothing to say.
    fn believed_tip(&self, now: Instant) -> u64 {
        match self.failures > 0 || self.is_paused(now) {
            true => 0,
            false => self.tip,
        }
    }
}

/// The sources of a follower.
#[derive(Debug)]
pub(super) struct SourceList {
    all: Vec<Arc<dyn ChainSource>>,
    node_status: Arc<NodeStatus>,
    standing: Mutex<Vec<SourceRecord>>,
}

impl SourceList {
    pub(super) fn new(all: Vec<Arc<dyn ChainSource>>, node_status: Arc<NodeStatus>) -> Self {
        let standing = Mutex::new(vec![SourceRecord::default(); all.len()]);
        Self {
            all,
            node_status,
            standing,
        }
    }

    /// All of them, those that are not paused first.
    pub(super) fn in_turn(&self) -> Vec<Arc<dyn ChainSource>> {
        let now = Instant::now();
        let standing = self.standing().clone();
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|index| standing[*index].is_paused(now));
        order.iter().map(|index| self.all[*index].clone()).collect()
    }

    /// The one to ask for blocks above `height`: the first that is not paused and not far behind what another says. With all
    /// of them paused, this waits for the first whose pause ends.
    pub(super) async fn preferred(&self, height: u64) -> Arc<dyn ChainSource> {
        loop {
            let now = Instant::now();
            let standing = self.standing().clone();
            let asked = standing.iter().enumerate();
            let asked: Vec<(usize, &SourceRecord)> =
                asked.filter(|(_, it)| !it.is_paused(now)).collect();
            let best = asked.iter().map(|(_, it)| it.believed_tip(now)).max();
            let best = best.unwrap_or(0);
            let near = |it: &SourceRecord| it.tip.max(height).saturating_add(BEHIND_MAX) > best;
            let first = asked.iter().find(|(_, it)| near(it));
            if let Some((index, _)) = first.or(asked.first()) {
                return self.all[*index].clone();
            }
            let until = standing.iter().filter_map(SourceRecord::asked_from).min();
            let wait = until.map_or(WATCH, |until| until.saturating_duration_since(now));
            tokio::time::sleep(wait.min(WATCH)).await;
        }
    }

    /// How long a source may take for a page from a height on if it is told to wait for `wait`. One that is cut off answers
    /// nothing and closes nothing: while blocks come, the next one is asked half a second after it should have answered.
    pub(super) fn patience(&self, from: u64, wait: Duration) -> Duration {
        let now = Instant::now();
        let best = self.standing().iter().map(|it| it.believed_tip(now)).max();
        let is_near = best.unwrap_or(0) <= from + NEAR;
        wait + if is_near { PAGE_LATE } else { LONG_PAGE_LATE }
    }

    /// Notes that a source gave what it was asked for, and the height that it says it has.
    pub(super) fn heard(&self, source: &Arc<dyn ChainSource>, tip: u64) {
        if let Some(index) = self.index(source) {
            let mut standing = self.standing();
            // It is back.
            standing[index].failures = 0;
            standing[index].paused = None;
        }
        self.told(source, tip);
    }

    /// Notes the height that a source says it has, which is all that it gave. Stops: one that says a height that nobody has and gives no block of it,
    /// whose pauses would end with every word of it.
    fn told(&self, source: &Arc<dyn ChainSource>, tip: u64) {
        let Some(index) = self.index(source) else {
            return;
        };
        self.standing()[index].tip = tip;
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(index as u64).to_le_bytes());
        self.node_status.heard(key, tip, steady_now());
    }

    /// Notes that a source gave nothing.
    pub(super) fn failed(&self, source: &Arc<dyn ChainSource>, reason: &str) {
        tracing::debug!(
            source = source.name(),
            reason,
            "source is left alone for a while"
        );
        let Some(index) = self.index(source) else {
            return;
        };
        let mut standing = self.standing();
        let record = &mut standing[index];
        let pause = PAUSE_AFTER_FAILURE * 2_u32.pow(record.failures.min(DOUBLINGS_MAX));
        record.failures = record.failures.saturating_add(1);
        record.paused = Some(Instant::now() + pause);
        // What it said counts for nothing.
        record.tip = 0;
    }

    /// Notes that what a source gave does not hold.
    pub(super) fn lied(&self, source: &Arc<dyn ChainSource>, reason: &str) {
        tracing::warn!(
            source = source.name(),
            reason,
            "source is not asked for a minute"
        );
        if let Some(index) = self.index(source) {
            self.standing()[index] = SourceRecord {
                banned: Some(Instant::now() + PAUSE_AFTER_LIE),
                ..SourceRecord::default()
            };
        }
    }

    fn index(&self, source: &Arc<dyn ChainSource>) -> Option<usize> {
        self.all.iter().position(|it| Arc::ptr_eq(it, source))
    }

    fn standing(&self) -> MutexGuard<'_, Vec<SourceRecord>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks every source where it stands, over and over. Never ends.
    pub(super) async fn watch(&self) {
        loop {
            for source in &self.all {
                // Nothing has this height: the answer is the source's own.
                let call = source.page(u64::MAX, Duration::ZERO);
                match tokio::time::timeout(WATCH, call).await {
                    Ok(Ok(page)) => self.told(source, page.tip),
                    Ok(Err(error)) => self.failed(source, &error.to_string()),
                    Err(_) => self.failed(source, "it does not say where it stands"),
                }
            }
            self.node_status.forget_silent(steady_now());
            tokio::time::sleep(WATCH).await;
        }
    }
}
