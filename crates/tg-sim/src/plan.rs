//! What a seed draws before a run begins: who takes part, who of them is faulty in which way, the links, and when what
//! fails. All of it is printed first, and any part of it can be left out, which is how a failing run is made small.
//!
//! # What is injected, at most
//!
//! Faults stay within what the protocol says that it survives, so that whatever the checks find is a bug:
//! - At most `f` seats of `n >= 3f + 1` are hostile or lose what they signed (a wiped journal of votes); links of a hostile
//!   seat may be as bad as they like.
//! - Any number of honest validators may lose power or be cut off for a while: then no block is made, which must harm nobody.
//! - A newcomer among the validators counts as faulty until it votes; a seat is given back only where the rest bears the faults.
//! - An honest provider asks the next validator when the one it asks has no new block for three seconds.

mod attackers;
mod clients;
mod clocks;
mod forger;
mod gateways;
mod lapse;
mod seats;
mod text;

use std::fmt;

use tg_types::VerificationMode;

use crate::draw::SeedStream;
use crate::evidence::SampleKind;

pub use clients::ClientPlan;
pub use gateways::GatewayPlan;
pub use lapse::{LapsePlan, PAUSE};
pub use seats::{LeaverPlan, NewcomerPlan, PlannedSeats};

/// How a seat behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeatRole {
    /// As the protocol says.
    Honest,
    /// Two validators under one key, each of which sends its votes to one part of the others.
    Twins,
    /// Two validators under one key, whose votes everybody hears.
    Equivocator,
    /// Says nothing.
    Silent,
    /// Whatever it says comes late, by so many milliseconds.
    Late(u64),
    /// Its clock is ahead by so many milliseconds, and so its blocks are.
    FastClock(u64),
    /// Says of all evidence the opposite of what it shows, as proposer, as voter and as member of a committee.
    VerdictLiar,
    /// As a member of a committee finds everything right without looking: lazy, or bribed.
    LazyMember,
    /// As a member of a committee finds everything right, and has from the provider what its run gives: it opens what a watcher has to.
    BribedWatcher,
    /// The same of drawn parts too, and says of results and accusations that all validators look at that nothing is wrong: one of a bribed majority.
    BribedMember,
    /// As a member of a committee accuses every result.
    FalseAccuser,
    /// Votes on no result, and does everything else: a watcher that sleeps.
    Sleeper,
    /// Seals the votes of others as its own, and so can open none.
    VoteCopier,
    /// Deals no key and signs no seed.
    SeedWithholder,
    /// States that it holds everything.
    StorageLiar,
    /// States that it holds everything, and gives nothing to anybody: what it keeps is gone.
    FileDropper,
    /// Sends blocks with bytes changed.
    Mangler,
    /// Proposes in its turn blocks that do not hold.
    Forger,
    /// Leaves the seeds that it knows out of its blocks.
    SeedOmitter,
}

impl SeatRole {
    /// Its name in logs and in the table of coverage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Twins => "twins",
            Self::Equivocator => "equivocator",
            Self::Silent => "silent",
            Self::Late(_) => "late",
            Self::FastClock(_) => "fast-clock",
            Self::VerdictLiar => "verdict-liar",
            Self::LazyMember => "lazy-member",
            Self::BribedWatcher => "bribed-watcher",
            Self::BribedMember => "bribed-member",
            Self::FalseAccuser => "false-accuser",
            Self::Sleeper => "sleeper",
            Self::VoteCopier => "vote-copier",
            Self::SeedWithholder => "seed-withholder",
            Self::StorageLiar => "storage-liar",
            Self::FileDropper => "file-dropper",
            Self::Mangler => "mangler",
            Self::Forger => "forger",
            Self::SeedOmitter => "seed-omitter",
        }
    }
}

