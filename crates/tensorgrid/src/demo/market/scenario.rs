//! What happens: offers, orders, work, a lost provider, and an order that nobody can take.

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::{
    Decision, EndReason, Event, JobState, LeaseEnd, ModelFacts, Outcome, Schedule, State,
    WhyWaiting, replay,
};
use tg_types::draw::SplitMix64;
use tg_types::transaction::bid_commitment;
use tg_types::{
    Address, Amount, BidId, Digest, JobId, JobOrder, Label, Lane, LeaseId, ProgramId, Receipt,
    Tier, TimestampMs, Transaction, bid_id, job_id,
};

use super::grid::Grid;
use super::orders::{INPUT_LEN, JOBS, MODEL, impossible, needs, order};
use super::participants::{Participants, REQUESTORS, terms};
use tg_console::outcome::say;

/// Jobs that are ordered in one block.
const JOBS_PER_BLOCK: usize = 50;

/// Block after the first orders in which a provider is found lost.
const LOST_AFTER: usize = 14;

/// Blocks after which the scenario ends whatever waits.
const BLOCKS_MAX: usize = 600;

const PROGRAM: ProgramId = ProgramId::new([0x50; 32]);

/// One promise, and whether it was kept.
pub(super) struct Check {
    pub(super) promise: &'static str,
    pub(super) holds: bool,
    pub(super) detail: String,
}

/// What came of it all.
pub(super) struct MarketRun {
    pub(super) checks: Vec<Check>,
    pub(super) lanes: BTreeMap<&'static str, LaneCount>,
    pub(super) blocks: u64,
    pub(super) decisions: usize,
    pub(super) moved: usize,
    pub(super) why: Option<WhyWaiting>,
    pub(super) journal: Vec<u8>,
    pub(super) root: String,
}

/// Jobs of one lane.
#[derive(Default)]
pub(super) struct LaneCount {
    pub(super) ordered: usize,
    pub(super) paid: usize,
    pub(super) refused: usize,
    pub(super) unpaid: usize,
    pub(super) volume: Amount,
}

/// A bid that waits for its slot.
struct Sealed {
    requestor: usize,
    bid: BidId,
    order: JobOrder,
    salt: Digest,
    slot: u64,
}

/// Everything that moves.
struct MarketScenario {
    participants: Participants,
    grid: Grid,
    draw: SplitMix64,
    sealed: Vec<Sealed>,
    jobs: Vec<JobId>,
    hopeless: Option<JobId>,
    silent: BTreeSet<Address>,
    /// Auctions in which a winner paid another price than the others of its class.
    unequal: usize,
    moved: usize,
    stuck: usize,
}

/// Runs the scenario.
pub(super) fn run(is_loud: bool) -> anyhow::Result<MarketRun> {
    let participants = Participants::new();
    let grid = Grid::new(&participants.genesis(), is_loud)?;
    let mut scenario = MarketScenario {
        participants,
        grid,
        draw: SplitMix64::new(5),
        sealed: Vec::new(),
        jobs: Vec::new(),
        hopeless: None,
        silent: BTreeSet::new(),
        unequal: 0,
        moved: 0,
        stuck: 0,
    };
    if is_loud {
        say(
            "200 simulated providers: they take the time their machines would take, and compute nothing",
        );
    }
    scenario.open()?;
    let mut ordered = 0;
    for block in 0..BLOCKS_MAX {
        if ordered < JOBS {
            for index in ordered..JOBS.min(ordered + JOBS_PER_BLOCK) {
                scenario.order(index);
            }
            ordered += JOBS_PER_BLOCK;
        }
        scenario.reveal();
        scenario.work();
        if block == LOST_AFTER {
            scenario.lose()?;
        } else {
            let events = scenario.grid.step(Vec::new())?;
            scenario.look(&events);
        }
        let waits = scenario.grid.state().queued_jobs().count();
        let runs = scenario.grid.state().live_leases().count();
        if ordered >= JOBS && runs == 0 && waits <= 1 && scenario.sealed.is_empty() {
            break;
        }
    }
    scenario.grid.print();
    scenario.close()
}

