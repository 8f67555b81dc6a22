//! What is done to the network, one after the other, while orders come: a line of the table each.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use super::fleet::{Fleet, Participant};
use super::hosts::Cable;
use super::load::OrderLoad;
use super::watch::{Gap, NodeWatch};

/// Longest time without a new final block that nodes may see that nothing was done to.
pub(crate) const GAP_MAX: Duration = Duration::from_secs(3);

/// How long jobs are waited for before something is done: it is done under load.
const LOADED: Duration = Duration::from_secs(10);

/// How long a killed process stays away.
const AWAY: Duration = Duration::from_secs(6);

/// How long a cable is out.
const PARTED: Duration = Duration::from_secs(60);

/// How long a process may take to come back.
const BACK: Duration = Duration::from_secs(60);

/// How long a validator without a disk may take to vote again: until the next height that divides by 64.
const VOTES_AGAIN: Duration = Duration::from_secs(180);

/// What is done to one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkFault {
    /// Nothing.
    None,
    /// It is killed, and started again.
    Killed(Participant),
    /// It is killed, its disk is emptied, and it is started again.
    Wiped(u8),
    /// Its cable is out for a minute.
    Parted(u8),
}

impl NetworkFault {
    /// All of them in their order. A run without namespaces has no cables.
    pub(crate) fn all(has_cables: bool) -> Vec<Self> {
        let is_killed = |it: &Participant| !matches!(it, Participant::Cheat(_));
        let killed = Participant::all()
            .into_iter()
            .filter(is_killed)
            .map(Self::Killed);
        let mut all: Vec<Self> = [Self::None].into_iter().chain(killed).collect();
        all.push(Self::Wiped(1));
        if has_cables {
            // The one that the first gateway follows.
            all.push(Self::Parted(0));
        }
        all
    }

    /// In words.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::None => "nothing".to_owned(),
            Self::Killed(member) => format!("kill -9 {}", member.name()),
            Self::Wiped(index) => format!("disk of {} wiped", Participant::Validator(index).name()),
            Self::Parted(index) => {
                format!("cable of {} out 60 s", Participant::Validator(index).name())
            }
        }
    }

    /// Whom it is done to.
    const fn member(self) -> Option<Participant> {
        match self {
            Self::None => None,
            Self::Killed(member) => Some(member),
            Self::Wiped(index) | Self::Parted(index) => Some(Participant::Validator(index)),
        }
    }
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct EventRow {
    /// What was done.
    pub(crate) fault: String,
    /// When it began, in milliseconds since 1970, as the times of jobs.
    pub(crate) began_ms: u128,
    /// How long it took until all was as before.
    pub(crate) lasted: Duration,
    /// The longest gap between final blocks that the others saw.
    pub(crate) gap: Gap,
    /// Jobs that waited or ran when it was done.
    pub(crate) in_flight: u64,
    /// Orders acknowledged while it lasted.
    pub(crate) ordered: usize,
    /// What is wrong, if anything.
    pub(crate) wrong: Option<String>,
}

/// Does it, waits until all is as before, and measures.
///
/// # Errors
/// If a process cannot be killed or started.
pub(crate) fn play(
    fault: NetworkFault,
    fleet: &mut Fleet,
    watch: &NodeWatch,
    load: &OrderLoad,
) -> Result<EventRow> {
    let in_flight = in_flight_soon(watch, fault.member());
    let (started, before) = (Instant::now(), load.count());
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let rest: Vec<Participant> = Participant::nodes()
        .into_iter()
        .filter(|it| Some(*it) != fault.member())
        .collect();
    let mut wrong = None;
    match fault {
        NetworkFault::None => thread::sleep(AWAY + AWAY),
        NetworkFault::Killed(member) => {
            fleet.kill(member)?;
            thread::sleep(AWAY);
            fleet.start(member)?;
            wrong = back(fleet, watch, member, BACK);
        }
        NetworkFault::Wiped(index) => {
            let member = Participant::Validator(index);
            fleet.kill(member)?;
            fleet.wipe(index)?;
            thread::sleep(AWAY);
            fleet.start(member)?;
            wrong = back(fleet, watch, member, VOTES_AGAIN);
        }
        NetworkFault::Parted(index) => {
            let member = Participant::Validator(index);
            let Some(spaces) = fleet.spaces().cloned() else {
                bail!("loopback has no cables");
            };
            spaces.connect(member.host(), Cable::Out)?;
            thread::sleep(PARTED);
            spaces.connect(member.host(), Cable::In)?;
            wrong = back(fleet, watch, member, BACK);
        }
    }
    // What comes back may disturb the others a little later.
    thread::sleep(Duration::from_secs(3));
    let gap = watch.gap(&rest, started);
    let wrong = wrong.or_else(|| ended(fleet)).or_else(|| {
        (gap.length > GAP_MAX).then(|| format!("more than {} s without a block", GAP_MAX.as_secs()))
    });
    let wrong = wrong.or_else(|| unloaded(fault, in_flight));
    Ok(EventRow {
        fault: fault.describe(),
        began_ms: since_1970?.as_millis(),
        lasted: started.elapsed(),
        gap,
        in_flight,
        ordered: load.count() - before,
        wrong,
    })
}

/// What is wrong with a fault that was played with nothing in flight: it shows nothing of what is lost.
fn unloaded(fault: NetworkFault, in_flight: u64) -> Option<String> {
    let is_idle = fault != NetworkFault::None && in_flight == 0;
    is_idle.then(|| "no job waited or ran when it was done".to_owned())
}

/// Jobs that wait or run, once there are any, or after a while.
fn in_flight_soon(watch: &NodeWatch, not: Option<Participant>) -> u64 {
    let asked = Instant::now();
    loop {
        let count = in_flight(watch, not);
        if count > 0 || asked.elapsed() > LOADED {
            return count;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Jobs that wait or run, as a node says that nothing is done to.
fn in_flight(watch: &NodeWatch, not: Option<Participant>) -> u64 {
    let mut nodes = Participant::nodes().into_iter();
    let status = nodes.find(|it| Some(*it) != not).map(|it| watch.status(it));
    let jobs = status.map(|it| it["jobs"].clone()).unwrap_or_default();
    let count = |name: &str| jobs[name].as_u64().unwrap_or(0);
    count("queued") + count("active")
}

/// Waits until a node has the chain as far as it was when it came back, and votes. Providers need not be waited for.
fn back(
    fleet: &Fleet,
    watch: &NodeWatch,
    member: Participant,
    patience: Duration,
) -> Option<String> {
    if !Participant::nodes().contains(&member) {
        return None;
    }
    let (started, height) = (Instant::now(), watch.greatest());
    let votes = || match member {
        Participant::Validator(_) => fleet.state(member) == "final",
        _ => true,
    };
    while watch.height(member) < height || !votes() {
        if started.elapsed() > patience {
            let state = fleet.state(member);
            return Some(format!("not back in {} s: {state}", patience.as_secs()));
        }
        thread::sleep(Duration::from_millis(100));
    }
    None
}

/// A process that ended by itself.
fn ended(fleet: &mut Fleet) -> Option<String> {
    let ended = fleet.ended()?;
    // One that cheats is suspended, and may stop because of it.
    (!matches!(ended, Participant::Cheat(_))).then(|| format!("{} ended by itself", ended.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_without_load_does_not_pass() {
        for fault in NetworkFault::all(true) {
            assert_eq!(unloaded(fault, 1), None, "{fault:?}");
            let is_idle = unloaded(fault, 0).is_some();
            assert_eq!(is_idle, fault != NetworkFault::None, "{fault:?}");
        }
    }
}
