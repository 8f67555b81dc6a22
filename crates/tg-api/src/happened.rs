//! What blocks did with jobs, as far as this node remembers: the newest events of all jobs together, since it serves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tg_sdk::dto::{EventDto, JobEventsDto};
use tg_types::{JobId, LeaseId};
use tokio::sync::watch;

use crate::event_log::EventLog;
use crate::port::{FinalizedEvents, GridPort};
use crate::view;

/// Events that are remembered, of about half a kilobyte each.
const REMEMBERED_MAX: usize = 20_000;

/// Most events of one job that are told, the newest.
const TOLD_MAX: usize = 1_000;

/// Wait before listening again after the node broke the stream off.
const AGAIN: Duration = Duration::from_millis(200);

/// The newest events of jobs, and those of all blocks.
#[derive(Debug, Default)]
pub(crate) struct JobEvents {
    remembered: Mutex<Remembered>,
    /// From which streams are told.
    pub(crate) log: EventLog,
}

#[derive(Debug, Default)]
struct Remembered {
    events: VecDeque<EventDto>,
    /// Height from which on nothing of any job is missing; nothing before the first block came.
    since: Option<u64>,
}

impl JobEvents {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        let remembered = self.remembered.lock();
        remembered.unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a block did.
    pub(crate) fn note(&self, block: &FinalizedEvents) {
        let events = view::events(block);
        self.log.note(block, &events);
        let mut remembered = self.remembered();
        remembered.since.get_or_insert(block.height);
        let of_jobs = |it: &EventDto| it.job.is_some() || it.lease.is_some();
        let events = events.into_iter().filter(of_jobs);
        remembered.events.extend(events);
        while remembered.events.len() > REMEMBERED_MAX {
            // What is left of its block is not all that the block did.
            let forgotten = remembered.events.pop_front();
            let whole_from = forgotten.map(|it| it.height.saturating_add(1));
            remembered.since = remembered.since.max(whole_from);
        }
    }

    /// That blocks may have been missed.
    fn lost(&self) {
        self.log.lost();
        self.remembered().since = None;
    }

    /// What is remembered of a job and its leases, oldest first.
    pub(crate) fn of(&self, job: &JobId, leases: &[LeaseId]) -> JobEventsDto {
        let remembered = self.remembered();
        let is_its = |it: &&EventDto| {
            it.job.as_ref() == Some(job) || it.lease.is_some_and(|it| leases.contains(&it))
        };
        let mut newest = remembered.events.iter().rev().filter(is_its);
        let mut items: Vec<EventDto> = newest.by_ref().take(TOLD_MAX).cloned().collect();
        items.reverse();
        // What is not told of a block leaves that block incomplete.
        let whole_from = newest.next().map(|it| it.height.saturating_add(1));
        JobEventsDto {
            items,
            // If it is not known of any height, it is of none.
            since: remembered
                .since
                .map(|it| whole_from.map_or(it, |from| from.max(it))),
        }
    }
}

/// Remembers what blocks do until the server stops.
pub(crate) async fn remember(
    events: Arc<JobEvents>,
    port: Arc<dyn GridPort>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let mut blocks = port.subscribe();
        loop {
            let block = tokio::select! {
                block = blocks.recv() => block,
                _ = stopping.wait_for(|&stop| stop) => return,
            };
            let Some(block) = block else {
                break;
            };
            events.note(&block);
        }
        events.lost();
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_ledger::Event;

    fn block(height: u64, jobs: &[u8]) -> FinalizedEvents {
        let ended = |&job: &u8| Event::ReplicasDiffer {
            lease: LeaseId::new([job; 32]),
            job: JobId::new([job; 32]),
        };
        FinalizedEvents {
            height,
            timestamp_ms: height * 1_000,
            events: Arc::new(jobs.iter().map(ended).collect()),
        }
    }

    #[test]
    fn the_newest_events_are_remembered_and_it_is_known_from_where_on() {
        let events = JobEvents::default();
        assert_eq!(events.of(&JobId::new([1; 32]), &[]).since, None);
        events.note(&block(7, &[1, 2]));
        events.note(&block(8, &[1]));
        let first = events.of(&JobId::new([1; 32]), &[]);
        let heights: Vec<u64> = first.items.iter().map(|it| it.height).collect();
        assert_eq!((heights, first.since), (vec![7, 8], Some(7)));
        events.note(&block(9, &vec![3; REMEMBERED_MAX]));
        let first = events.of(&JobId::new([1; 32]), &[]);
        assert_eq!((first.items.len(), first.since), (0, Some(9)));
        // Of very many of one job the newest are told.
        let many = events.of(&JobId::new([3; 32]), &[]);
        assert_eq!((many.items.len(), many.since), (TOLD_MAX, Some(10)));
        // Blocks may be missing: nothing is said of what is whole until the next one.
        events.lost();
        assert_eq!(events.of(&JobId::new([3; 32]), &[]).since, None);
        events.note(&block(12, &[1]));
        assert_eq!(events.of(&JobId::new([1; 32]), &[]).since, Some(12));
    }
}