impl MarketScenario {
    /// The model and the offers.
    fn open(&mut self) -> anyhow::Result<()> {
        let register = Transaction::RegisterModel {
            model: MODEL,
            public_blob: Digest::new([1; 32]),
            weights_blob: Digest::new([2; 32]),
            name: Label::lossy("simulated work"),
        };
        self.grid.send(&self.participants.requestors[0], register);
        self.grid.step(Vec::new())?;
        let accepted = Outcome::ModelAccepted(ModelFacts {
            program: PROGRAM,
            tier: tg_types::Tier::Tgx1,
            macs: 1_000_000,
            input_len: INPUT_LEN,
            output_len: 16,
            provable: false,
            proof_bytes: 0,
            work: 1_000_000,
            memory: u64::from(INPUT_LEN) + 16,
            trace_bytes: 0,
            read_bytes: 0,
            looks: 0,
        });
        let tasks = self.grid.state().pending_evidence();
        let verdicts = tasks.map(|task| task.verdict(accepted.clone())).collect();
        for (index, provider) in self.participants.providers.iter().enumerate() {
            let terms = terms(index);
            self.grid.send(provider, Transaction::PostOffer { terms });
        }
        self.grid.step(verdicts)?;
        Ok(())
    }

    fn order(&mut self, index: usize) {
        let now = self.grid.next_time();
        let is_hopeless = index == JOBS / 2;
        let needs = match is_hopeless {
            true => impossible(),
            false => needs(index, &mut self.draw),
        };
        let order = order(needs, index, now);
        let requestor = index % REQUESTORS;
        let wallet = &self.participants.requestors[requestor];
        if needs.lane() == Lane::Auction {
            let mut salt = [7; 32];
            salt[..8].copy_from_slice(&(index as u64).to_be_bytes());
            let salt = Digest::new(salt);
            let commit = Transaction::CommitBid {
                commitment: bid_commitment(&order, &salt, &wallet.address()),
                deposit: Amount::from_tgrid(1),
            };
            let signed = self.grid.send(wallet, commit);
            let state = self.grid.state();
            self.sealed.push(Sealed {
                requestor,
                bid: bid_id(signed.id(state.domain())),
                order,
                salt,
                slot: state.parameters().slot(now),
            });
            return;
        }
        let signed = self.grid.send(wallet, Transaction::SubmitJob { order });
        let id = job_id(signed.id(self.grid.state().domain()));
        match is_hopeless {
            true => self.hopeless = Some(id),
            false => self.jobs.push(id),
        }
    }

    /// Opens the bids whose slot has come.
    fn reveal(&mut self) {
        let slot = self.grid.state().parameters().slot(self.grid.next_time());
        let (due, later) = std::mem::take(&mut self.sealed)
            .into_iter()
            .partition(|it| it.slot < slot);
        self.sealed = later;
        let due: Vec<Sealed> = due;
        for Sealed {
            requestor,
            bid,
            order,
            salt,
            ..
        } in due
        {
            let reveal = Transaction::RevealBid { bid, salt, order };
            let signed = self
                .grid
                .send(&self.participants.requestors[requestor], reveal);
            let domain = *self.grid.state().domain();
            self.jobs.push(job_id(signed.id(&domain)));
        }
    }

    /// Every simulated provider starts what it was given, and hands in what took its time.
    fn work(&mut self) {
        let now = self.grid.next_time();
        let mut wishes: Vec<(Address, Transaction)> = Vec::new();
        let state = self.grid.state();
        for (job, lease) in state.live_members() {
            if self.silent.contains(&lease.provider) || now < lease.grant.from {
                continue;
            }
            let due = lease
                .started_at()
                .map(|at| at.saturating_add(declared(state, job, lease)));
            let message = match (job.state(), due) {
                (JobState::Leased, None) => Transaction::StartLease { lease: lease.id },
                (JobState::Running, Some(due)) if lease.lead().is_none() && due <= now => {
                    Transaction::CommitReceipt {
                        lease: lease.id,
                        receipt: receipt(&job.order),
                    }
                }
                _ => continue,
            };
            wishes.push((lease.provider, message));
        }
        let wallets: BTreeMap<Address, usize> = (0..)
            .zip(&self.participants.providers)
            .map(|(index, wallet)| (wallet.address(), index))
            .collect();
        for (provider, message) in wishes {
            if let Some(index) = wallets.get(&provider) {
                self.grid
                    .send(&self.participants.providers[*index], message);
            }
        }
    }

