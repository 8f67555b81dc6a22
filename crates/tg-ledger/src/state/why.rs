//! Why a job waits, what would let it run, when, and at what price it would be next; and what an order would get.

use tg_market::view::request_of;
use tg_market::{Assessment, Constraint, Placement, best_offer, explain};
use tg_types::{Address, Amount, GpuLink, GpuModel, JobId, JobOrder, Lane, TimestampMs};

use crate::apply::Execution;
use crate::error::TransactionError;
use crate::record::{EndReason, Job, JobState, Lease, ModelState};
use crate::state::State;

/// Why a job waits: every offer seen from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhyWaiting {
    /// What a match would choose now, and how many offers break which constraint.
    pub placement: Placement,
    /// Each offer with what it lacks, fitting ones first.
    pub assessments: Vec<Assessment>,
    /// Single changes of the order that would place it now, each the smallest of its kind.
    pub relaxations: Vec<Relaxation>,
    /// How many jobs that wait have an earlier turn.
    pub queue_position: u64,
    /// The least priority at which it would be next, if any does.
    pub priority_to_be_next: Option<u8>,
    /// What it would pay with that priority on the cheapest offer that could ever take it.
    pub price_to_be_next: Option<Amount>,
    /// When it may get a machine, if nobody goes before it; `None` if none could ever take it.
    pub eta: Option<Eta>,
}

/// One change of an order that would place it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relaxation {
    /// The one thing that the offer lacks.
    pub constraint: Constraint,
    /// The offer that would take it then: the cheapest.
    pub offer: tg_types::OfferId,
    /// What the order would have to say instead, in the unit of the constraint: base units of TGRID, a time in
    /// milliseconds, MiB, a count, a tag; 0 where any other value will do.
    pub value: u128,
}

/// One change of an order, as a sentence.
impl std::fmt::Display for Relaxation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            constraint,
            offer,
            value,
        } = self;
        let value = *value;
        let name = |index: u128, names: &[&'static str]| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            names.get(index).copied().unwrap_or("other")
        };
        let change = match constraint {
            Constraint::Price => format!("a maximum price of {} TGRID", Amount::new(value)),
            Constraint::Deadline => format!("a deadline at {value} ms"),
            Constraint::Region => format!("region {value}"),
            Constraint::GpuModel => {
                let models: Vec<&str> = GpuModel::ALL.iter().map(|it| it.as_str()).collect();
                format!("GPU model {}", name(value, &models))
            }
            Constraint::Capability => format!("compute capability {}.{}", value / 10, value % 10),
            Constraint::TensorCores => "no tensor cores".to_owned(),
            Constraint::Link => {
                let links: Vec<&str> = GpuLink::ALL.iter().map(|it| it.as_str()).collect();
                format!("link {}", name(value, &links))
            }
            Constraint::Isolation => "a whole GPU, or less isolation".to_owned(),
            Constraint::GpuCount => format!("{value} GPUs"),
            Constraint::GpuMemory => format!("{value} MiB of GPU memory"),
            Constraint::HostSize => format!("less CPU or disk, or {value} MiB of RAM"),
            Constraint::Tier => "another tier of capacity".to_owned(),
            other => format!("no need of {other}"),
        };
        write!(f, "{change} would place it on offer {offer}")
    }
}

/// When a machine may become free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// Not before, if every lease takes its declared time.
    pub earliest: TimestampMs,
    /// By then, if every lease takes as long as it may.
    pub latest: TimestampMs,
}

/// What an order would get if it were in the next block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// Where the job would stand.
    pub state: JobState,
    /// Why it would have ended, if it would.
    pub end: Option<EndReason>,
    /// Its leases: the one that leads first.
    pub leases: Vec<Lease>,
    /// Why it would wait, if it would.
    pub why: Option<WhyWaiting>,
}