/// How a provider behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderRole {
    /// As the protocol says.
    Honest,
    /// Commits to a wrong result, and shows it.
    Wrong,
    /// Commits to a result that is wrong in one of twenty parts.
    OnePart,
    /// The same, and shows nothing if the seed draws that part.
    Picker,
    /// Shows the evidence of an earlier job.
    Stale,
    /// Shows the evidence of another provider.
    Copied,
    /// Shows a part of its evidence.
    Partial,
    /// Names evidence that nobody can get.
    Withheld,
    /// Gives what it opens to hostile validators only.
    Selective,
    /// Commits to a wrong result and gives what it opens to hostile validators only; of the jobs of its friends it does as the protocol says.
    SelectiveLiar,
    /// Starts and never hands anything in.
    Idle,
    /// Never starts.
    Absent,
    /// Takes what it needs for a job and declines it then, now and then by saying that its input is missing, which it is not.
    Decliner,
    /// States that its run of a program took all that it may take.
    Overcharger,
    /// Says of every key of a sealed job that it does not open the input.
    KeyDenier,
}

impl ProviderRole {
    /// Its name in logs and in the table of coverage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Wrong => "wrong",
            Self::OnePart => "one-part",
            Self::Picker => "picker",
            Self::Stale => "stale",
            Self::Copied => "copied",
            Self::Partial => "partial",
            Self::Withheld => "withheld",
            Self::Selective => "selective",
            Self::SelectiveLiar => "selective-liar",
            Self::Idle => "idle",
            Self::Absent => "absent",
            Self::Decliner => "decliner",
            Self::Overcharger => "overcharger",
            Self::KeyDenier => "key-denier",
        }
    }
}

/// A provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderPlan {
    /// How it behaves.
    pub role: ProviderRole,
    /// The validator that it asks first.
    pub gateway: usize,
    /// Leases at one time.
    pub slots: u16,
    /// What a job costs, in thousandths of a TGRID.
    pub price_milli: u64,
    /// How long a job takes it, in milliseconds.
    pub work_ms: u64,
    /// Whether its price goes to four times as much and back during the run.
    pub price_shock: bool,
}

/// How a requestor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestorRole {
    /// Orders and waits.
    Honest,
    /// Orders and waits, and is a friend of the providers that cheat all but their friends: it challenges nothing.
    Friend,
    /// Takes orders back at random.
    Fickle,
    /// Orders with inputs that nobody has.
    Withholding,
    /// Sends what costs others work: transactions that are used up, that cannot be paid, that are forged, and again those of
    /// others.
    Spammer,
    /// Orders sealed jobs and grants nobody a key.
    KeyWithholder,
    /// Orders sealed jobs and grants what opens nothing, or a key that does not open the input; asked for the key, it shows the right one.
    KeyGarbler,
}

impl RequestorRole {
    /// Its name in logs and in the table of coverage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Friend => "friend",
            Self::Fickle => "fickle",
            Self::Withholding => "withholding",
            Self::Spammer => "spammer",
            Self::KeyWithholder => "key-withholder",
            Self::KeyGarbler => "key-garbler",
        }
    }
}

/// A requestor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestorPlan {
    /// How it behaves.
    pub role: RequestorRole,
    /// The validator that it asks first.
    pub gateway: usize,
    /// How many orders it gives.
    pub orders: u64,
}

/// What of a validator's disk is gone after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// What was not synced.
    Unsynced,
    /// The chain.
    Chain,
    /// The journal of votes.
    Votes,
    /// All of it, blobs too.
    Disk,
}

impl Loss {
    /// Its name in logs and in the table of coverage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsynced => "power-cut",
            Self::Chain => "chain-lost",
            Self::Votes => "votes-lost",
            Self::Disk => "disk-lost",
        }
    }
}

/// Something that fails for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// A validator loses power.
    Crash {
        /// Which.
        seat: usize,
        /// What of its disk is gone.
        loss: Loss,
    },
    /// These seats do not reach the others; and are not reached either, if it is both ways.
    Partition {
        /// Who is cut off.
        side: Vec<usize>,
        /// Whether nothing arrives either.
        both_ways: bool,
    },
    /// Two seats do not reach each other.
    Cut {
        /// Which.
        pair: [usize; 2],
    },
    /// So many of a thousand messages are lost everywhere.
    Loss {
        /// How many.
        permille: u64,
    },
    /// All messages take so many milliseconds more.
    Delay {
        /// How many.
        ms: u64,
    },
}