    /// The provider with the most work falls silent; three of four validators report it in one block.
    fn lose(&mut self) -> anyhow::Result<()> {
        let mut held: BTreeMap<Address, Vec<JobId>> = BTreeMap::new();
        for (job, lease) in self.grid.state().live_members() {
            held.entry(lease.provider).or_default().push(job.id);
        }
        let Some((lost, jobs)) = held.into_iter().max_by_key(|(_, jobs)| jobs.len()) else {
            return Ok(());
        };
        self.silent.insert(lost);
        let epoch = Schedule::epoch(self.grid.state().head().height.next());
        for index in 0..3 {
            let report = Transaction::ReportLiveness {
                epoch,
                lost: vec![lost],
                back: vec![],
            };
            self.grid.send(&self.participants.validators[index], report);
        }
        let events = self.grid.step(Vec::new())?;
        self.look(&events);
        let state = self.grid.state();
        for id in jobs {
            let job = state.job(&id);
            let lease = job.and_then(|it| it.live_lease());
            let holder = lease.and_then(|it| state.lease(&it)).map(|it| it.provider);
            match holder {
                Some(provider) if provider == lost => self.stuck += 1,
                _ => self.moved += 1,
            }
        }
        self.grid.print();
        say(format_args!(
            "provider {lost} is lost: {} jobs moved in the same block",
            self.moved
        ));
        Ok(())
    }

    /// Compares what winners of one auction pay.
    fn look(&mut self, events: &[Event]) {
        let state = self.grid.state();
        let decided = events.iter().filter_map(|event| match event {
            Event::Scheduled { decisions, .. } => Some(decisions),
            _ => None,
        });
        let mut prices: BTreeMap<u8, Amount> = BTreeMap::new();
        for decision in decided.flatten() {
            match decision {
                Decision::Cleared { class, price, .. } => {
                    prices.insert(*class, *price);
                }
                Decision::Placed {
                    job, offer, price, ..
                } => {
                    let Some(job) = state.job(job) else { continue };
                    if job.order.needs.lane() != Lane::Auction {
                        continue;
                    }
                    let class = state.offer(offer).map(|it| it.terms.machine.gpu.tag());
                    // Where winners found no machines there is no price of the class: each pays what its machine asks.
                    let Some(unit) = class.and_then(|class| prices.get(&class)) else {
                        continue;
                    };
                    let reference = job.order.needs.reference.get();
                    let base = state.offer(offer).and_then(|it| it.terms.price(job.macs));
                    let uniform = unit
                        .checked_mul_div_ceil(reference, 1_000)
                        .and_then(|it| it.checked_add(base?));
                    self.unequal += usize::from(uniform != Some(*price));
                }
                _ => {}
            }
        }
    }

    /// Counts, checks, replays.
    fn close(self) -> anyhow::Result<MarketRun> {
        let state = self.grid.state();
        let journal = self.grid.journal();
        let replayed = replay(&journal);
        let mut lanes: BTreeMap<&'static str, LaneCount> = BTreeMap::new();
        for id in &self.jobs {
            if let Some(job) = state.job(id) {
                count(
                    lanes.entry(job.order.needs.lane().as_str()).or_default(),
                    job,
                );
            }
        }
        let why = self.hopeless.and_then(|id| state.why_waiting(&id));
        let mut checks = promises(&self, &lanes, why.as_ref());
        checks.push(Check {
            promise: "the journal is reproduced bit for bit",
            holds: replayed
                .as_ref()
                .is_ok_and(|it| it.state.root() == state.root()),
            detail: match &replayed {
                Ok(it) => format!("{} blocks, {} decisions", it.blocks, it.decisions),
                Err(error) => error.to_string(),
            },
        });
        Ok(MarketRun {
            checks,
            lanes,
            blocks: state.head().height.get(),
            decisions: self.grid.decisions,
            moved: self.moved,
            why,
            root: state.root().to_string(),
            journal,
        })
    }
}

fn count(lane: &mut LaneCount, job: &tg_ledger::Job) {
    lane.ordered += 1;
    match job.end() {
        Some(EndReason::Fulfilled) => lane.paid += 1,
        Some(EndReason::NotAdmitted) => lane.refused += 1,
        _ => lane.unpaid += 1,
    }
    if let Some(settlement) = job.settlement() {
        let paid = settlement.price.saturating_add(settlement.members);
        lane.volume = lane.volume.saturating_add(paid);
    }
}

