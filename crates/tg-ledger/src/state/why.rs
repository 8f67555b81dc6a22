//! Why a job waits: what would let it run, when, and at what price it would be next; and what an order would get.

use std::collections::BTreeMap;

use tg_market::book::gang::{GangSurvey, cell_of, member_demand};
use tg_market::view::request_of;
use tg_market::{Assessment, Constraint, Placement, best_offer, explain};
use tg_types::{Amount, GpuLink, GpuModel, JobId, Lane, TimestampMs, VerificationMode};

use crate::record::{Job, JobState};
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
    /// What its members have, if it is a gang.
    pub gang: Option<GangWhy>,
}

impl WhyWaiting {
    /// Whether it would be placed now, as far as the machines are concerned.
    #[must_use]
    pub fn is_suited(&self) -> bool {
        match &self.gang {
            Some(gang) => gang.placed >= gang.members,
            None => self.placement.chosen.is_some(),
        }
    }

    /// Whether some offer could take it, or a member of it, as soon as a lease of somebody else ends.
    #[must_use]
    pub fn is_occupied(&self) -> bool {
        let occupied = |it: &Assessment| it.broken.iter().all(Constraint::is_occupied);
        self.assessments.iter().any(occupied)
    }
}

/// What the members of a gang that waits have, and what would help it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GangWhy {
    /// Its members.
    pub members: u32,
    /// The most of them that have a place in one neighbourhood, each on a machine of its own.
    pub placed: u32,
    /// Machines that have a place for a member, wherever they are.
    pub machines: u32,
    /// A side of the neighbourhood at which all have one, if any is enough.
    pub neighbourhood_us: Option<u32>,
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
    /// How many members it would place; 1 if the job is no gang. `offer` is the last of their offers that would take one
    /// then.
    pub members: u32,
}

impl Relaxation {
    /// Whether it is a higher price, which a job that waits may still be given.
    #[must_use]
    pub fn is_of_price(&self) -> bool {
        self.constraint == Constraint::Price
    }
}

/// One change of an order, as a sentence.
impl std::fmt::Display for Relaxation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            constraint,
            offer,
            value,
            members,
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
        match members {
            0 | 1 => write!(f, "{change} would place it on offer {offer}"),
            _ => write!(f, "{change} would give all {members} members a place"),
        }
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

impl State {
    /// Why a queued job has no provider yet; `None` if the job does not exist or does not wait.
    #[must_use]
    pub fn why_waiting(&self, id: &JobId) -> Option<WhyWaiting> {
        let job = self.job(id)?;
        if job.state() != JobState::Queued {
            return None;
        }
        let now = self.head.time;
        let prices = self.packing_prices();
        let whole = self.job_demand(job, (&self.stock, &prices), now)?;
        let class = job.order.needs.class;
        let is_gang = job.order.needs.lane() == Lane::Gang;
        let gang = is_gang.then(|| {
            let views = self.offer_views(class);
            let survey = GangSurvey::new(&whole, views, self.lease_fees());
            let placed = survey.fit().most;
            GangWhy {
                members: u32::from(job.order.needs.gang),
                placed: count(placed),
                machines: count(survey.machines()),
                neighbourhood_us: survey.wide_enough(),
            }
        });
        let demand = if is_gang {
            member_demand(&whole)
        } else {
            whole
        };
        let assessments = explain(&demand, self.views_for(&job.order));
        let turn = Self::waiting(job).turn(now);
        let before = |other: &&Job| Self::waiting(other).turn(now) < turn;
        let priority_to_be_next = self.priority_to_be_next(job);
        Some(WhyWaiting {
            placement: best_offer(&demand, self.views_for(&job.order)),
            relaxations: self.relaxations(job, &assessments),
            queue_position: self.queued_jobs().filter(before).count() as u64,
            priority_to_be_next,
            price_to_be_next: priority_to_be_next
                .and_then(|priority| price_at(job, priority, &assessments)),
            eta: self.eta(job, &assessments),
            gang,
            assessments,
        })
    }

