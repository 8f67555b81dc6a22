//! Which source is asked, and what is known of each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tg_ledger::limits::EPOCH_BLOCKS;
use tg_types::chain::{BLOCK_BYTES_MAX, ChainPage, PAGE_BLOCKS_MAX, PAGE_BYTES_MAX};

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

/// How long a source may take for blocks that it said it has, before it counts as one that holds them back.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long a source that held blocks back counts as one that has no more than it gave.
const SHORT_REMEMBERED: Duration = Duration::from_secs(60);

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
    /// What it gave although it says that it has more, and until when it counts as having no more than that.
    short: Option<(u64, Instant)>,
    /// Whether the last page that it gave was as large as pages become.
    is_large: bool,
}

impl SourceRecord {
    /// From when on it is asked, if not at once.
    fn asked_from(&self) -> Option<Instant> {
        self.paused.max(self.banned)
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.asked_from().is_some_and(|until| until > now)
    }

    /// The height that it says it has, or no more than it gave if it held blocks back.
    fn claimed_tip(&self, now: Instant) -> u64 {
        match self.short {
            // Stops: one that says a height that nobody has, gives a block of the others now and then, and so is asked in their place.
            Some((given, until)) if until > now => self.tip.min(given),
            _ => self.tip,
        }
    }

    fn is_failing(&self, now: Instant) -> bool {
        self.failures > 0 || self.is_paused(now)
    }

    /// The same, of one that gave what it was asked for last: a height that nobody has costs nothing to say.
    fn believed_tip(&self, now: Instant) -> u64 {
        match self.is_failing(now) {
            true => 0,
            false => self.claimed_tip(now),
        }
    }

    /// It is back.
    const fn answers(&mut self) {
        self.failures = 0;
        self.paused = None;
    }

    /// It gave a page, by which the height `height` was reached.
    fn gave(&mut self, height: u64, page: &GivenPage, now: Instant) {
        self.answers();
        self.tip = page.tip;
        self.short = page.is_short.then(|| (height, now + SHORT_REMEMBERED));
        self.is_large = page.is_large;
    }
}

/// The place of the source to ask: the first that is not paused and not far behind what another says. Nothing if all are paused.
fn chosen(standing: &[SourceRecord], now: Instant) -> Option<usize> {
    let asked = standing.iter().enumerate();
    let asked: Vec<(usize, &SourceRecord)> = asked.filter(|(_, it)| !it.is_paused(now)).collect();
    let best = asked.iter().map(|(_, it)| it.believed_tip(now)).max();
    let best = best.unwrap_or(0);
    // By what it says alone: one that lost its chain does not have what is here.
    let near = |it: &SourceRecord| it.claimed_tip(now).saturating_add(BEHIND_MAX) > best;
    let first = asked.iter().find(|(_, it)| near(it));
    first.or(asked.first()).map(|(index, _)| *index)
}

/// How long the source at a place may take for a page from a height on, beyond the time for which it is told to wait: long for many
/// blocks, if a second source says that there are so many, or it gave a large page before. Stops: one that says a height that
/// nobody has, and then takes its time. One that did not come to an end in time has more the next time.
fn lateness(standing: &[SourceRecord], index: usize, from: u64, now: Instant) -> Duration {
    let is_far = |tip: u64| tip > from.saturating_add(NEAR);
    let of = standing[index];
    if is_far(shared_tip(standing, now)) || of.is_large && is_far(of.claimed_tip(now)) {
        return LONG_PAGE_LATE;
    }
    let late = PAGE_LATE * 2_u32.pow(of.failures.min(DOUBLINGS_MAX));
    late.min(LONG_PAGE_LATE)
}

/// The height that a second source says it has too; with one that answers, what that one says.
fn shared_tip(standing: &[SourceRecord], now: Instant) -> u64 {
    let answering = standing.iter().filter(|it| !it.is_failing(now));
    let mut tips: Vec<u64> = answering.map(|it| it.claimed_tip(now)).collect();
    tips.sort_unstable_by(|a, b| b.cmp(a));
    tips.get(1).or(tips.first()).copied().unwrap_or(0)
}

/// What a page of blocks says of the source that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivenPage {
    /// The height that the source says it has.
    tip: u64,
    /// Whether it has more that fits, or had it before: it holds blocks back.
    is_short: bool,
    /// Whether it is as large as pages become.
    is_large: bool,
}

