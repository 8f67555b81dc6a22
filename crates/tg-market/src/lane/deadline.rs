//! Deadline jobs: admitted means reserved.
//!
//! Each class of capacity has a calendar of slots. The price of a unit in a slot rises exponentially with what is
//! already reserved there, `p(u) = low * (high / low)^(u / capacity)`, from the least a unit is ever worth to the
//! most (the online primal-dual rule; with it, value lost to bad admissions is bounded by a factor of about
//! `ln(high / low) + 1`). A job is offered the cheapest slots before its deadline; it is admitted if its value is at
//! least their price, pays that price, and the slots are its own. What the reservations leave idle goes to admitted
//! jobs by earliest deadline first.

use std::collections::BTreeMap;

use tg_types::Amount;

/// Most slots a calendar looks ahead.
pub const HORIZON_SLOTS_MAX: u32 = 4_096;

/// Steps of the price curve.
const PRICE_STEPS: u32 = 64;

/// Reserved units of one class of capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    capacity: u32,
    curve: Vec<Amount>,
    reserved: BTreeMap<u32, u32>,
}

/// A job that must end by a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineJob {
    /// First slot it can use.
    pub earliest: u32,
    /// First slot it can no longer use.
    pub deadline: u32,
    /// Work: units times slots.
    pub slots: u32,
    /// Most units it can use at once, at least 1.
    pub parallel: u32,
    /// What it is worth to its owner when done in time.
    pub value: Amount,
}

/// Why a job was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Not enough capacity is left before the deadline.
    NoRoom {
        /// Units that are missing.
        missing: u32,
    },
    /// The job is worth less than the time it needs.
    TooDear {
        /// What would be paid.
        price: Amount,
    },
}

/// What was reserved for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Units in each slot.
    pub slots: BTreeMap<u32, u32>,
    /// What is paid for them.
    pub price: Amount,
}

impl Calendar {
    /// An empty calendar of `capacity` units a slot, at unit prices from `low` to `high`.
    #[must_use]
    pub fn new(capacity: u32, low: Amount, high: Amount) -> Self {
        Self {
            capacity,
            curve: price_curve(low, high),
            reserved: BTreeMap::new(),
        }
    }

    /// Units of each slot.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Units of `slot` that are reserved.
    #[must_use]
    pub fn reserved(&self, slot: u32) -> u32 {
        self.reserved.get(&slot).copied().unwrap_or(0)
    }

    /// Price of one more unit in `slot`, `None` if it is full.
    #[must_use]
    pub fn price(&self, slot: u32) -> Option<Amount> {
        self.price_at(self.reserved(slot))
    }

    fn price_at(&self, reserved: u32) -> Option<Amount> {
        if reserved >= self.capacity {
            return None;
        }
        let step = u64::from(reserved) * u64::from(PRICE_STEPS) / u64::from(self.capacity);
        self.curve.get(step as usize).copied()
    }

    /// The cheapest slots for `job` and their price, without taking them.
    ///
    /// # Errors
    /// If there is no room before the deadline, or the job is worth less.
    pub fn quote(&self, job: &DeadlineJob) -> Result<Reservation, Refusal> {
        let end = job
            .deadline
            .min(job.earliest.saturating_add(HORIZON_SLOTS_MAX));
        let mut units = Vec::new();
        for slot in job.earliest..end {
            let reserved = self.reserved(slot);
            for more in 0..job.parallel.max(1).min(job.slots) {
                let Some(price) = self.price_at(reserved.saturating_add(more)) else {
                    break;
                };
                units.push((price, slot));
            }
        }
        // Within a slot prices do not fall, so the cheapest units of a slot are its next ones.
        units.sort_unstable();
        let missing = u64::from(job.slots).saturating_sub(units.len() as u64) as u32;
        if missing > 0 {
            return Err(Refusal::NoRoom { missing });
        }
        let mut slots = BTreeMap::new();
        let mut price = Amount::ZERO;
        for (unit_price, slot) in units.into_iter().take(job.slots as usize) {
            *slots.entry(slot).or_insert(0) += 1;
            price = price.saturating_add(unit_price);
        }
        if price > job.value {
            return Err(Refusal::TooDear { price });
        }
        Ok(Reservation { slots, price })
    }

