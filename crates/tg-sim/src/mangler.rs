//! A sender that changes a byte of some messages, which is what a hostile validator's blocks look like to a decoder; or drops all. Votes of honest
//! ones are looked at on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use commonware_p2p::{CheckedSender, LimitedSender, Recipients};
use commonware_runtime::IoBufs;
use tg_node::Peer;

use crate::grid::SimGrid;

/// Every so many messages one is changed.
const EVERY: u64 = 5;

/// A sender that changes a byte of some messages, or of none, or drops all.
#[derive(Debug, Clone)]
pub(crate) struct Mangled<S> {
    inner: S,
    /// Messages so far; `None` changes nothing.
    count: Option<Arc<AtomicU64>>,
    drops: bool,
    /// Who looks at the votes of which honest seat.
    heard: Option<(Arc<SimGrid>, usize)>,
}

impl<S> Mangled<S> {
    /// Passes everything on as it is.
    pub(crate) const fn not(inner: S) -> Self {
        Self {
            inner,
            count: None,
            drops: false,
            heard: None,
        }
    }

    /// The same, sending nothing to anybody.
    pub(crate) fn dropping(self) -> Self {
        Self {
            drops: true,
            ..self
        }
    }

    /// The same, changing a byte of some messages.
    pub(crate) fn mangling(self) -> Self {
        let count = Some(Arc::default());
        Self { count, ..self }
    }

    /// The same for the votes of an honest seat: none may be for a block that does not hold.
    pub(crate) fn heard_by(self, grid: Arc<SimGrid>, seat: usize) -> Self {
        let heard = Some((grid, seat));
        Self { heard, ..self }
    }
}

impl<S: LimitedSender<PublicKey = Peer>> LimitedSender for Mangled<S> {
    type PublicKey = Peer;
    type Checked<'a> = MangledChecked<S::Checked<'a>>;

    fn check(&mut self, recipients: Recipients<Peer>) -> Result<Self::Checked<'_>, SystemTime> {
        let recipients = match self.drops {
            true => Recipients::Some(Vec::new()),
            false => recipients,
        };
        let inner = self.inner.check(recipients)?;
        let number = self.count.as_ref();
        let number = number.map(|count| count.fetch_add(1, Ordering::Relaxed));
        let heard = self.heard.clone();
        Ok(MangledChecked {
            inner,
            number,
            heard,
        })
    }
}

/// The same after the check of its recipients.
#[derive(Debug)]
pub(crate) struct MangledChecked<C> {
    inner: C,
    number: Option<u64>,
    heard: Option<(Arc<SimGrid>, usize)>,
}

impl<C: CheckedSender<PublicKey = Peer>> CheckedSender for MangledChecked<C> {
    type PublicKey = Peer;

    fn recipients(&self) -> Vec<Peer> {
        self.inner.recipients()
    }

    fn send(
        self,
        message: impl Into<IoBufs> + Send,
        priority: bool,
    ) -> commonware_actor::Unreliable<commonware_actor::Feedback> {
        let message = message.into().coalesce();
        let mut bytes = message.as_ref().to_vec();
        if let Some((grid, seat)) = &self.heard {
            grid.checks().voted(*seat, &bytes);
        }
        if let Some(number) = self.number
            && number % EVERY == EVERY - 1
            && !bytes.is_empty()
        {
            let place = usize::try_from(number).unwrap_or(0) * 37 % bytes.len();
            bytes[place] ^= 0x41;
        }
        self.inner.send(bytes, priority)
    }
}
