//! One replica of a group: its session, what it was asked, and what a failed request says of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tg_types::{Address, JobId};
use tokio::sync::watch;

use super::session::{EndpointAnswer, EndpointError, EndpointSession};
use super::wire::EndpointRefusal;
use crate::error::ClientError;
use crate::verify::CheckedModel;

/// Requests that a replica is asked at once, at most: half of what a provider answers before it is paid.
pub(super) const WINDOW: usize = 32;

/// How many requests a proved one counts as, so that no more are under way than a provider takes.
pub(super) const PROOF_WEIGHT: usize = WINDOW / 4;

/// The API's code for an endpoint whose provider does not fetch requests.
const NOT_HERE: &str = "TG-API-012";

/// How often it is looked whether a replica has gone silent.
const WATCH: Duration = Duration::from_millis(100);

/// Why a group gives a replica up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveReason {
    /// It broke, was silent or gave what is not its provider's.
    Lost,
    /// What was locked for it is spent.
    Spent,
    /// Nothing was asked of it for long.
    Idle,
    /// The group is closed, or the program that watched it ends.
    Closed,
}

/// A job that serves, and its session.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) session: EndpointSession,
    /// When something last came from it.
    heard: Mutex<Instant>,
    /// Whether it was given up: what it was asked is asked of others.
    gone: watch::Sender<bool>,
}

impl Replica {
    pub(super) fn new(session: EndpointSession) -> Self {
        Self {
            session,
            heard: Mutex::new(Instant::now()),
            gone: watch::Sender::new(false),
        }
    }

    pub(super) const fn job(&self) -> JobId {
        self.session.job()
    }

    pub(super) const fn provider(&self) -> Address {
        self.session.provider()
    }

    /// Cuts off everything that it was asked.
    pub(super) fn give_up(&self) {
        self.gone.send_replace(true);
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Since when it is silent, for a request that was asked at `asked`.
    fn silent_since(&self, asked: Instant) -> Instant {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.max(asked)
    }

    /// Asks it, as long as it is not given up and does not go silent: while it answers others, a request waits.
    pub(super) async fn ask(
        &self,
        input: &[u8],
        proof: Option<&CheckedModel>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
        patience: Duration,
    ) -> Result<EndpointAnswer, EndpointError> {
        let asked = Instant::now();
        let mut heard = |bytes: &[u8]| {
            self.hear();
            piece(bytes);
        };
        let answered = async {
            match proof {
                Some(model) => self.session.ask_proved(input.to_vec(), model).await,
                None => self.session.ask(input.to_vec(), &mut heard).await,
            }
        };
        let silent = async {
            while self.silent_since(asked).elapsed() < patience {
                tokio::time::sleep(WATCH).await;
            }
        };
        let mut gone = self.gone.subscribe();
        tokio::select! {
            biased;
            answer = answered => {
                if answer.is_ok() {
                    self.hear();
                }
                answer
            }
            // An error means that it is dropped, which nobody does who asks it.
            _gone = gone.wait_for(|it| *it) => Err(EndpointError::GivenUp),
            () = silent => Err(EndpointError::Silent { seconds: patience.as_secs() }),
        }
    }

    /// Gives its provider a voucher for all that is owed, and waits so long at most.
    pub(super) async fn pay(&self, most: Duration) -> Result<(), EndpointError> {
        let paid = tokio::time::timeout(most, self.session.pay()).await;
        paid.unwrap_or(Err(EndpointError::Silent {
            seconds: most.as_secs(),
        }))
    }
}

/// A replica that is asked, with what is counted of it.
#[derive(Debug)]
pub(super) struct ReplicaSlot {
    pub(super) replica: Arc<Replica>,
    /// Requests that it has not answered, a proved one as several.
    pub(super) unanswered: usize,
    /// When it last had one.
    pub(super) used: Instant,
    /// Since when its provider does not fetch requests, if it does not.
    pub(super) away: Option<Instant>,
    /// Since when it only says that it has too much to do, if it does.
    pub(super) busy: Option<Instant>,
}

impl ReplicaSlot {
    pub(super) fn new(replica: Arc<Replica>) -> Self {
        Self {
            replica,
            unanswered: 0,
            used: Instant::now(),
            away: None,
            busy: None,
        }
    }
}

/// The replica to ask next, by what each has unanswered and whether its provider is away: the one with the least of those that have room for
/// so many more and are there, the first of equal ones.
pub(super) fn least_busy(
    loads: impl Iterator<Item = (usize, bool)>,
    weight: usize,
) -> Option<usize> {
    let fits = loads
        .enumerate()
        .filter(|(_, (unanswered, is_away))| !is_away && unanswered + weight <= WINDOW);
    let least = fits.min_by_key(|(index, (unanswered, _))| (*unanswered, *index));
    least.map(|(index, _)| index)
}

/// What a failed request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureMeaning {
    /// The replica is of no use any more.
    Leaves(LeaveReason),
    /// Its provider is not at the gateway, and may come back.
    Away,
    /// The gateway does not answer.
    NoGateway,
    /// It has too much to do.
    Busy,
    /// The request cannot be answered, as this replica says.
    Request,
    /// The group cannot go on.
    Ours,
}

