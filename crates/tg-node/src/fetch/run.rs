//! The loop around the machine, in a thread of its own: it reads and writes files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use commonware_macros::select_loop;
use commonware_p2p::{Blocker, Receiver, Recipients, Sender};
use commonware_runtime::{Clock, Spawner};
use commonware_utils::channel::mpsc;
use tg_ledger::State;
use tg_types::{Address, BlockId, Digest, Encode as _, TimestampMs};

use super::machine::Fetcher;
use super::needs::{Need, needs};
use crate::blob::BlobStore;
use crate::handle::NodeStatus;
use crate::key::peer_of;
use crate::peers::Peer;

/// How often the machine gets a turn without messages, and the ledger is looked at.
const TURN: Duration = Duration::from_millis(50);

/// The shortest time between two looks at the whole ledger.
const LOOK: Duration = Duration::from_millis(250);

/// How many blobs that were seen in the store are looked for again at one time.
const FORGOTTEN_AT_ONCE: usize = 2_048;

/// How long a blob that was seen in the store is believed to be there, of so many; longer of more.
const HELD_FOR: Duration = Duration::from_secs(60);

/// What the loop is made of.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) store: Arc<BlobStore>,
    /// This validator in the ledger.
    pub(crate) address: Address,
    pub(crate) me: Peer,
    pub(crate) node_status: Arc<NodeStatus>,
    /// Blobs that checks wait for.
    pub(crate) urgent: mpsc::Receiver<Need>,
}

/// What was looked at last.
struct Looked {
    block: Option<BlockId>,
    at: TimestampMs,
    held: BTreeSet<Digest>,
    held_since: TimestampMs,
    /// Where it was forgotten up to what is held.
    forgotten: Option<Digest>,
    /// The set of validators that is asked.
    term: Option<u64>,
}

impl Fetching {
    /// Runs until the runtime stops.
    pub(crate) async fn run<E, S, R, B>(
        self,
        context: E,
        (mut sender, mut receiver): (S, R),
        mut blocker: B,
    ) where
        E: Clock + Spawner,
        S: Sender<PublicKey = Peer>,
        R: Receiver<PublicKey = Peer>,
        B: Blocker<PublicKey = Peer>,
    {
        let Self {
            store,
            address,
            me,
            node_status,
            mut urgent,
        } = self;
        let mut fetcher = Fetcher::new(store.clone());
        let mut looked = Looked {
            block: None,
            at: TimestampMs::ZERO,
            held: BTreeSet::new(),
            held_since: TimestampMs::ZERO,
            forgotten: None,
            term: None,
        };
        select_loop! {
            context,
            on_stopped => {},
            Ok((peer, bytes)) = receiver.recv() else break => {
                if let Err(reason) = fetcher.message(&peer, bytes.as_ref(), now(&context)) {
                    commonware_p2p::block!(blocker, peer, reason);
                }
            },
            Some(need) = urgent.recv() else break => {
                fetcher.urgent(need, now(&context));
            },
            _ = context.sleep(TURN) => {},
            on_end => {
                let now = now(&context);
                looked.look(&node_status, (&address, &me), &store, &mut fetcher, now);
                if let Some(findings) = fetcher.take_findings() {
                    node_status.found_asked(findings);
                }
                for (peer, message) in fetcher.turn(now) {
                    sender.send(Recipients::One(peer), message.to_bytes(), false);
                }
            },
        }
    }
}

impl Looked {
    /// Looks at the ledger if there is a new block and some time has passed.
    fn look(
        &mut self,
        node_status: &NodeStatus,
        (address, me): (&Address, &Peer),
        store: &BlobStore,
        fetcher: &mut Fetcher,
        now: TimestampMs,
    ) {
        let passed = |since: TimestampMs, time: Duration| {
            u128::from(now.saturating_since(since).get()) >= time.as_millis()
        };
        if !passed(self.at, LOOK) {
            return;
        }
        let latest = node_status.latest();
        let forget = passed(self.held_since, HELD_FOR);
        if self.block == Some(latest.id) && !forget {
            return;
        }
        if forget {
            let named: BTreeSet<Digest> = needs(&latest.state, address, |_| false)
                .iter()
                .map(|need| need.digest)
                .collect();
            self.held.retain(|digest| named.contains(digest));
            self.forget_some();
            self.held_since = now;
        }
        self.block = Some(latest.id);
        self.at = now;
        self.ask(&latest.state, me, fetcher);
        fetcher.questions(latest.state.question_tasks(address), now);
        let missing = needs(&latest.state, address, |digest| self.held.contains(digest));
        let (here, missing): (Vec<Need>, Vec<Need>) = missing
            .into_iter()
            .partition(|it| store.contains(&it.digest));
        self.held.extend(here.into_iter().map(|need| need.digest));
        fetcher.named(missing);
    }

    /// Forgets some of what was found to be held, in the order of names, so that it is looked for again: a disk may have lost it. All of it at one time
    /// would be a hundred thousand looks at the disk, for which transfers wait.
    fn forget_some(&mut self) {
        let first = self.forgotten.unwrap_or_default();
        let mut some: Vec<Digest> = self
            .held
            .range(first..)
            .take(FORGOTTEN_AT_ONCE)
            .copied()
            .collect();
        self.forgotten = (some.len() == FORGOTTEN_AT_ONCE)
            .then(|| some.pop())
            .flatten();
        for digest in some {
            self.held.remove(&digest);
        }
    }

    /// Has the fetcher ask the validators of the present set: whoever has joined has what was stored with it alone.
    fn ask(&mut self, state: &State, me: &Peer, fetcher: &mut Fetcher) {
        let term = Some(state.seats().term);
        if self.term != term {
            self.term = term;
            let keys = state.validators().iter().map(|it| it.key);
            let peers = keys.filter_map(|key| peer_of(key.as_bytes()).ok());
            fetcher.ask(peers.filter(|peer| peer != me).collect());
        }
    }
}

fn now<E: Clock>(context: &E) -> TimestampMs {
    let since = context.current().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or(Duration::ZERO).as_millis();
    TimestampMs::new(u64::try_from(millis).unwrap_or(u64::MAX))
}
