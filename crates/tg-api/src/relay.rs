//! Endpoints: requests wait here for the provider that serves a lease, and its answers for whoever asked.
//!
//! A provider may have no route to it, so it fetches its requests and brings its answers. The relay believes nobody and need not be
//! believed: requests and answers are signed, and it reads neither. It bounds the bytes that wait, of requests and of answers, for each
//! lease and in all.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tg_sdk::endpoint::wire::{
    AnswerPart, ENDPOINT_BATCH_MAX, EndpointRequest, NumberedPart, SERVE_BYTES_MAX,
};
use tg_types::{Address, LeaseId, TimestampMs};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Most leases whose providers are here.
const LEASES_MAX: usize = 4_096;

/// Most of them of one provider, and most of one requestor.
const LEASES_EACH_MAX: usize = 256;

/// Most requests that wait for the provider of a lease, and most that wait for its answers: one who is requestor and provider of a lease holds a
/// quarter of the places for such calls by it, and as many as a provider makes unpaid.
const WAITING_MAX: usize = 64;

/// Most calls of a lease's provider that wait for requests: an agent has one. More are answered at once.
const SERVERS_WAITING_MAX: usize = 4;

/// Most bytes of requests that wait for the provider of a lease.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Most bytes of requests that wait in all.
const ALL_BYTES_MAX: usize = 256 << 20;

/// Most bytes of pieces that wait for those who asked by a lease: beyond them pieces are left out.
const PIECES_BYTES_MAX: usize = 4 << 20;

/// The same with whole answers: beyond them whoever asked is told nothing, and asks again.
const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// Most bytes of pieces, and of pieces and answers, that wait in all.
const ALL_PIECES_BYTES_MAX: usize = 64 << 20;
const ALL_ANSWERS_BYTES_MAX: usize = 256 << 20;

/// Parts of an answer that wait for whoever asked; who reads more slowly misses pieces, and never the whole answer.
const PARTS_MAX: usize = 64;

/// How long a provider that does not come counts as here: several of the longest waits for requests.
const HERE: Duration = Duration::from_secs(12);

/// Why a request does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayRefusal {
    /// No provider fetches requests of the lease here.
    Nobody,
    /// Too many wait.
    Full,
}

/// Who is at the two sides of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseSides {
    pub(crate) requestor: Address,
    pub(crate) provider: Address,
}

/// Requests and answers on their way.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    leases: Mutex<HashMap<LeaseId, ServedLease>>,
    /// Bytes of answers that wait in all.
    answers: Arc<AtomicUsize>,
}

/// A part of an answer that waits for whoever asked. Its bytes are counted until it is taken, or dropped with who waits.
#[derive(Debug)]
pub(crate) struct WaitingPart {
    part: Option<AnswerPart>,
    bytes: usize,
    counts: [Arc<AtomicUsize>; 2],
}