impl FailureKind {
    /// Its name in logs and in the table of coverage.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Crash { loss, .. } => loss.name(),
            Self::Partition {
                both_ways: true, ..
            } => "partition",
            Self::Partition { .. } => "one-way-partition",
            Self::Cut { .. } => "cut",
            Self::Loss { .. } => "loss",
            Self::Delay { .. } => "delay",
        }
    }
}

/// A fault and when it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// When it begins, in milliseconds of the run.
    pub at_ms: u64,
    /// How long it lasts.
    pub for_ms: u64,
    /// What fails.
    pub kind: FailureKind,
}

/// A validator is started again with the program of a newer release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRelease {
    /// When, in milliseconds of the run.
    pub at_ms: u64,
    /// Which.
    pub seat: usize,
}

/// The links between validators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links {
    /// Mean delay in milliseconds.
    pub latency_ms: u64,
    /// Its standard deviation.
    pub jitter_ms: u64,
    /// Lost messages of a thousand.
    pub loss_permille: u64,
}

/// A part of a plan that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanPart {
    /// A hostile seat: it is honest instead.
    Seat(usize),
    /// A provider.
    Provider(usize),
    /// A requestor.
    Requestor(usize),
    /// A fault.
    Fault(usize),
    /// Jitter and loss of links.
    Links,
    /// Three quarters of the orders.
    Orders,
    /// The new release.
    Release,
    /// Somebody who bonds for a seat.
    Newcomer(usize),
    /// A validator that gives its seat back: it stays.
    Leaver(usize),
    /// A client to which gateways lie.
    Client(usize),
    /// A gateway.
    Gateway(usize),
    /// Clocks of honest validators that are not exact.
    Clocks,
    /// The account that is left until its rent is spent.
    Lapse,
}

impl fmt::Display for PlanPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seat(index) => write!(f, "seat{index}"),
            Self::Provider(index) => write!(f, "provider{index}"),
            Self::Requestor(index) => write!(f, "requestor{index}"),
            Self::Fault(index) => write!(f, "fault{index}"),
            Self::Links => f.write_str("links"),
            Self::Orders => f.write_str("orders"),
            Self::Release => f.write_str("release"),
            Self::Newcomer(index) => write!(f, "newcomer{index}"),
            Self::Leaver(index) => write!(f, "leaver{index}"),
            Self::Client(index) => write!(f, "client{index}"),
            Self::Gateway(index) => write!(f, "gateway{index}"),
            Self::Clocks => f.write_str("clocks"),
            Self::Lapse => f.write_str("lapse"),
        }
    }
}

/// A part of a plan has no such name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no part {0}: seatN, providerN, requestorN, faultN, newcomerN, leaverN, clientN, gatewayN, links, orders, clocks, release or lapse"
)]
pub struct ParsePartError(String);

impl std::str::FromStr for PlanPart {
    type Err = ParsePartError;

    fn from_str(text: &str) -> Result<Self, ParsePartError> {
        let numbered = |name: &str| text.strip_prefix(name)?.parse::<usize>().ok();
        let part = match text {
            "links" => Some(Self::Links),
            "orders" => Some(Self::Orders),
            "clocks" => Some(Self::Clocks),
            "release" => Some(Self::Release),
            "lapse" => Some(Self::Lapse),
            _ => (numbered("seat").map(Self::Seat))
                .or_else(|| numbered("provider").map(Self::Provider))
                .or_else(|| numbered("requestor").map(Self::Requestor))
                .or_else(|| numbered("fault").map(Self::Fault))
                .or_else(|| numbered("newcomer").map(Self::Newcomer))
                .or_else(|| numbered("leaver").map(Self::Leaver))
                .or_else(|| numbered("client").map(Self::Client))
                .or_else(|| numbered("gateway").map(Self::Gateway)),
        };
        part.ok_or_else(|| ParsePartError(text.to_owned()))
    }
}