/// What the market promises, and whether it was so.
fn promises(
    scenario: &MarketScenario,
    lanes: &BTreeMap<&'static str, LaneCount>,
    why: Option<&WhyWaiting>,
) -> Vec<Check> {
    let state = scenario.grid.state();
    let check = |promise, holds, detail: String| Check {
        promise,
        holds,
        detail,
    };
    let ordered: usize = lanes.values().map(|it| it.ordered).sum();
    let open = state.queued_jobs().count() + state.live_leases().count();
    let (partial, gangs) = gangs(state, &scenario.jobs);
    let (late, admitted) = deadlines(state, &scenario.jobs, &scenario.silent);
    vec![
        check(
            "four validators agree on state and schedule root in every block",
            scenario.grid.disagreements == 0,
            format!("{} blocks", state.head().height),
        ),
        check(
            "money is conserved and no machine oversubscribed in any block",
            scenario.grid.broken == 0,
            format!("{} TGRID minted", state.money().minted),
        ),
        check(
            "every job but the impossible one ended with a reason",
            ordered == JOBS - 1 && open == 1 && scenario.grid.refused == 0,
            format!(
                "{ordered} ordered, {open} open, {} refused",
                scenario.grid.refused
            ),
        ),
        check(
            "a gang runs whole or not at all",
            partial == 0 && gangs > 0,
            format!("{gangs} gangs"),
        ),
        check(
            "admitted deadlines are met when nobody fails",
            late == 0 && admitted > 0,
            format!("{admitted} admitted"),
        ),
        check(
            "winners of an auction pay one price for each class",
            scenario.unequal == 0 && lanes.get("auction").is_some_and(|it| it.paid > 0),
            format!("{} differ", scenario.unequal),
        ),
        check(
            "a lost provider's jobs move within one round",
            scenario.stuck == 0 && scenario.moved > 0,
            format!("{} moved", scenario.moved),
        ),
        check(
            "the impossible job is explained",
            why.is_some_and(|it| it.placement.rejections.iter().count() > 0 && it.eta.is_none()),
            why.map_or_else(String::new, |it| {
                format!("{} offers looked at", it.placement.considered)
            }),
        ),
    ]
}

/// Gangs that were paid with a member missing, and gangs that were paid.
fn gangs(state: &State, jobs: &[JobId]) -> (usize, usize) {
    let (mut partial, mut whole) = (0, 0);
    for job in jobs.iter().filter_map(|id| state.job(id)) {
        if job.order.needs.lane() != Lane::Gang || job.state() != JobState::Paid {
            continue;
        }
        let lead: Option<LeaseId> = job.leases().last().copied();
        let members = lead.and_then(|id| state.lease(&id)).map_or(0, |lead| {
            state
                .gang_of(lead)
                .filter(|it| it.end() == Some(&LeaseEnd::Fulfilled))
                .count()
        });
        match members == usize::from(job.order.needs.gang) {
            true => whole += 1,
            false => partial += 1,
        }
    }
    (partial, whole)
}

/// Admitted jobs that were not paid by their deadline although no provider of theirs was lost, and admitted jobs.
fn deadlines(state: &State, jobs: &[JobId], silent: &BTreeSet<Address>) -> (usize, usize) {
    let (mut late, mut admitted) = (0, 0);
    for job in jobs.iter().filter_map(|id| state.job(id)) {
        if job.order.needs.lane() != Lane::Deadline || job.leases().is_empty() {
            continue;
        }
        admitted += 1;
        let leases = job.leases();
        let leases = leases.iter().filter_map(|id| state.lease(id));
        let unlucky = leases.into_iter().any(|it| silent.contains(&it.provider));
        let ended: Option<TimestampMs> = job.history.last().map(|it| it.at);
        let in_time =
            job.state() == JobState::Paid && ended.is_some_and(|at| at <= job.order.deadline);
        late += usize::from(!in_time && !unlucky);
    }
    (late, admitted)
}

/// The time that a simulated machine takes: what its offer declares for the job.
fn declared(state: &State, job: &tg_ledger::Job, lease: &tg_ledger::Lease) -> tg_types::DurationMs {
    let Some(offer) = state.offer(&lease.offer) else {
        return tg_types::DurationMs::ZERO;
    };
    // What the table says: receipts that take it teach the ledger nothing new.
    let facts = tg_market::OfferFacts::default();
    tg_market::placement::ask(&offer.terms, &facts, job.macs, &job.order.needs).1
}

fn receipt(order: &JobOrder) -> Receipt {
    Receipt {
        program: PROGRAM,
        model: order.model,
        input: order.input,
        output: Digest::new([3; 32]),
        trace: Digest::new([4; 32]),
        tier: Tier::Tgx1,
    }
}
