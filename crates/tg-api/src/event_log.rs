//! The events of the newest blocks, from which streams are told: one that broke off goes on after the last event that came.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tg_sdk::dto::EventDto;
use tg_types::{JobId, LeaseId};
use tokio::sync::watch;

use crate::port::FinalizedEvents;

/// Events that are kept of all blocks together, of about half a kilobyte each.
const KEPT_MAX: usize = 20_000;

/// Where an event stands among all: the height of its block and its place in it, which are the same on every node.
///
/// As text it is `HEIGHT-INDEX`, or `HEIGHT` for the end of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventPlace {
    height: u64,
    /// Nothing for the end of the block.
    index: u32,
}

/// No block has so many events.
const END: u32 = u32::MAX;

/// A text is no place of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of an event is the height of its block and its place in it, such as 1200-3")]
pub(crate) struct EventPlaceError;

impl EventPlace {
    /// The place of an event of a block.
    pub(crate) fn of(height: u64, index: usize) -> Self {
        Self {
            height,
            index: u32::try_from(index).unwrap_or(END),
        }
    }

    const fn end_of(height: u64) -> Self {
        Self { height, index: END }
    }

    /// How many events of its block are not after it.
    fn told(self) -> usize {
        usize::try_from(self.index).map_or(usize::MAX, |it| it.saturating_add(1))
    }

    /// The first height of which there may be events after it.
    const fn next_height(self) -> u64 {
        match self.index {
            END => self.height.saturating_add(1),
            _ => self.height,
        }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            END => write!(f, "{}", self.height),
            index => write!(f, "{}-{index}", self.height),
        }
    }
}

impl FromStr for EventPlace {
    type Err = EventPlaceError;

    fn from_str(text: &str) -> Result<Self, EventPlaceError> {
        let number = |it: &str| it.parse::<u64>().map_err(|_| EventPlaceError);
        match text.split_once('-') {
            None => Ok(Self::end_of(number(text)?)),
            Some((height, index)) => Ok(Self {
                height: number(height)?,
                index: index.parse().map_err(|_| EventPlaceError)?,
            }),
        }
    }
}

/// An event as streams send it.
#[derive(Debug)]
pub(crate) struct RenderedEvent {
    /// The job it concerns.
    pub(crate) job: Option<JobId>,
    /// The lease it concerns.
    pub(crate) lease: Option<LeaseId>,
    /// What happened.
    pub(crate) kind: String,
    /// All of it, as JSON.
    pub(crate) data: String,
}

impl RenderedEvent {
    pub(crate) fn of(event: &EventDto) -> Self {
        Self {
            job: event.job,
            lease: event.lease,
            kind: event.kind.clone(),
            data: serde_json::to_string(event).unwrap_or_default(),
        }
    }
}

/// The events of a block. Stops: streams that have all that is kept rendered anew, each for a request of some bytes.
#[derive(Debug)]
pub(crate) struct RenderedBlock {
    pub(crate) height: u64,
    pub(crate) events: Vec<RenderedEvent>,
}

/// What is kept after a place.
#[derive(Debug)]
pub(crate) struct EventsAfter {
    /// Whether some may be missing before the first of these.
    pub(crate) is_lost: bool,
    /// The height from which on none is missing.
    pub(crate) since: u64,
    /// Blocks with events, oldest first, and how many events of each are not after the place.
    pub(crate) blocks: Vec<(Arc<RenderedBlock>, usize)>,
    /// The end of the newest block.
    pub(crate) end: EventPlace,
    /// The time of the newest block.
    pub(crate) end_ms: u64,
}

/// The events of the newest blocks.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    kept: Mutex<KeptEvents>,
    noted: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct KeptEvents {
    /// Those with events, oldest first.
    blocks: VecDeque<Arc<RenderedBlock>>,
    /// How many events they have.
    events: usize,
    /// Nothing before the first block, and after blocks may have been missed.
    span: Option<KeptSpan>,
}

/// Of which blocks nothing is missing.
#[derive(Debug, Clone, Copy)]
struct KeptSpan {
    since: u64,
    newest: u64,
    newest_ms: u64,
}