/// All of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimPlan {
    /// The seed.
    pub seed: u64,
    /// The seats; the first is honest.
    pub seats: Vec<SeatRole>,
    /// The links between them.
    pub links: Links,
    /// The providers; `None` was left out.
    pub providers: Vec<Option<ProviderPlan>>,
    /// The requestors; `None` was left out.
    pub requestors: Vec<Option<RequestorPlan>>,
    /// The faults; `None` was left out.
    pub faults: Vec<Option<PlannedFault>>,
    /// A new release, whose program executes the next version of the protocol: which validator gets it when.
    pub release: Vec<NewRelease>,
    /// Seats that change hands.
    pub seat_changes: PlannedSeats,
    /// An account that is left until its rent is spent; then nobody orders anything.
    pub lapse: Option<LapsePlan>,
    /// Clients to which gateways lie; `None` was left out.
    pub clients: Vec<Option<ClientPlan>>,
    /// Nodes without a vote that follow the chain; `None` was left out.
    pub gateways: Vec<Option<GatewayPlan>>,
    /// How far the wall clocks of seats are ahead if they are honest, in milliseconds; one that is not here is exact.
    pub clocks_ms: Vec<i64>,
    /// How all results are checked; drawn for each order if absent.
    pub mode: Option<VerificationMode>,
    /// Whether validators repeat no run, so that every dispute about one ends at a tile.
    pub by_tile: bool,
    /// Whether committees of mode sync run the model whole, as its runs are short.
    pub run_whole: bool,
    /// Whether answers are kept after they were paid, and seats are asked for them.
    pub retains: bool,
    /// Whether orders name a program, whose runs are paid by what they take, and not the model of integers.
    pub programs: bool,
    /// Whether they name a float model instead, whose runs are paid in the same way.
    pub floats: bool,
    /// Whether orders that else ask for a proof are sealed.
    pub seals: bool,
    /// When faults end, in milliseconds.
    pub heal_ms: u64,
    /// What was left out.
    pub without: Vec<PlanPart>,
}

/// Orders of a run, all requestors together.
const ORDERS: u64 = 100;

/// How long faults are there, in milliseconds.
const SAFETY_MS: u64 = 30_000;

