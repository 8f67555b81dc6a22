//! One order for one request: a request that comes again gets the answer of the first.
//!
//! A request with the header `idempotency-key` comes again if the key and the caller are the same; with another body it is
//! refused. One without comes again if caller and body are the same, the client says that it is a retry
//! (`x-stainless-retry-count` above 0, as OpenAI's libraries send it), and the first came at most [`RETRY_SPAN`] before. The
//! first goes on when its connection is lost. One that failed is tried again with the orders that it made: a job that may have been
//! paid is looked for before another is ordered.
//!
//! What is remembered is bounded in number and in bytes, for each caller and in all: of what is beyond, the oldest answers of the caller
//! that has most are forgotten.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tg_types::Digest;
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::OpenAiError;
use super::port::{Completion, Embeddings, MemoryRecord, ServedReply};

/// How long after a request its retry gets its answer.
pub(super) const RETRY_SPAN: Duration = Duration::from_secs(60);

/// How long a key keeps its answer.
const KEY_SPAN: Duration = Duration::from_secs(3_600);

/// Most requests that are remembered, of one caller and in all.
const CALLER_REMEMBERED_MAX: usize = 1_024;
const REMEMBERED_MAX: usize = 4_096;

/// Most bytes of the answers of one caller that are remembered, and of all.
const CALLER_BYTES_MAX: usize = 16 << 20;
const ALL_BYTES_MAX: usize = 64 << 20;

/// An answer that is remembered: how many bytes of memory it takes, about.
pub(crate) trait RememberedAnswer {
    /// Bytes.
    fn bytes(&self) -> usize;
}

impl RememberedAnswer for ServedReply {
    fn bytes(&self) -> usize {
        self.body.len()
    }
}

impl RememberedAnswer for Completion {
    fn bytes(&self) -> usize {
        let choices = self.choices.iter();
        let each = choices.map(|it| {
            let texts: usize = it.pieces.iter().map(|it| it.len() + 32).sum();
            let tokens = it.logprobs.iter().flat_map(|it| &it.tokens);
            let tokens: usize = tokens.map(|it| (1 + it.top.len()) * 128).sum();
            texts + tokens
        });
        each.sum()
    }
}

impl RememberedAnswer for Embeddings {
    fn bytes(&self) -> usize {
        let vectors = self.vectors.iter();
        vectors.map(|it| it.len() * size_of::<f32>() + 64).sum()
    }
}

impl RememberedAnswer for serde_json::Value {
    fn bytes(&self) -> usize {
        self.to_string().len()
    }
}

/// An answer, as soon as it is there.
pub(super) type Answer<T> = Result<Arc<T>, OpenAiError>;
/// Waits for an answer.
pub(super) type Waiting<T> = watch::Receiver<Option<Answer<T>>>;

/// What names a request.
#[derive(Debug, Clone)]
pub(super) struct RequestName {
    pub(super) caller: String,
    pub(super) body: Digest,
    pub(super) key: Option<String>,
    pub(super) is_retry: bool,
}

struct RememberedRequest<T> {
    id: AnswerId,
    body: Digest,
    began: Instant,
    span: Duration,
    record: Arc<MemoryRecord>,
    answer: Waiting<T>,
    /// Bytes of the answer; nothing until it was looked at.
    bytes: Option<usize>,
}

impl<T: RememberedAnswer> RememberedRequest<T> {
    /// Whether it has an answer, and its bytes.
    fn measure(&mut self) -> Option<usize> {
        if self.bytes.is_none() {
            self.bytes = match &*self.answer.borrow() {
                Some(Ok(answer)) => Some(answer.bytes()),
                Some(Err(_)) => Some(0),
                None => None,
            };
        }
        self.bytes
    }
}

/// What an answer is called, beside the prefix of its kind, and when it was first asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerId {
    pub(super) name: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// What comes later has more.
    pub(super) order: u64,
}