    /// For each constraint that alone keeps an offer from taking the job, or offers from taking all members of a gang,
    /// the smallest change.
    fn relaxations(&self, job: &Job, assessments: &[Assessment]) -> Vec<Relaxation> {
        let members = u32::from(job.order.needs.gang.max(1));
        let cells = self.by_neighbourhood(job, assessments);
        let found = Constraint::ALL.into_iter().filter_map(|constraint| {
            let in_cells = cells.iter().filter_map(|cell| {
                let fitting = cell.iter().filter(|it| it.broken.is_empty()).count();
                // All that lack nothing else; the last one of those that are needed says how much is given up.
                let last = (members as usize).checked_sub(fitting + 1)?;
                let alone = cell
                    .iter()
                    .filter(|it| it.broken.contains(constraint) && it.broken.iter().count() == 1);
                let mut changed: Vec<_> = alone
                    .filter_map(|it| {
                        let Changed { gives_up, value } = self.changed_value(constraint, it)?;
                        let cost = it.quote.map(|quote| quote.expected_cost);
                        Some((gives_up, cost, it.offer, value))
                    })
                    .collect();
                changed.sort_unstable();
                changed.get(last).copied()
            });
            let (_, _, offer, value) = in_cells.min()?;
            // No member is paid more than an equal part of the maximum price.
            let value = match constraint {
                Constraint::Price => value.saturating_mul(u128::from(members)),
                _ => value,
            };
            Some(Relaxation {
                constraint,
                offer,
                value,
                members,
            })
        });
        found.collect()
    }

    /// The offers by where they lie, for a gang; all together for any other job.
    fn by_neighbourhood<'a>(
        &self,
        job: &Job,
        assessments: &'a [Assessment],
    ) -> Vec<Vec<&'a Assessment>> {
        let needs = &job.order.needs;
        // Members that are compared may be anywhere.
        let is_compared = job.order.mode == VerificationMode::Replicate;
        if needs.lane() != Lane::Gang || is_compared {
            return vec![assessments.iter().collect()];
        }
        let mut cells: BTreeMap<_, Vec<&Assessment>> = BTreeMap::new();
        for assessment in assessments {
            if let Some(offer) = self.offer(&assessment.offer) {
                let cell = cell_of(&offer.terms.machine, needs);
                cells.entry(cell).or_default().push(assessment);
            }
        }
        cells.into_values().collect()
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
            | Constraint::Offline
            | Constraint::Stake => return None,
        })
    }

    /// When a machine that could take the job becomes free, or one for each member of a gang.
    fn eta(&self, job: &Job, assessments: &[Assessment]) -> Option<Eta> {
        let now = self.head.time;
        let last = usize::from(job.order.needs.gang.max(1)) - 1;
        let cells = self.by_neighbourhood(job, assessments).into_iter();
        let etas = cells.filter_map(|cell| {
            let able = cell
                .into_iter()
                .filter(|it| it.broken.iter().all(Constraint::is_occupied));
            let free = able.filter_map(|it| match it.broken.is_empty() {
                true => Some((now, now)),
                false => self.free_at(job, it).map(|it| (it.earliest, it.latest)),
            });
            let (mut earliest, mut latest): (Vec<_>, Vec<_>) = free.unzip();
            earliest.sort_unstable();
            latest.sort_unstable();
            Some((*earliest.get(last)?, *latest.get(last)?))
        });
        let (earliest, latest): (Vec<_>, Vec<_>) = etas.unzip();
        let latest = latest.into_iter().min()?;
        // What is held back for it is free by then.
        let held = self.reservation_of(&job.id).map(|it| it.from);
        let latest = held.map_or(latest, |from| from.min(latest));
        Some(Eta {
            earliest: earliest.into_iter().min()?.min(latest),
            latest,
        })
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

/// What a job would pay with `priority` on the cheapest offer that may take it some day; a gang, on as many as it has
/// members.
fn price_at(job: &Job, priority: u8, assessments: &[Assessment]) -> Option<Amount> {
    let own = u64::from(job.order.needs.priority.max(1));
    let mut prices: Vec<Amount> = assessments
        .iter()
        .filter(|it| it.broken.iter().all(Constraint::is_occupied))
        .filter_map(|it| {
            it.quote?
                .price
                .checked_mul_div_ceil(u64::from(priority), own)
        })
        .collect();
    prices.sort_unstable();
    let cheapest = prices.get(..usize::from(job.order.needs.gang.max(1)))?;
    cheapest
        .iter()
        .try_fold(Amount::ZERO, |sum, it| sum.checked_add(*it))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