impl SimPlan {
    /// What a seed draws.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let plan = Self::with_jobs(seed);
        let seats = plan.seats.iter().enumerate();
        let honest = seats.filter(|(_, role)| **role == SeatRole::Honest);
        let honest: Vec<usize> = honest.map(|(seat, _)| seat).collect();
        match LapsePlan::drawn(seed, &honest) {
            Some(lapse) => plan.with_lapse(lapse),
            None => Self {
                clients: clients::drawn(seed, &honest),
                gateways: gateways::drawn(seed, &honest),
                ..plan
            },
        }
    }

    /// The same with an account that is left, and without jobs, seats that change hands and a new release.
    fn with_lapse(self, lapse: LapsePlan) -> Self {
        let founders = self.seats.len();
        let of_newcomer = |it: &PlannedFault| {
            let FailureKind::Crash { seat, .. } = it.kind else {
                return false;
            };
            seat >= founders
        };
        let faults = self.faults.into_iter();
        let faults = faults.filter(|it| !it.as_ref().is_some_and(of_newcomer));
        Self {
            faults: faults.collect(),
            providers: Vec::new(),
            requestors: Vec::new(),
            release: Vec::new(),
            seat_changes: PlannedSeats::default(),
            lapse: Some(lapse),
            ..self
        }
    }

    /// What a seed draws of validators, of those that order and those that serve, and of faults.
    fn with_jobs(seed: u64) -> Self {
        let mut draw = SeedStream::new(seed, "plan");
        let count = draw.pick(&[4, 4, 4, 5, 6, 7]);
        let faulty_max = (count - 1) / 3;
        let hostile = draw.index(faulty_max + 1);
        let mut seats = vec![SeatRole::Honest; count];
        for _ in 0..hostile {
            let seat = 1 + draw.index(count - 1);
            seats[seat] = role(&mut draw);
        }
        // In every fourth run; not drawn, so that the other runs stay as they were.
        let retains = seed % 4 == 2;
        assign_special(&mut seats, seed, retains);
        let links = Links {
            latency_ms: draw.between(2, 60),
            jitter_ms: draw.between(0, 20),
            loss_permille: draw.pick(&[0, 0, 0, 5, 20]),
        };
        let hostile = seats
            .iter()
            .filter(|role| **role != SeatRole::Honest)
            .count();
        let honest: Vec<usize> = (0..count)
            .filter(|seat| seats[*seat] == SeatRole::Honest)
            .collect();
        let mut providers = providers(&mut draw, &honest);
        // In every seventh run; not drawn, so that the other runs stay as they were.
        let programs = seed % 7 == 6;
        // In one of seventeen.
        let floats = seed % 17 == 14 && !programs;
        // In one of nineteen, where validators may repeat runs.
        let seals = seed % 19 == 10 && seed % 4 != 3 && !programs;
        let mut hostile_providers = providers.iter_mut().flatten();
        let first = hostile_providers.find(|it| it.role != ProviderRole::Honest);
        let special = special_provider(seed, (programs || floats, seals));
        if let Some((provider, role)) = first.zip(special) {
            provider.role = role;
        }
        let mut requestors = requestors(&mut draw, &honest);
        if seals {
            withhold_keys(&mut requestors, seed);
        }
        let mut faults = faults(&mut draw, (count, &honest), faulty_max - hostile);
        let seat_changes = PlannedSeats::drawn(seed, (count, &honest), losing(&faults));
        faults.extend(power_cuts(&seat_changes, count));
        Self {
            seed,
            clocks_ms: clocks::drawn(seed, count + seat_changes.newcomers.len()),
            seats,
            links,
            providers,
            requestors,
            faults,
            release: release(seed, count),
            seat_changes,
            lapse: None,
            clients: Vec::new(),
            gateways: Vec::new(),
            mode: None,
            // In every fourth run; not drawn, so that the other runs stay as they were.
            by_tile: seed % 4 == 3,
            // In every third run.
            run_whole: seed % 3 == 1,
            retains,
            programs,
            floats,
            seals,
            heal_ms: SAFETY_MS,
            without: Vec::new(),
        }
    }

    /// What orders name.
    pub(crate) const fn sample(&self) -> SampleKind {
        match (self.programs, self.floats) {
            (true, _) => SampleKind::Program,
            (false, true) => SampleKind::Floats,
            (false, false) => SampleKind::Integers,
        }
    }

    /// The parts that can be left out.
    #[must_use]
    pub fn parts(&self) -> Vec<PlanPart> {
        let present = |all: Vec<bool>, part: fn(usize) -> PlanPart| {
            let present = all.into_iter().enumerate().filter(|(_, there)| *there);
            present.map(move |(index, _)| part(index))
        };
        let faults = self.faults.iter().map(Option::is_some).collect();
        let seats = self.seats.iter().map(|role| *role != SeatRole::Honest);
        let requestors = self.requestors.iter().map(Option::is_some).collect();
        let providers = self.providers.iter().map(Option::is_some).collect();
        let mut parts: Vec<PlanPart> = present(faults, PlanPart::Fault).collect();
        parts.extend(present(seats.collect(), PlanPart::Seat));
        parts.extend(present(requestors, PlanPart::Requestor));
        parts.extend(present(providers, PlanPart::Provider));
        for part in [PlanPart::Links, PlanPart::Orders] {
            if !self.without.contains(&part) {
                parts.push(part);
            }
        }
        if !self.release.is_empty() {
            parts.push(PlanPart::Release);
        }
        let PlannedSeats { newcomers, leavers } = &self.seat_changes;
        let leavers = leavers.iter().map(Option::is_some).collect();
        parts.extend(present(leavers, PlanPart::Leaver));
        let newcomers = newcomers.iter().map(Option::is_some).collect();
        parts.extend(present(newcomers, PlanPart::Newcomer));
        let clients = self.clients.iter().map(Option::is_some).collect();
        parts.extend(present(clients, PlanPart::Client));
        let gateways = self.gateways.iter().map(Option::is_some).collect();
        parts.extend(present(gateways, PlanPart::Gateway));
        if self.clocks_ms.iter().any(|it| *it != 0) {
            parts.push(PlanPart::Clocks);
        }
        parts.extend(self.lapse.map(|_| PlanPart::Lapse));
        parts
    }

    /// The same without a part.
    #[must_use]
    pub fn without(&self, part: PlanPart) -> Self {
        let mut plan = self.clone();
        match part {
            PlanPart::Seat(index) => {
                if let Some(role) = plan.seats.get_mut(index) {
                    *role = SeatRole::Honest;
                }
            }
            PlanPart::Provider(index) => clear(&mut plan.providers, index),
            PlanPart::Requestor(index) => clear(&mut plan.requestors, index),
            PlanPart::Fault(index) => clear(&mut plan.faults, index),
            PlanPart::Links => {
                plan.links.jitter_ms = 0;
                plan.links.loss_permille = 0;
            }
            PlanPart::Orders => {
                for requestor in plan.requestors.iter_mut().flatten() {
                    requestor.orders = requestor.orders.div_ceil(4);
                }
            }
            PlanPart::Release => plan.release.clear(),
            PlanPart::Newcomer(index) => clear(&mut plan.seat_changes.newcomers, index),
            PlanPart::Leaver(index) => clear(&mut plan.seat_changes.leavers, index),
            PlanPart::Client(index) => clear(&mut plan.clients, index),
            PlanPart::Gateway(index) => clear(&mut plan.gateways, index),
            PlanPart::Clocks => plan.clocks_ms.clear(),
            PlanPart::Lapse => plan.lapse = None,
        }
        plan.without.push(part);
        plan
    }

    /// The same with nothing else faulty than `f + 1` seats that sign for two sides, if there are `3 f + 1`: each side then has `2 f` votes
    /// that the other has not, or has them of seats that sign for both.
    pub(crate) fn with_two_sides(&self) -> Self {
        let (count, faults) = (self.seats.len(), self.faults_max());
        let mut plan = self.clone();
        plan.seats.fill(SeatRole::Honest);
        if count == 3 * faults + 1 {
            plan.seats[2 * faults..].fill(SeatRole::Twins);
        }
        plan.faults.clear();
        plan.release.clear();
        plan.seat_changes = PlannedSeats::default();
        plan.clients.clear();
        plan.gateways.clear();
        plan.lapse = None;
        plan
    }

    /// How many faulty seats the network can do with.
    #[must_use]
    pub fn faults_max(&self) -> usize {
        (self.seats.len() - 1) / 3
    }

    /// Whether more seats are bribed than the network bears. No seed draws that.
    pub(crate) fn is_outvoted(&self) -> bool {
        let bribed = self.seats.iter();
        let bribed = bribed.filter(|role| **role == SeatRole::BribedMember);
        bribed.count() > self.faults_max()
    }

    /// How far the wall clock of a seat is ahead, in milliseconds.
    pub(crate) fn clock_ms(&self, seat: usize) -> i64 {
        // Newcomers are honest.
        match self.seats.get(seat).unwrap_or(&SeatRole::Honest) {
            SeatRole::Honest => self.clocks_ms.get(seat).copied().unwrap_or(0),
            SeatRole::FastClock(ms) => i64::try_from(*ms).unwrap_or(i64::MAX),
            _ => 0,
        }
    }

    /// The command that runs it again.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = format!("tensorgrid sim --seed {}", self.seed);
        for (index, part) in self.without.iter().enumerate() {
            command.push_str(if index == 0 { " --without " } else { "," });
            command.push_str(&part.to_string());
        }
        command
    }
}