impl State {
    /// Why a queued job has no provider yet; `None` if the job does not exist or does not wait.
    #[must_use]
    pub fn why_waiting(&self, id: &JobId) -> Option<WhyWaiting> {
        let job = self.job(id)?;
        if job.state != JobState::Queued {
            return None;
        }
        let now = self.head.time;
        let prices = self.packing_prices();
        let mut demand = self.job_demand(job, (&self.stock, &prices), now)?;
        if job.order.needs.lane() == Lane::Gang {
            let members = u128::from(job.order.needs.gang.max(1));
            demand.max_price = Amount::new(demand.max_price.get() / members);
        }
        let class = job.order.needs.class;
        let assessments = explain(&demand, self.offer_views(class));
        let turn = Self::waiting(job).turn(now);
        let before = |other: &&Job| Self::waiting(other).turn(now) < turn;
        let priority_to_be_next = self.priority_to_be_next(job);
        Some(WhyWaiting {
            placement: best_offer(&demand, self.offer_views(class)),
            relaxations: self.relaxations(&assessments),
            queue_position: self.queued_jobs().filter(before).count() as u64,
            priority_to_be_next,
            price_to_be_next: priority_to_be_next
                .and_then(|priority| price_at(job, priority, &assessments)),
            eta: self.eta(job, &assessments),
            assessments,
        })
    }

    /// What `order` would get if `requestor` had it in the next block, at `time`, alone.
    ///
    /// # Errors
    /// If the order would be refused.
    pub fn dry_run(
        &self,
        requestor: Address,
        order: &JobOrder,
        time: TimestampMs,
    ) -> Result<DryRun, TransactionError> {
        let (after, id) = self.after_dry_run(requestor, order, time)?;
        let job = after.job(&id).cloned().ok_or(Self::refusal(order))?;
        let lead = job.live_lease().and_then(|lease| after.lease(&lease));
        Ok(DryRun {
            state: job.state,
            end: job.end,
            leases: lead.map_or_else(Vec::new, |lead| after.gang_of(lead).cloned().collect()),
            why: after.why_waiting(&id),
        })
    }

    /// The state in which [`Self::dry_run`] looks: after the next block with nothing in it but this order, and the
    /// job's id there. It has no root and nothing follows from it.
    ///
    /// # Errors
    /// If the order would be refused.
    pub fn after_dry_run(
        &self,
        requestor: Address,
        order: &JobOrder,
        time: TimestampMs,
    ) -> Result<(Self, JobId), TransactionError> {
        let refused = Self::refusal(order);
        let mut execution = Execution::begin(self, time);
        execution.check_order(requestor, order)?;
        let id = JobId::default();
        execution
            .submit_as(id, requestor, order)
            .and_then(|()| execution.run_timeouts())
            .and_then(|()| execution.run_matching())
            .map_err(|_| refused)?;
        // As the next block leaves it.
        let now = execution.now;
        let mut after = execution.state;
        after.head.timestamp = time;
        after.head.time = now;
        after.head.height = after.head.height.next();
        Ok((after, id))
    }

    /// What an order is refused with whose block cannot be executed.
    fn refusal(order: &JobOrder) -> TransactionError {
        TransactionError::ModelNotActive {
            model: order.model,
            state: ModelState::Pending.as_str(),
        }
    }

    /// For each constraint that alone keeps an offer from taking the job, the smallest change.
    fn relaxations(&self, assessments: &[Assessment]) -> Vec<Relaxation> {
        let mut found = Vec::new();
        for constraint in Constraint::ALL {
            let alone = assessments
                .iter()
                .filter(|it| it.broken.contains(constraint) && it.broken.iter().count() == 1);
            let best = alone
                .filter_map(|it| {
                    let value = self.changed_value(constraint, it)?;
                    let gives_up = value.gives_up;
                    Some((
                        gives_up,
                        it.quote.map(|quote| quote.expected_cost),
                        it.offer,
                        value.value,
                    ))
                })
                .min();
            if let Some((_, _, offer, value)) = best {
                found.push(Relaxation {
                    constraint,
                    offer,
                    value,
                });
            }
        }
        found
    }