impl AnswerId {
    /// A new one for a request.
    pub(super) fn of(body: &Digest) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let (nanos, count) = (since.as_nanos().to_le_bytes(), count.to_le_bytes());
        let drawn = Digest::of_blob(&[body.as_bytes(), &nanos[..], &count[..]].concat());
        Self {
            name: drawn.to_string()[2..34].to_owned(),
            created: since.as_secs(),
            order: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// The requests of the last while.
pub(crate) struct Replays<T>(Mutex<BTreeMap<(String, String), RememberedRequest<T>>>);

impl<T> Default for Replays<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A request to be answered.
pub(super) struct FirstRequest<T> {
    pub(super) id: AnswerId,
    /// Its orders, with those of a try before it that failed.
    pub(super) record: Arc<MemoryRecord>,
    /// Where its answer is sent.
    pub(super) sender: watch::Sender<Option<Answer<T>>>,
    pub(super) waiting: Waiting<T>,
}

/// What to do with a request.
pub(super) enum RequestTurn<T> {
    /// It is the first: its answer is sent here.
    First(FirstRequest<T>),
    /// Another is answered already, or will be.
    Again(AnswerId, Waiting<T>),
}

/// Requests by caller and name.
type RememberedRequests<T> = BTreeMap<(String, String), RememberedRequest<T>>;

/// Whether there is room for one more request of a caller. The oldest answer makes it: the caller's own, or where others have more one of
/// the caller that has most.
fn makes_room<T>(entries: &mut RememberedRequests<T>, caller: &str) -> bool {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (of, _) in entries.keys() {
        *counts.entry(of.as_str()).or_default() += 1;
    }
    let own = counts.get(caller).copied().unwrap_or_default();
    let whose = if own >= CALLER_REMEMBERED_MAX {
        caller
    } else if entries.len() < REMEMBERED_MAX {
        return true;
    } else {
        let most = counts.iter().max_by_key(|(_, count)| **count);
        most.map_or(caller, |(caller, _)| *caller)
    };
    // Of a failed one the orders are kept: it goes last.
    let answered = entries.iter().filter_map(|(place, entry)| {
        let has_failed = match &*entry.answer.borrow() {
            None => return None,
            Some(answer) => answer.is_err(),
        };
        (place.0 == whose).then(|| ((has_failed, entry.began), place.clone()))
    });
    let Some((_, oldest)) = answered.min() else {
        return false;
    };
    entries.remove(&oldest);
    true
}

/// Forgets the oldest answers of callers that have too many bytes, and of the one that has most while all have.
fn forget_bytes<T: RememberedAnswer>(entries: &mut RememberedRequests<T>) {
    let mut sums: BTreeMap<String, usize> = BTreeMap::new();
    let mut answered = Vec::new();
    for (place, entry) in entries.iter_mut() {
        if let Some(bytes) = entry.measure().filter(|it| *it > 0) {
            *sums.entry(place.0.clone()).or_default() += bytes;
            answered.push((entry.began, place.clone(), bytes));
        }
    }
    answered.sort_unstable();
    loop {
        let all: usize = sums.values().sum();
        let most = sums.iter().max_by_key(|(_, bytes)| **bytes);
        let Some((caller, bytes)) = most.map(|(caller, bytes)| (caller.clone(), *bytes)) else {
            return;
        };
        if bytes <= CALLER_BYTES_MAX && all <= ALL_BYTES_MAX {
            return;
        }
        let Some(oldest) = answered.iter().position(|(_, place, _)| place.0 == caller) else {
            return;
        };
        let (_, place, bytes) = answered.remove(oldest);
        entries.remove(&place);
        if let Some(sum) = sums.get_mut(&caller) {
            *sum -= bytes;
        }
    }
}

impl<T: RememberedAnswer> Replays<T> {
    pub(super) fn turn(
        &self,
        name: &RequestName,
        now: Instant,
    ) -> Result<RequestTurn<T>, OpenAiError> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| match &*entry.answer.borrow() {
            None => true,
            // It is tried again as if it was the first.
            Some(Err(_)) if entry.record.is_empty() => false,
            Some(_) => now.duration_since(entry.began) < entry.span,
        });
        forget_bytes(&mut entries);
        let (place, span) = match &name.key {
            Some(key) => (format!("key {key}"), KEY_SPAN),
            None => (format!("body {}", name.body), RETRY_SPAN),
        };
        let place = (name.caller.clone(), place);
        let mut record = Arc::default();
        if let Some(entry) = entries.get(&place) {
            if entry.body != name.body {
                let message = "the idempotency key was used with another body";
                return Err(OpenAiError::invalid("idempotency-key", message));
            }
            // One that failed is tried again, and goes on with what it ordered.
            let failed = matches!(&*entry.answer.borrow(), Some(Err(_)));
            if name.key.is_some() || name.is_retry {
                if !failed {
                    return Ok(RequestTurn::Again(entry.id.clone(), entry.answer.clone()));
                }
                record = Arc::clone(&entry.record);
            }
        }
        if !entries.contains_key(&place) && !makes_room(&mut entries, &name.caller) {
            let message = "too many requests of this key are being answered";
            return Err(OpenAiError::unavailable(message.to_owned()));
        }
        let (sender, answer) = watch::channel(None);
        let id = AnswerId::of(&name.body);
        let entry = RememberedRequest {
            id: id.clone(),
            body: name.body,
            began: now,
            span,
            record: Arc::clone(&record),
            answer: answer.clone(),
            bytes: None,
        };
        entries.insert(place, entry);
        Ok(RequestTurn::First(FirstRequest {
            id,
            record,
            sender,
            waiting: answer,
        }))
    }
}