    /// Admits `job`: takes the cheapest slots, which are then its own.
    ///
    /// # Errors
    /// As [`Self::quote`]; then nothing is taken.
    pub fn admit(&mut self, job: &DeadlineJob) -> Result<Reservation, Refusal> {
        let reservation = self.quote(job)?;
        for (slot, units) in &reservation.slots {
            *self.reserved.entry(*slot).or_default() += units;
        }
        Ok(reservation)
    }

    /// Gives back what of `reservation` lies in `from` or later.
    pub fn give_back(&mut self, reservation: &Reservation, from: u32) {
        for (slot, units) in reservation.slots.range(from..) {
            if let Some(reserved) = self.reserved.get_mut(slot) {
                *reserved = reserved.saturating_sub(*units);
            }
        }
        self.reserved.retain(|_, units| *units > 0);
    }

    /// Forgets the slots before `now`.
    pub fn advance(&mut self, now: u32) {
        self.reserved = self.reserved.split_off(&now);
    }
}

/// `low * (high / low)^(step / PRICE_STEPS)` by repeated geometric means, rounded down, rising.
fn price_curve(low: Amount, high: Amount) -> Vec<Amount> {
    let high = high.max(low);
    let mut curve = vec![Amount::ZERO; PRICE_STEPS as usize + 1];
    curve[0] = low;
    curve[PRICE_STEPS as usize] = high;
    let mut width = PRICE_STEPS as usize;
    while width > 1 {
        for start in (0..PRICE_STEPS as usize).step_by(width) {
            let (left, right) = (curve[start].get(), curve[start + width].get());
            curve[start + width / 2] = Amount::new(geometric_mean(left, right));
        }
        width /= 2;
    }
    curve
}

/// `floor(sqrt(left * right))`, between the two; both are shortened to 64 bits first.
fn geometric_mean(left: u128, right: u128) -> u128 {
    let shift = (128 - left.max(right).leading_zeros()).saturating_sub(63);
    (((left >> shift) * (right >> shift)).isqrt() << shift).clamp(left.min(right), left.max(right))
}

/// Work of an admitted job that is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// Number of the job.
    pub job: u64,
    /// First slot it can use.
    pub earliest: u32,
    /// First slot it can no longer use.
    pub deadline: u32,
    /// Units of work left.
    pub left: u32,
    /// Most units at once.
    pub parallel: u32,
    /// Units reserved for it in each slot; from any slot on at least as many as were left then.
    pub reserved: BTreeMap<u32, u32>,
}

/// Who runs in `slot` with `capacity` units: first each job on what is reserved for it, then, on what that leaves
/// free, earliest deadline first. Returns units for each job and takes them from what is left.
///
/// Nobody falls behind its reservation, so every admitted job ends in time; earliest deadline first alone would not
/// do, as it is not optimal for jobs of limited parallelism on several units.
pub fn run_slot(jobs: &mut [Commitment], slot: u32, capacity: u32) -> BTreeMap<u64, u32> {
    let mut order: Vec<usize> = (0..jobs.len())
        .filter(|at| jobs[*at].left > 0 && jobs[*at].earliest <= slot && slot < jobs[*at].deadline)
        .collect();
    order.sort_by_key(|at| (jobs[*at].deadline, jobs[*at].job));
    let mut free = capacity;
    let mut running = BTreeMap::new();
    for on_reservation in [true, false] {
        for at in &order {
            let job = &mut jobs[*at];
            let given = running.get(&job.job).copied().unwrap_or(0);
            let limit = if on_reservation {
                job.reserved.get(&slot).copied().unwrap_or(0)
            } else {
                job.parallel.max(1).saturating_sub(given)
            };
            let units = job.left.min(limit).min(free);
            if units > 0 {
                job.left -= units;
                free -= units;
                *running.entry(job.job).or_insert(0) += units;
            }
        }
    }
    running
}