impl WaitingPart {
    /// A part that is counted, if there is room for it.
    fn new(part: AnswerPart, counts: [Arc<AtomicUsize>; 2]) -> Option<Self> {
        let (bytes, most) = match &part {
            AnswerPart::Piece { piece, .. } => {
                (piece.len(), [PIECES_BYTES_MAX, ALL_PIECES_BYTES_MAX])
            }
            AnswerPart::Whole { answer, .. } => {
                (answer.len(), [ANSWERS_BYTES_MAX, ALL_ANSWERS_BYTES_MAX])
            }
            AnswerPart::Refused { .. } => (0, [usize::MAX; 2]),
        };
        // All that add to them hold the lock of the leases.
        let mut both = counts.iter().zip(most);
        if both.any(|(count, most)| count.load(Ordering::Relaxed).saturating_add(bytes) > most) {
            return None;
        }
        for count in &counts {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
        Some(Self {
            part: Some(part),
            bytes,
            counts,
        })
    }

    /// The part.
    pub(crate) fn take(mut self) -> Option<AnswerPart> {
        self.part.take()
    }
}

impl Drop for WaitingPart {
    fn drop(&mut self) {
        for count in &self.counts {
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// A lease whose provider fetches its requests here.
#[derive(Debug)]
struct ServedLease {
    sides: LeaseSides,
    token: [u8; 16],
    /// When something was last asked by it, or its provider came first.
    asked: Instant,
    /// The time of the newest claim: an older one does not count.
    claimed_at: TimestampMs,
    seen: Instant,
    queue: VecDeque<EndpointRequest>,
    queue_bytes: usize,
    asking: HashMap<u64, mpsc::Sender<WaitingPart>>,
    /// Bytes of answers that wait.
    answers: Arc<AtomicUsize>,
    came: Arc<Notify>,
}

impl Relay {
    /// The leases whose providers are here. Of others nobody waits any longer for an answer.
    fn leases(&self) -> MutexGuard<'_, HashMap<LeaseId, ServedLease>> {
        // A panic of another thread leaves the map whole: entries are put and taken.
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        leases.retain(|_, it| now.duration_since(it.seen) < HERE);
        leases
    }

    /// A provider comes with a claim of its own; its token, or nothing if a newer claim was there or there is no room. Where all places are
    /// taken the lease makes room by which nothing was asked for longest: its provider may come again.
    pub(crate) fn claim(
        &self,
        (lease, sides): (LeaseId, LeaseSides),
        at: TimestampMs,
        token: [u8; 16],
    ) -> Option<()> {
        let mut leases = self.leases();
        let now = Instant::now();
        if let Some(known) = leases.get_mut(&lease) {
            if at <= known.claimed_at {
                return None;
            }
            known.claimed_at = at;
            known.token = token;
            known.seen = now;
            // What an agent before had taken it does not answer any more: who asked asks again.
            let waits = |number: &u64| known.queue.iter().any(|it| it.number == *number);
            known.asking.retain(|number, _| waits(number));
            return Some(());
        }
        if !has_share(&leases, sides) {
            return None;
        }
        if leases.len() >= LEASES_MAX {
            let longest = longest_idle(&leases)?;
            leases.remove(&longest);
        }
        leases.insert(
            lease,
            ServedLease {
                sides,
                token,
                asked: now,
                claimed_at: at,
                seen: now,
                queue: VecDeque::new(),
                queue_bytes: 0,
                asking: HashMap::new(),
                answers: Arc::default(),
                came: Arc::new(Notify::new()),
            },
        );
        Some(())
    }

    /// Whether a token is the one of the lease's provider; notes that it is here.
    pub(crate) fn knows(&self, lease: &LeaseId, token: &[u8; 16]) -> bool {
        let mut leases = self.leases();
        let Some(known) = leases.get_mut(lease).filter(|it| it.token == *token) else {
            return false;
        };
        known.seen = Instant::now();
        true
    }

    /// Whether the provider of a lease was here.
    pub(crate) fn holds(&self, lease: &LeaseId) -> bool {
        self.leases().contains_key(lease)
    }

    /// Takes parts of answers to whoever asked; those for which nobody waits any more are dropped.
    pub(crate) fn deliver(&self, lease: &LeaseId, parts: Vec<NumberedPart>) {
        let mut leases = self.leases();
        let Some(serving) = leases.get_mut(lease) else {
            return;
        };
        for NumberedPart { number, part } in parts {
            let is_last = part.is_last();
            let asking = match is_last {
                true => serving.asking.remove(&number),
                // One place is kept for the whole answer.
                false => serving.asking.get(&number).cloned(),
            };
            let asking = asking.filter(|it| is_last || it.capacity() > 1);
            let Some(asking) = asking.filter(|it| !it.is_closed()) else {
                continue;
            };
            let counts = [Arc::clone(&serving.answers), Arc::clone(&self.answers)];
            if let Some(part) = WaitingPart::new(part, counts) {
                let _full_or_gone = asking.try_send(part);
            }
        }
    }

    /// The requests that wait for a lease's provider, as many as one answer takes; and what says that more came, unless too many calls
    /// wait for that.
    pub(crate) fn take(&self, lease: &LeaseId) -> (Vec<EndpointRequest>, Option<Arc<Notify>>) {
        let mut leases = self.leases();
        let Some(serving) = leases.get_mut(lease) else {
            return (Vec::new(), None);
        };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < ENDPOINT_BATCH_MAX && bytes < SERVE_BYTES_MAX {
            let Some(request) = serving.queue.pop_front() else {
                break;
            };
            bytes += request.input.len();
            taken.push(request);
        }
        serving.queue_bytes -= bytes;
        // One is the lease's own.
        let waiting = Arc::strong_count(&serving.came) - 1;
        let came = (waiting < SERVERS_WAITING_MAX).then(|| Arc::clone(&serving.came));
        (taken, came)
    }

    /// Has a request wait for the provider of its lease; what the provider says to it comes through the channel.
    pub(crate) fn ask(
        &self,
        lease: &LeaseId,
        request: EndpointRequest,
    ) -> Result<mpsc::Receiver<WaitingPart>, RelayRefusal> {
        let mut leases = self.leases();
        let all: usize = leases.values().map(|it| it.queue_bytes).sum();
        let serving = leases.get_mut(lease);
        let serving = serving.ok_or(RelayRefusal::Nobody)?;
        // Of those that nobody waits for any more no answer is needed.
        serving.asking.retain(|_, asking| !asking.is_closed());
        let bytes = request.input.len();
        if serving.asking.len() >= WAITING_MAX
            || serving.queue.len() >= WAITING_MAX
            || serving.queue_bytes + bytes > QUEUE_BYTES_MAX
            || all + bytes > ALL_BYTES_MAX
        {
            return Err(RelayRefusal::Full);
        }
        let (sender, receiver) = mpsc::channel(PARTS_MAX);
        serving.asked = Instant::now();
        serving.asking.insert(request.number, sender);
        serving.queue_bytes += bytes;
        serving.queue.push_back(request);
        serving.came.notify_one();
        Ok(receiver)
    }

    /// Leases whose providers are here, and requests that wait for an answer.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let leases = self.leases();
        let asking = leases.values().map(|it| it.asking.len());
        (leases.len(), asking.sum())
    }
}

/// Whether a provider and a requestor have room for one more lease in their shares.
fn has_share(leases: &HashMap<LeaseId, ServedLease>, sides: LeaseSides) -> bool {
    let of = |is_theirs: fn(&LeaseSides, &LeaseSides) -> bool| {
        let theirs = leases.values().filter(|it| is_theirs(&it.sides, &sides));
        theirs.count() < LEASES_EACH_MAX
    };
    of(|one, other| one.provider == other.provider)
        && of(|one, other| one.requestor == other.requestor)
}

/// The lease by which nothing was asked for longest, of those by which nothing is being asked.
fn longest_idle(leases: &HashMap<LeaseId, ServedLease>) -> Option<LeaseId> {
    let idle = leases
        .iter()
        .filter(|(_, it)| it.queue.is_empty() && it.asking.values().all(mpsc::Sender::is_closed));
    let longest = idle.min_by_key(|(id, it)| (it.asked, **id));
    longest.map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_types::{Amount, ChainDomain, Signature, Voucher, Wallet};

    const LEASE: LeaseId = LeaseId::new([1; 32]);

    const SIDES: LeaseSides = LeaseSides {
        requestor: Address::new([1; 20]),
        provider: Address::new([2; 20]),
    };

    /// Strangers take all places with leases of their own, in which nothing is asked.
    #[test]
    fn leases_of_strangers_do_not_shut_others_out() {
        let relay = Relay::default();
        let claim = |number: u32, sides| {
            let mut id = [7; 32];
            id[..4].copy_from_slice(&number.to_le_bytes());
            let lease = LeaseId::new(id);
            let taken = relay.claim((lease, sides), TimestampMs::new(5), [1; 16]);
            taken.map(|()| lease)
        };
        let stranger = |number: u32| LeaseSides {
            requestor: Address::new([number as u8; 20]),
            provider: Address::new([(number >> 8) as u8; 20]),
        };
        // No more than its share for one provider, whoever ordered.
        let of_one = (0..300).filter_map(|number| {
            let sides = LeaseSides {
                provider: SIDES.provider,
                ..stranger(number)
            };
            claim(number, sides)
        });
        assert_eq!(of_one.count(), LEASES_EACH_MAX);
        for number in (1_000..).take(LEASES_MAX + 100) {
            claim(number, stranger(number));
        }
        assert_eq!(relay.counts().0, LEASES_MAX);
        // One that comes last is served, and stays while something is asked.
        let honest = LeaseSides {
            requestor: Address::new([200; 20]),
            provider: Address::new([201; 20]),
        };
        let lease = claim(9_999, honest).unwrap();
        let _asked = relay.ask(&lease, request(1)).unwrap();
        for number in (10_000..).take(LEASES_MAX + 100) {
            claim(number, stranger(number));
            // Its provider comes, as often as one does.
            if number.is_multiple_of(512) {
                assert!(relay.knows(&lease, &[1; 16]));
            }
        }
        assert!(relay.knows(&lease, &[1; 16]));
    }

    fn request(number: u64) -> EndpointRequest {
        let domain = ChainDomain {
            chain_id: 1,
            verifying_contract: tg_types::Address::default(),
            salt: [0; 32],
        };
        EndpointRequest {
            number,
            voucher: Voucher::first(LEASE).sign(&Wallet::from_seed(b"alice"), &domain),
            input: vec![7; 1_000],
        }
    }

    fn whole(number: u64) -> NumberedPart {
        NumberedPart {
            number,
            part: AnswerPart::Whole {
                answer: vec![number as u8],
                price: Amount::ZERO,
                signature: Signature {
                    r: [0; 32],
                    s: [0; 32],
                    y_parity: 0,
                },
            },
        }
    }

    async fn next(parts: &mut mpsc::Receiver<WaitingPart>) -> Option<AnswerPart> {
        parts.recv().await.and_then(WaitingPart::take)
    }

    /// Somebody who is requestor and provider of a lease asks, reads nothing and answers in the largest pieces.
    #[tokio::test]
    async fn answers_that_nobody_reads_are_bounded_in_bytes() {
        let relay = Relay::default();
        relay
            .claim((LEASE, SIDES), TimestampMs::new(5), [1; 16])
            .unwrap();
        let asked = 0..63_u64;
        let mut held: Vec<_> = asked
            .clone()
            .map(|number| relay.ask(&LEASE, request(number)).unwrap())
            .collect();
        let waiting = || relay.answers.load(Ordering::Relaxed);
        for index in 0..PARTS_MAX as u32 {
            let pieces = asked.clone().map(|number| NumberedPart {
                number,
                part: AnswerPart::Piece {
                    index,
                    piece: vec![0; tg_sdk::endpoint::wire::PIECE_BYTES_MAX],
                },
            });
            relay.deliver(&LEASE, pieces.collect());
        }
        assert_eq!(waiting(), PIECES_BYTES_MAX);
        // The whole answer still comes, up to a bound of its own.
        let large = |number| NumberedPart {
            number,
            part: match whole(number).part {
                AnswerPart::Whole {
                    price, signature, ..
                } => AnswerPart::Whole {
                    answer: vec![0; tg_sdk::endpoint::wire::ENDPOINT_BYTES_MAX],
                    price,
                    signature,
                },
                other => other,
            },
        };
        relay.deliver(&LEASE, asked.map(large).collect());
        assert!(waiting() <= ANSWERS_BYTES_MAX);
        assert!(waiting() > ANSWERS_BYTES_MAX - tg_sdk::endpoint::wire::ENDPOINT_BYTES_MAX);
        // What is read or given up makes room.
        let before = waiting();
        assert!(next(&mut held[0]).await.is_some());
        assert!(waiting() < before);
        drop(held);
        assert_eq!(waiting(), 0);
    }

    #[tokio::test]
    async fn an_answer_finds_who_asked() {
        let relay = Relay::default();
        assert_eq!(
            relay.ask(&LEASE, request(1)).unwrap_err(),
            RelayRefusal::Nobody
        );
        relay
            .claim((LEASE, SIDES), TimestampMs::new(5), [1; 16])
            .unwrap();
        let mut first = relay.ask(&LEASE, request(1)).unwrap();
        let mut second = relay.ask(&LEASE, request(2)).unwrap();
        let (taken, _) = relay.take(&LEASE);
        let numbers: Vec<u64> = taken.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [1, 2]);
        assert!(relay.take(&LEASE).0.is_empty());
        // Pieces beyond what a reader takes are dropped, the whole answer is not.
        let piece = || NumberedPart {
            number: 1,
            part: AnswerPart::Piece {
                index: 0,
                piece: vec![3],
            },
        };
        relay.deliver(&LEASE, (0..200).map(|_| piece()).collect());
        relay.deliver(&LEASE, vec![whole(2), whole(1), whole(9)]);
        assert_eq!(next(&mut second).await, Some(whole(2).part));
        assert_eq!(next(&mut second).await, None);
        let mut last = None;
        while let Some(part) = next(&mut first).await {
            last = Some(part);
        }
        assert_eq!(last, Some(whole(1).part));
        assert_eq!(relay.counts(), (1, 0));
    }

