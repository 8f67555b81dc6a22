//! Watches all nodes: when each saw a new final block, and whether all have one state at one height.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fleet::Participant;
use crate::http;

/// How often each node is asked.
const EVERY: Duration = Duration::from_millis(100);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    /// When a node was first seen at a new height.
    heights: BTreeMap<Participant, Vec<(Instant, u64)>>,
    /// The state at a height, and who said it first.
    roots: BTreeMap<u64, (String, Participant)>,
    /// What contradicts it.
    forks: Vec<String>,
    /// The last answer of each node.
    last: BTreeMap<Participant, Value>,
}

/// A time without a new block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gap {
    /// How long it was.
    pub(crate) length: Duration,
    /// How long after the beginning of what was watched it began.
    pub(crate) after: Duration,
    /// Who saw it.
    pub(crate) seen_by: Option<Participant>,
}

/// Threads that watch nodes until this is dropped.
#[derive(Debug)]
pub(crate) struct NodeWatch {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
}

impl NodeWatch {
    /// Begins to watch nodes behind addresses.
    pub(crate) fn start(nodes: Vec<(Participant, String)>) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let stop = Arc::new(AtomicBool::new(false));
        for (node, address) in nodes {
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = http::get(&address, "/v1/status", PATIENCE);
                    let status = answer.ok().and_then(|it| serde_json::from_str(&it).ok());
                    if let Some(status) = status {
                        note(&seen, node, status);
                    }
                    thread::sleep(EVERY);
                }
            });
        }
        Self { seen, stop }
    }

    /// The height at which a node was seen last.
    pub(crate) fn height(&self, node: Participant) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.heights.get(&node).and_then(|it| it.last());
        last.map_or(0, |(_, height)| *height)
    }

    /// The greatest height that any node was seen at.
    pub(crate) fn greatest(&self) -> u64 {
        Participant::nodes()
            .into_iter()
            .map(|it| self.height(it))
            .max()
            .unwrap_or(0)
    }

    /// What a node said last of itself.
    pub(crate) fn status(&self, node: Participant) -> Value {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last.get(&node).cloned().unwrap_or(Value::Null)
    }

    /// The longest time that one of `nodes` saw no new block, from `since` to now.
    pub(crate) fn gap(&self, nodes: &[Participant], since: Instant) -> Gap {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let of = |node: &Participant| {
            let seen = seen.heights.get(node).map_or(&[][..], Vec::as_slice);
            let (length, after) = longest(seen.iter().map(|it| it.0), since, now);
            Gap {
                length,
                after,
                seen_by: Some(*node),
            }
        };
        nodes.iter().map(of).max().unwrap_or_default()
    }

    /// Heights at which two nodes had different states.
    pub(crate) fn forks(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.forks.clone()
    }

    /// At how many heights a state was seen.
    pub(crate) fn heights(&self) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.roots.len()
    }
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Takes an answer of a node.
fn note(seen: &Mutex<Seen>, node: Participant, status: Value) {
    let (Some(height), Some(root)) = (status["height"].as_u64(), status["state_root"].as_str())
    else {
        return;
    };
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = &mut *seen;
    let heights = seen.heights.entry(node).or_default();
    if heights.last().is_none_or(|(_, last)| *last < height) {
        heights.push((Instant::now(), height));
    }
    let first = seen.roots.entry(height);
    let (first, whose) = first.or_insert_with(|| (root.to_owned(), node));
    if first != root {
        seen.forks.push(format!(
            "at height {height} {} has the state {first} and {} {root}",
            whose.name(),
            node.name()
        ));
    }
    seen.last.insert(node, status);
}

/// The longest time without one of `moments`, from `since` to `now`, and how long after `since` it began.
fn longest(
    moments: impl Iterator<Item = Instant>,
    since: Instant,
    now: Instant,
) -> (Duration, Duration) {
    let mut before = since;
    let mut longest = (Duration::ZERO, Duration::ZERO);
    for moment in moments.filter(|it| (since..=now).contains(it)).chain([now]) {
        longest = longest.max((moment - before, before - since));
        before = moment;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_both_ends() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for (moments, gap) in [
            (&[1, 2, 3][..], (7, 3)),
            (&[4, 9][..], (5, 4)),
            (&[][..], (10, 0)),
            (&[6][..], (6, 0)),
            (&[5, 20][..], (5, 5)),
        ] {
            let moments = moments.iter().map(|it| at(*it));
            let (length, after) = longest(moments, start, at(10));
            assert_eq!((length.as_secs(), after.as_secs()), gap);
        }
    }
}