pub(super) fn meaning(error: &EndpointError) -> FailureMeaning {
    let lost = FailureMeaning::Leaves(LeaveReason::Lost);
    match error {
        EndpointError::Client(error) => meaning_of_call(error),
        EndpointError::Refused { because, .. } => match because {
            EndpointRefusal::NoMoney => FailureMeaning::Leaves(LeaveReason::Spent),
            EndpointRefusal::Busy => FailureMeaning::Busy,
            EndpointRefusal::Failed => FailureMeaning::Request,
            EndpointRefusal::Unsigned
            | EndpointRefusal::Unpaid
            | EndpointRefusal::Ends
            | EndpointRefusal::Behind
            | EndpointRefusal::Unsealed => lost,
        },
        EndpointError::CutOff | EndpointError::GivenUp => FailureMeaning::Away,
        EndpointError::NotServed { .. }
        | EndpointError::NotTheirs { .. }
        | EndpointError::Seal(_)
        | EndpointError::Unproved(_)
        | EndpointError::Lied { .. }
        | EndpointError::Overcharged(_)
        | EndpointError::Card(_)
        | EndpointError::Silent { .. }
        | EndpointError::OtherLease { .. }
        | EndpointError::OtherServer { .. } => lost,
        EndpointError::NoEndpoint { .. } | EndpointError::Overflow => FailureMeaning::Ours,
    }
}

fn meaning_of_call(error: &ClientError) -> FailureMeaning {
    match error {
        ClientError::Unreachable { .. } | ClientError::Timeout { .. } => FailureMeaning::NoGateway,
        ClientError::Refused { .. } if error.code() == Some(NOT_HERE) => FailureMeaning::Away,
        ClientError::Refused {
            status: 429 | 503, ..
        } => FailureMeaning::Busy,
        ClientError::Refused {
            status: 413 | 422, ..
        } => FailureMeaning::Request,
        _ => FailureMeaning::Leaves(LeaveReason::Lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_busy_one_is_asked_if_it_has_room() {
        let of = |loads: &[(usize, bool)], weight| least_busy(loads.iter().copied(), weight);
        assert_eq!(of(&[], 1), None);
        assert_eq!(of(&[(3, false), (2, false), (2, false)], 1), Some(1));
        assert_eq!(of(&[(WINDOW, false)], 1), None);
        assert_eq!(of(&[(WINDOW - 1, false)], 1), Some(0));
        assert_eq!(of(&[(WINDOW - 1, false)], 2), None);
        // One whose provider is away is not asked, however little it was.
        assert_eq!(of(&[(0, true), (9, false)], 1), Some(1));
        assert_eq!(of(&[(0, true)], 1), None);
    }

    #[test]
    fn a_failure_says_who_is_at_fault() {
        let refused = |because| {
            meaning(&EndpointError::Refused {
                because,
                detail: String::new(),
            })
        };
        let lost = FailureMeaning::Leaves(LeaveReason::Lost);
        let spent = FailureMeaning::Leaves(LeaveReason::Spent);
        assert_eq!(refused(EndpointRefusal::NoMoney), spent);
        assert_eq!(refused(EndpointRefusal::Unpaid), lost);
        assert_eq!(refused(EndpointRefusal::Failed), FailureMeaning::Request);
        assert_eq!(meaning(&EndpointError::Silent { seconds: 1 }), lost);
        assert_eq!(meaning(&EndpointError::CutOff), FailureMeaning::Away);
        let of_call = |status, code: &str| {
            let body = crate::error::ErrorBody {
                code: code.to_owned(),
                message: String::new(),
                hint: String::new(),
            };
            meaning(&EndpointError::Client(ClientError::Refused {
                status,
                body,
            }))
        };
        assert_eq!(of_call(503, NOT_HERE), FailureMeaning::Away);
        assert_eq!(of_call(503, "TG-API-011"), FailureMeaning::Busy);
        assert_eq!(of_call(422, "x"), FailureMeaning::Request);
        assert_eq!(of_call(404, "x"), lost);
    }
}