    #[test]
    fn few_calls_of_a_provider_wait_for_requests() {
        let relay = Relay::default();
        relay
            .claim((LEASE, SIDES), TimestampMs::new(5), [1; 16])
            .unwrap();
        let come = || relay.take(&LEASE).1;
        let mut waiting: Vec<_> = (0..SERVERS_WAITING_MAX).map(|_| come().unwrap()).collect();
        assert!(come().is_none());
        waiting.pop();
        assert!(come().is_some());
    }

    #[test]
    fn only_the_newest_claim_counts() {
        let relay = Relay::default();
        relay
            .claim((LEASE, SIDES), TimestampMs::new(5), [1; 16])
            .unwrap();
        assert_eq!(
            relay.claim((LEASE, SIDES), TimestampMs::new(5), [2; 16]),
            None
        );
        assert!(relay.knows(&LEASE, &[1; 16]) && !relay.knows(&LEASE, &[2; 16]));
        // Who waits for what the agent before has taken is let go, who waits in the queue is not.
        let mut taken = relay.ask(&LEASE, request(1)).unwrap();
        relay.take(&LEASE);
        let mut waits = relay.ask(&LEASE, request(2)).unwrap();
        relay
            .claim((LEASE, SIDES), TimestampMs::new(6), [2; 16])
            .unwrap();
        assert_eq!(
            taken.try_recv().unwrap_err(),
            mpsc::error::TryRecvError::Disconnected
        );
        assert_eq!(
            waits.try_recv().unwrap_err(),
            mpsc::error::TryRecvError::Empty
        );
        assert!(!relay.knows(&LEASE, &[1; 16]) && relay.knows(&LEASE, &[2; 16]));
    }

    #[test]
    fn what_waits_is_bounded() {
        let relay = Relay::default();
        relay
            .claim((LEASE, SIDES), TimestampMs::new(5), [1; 16])
            .unwrap();
        let mut held = Vec::new();
        for number in 0..WAITING_MAX as u64 {
            held.push(relay.ask(&LEASE, request(number)).unwrap());
        }
        assert_eq!(
            relay.ask(&LEASE, request(5_000)).unwrap_err(),
            RelayRefusal::Full
        );
        // Who went away makes room once the provider has what it asked.
        drop(held);
        while !relay.take(&LEASE).0.is_empty() {}
        assert!(relay.ask(&LEASE, request(5_001)).is_ok());
    }
}