/// Gives a special role to the first hostile seat, if there is one: by the seed, not drawn, so that the other runs stay as they were.
fn assign_special(seats: &mut [SeatRole], seed: u64, retains: bool) {
    let is_forger = forger::is_of(seed) && !retains;
    let special = match seed % 11 {
        _ if retains => SeatRole::FileDropper,
        _ if is_forger => SeatRole::Forger,
        4 => SeatRole::BribedWatcher,
        10 => SeatRole::Sleeper,
        // No seed of this kind failed before there were any.
        _ if seed % 23 == 17 => SeatRole::SeedOmitter,
        _ => return,
    };
    let hostile = seats.iter().position(|it| *it != SeatRole::Honest);
    let of_forger = || is_forger.then(|| forger::seat(seed, seats.len()));
    if let Some(seat) = hostile.or_else(of_forger) {
        seats[seat] = special;
    }
}

/// The special role of the first hostile provider of a seed, if it has one: by the seed, and by whether what a run takes is counted, and orders are sealed.
const fn special_provider(seed: u64, (counts, seals): (bool, bool)) -> Option<ProviderRole> {
    match seed % 11 {
        _ if counts => Some(ProviderRole::Overcharger),
        _ if seals => Some(ProviderRole::KeyDenier),
        7 => Some(ProviderRole::Selective),
        _ if attackers::declines(seed) => Some(ProviderRole::Decliner),
        _ if attackers::delivers_nothing(seed) => Some(ProviderRole::Idle),
        _ => None,
    }
}