/// Waits for an answer.
pub(super) async fn answer<T>(mut waiting: Waiting<T>) -> Answer<T> {
    let gone = || OpenAiError::unavailable("the request was ended".to_owned());
    let answer = waiting
        .wait_for(Option::is_some)
        .await
        .map_err(|_| gone())?;
    answer.clone().unwrap_or_else(|| Err(gone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::openai::port::{KeptOrder, OrderRecord as _};

    impl RememberedAnswer for u8 {
        fn bytes(&self) -> usize {
            usize::from(*self) << 20
        }
    }

    /// Providers of served models give answers of any kind, as large as may be.
    #[test]
    fn answers_that_are_remembered_are_bounded_in_bytes() {
        let (replays, start) = (Replays::default(), Instant::now());
        let at = |number: u8| start + Duration::from_millis(number.into());
        let keep = |caller: &str, number: u8| {
            let key = format!("{number}");
            let sender = first(
                &replays,
                &name(caller, number, Some(&key), false),
                at(number),
            );
            sender.send_replace(Some(Ok(Arc::new(1))));
        };
        keep("b", 0);
        (0..100).for_each(|number| keep("a", number));
        let kept = |caller: &str, number: u8| {
            let entries = replays.0.lock().unwrap();
            entries.contains_key(&(caller.to_owned(), format!("key {number}")))
        };
        let last = name("a", 99, Some("99"), false);
        assert!(again(&replays, &last, at(100)));
        assert!(kept("a", 99) && kept("a", 84) && !kept("a", 80));
        // Nobody else is touched.
        assert!(kept("b", 0));
        for caller in ["c", "d", "e", "f"] {
            (100..116).for_each(|number| keep(caller, number));
        }
        let last = name("f", 115, Some("115"), false);
        assert!(again(&replays, &last, at(116)));
        let all = replays.0.lock().unwrap().len();
        assert_eq!(all, ALL_BYTES_MAX >> 20);
    }

    #[test]
    fn one_caller_does_not_shut_out_others() {
        let (replays, now) = (Replays::<u8>::default(), Instant::now());
        let asked = |caller: &str, number: u32| {
            let key = format!("{number}");
            replays.turn(&name(caller, 1, Some(&key), false), now)
        };
        // Those that failed without an order are forgotten at once: here a model that does not exist.
        for number in 0..5_000 {
            let Ok(RequestTurn::First(first)) = asked("a", number) else {
                panic!("{number} is taken");
            };
            let failed = OpenAiError::model("none");
            first.sender.send_replace(Some(Err(failed)));
        }
        assert!(asked("b", 0).is_ok());
        assert!(replays.0.lock().unwrap().len() < 4);
        // Of those that succeed the oldest make room.
        for number in 0..5_000 {
            let Ok(RequestTurn::First(first)) = asked("c", number) else {
                panic!("{number} is taken");
            };
            first.sender.send_replace(Some(Ok(Arc::new(0))));
        }
        // Who waits for too many is refused, and nobody else is.
        let waiting: Vec<_> = (0..CALLER_REMEMBERED_MAX as u32)
            .map(|number| asked("d", number).map(|_| ()))
            .collect();
        assert!(waiting.iter().all(Result::is_ok));
        assert!(asked("d", 9_999).is_err());
        assert!(asked("b", 1).is_ok());
        assert!(matches!(asked("c", 4_999), Ok(RequestTurn::Again(..))));
    }

    fn name(caller: &str, body: u8, key: Option<&str>, is_retry: bool) -> RequestName {
        RequestName {
            caller: caller.to_owned(),
            body: Digest::new([body; 32]),
            key: key.map(str::to_owned),
            is_retry,
        }
    }

    fn first(
        replays: &Replays<u8>,
        name: &RequestName,
        now: Instant,
    ) -> watch::Sender<Option<Answer<u8>>> {
        match replays.turn(name, now).unwrap() {
            RequestTurn::First(first) => first.sender,
            RequestTurn::Again(..) => panic!("it is the first"),
        }
    }

    fn again(replays: &Replays<u8>, name: &RequestName, now: Instant) -> bool {
        matches!(replays.turn(name, now).unwrap(), RequestTurn::Again(..))
    }

    #[test]
    fn a_retry_within_a_minute_is_the_same_request() {
        let (replays, now) = (Replays::default(), Instant::now());
        let sender = first(&replays, &name("a", 1, None, false), now);
        // While the first runs, and after it; not for others, other bodies, or who does not say that it is a retry.
        assert!(again(&replays, &name("a", 1, None, true), now));
        sender.send_replace(Some(Ok(Arc::new(1))));
        assert!(again(&replays, &name("a", 1, None, true), now));
        assert!(!again(&replays, &name("b", 1, None, true), now));
        assert!(!again(&replays, &name("a", 2, None, true), now));
        let now = now + RETRY_SPAN;
        assert!(!again(&replays, &name("a", 1, None, true), now));
        let _sender = first(&replays, &name("c", 1, None, true), now);
        assert!(!again(&replays, &name("c", 1, None, false), now));
    }

    #[test]
    fn a_key_names_one_request() {
        let (replays, now) = (Replays::default(), Instant::now());
        let sender = first(&replays, &name("a", 1, Some("k"), false), now);
        sender.send_replace(Some(Ok(Arc::new(1))));
        let now = now + RETRY_SPAN * 2;
        assert!(again(&replays, &name("a", 1, Some("k"), false), now));
        let other = replays.turn(&name("a", 2, Some("k"), false), now);
        assert!(other.is_err_and(|error| error.status == 400));
        assert!(!again(&replays, &name("b", 2, Some("k"), false), now));
    }

    #[test]
    fn one_that_failed_is_tried_again_and_goes_on_with_its_orders() {
        let (replays, now) = (Replays::<u8>::default(), Instant::now());
        let turn = |is_retry, key| match replays.turn(&name("a", 1, key, is_retry), now).unwrap() {
            RequestTurn::First(first) => first,
            RequestTurn::Again(..) => panic!("none has an answer"),
        };
        let order = KeptOrder {
            signed: vec![1],
            reserved: tg_types::Amount::ZERO,
        };
        for key in [None, Some("k")] {
            let first = turn(false, key);
            first.record.keep(0, Some(order.clone())).unwrap();
            let failed = OpenAiError::unavailable("no".to_owned());
            first.sender.send_replace(Some(Err(failed.clone())));
            let second = turn(true, key);
            assert_eq!(second.record.kept(0), Some(order.clone()));
            second.sender.send_replace(Some(Err(failed)));
        }
        // Who does not say that it is the same request orders anew.
        assert_eq!(turn(false, None).record.kept(0), None);
    }
}