    /// What the order would have to say so that the offer no longer breaks `constraint`; `None` if it is not the
    /// order's to change.
    fn changed_value(&self, constraint: Constraint, it: &Assessment) -> Option<Changed> {
        let machine = self.offer(&it.offer)?.terms.machine;
        // The more is still asked for, the less is given up.
        let most = |value: u128| Changed {
            gives_up: u128::MAX - value,
            value,
        };
        let least = |value: u128| Changed {
            gives_up: value,
            value,
        };
        Some(match constraint {
            Constraint::Price => least(it.quote?.price.get()),
            Constraint::Deadline => {
                let quote = it.quote?;
                let ends = quote.start.saturating_add(quote.duration);
                least(u128::from(ends.get()))
            }
            Constraint::Region => least(u128::from(machine.region)),
            Constraint::GpuModel => least(u128::from(machine.gpu.tag())),
            Constraint::Capability => most(u128::from(machine.capability)),
            Constraint::TensorCores => least(0),
            Constraint::Link => most(u128::from(machine.link.tag())),
            Constraint::Isolation => least(0),
            Constraint::GpuCount => most(u128::from(machine.gpu_count)),
            Constraint::GpuMemory => most(u128::from(machine.gpu_memory_mib)),
            Constraint::HostSize => most(u128::from(machine.memory_mib)),
            Constraint::Tier => least(u128::from(machine.tiers.bits())),
            Constraint::Mode
            | Constraint::Memory
            | Constraint::Slots
            | Constraint::Funds
            | Constraint::Excluded
            | Constraint::Suspended
            | Constraint::Busy
            | Constraint::Reputation
            | Constraint::Offline => return None,
        })
    }

    /// When a machine that could take the job becomes free.
    fn eta(&self, job: &Job, assessments: &[Assessment]) -> Option<Eta> {
        let now = self.head.time;
        let passes = |it: &Constraint| matches!(it, Constraint::Busy | Constraint::Slots);
        let mut eta: Option<Eta> = None;
        for assessment in assessments {
            if !assessment.broken.iter().all(|it| passes(&it)) {
                continue;
            }
            let this = if assessment.broken.is_empty() {
                Eta {
                    earliest: now,
                    latest: now,
                }
            } else {
                self.free_at(job, assessment)?
            };
            eta = Some(eta.map_or(this, |best| Eta {
                earliest: best.earliest.min(this.earliest),
                latest: best.latest.min(this.latest),
            }));
        }
        eta
    }

    fn free_at(&self, job: &Job, assessment: &Assessment) -> Option<Eta> {
        let now = self.head.time;
        let request = request_of(&job.order.needs).ok()?;
        let length = |quote: &tg_market::Quote| quote.until.saturating_since(quote.start);
        let span = assessment.quote.as_ref().map(length)?;
        let ends = self.stock.ends(&assessment.offer);
        let fits_from = |start: &TimestampMs| {
            let start = TimestampMs::new(start.get().saturating_add(1));
            let time = (start, start.saturating_add(span));
            self.stock
                .room(&assessment.offer, &request, now, time, None)
                .is_some()
        };
        let latest = ends
            .iter()
            .copied()
            .find(|end| *end >= now && fits_from(end));
        let leases = self.live_members();
        let declared = leases
            .filter(|(other, lease)| lease.offer == assessment.offer && other.holds_machine())
            .map(|(other, lease)| {
                let needs = &other.order.needs;
                let offer = self.offer(&lease.offer);
                let time = offer.map_or(tg_types::DurationMs::ZERO, |offer| {
                    let terms = &offer.terms;
                    let correction = self.correction(offer, needs.class);
                    let gpu_time = tg_market::view::gpu_time(&terms.machine, needs, &correction);
                    terms.duration(other.macs).saturating_add(gpu_time)
                });
                lease.grant.from.saturating_add(time)
            })
            .min();
        let latest = latest
            .or_else(|| ends.last().copied())
            .unwrap_or(now)
            .max(now);
        Some(Eta {
            earliest: declared.unwrap_or(now).max(now).min(latest),
            latest,
        })
    }
}

/// A changed order, and how much it gives up.
struct Changed {
    gives_up: u128,
    value: u128,
}

/// What a job would pay with `priority` on the cheapest offer that may take it some day.
fn price_at(job: &Job, priority: u8, assessments: &[Assessment]) -> Option<Amount> {
    let own = u64::from(job.order.needs.priority.max(1));
    let passes = |it: Constraint| matches!(it, Constraint::Busy | Constraint::Slots);
    let prices = assessments
        .iter()
        .filter(|it| it.broken.iter().all(passes))
        .filter_map(|it| {
            it.quote?
                .price
                .checked_mul_div_ceil(u64::from(priority), own)
        });
    prices.min()
}