fn clear<T>(all: &mut [Option<T>], index: usize) {
    if let Some(entry) = all.get_mut(index) {
        *entry = None;
    }
}

/// How many validators lose what they signed.
fn losing(faults: &[Option<PlannedFault>]) -> usize {
    let loses = |it: &&PlannedFault| {
        let FailureKind::Crash { loss, .. } = it.kind else {
            return false;
        };
        matches!(loss, Loss::Votes | Loss::Disk)
    };
    faults.iter().flatten().filter(loses).count()
}

/// The power cuts of newcomers, whose seats have the places after the founders'.
fn power_cuts(seats: &PlannedSeats, founders: usize) -> Vec<Option<PlannedFault>> {
    let newcomers = seats.newcomers.iter().enumerate();
    let cuts = newcomers.filter_map(|(index, it)| {
        let (at_ms, for_ms) = it.as_ref()?.power_cut?;
        let kind = FailureKind::Crash {
            seat: founders + index,
            loss: Loss::Unsynced,
        };
        let fault = PlannedFault {
            at_ms,
            for_ms,
            kind,
        };
        Some(Some(fault))
    });
    cuts.collect()
}

/// In one of three runs all validators get a new release, one after the other; in a third of these the last one late, so that it is not
/// there when the version begins.
fn release(seed: u64, seats: usize) -> Vec<NewRelease> {
    let mut draw = SeedStream::new(seed, "release");
    if !draw.chance(333) {
        return Vec::new();
    }
    let is_late = draw.chance(333);
    let mut at_ms = draw.between(1_000, 6_000);
    let first = draw.index(seats);
    let mut release: Vec<NewRelease> = (0..seats)
        .map(|turn| {
            at_ms += draw.between(200, 1_500);
            let seat = (first + turn) % seats;
            NewRelease { at_ms, seat }
        })
        .collect();
    if let Some(last) = release.last_mut().filter(|_| is_late) {
        last.at_ms = draw.between(SAFETY_MS - 8_000, SAFETY_MS - 1_000);
    }
    release
}

fn role(draw: &mut SeedStream) -> SeatRole {
    let late = draw.between(200, 1_500);
    let ahead = draw.between(500, 6_000);
    draw.pick(&[
        SeatRole::Twins,
        SeatRole::Equivocator,
        SeatRole::Silent,
        SeatRole::Late(late),
        SeatRole::FastClock(ahead),
        SeatRole::VerdictLiar,
        SeatRole::StorageLiar,
        SeatRole::Mangler,
        SeatRole::LazyMember,
        SeatRole::FalseAccuser,
        SeatRole::VoteCopier,
        SeatRole::SeedWithholder,
    ])
}

fn providers(draw: &mut SeedStream, honest: &[usize]) -> Vec<Option<ProviderPlan>> {
    let count = draw.between(3, 6);
    let hostile = [
        ProviderRole::Wrong,
        ProviderRole::OnePart,
        ProviderRole::Picker,
        ProviderRole::Stale,
        ProviderRole::Copied,
        ProviderRole::Partial,
        ProviderRole::Withheld,
        ProviderRole::Idle,
        ProviderRole::Absent,
    ];
    (0..count)
        .map(|index| {
            let is_hostile = index >= 2 && draw.chance(600);
            let hostile = draw.pick(&hostile);
            let role = if is_hostile {
                hostile
            } else {
                ProviderRole::Honest
            };
            Some(ProviderPlan {
                role,
                gateway: draw.pick(honest),
                slots: draw.pick(&[2, 4, 8]),
                // Who cheats is cheap, else nobody would take it.
                price_milli: match role {
                    ProviderRole::Honest => draw.between(1_000, 2_000),
                    _ => draw.between(400, 1_200),
                },
                work_ms: draw.between(100, 700),
                price_shock: draw.chance(200),
            })
        })
        .collect()
}