impl EventLog {
    fn kept(&self) -> MutexGuard<'_, KeptEvents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the events of the next block, which are rendered here for all streams.
    pub(crate) fn note(&self, block: &FinalizedEvents, events: &[EventDto]) {
        let rendered = RenderedBlock {
            height: block.height,
            events: events.iter().map(RenderedEvent::of).collect(),
        };
        self.kept().note(rendered, block.timestamp_ms);
        self.noted.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// That blocks may have been missed.
    pub(crate) fn lost(&self) {
        *self.kept() = KeptEvents::default();
    }

    /// Tells of every block that is noted from now on.
    pub(crate) fn noted(&self) -> watch::Receiver<u64> {
        self.noted.subscribe()
    }

    /// The end of the newest block; nothing before the first one.
    pub(crate) fn end(&self) -> Option<EventPlace> {
        let span = self.kept().span?;
        Some(EventPlace::end_of(span.newest))
    }

    /// What is kept after a place, or all that is; nothing before the first block.
    pub(crate) fn after(&self, place: Option<EventPlace>) -> Option<EventsAfter> {
        let kept = self.kept();
        let span = kept.span?;
        // A place that this node has not seen is of another history, or of a node that is ahead: only what comes is told.
        let is_ahead = place.is_some_and(|it| it.height > span.newest);
        let place = match is_ahead {
            true => Some(EventPlace::end_of(span.newest)),
            false => place,
        };
        let from = place.map_or(0, EventPlace::next_height);
        let first = kept.blocks.partition_point(|it| it.height < from);
        let blocks = kept.blocks.range(first..).map(|block| {
            let is_begun = place.filter(|it| it.height == block.height);
            (Arc::clone(block), is_begun.map_or(0, EventPlace::told))
        });
        Some(EventsAfter {
            is_lost: is_ahead || place.is_some_and(|it| it.next_height() < span.since),
            since: span.since,
            blocks: blocks.collect(),
            end: EventPlace::end_of(span.newest),
            end_ms: span.newest_ms,
        })
    }
}

impl KeptEvents {
    fn note(&mut self, block: RenderedBlock, timestamp_ms: u64) {
        let next = self.span.map(|it| it.newest.saturating_add(1));
        if next.is_some_and(|it| it != block.height) {
            // A node that begins anew at a later state has not seen what was between.
            *self = Self::default();
        }
        self.span = Some(KeptSpan {
            since: self.span.map_or(block.height, |it| it.since),
            newest: block.height,
            newest_ms: timestamp_ms,
        });
        if !block.events.is_empty() {
            self.events = self.events.saturating_add(block.events.len());
            self.blocks.push_back(Arc::new(block));
        }
        while self.events > KEPT_MAX {
            let Some(forgotten) = self.blocks.pop_front() else {
                break;
            };
            self.events = self.events.saturating_sub(forgotten.events.len());
            if let Some(span) = &mut self.span {
                span.since = forgotten.height.saturating_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use tg_ledger::Event;

    use super::*;
    use crate::view;

    fn block(height: u64, events: usize) -> FinalizedEvents {
        let event = Event::ReplicasDiffer {
            lease: LeaseId::new([1; 32]),
            job: JobId::new([1; 32]),
        };
        FinalizedEvents {
            height,
            timestamp_ms: height * 1_000,
            events: Arc::new(vec![event; events]),
        }
    }

    fn note(log: &EventLog, height: u64, events: usize) {
        let block = block(height, events);
        log.note(&block, &view::events(&block));
    }

    fn log(blocks: &[(u64, usize)]) -> EventLog {
        let log = EventLog::default();
        for &(height, events) in blocks {
            note(&log, height, events);
        }
        log
    }

    /// Whether some are lost, and the ids of what follows.
    fn after(log: &EventLog, place: &str) -> (bool, Vec<String>) {
        let after = log.after(Some(place.parse().unwrap())).unwrap();
        let ids = after.blocks.iter().flat_map(|(block, told)| {
            let ids = (*told)..block.events.len();
            ids.map(|it| EventPlace::of(block.height, it).to_string())
        });
        (after.is_lost, ids.collect())
    }

    fn check(log: &EventLog, place: &str, is_lost: bool, ids: &[&str]) {
        let ids = ids.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(after(log, place), (is_lost, ids), "after {place}");
    }

    #[test]
    fn what_came_after_an_event_is_told_once() {
        let log = log(&[(7, 2), (8, 0), (9, 1)]);
        check(&log, "7-0", false, &["7-1", "9-0"]);
        check(&log, "7-1", false, &["9-0"]);
        check(&log, "7", false, &["9-0"]);
        check(&log, "8", false, &["9-0"]);
        check(&log, "9-0", false, &[]);
        assert_eq!(log.end().unwrap().to_string(), "9");
        check(&log, "9", false, &[]);
    }

    #[test]
    fn what_is_not_kept_is_said_to_be_lost() {
        let log = log(&[(7, 2), (8, 1)]);
        // The end of the block before the first that came has nothing after it that did not come.
        check(&log, "6", false, &["7-0", "7-1", "8-0"]);
        check(&log, "6-0", true, &["7-0", "7-1", "8-0"]);
        check(&log, "3", true, &["7-0", "7-1", "8-0"]);
        // Nothing is known of blocks that are not there.
        check(&log, "9-0", true, &[]);
        note(&log, 9, KEPT_MAX);
        assert_eq!(after(&log, "8").1.len(), KEPT_MAX);
        assert!(!after(&log, "8").0 && after(&log, "8-0").0);
        // Blocks are missing between, or may be.
        note(&log, 12, 1);
        check(&log, "9-5", true, &["12-0"]);
        log.lost();
        assert!(log.after(None).is_none() && log.end().is_none());
        note(&log, 13, 1);
        check(&log, "12", false, &["13-0"]);
        check(&log, "12-0", true, &["13-0"]);
    }

    #[test]
    fn the_events_of_a_block_are_rendered_once_for_all_streams() {
        let log = log(&[(7, 2)]);
        let told = || log.after(None).unwrap().blocks.remove(0).0;
        assert!(Arc::ptr_eq(&told(), &told()));
        let block = told();
        let event = &block.events[1];
        assert_eq!(event.job, Some(JobId::new([1; 32])));
        assert!(event.data.contains("\"height\":7"), "{}", event.data);
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["0", "7", "7-0", "18446744073709551615-4"] {
            let place: EventPlace = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
        }
        for text in ["", "-", "7-", "-1", "7-1-2", "a", "7-x", "1e3"] {
            assert_eq!(text.parse::<EventPlace>(), Err(EventPlaceError), "{text}");
        }
    }
}