impl GivenPage {
    /// Of a page with blocks from `from` on, of a source that had said `claimed` before it was asked.
    pub(super) fn of(page: &ChainPage, (from, claimed): (u64, u64), elapsed: Duration) -> Self {
        let count = page.blocks.len();
        let last = from.saturating_add(count as u64).saturating_sub(1);
        let bytes: usize = page.blocks.iter().map(|it| it.0.len()).sum();
        // A page ends where the next block does not fit, and with an epoch.
        let is_large = count >= PAGE_BLOCKS_MAX || bytes > PAGE_BYTES_MAX - BLOCK_BYTES_MAX;
        let is_whole = is_large || last.is_multiple_of(EPOCH_BLOCKS);
        let is_late = claimed >= from && elapsed > AT_ONCE;
        Self {
            tip: page.tip,
            is_short: !is_whole && (page.tip > last || is_late),
            is_large,
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

    /// The one to ask for blocks: the first that is not paused and not far behind what another says. With all of them paused, this
    /// waits for the first whose pause ends.
    pub(super) async fn preferred(&self) -> Arc<dyn ChainSource> {
        loop {
            let now = Instant::now();
            let standing = self.standing().clone();
            if let Some(index) = chosen(&standing, now) {
                return self.all[index].clone();
            }
            let until = standing.iter().filter_map(SourceRecord::asked_from).min();
            let wait = until.map_or(WATCH, |until| until.saturating_duration_since(now));
            tokio::time::sleep(wait.min(WATCH)).await;
        }
    }

    /// The height that a source said last that it has.
    pub(super) fn claimed(&self, source: &Arc<dyn ChainSource>) -> u64 {
        self.index(source)
            .map_or(0, |index| self.standing()[index].tip)
    }

    /// How long a source may take for a page from a height on if it is told to wait for `wait`. One that is cut off answers
    /// nothing and closes nothing: while blocks come, the next one is asked half a second after it should have answered.
    pub(super) fn patience(
        &self,
        source: &Arc<dyn ChainSource>,
        from: u64,
        wait: Duration,
    ) -> Duration {
        let late = self.index(source).map_or(PAGE_LATE, |index| {
            lateness(&self.standing(), index, from, Instant::now())
        });
        wait + late
    }

    /// Notes that a source has nothing beyond what is here, and the height that it says it has.
    pub(super) fn heard(&self, source: &Arc<dyn ChainSource>, tip: u64) {
        if let Some(index) = self.index(source) {
            self.standing()[index].answers();
        }
        self.told(source, tip);
    }

    /// Notes that a source gave blocks that hold, by which the height `height` was reached.
    pub(super) fn gave(&self, source: &Arc<dyn ChainSource>, height: u64, page: &GivenPage) {
        if let Some(index) = self.index(source) {
            self.standing()[index].gave(height, page, Instant::now());
        }
        self.told(source, page.tip);
    }

    /// Notes the height that a source says it has, which is all that it gave. Stops: one that says a height that nobody has and gives
    /// no block of it, whose pauses would end with every word of it.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_types::chain::BlockBytes;

    use super::*;

    /// A height that nobody has.
    const NOBODYS: u64 = 1 << 40;

    /// A source that says this height.
    fn at(tip: u64) -> SourceRecord {
        SourceRecord {
            tip,
            ..SourceRecord::default()
        }
    }

    /// What is known of a source that gave so many blocks after 100 within this time, and says this height.
    fn given(count: usize, (claimed, tip): (u64, u64), elapsed: Duration) -> GivenPage {
        let mut page = ChainPage::empty(tip);
        page.blocks = vec![BlockBytes(vec![0; 100]); count];
        GivenPage::of(&page, (101, claimed), elapsed)
    }

    #[test]
    fn a_source_that_says_a_height_that_nobody_has_is_asked_once() {
        let now = Instant::now();
        let mut standing = [at(NOBODYS), at(100), at(100)];
        // Nobody else says that it has so much.
        assert_eq!(chosen(&standing, now), Some(0));
        // One block of the many that it says it has.
        let page = given(1, (NOBODYS, NOBODYS), Duration::ZERO);
        assert!(page.is_short);
        standing[0].gave(101, &page, now);
        // The others went on meanwhile.
        (standing[1].tip, standing[2].tip) = (110, 108);
        assert_eq!(chosen(&standing, now), Some(1));
        // It says its height over and over.
        standing[0].tip = NOBODYS;
        assert_eq!(chosen(&standing, now), Some(1));
        assert_eq!(chosen(&standing, now + SHORT_REMEMBERED), Some(0));
        // As good as the others as long as it is not behind.
        standing[0].gave(108, &given(8, (108, 108), Duration::ZERO), now);
        assert_eq!(chosen(&standing, now), Some(0));
    }

    #[test]
    fn a_height_that_one_source_says_alone_gives_it_no_time() {
        let now = Instant::now();
        let late = |standing: &[SourceRecord], index| lateness(standing, index, 101, now);
        // Alone it is believed: there is nobody else.
        assert_eq!(late(&[at(NOBODYS)], 0), LONG_PAGE_LATE);
        let beside = [at(NOBODYS), at(100), at(90)];
        assert_eq!(late(&beside, 0), PAGE_LATE);
        assert_eq!(late(&beside, 1), PAGE_LATE);
        // Two say that there are many blocks.
        assert_eq!(late(&[at(5_000), at(4_000)], 0), LONG_PAGE_LATE);
        let mut failing = at(100);
        failing.failures = 1;
        assert_eq!(late(&[failing, at(5_000)], 1), LONG_PAGE_LATE);
        // Beside one that lost its chain, or says so, an honest one with a slow line is given more time each time, and keeps it.
        let mut slow = at(5_000);
        for failures in 0..8 {
            slow.failures = failures;
            let given = late(&[slow, at(0), at(0)], 0);
            let expected = PAGE_LATE * 2_u32.pow(failures.min(DOUBLINGS_MAX));
            assert_eq!(given, expected.min(LONG_PAGE_LATE));
        }
        let page = given(PAGE_BLOCKS_MAX, (5_000, 5_000), Duration::from_secs(9));
        slow.gave(164, &page, now);
        assert_eq!(late(&[slow, at(0)], 0), LONG_PAGE_LATE);
        // A small one takes that back.
        slow.gave(165, &given(1, (100, 101), Duration::ZERO), now);
        slow.tip = NOBODYS;
        assert_eq!(late(&[slow, at(105)], 0), PAGE_LATE);
    }

    #[test]
    fn a_source_that_lost_its_chain_is_left() {
        let now = Instant::now();
        // It answers that there is nothing beyond what is here, after two seconds each time.
        for tip in [0, 97] {
            let standing = [at(tip), at(100)];
            assert_eq!(chosen(&standing, now), Some(1), "{tip}");
        }
        assert_eq!(chosen(&[at(98), at(100)], now), Some(0));
        // Rather one that is behind than none.
        let mut paused = at(100);
        paused.paused = Some(now + Duration::from_secs(1));
        assert_eq!(chosen(&[at(0), paused], now), Some(0));
        assert_eq!(chosen(&[paused], now), None);
        assert_eq!(chosen(&[paused], now + Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn pages_that_hold_blocks_back_are_told_from_those_that_end() {
        let (soon, late) = (Duration::ZERO, AT_ONCE + Duration::from_millis(1));
        for (count, heights, elapsed, is_short) in [
            // All that there is, and what came while it was waited for.
            (1, (101, 101), soon, false),
            (1, (100, 101), late, false),
            (1, (100, 102), soon, true),
            // It said that it has it.
            (1, (101, 101), late, true),
            (PAGE_BLOCKS_MAX, (5_000, 5_000), late, false),
        ] {
            let page = given(count, heights, elapsed);
            assert_eq!(page.is_short, is_short, "{count} {heights:?} {elapsed:?}");
        }
        let mut page = ChainPage::empty(5_000);
        page.blocks = vec![BlockBytes(vec![0; BLOCK_BYTES_MAX]); 4];
        assert!(!GivenPage::of(&page, (101, 5_000), late).is_short);
        page.blocks.truncate(2);
        assert!(GivenPage::of(&page, (EPOCH_BLOCKS, 5_000), soon).is_short);
        assert!(!GivenPage::of(&page, (EPOCH_BLOCKS - 1, 5_000), soon).is_short);
    }
}