fn requestors(draw: &mut SeedStream, honest: &[usize]) -> Vec<Option<RequestorPlan>> {
    let others = [
        RequestorRole::Honest,
        RequestorRole::Fickle,
        RequestorRole::Withholding,
        RequestorRole::Spammer,
    ];
    let count = draw.between(1, 3);
    let mut left = ORDERS;
    let mut all: Vec<Option<RequestorPlan>> = (0..count)
        .map(|_| {
            let role = draw.pick(&others);
            let orders = match role {
                RequestorRole::Honest
                | RequestorRole::Friend
                | RequestorRole::Fickle
                | RequestorRole::KeyWithholder
                | RequestorRole::KeyGarbler => draw.between(10, 30),
                RequestorRole::Withholding => draw.between(3, 10),
                RequestorRole::Spammer => 0,
            };
            left -= orders;
            let gateway = draw.pick(honest);
            Some(RequestorPlan {
                role,
                gateway,
                orders,
            })
        })
        .collect();
    all.push(Some(RequestorPlan {
        role: RequestorRole::Honest,
        gateway: draw.pick(honest),
        orders: left,
    }));
    all
}

/// The first requestor that orders anything grants no keys, or no right ones; the last one, which orders most, does.
fn withhold_keys(requestors: &mut [Option<RequestorPlan>], seed: u64) {
    let Some((_, others)) = requestors.split_last_mut() else {
        return;
    };
    let mut orders = others.iter_mut().flatten();
    if let Some(first) = orders.find(|it| it.orders > 0) {
        first.role = match attackers::garbles(seed) {
            true => RequestorRole::KeyGarbler,
            false => RequestorRole::KeyWithholder,
        };
    }
}

/// `spare` is how many more seats may lose their votes.
fn faults(
    draw: &mut SeedStream,
    (count, honest): (usize, &[usize]),
    mut spare: usize,
) -> Vec<Option<PlannedFault>> {
    let mut faults = Vec::new();
    for _ in 0..draw.between(0, 5) {
        let kind = match draw.between(0, 10) {
            0..=4 => {
                let loss = draw.pick(&[
                    Loss::Unsynced,
                    Loss::Unsynced,
                    Loss::Unsynced,
                    Loss::Chain,
                    Loss::Votes,
                    Loss::Disk,
                ]);
                let loses_votes = matches!(loss, Loss::Votes | Loss::Disk);
                let loss = if loses_votes && spare == 0 {
                    Loss::Unsynced
                } else {
                    spare -= usize::from(loses_votes);
                    loss
                };
                FailureKind::Crash {
                    seat: draw.pick(honest),
                    loss,
                }
            }
            5..=7 => {
                let mut side: Vec<usize> = (0..count).filter(|_| draw.chance(400)).collect();
                if side.is_empty() {
                    side.push(draw.index(count));
                }
                FailureKind::Partition {
                    side,
                    both_ways: draw.chance(700),
                }
            }
            8 => FailureKind::Cut {
                pair: [draw.index(count - 1), count - 1],
            },
            9 => FailureKind::Loss {
                permille: draw.between(20, 250),
            },
            _ => FailureKind::Delay {
                ms: draw.between(50, 400),
            },
        };
        let is_short = draw.chance(400);
        faults.push(Some(PlannedFault {
            at_ms: draw.between(1_000, SAFETY_MS - 5_000),
            for_ms: if is_short {
                draw.between(20, 600)
            } else {
                draw.between(1_000, 6_000)
            },
            kind,
        }));
    }
    faults
}
