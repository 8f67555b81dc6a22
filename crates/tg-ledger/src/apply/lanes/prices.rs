//! Prices that follow demand: one for each GPU model, for the offers that chose it.
//!
//! The controller is [`tg_market::pricing::DynamicPrice`]. It moves between the lowest ask of the model and [`PRICE_SPAN`]
//! times it, by a bounded step per block. A job is never charged more than its maximum price, however the price has changed
//! since its requestor saw it.

use tg_market::book::Looks;
use tg_market::pricing::{DynamicPrice, Load};
use tg_market::{JobDemand, PackingPrices};
use tg_types::{Amount, DurationMs, GpuModel, GpuModelSet, JobNeeds};

use super::super::Execution;
use super::auction::{first_of, per_second};
use crate::limits::PRICE_LOOKS_PER_BLOCK;
use crate::record::Job;

/// How many times the least ask of its model a price may become.
const PRICE_SPAN: u64 = 16;

/// The GPU time of a T4 from which on an order that waits counts with all of the GPUs it wants; what takes less counts as less.
const FULL_WAIT: DurationMs = DurationMs::from_secs(60);

/// What one GPU model sees.
#[derive(Debug, Clone, Copy)]
struct Demand {
    load: Load,
    floor: Option<Amount>,
}

impl Execution {
    /// Moves every model's price by what was used and waited for.
    pub(in crate::apply) fn move_prices(&mut self, packing: &PackingPrices) {
        let models = GpuModel::ALL.len();
        let nothing = Demand {
            load: Load {
                capacity: 0,
                used: 0,
                queued: 0,
            },
            floor: None,
        };
        let mut demands = vec![nothing; models];
        for (model, demand) in GpuModel::ALL.iter().zip(&mut demands) {
            if let Some(moving) = self.state.book.moving_load(*model) {
                demand.load.capacity = moving.capacity_milli;
                demand.load.used = moving.used_milli;
                demand.floor = Some(moving.floor);
            }
        }
        if demands.iter().all(|it| it.floor.is_none()) {
            return;
        }
        for (place, wanted) in self.waited_for(&demands, packing) {
            let load = &mut demands[place].load;
            load.queued = load.queued.saturating_add(wanted);
        }
        for (price, demand) in self.state.schedule.prices.iter_mut().zip(demands) {
            let Some(low) = demand.floor else { continue };
            let high = low.checked_mul_div_ceil(PRICE_SPAN, 1).unwrap_or(low);
            let mut moving = DynamicPrice::new(*price, low, high);
            moving.step(&demand.load);
            *price = moving.price();
        }
    }

    /// What waiting orders want of models whose price moves, each of one. Another part of them is looked at in each block if there are too many.
    fn waited_for(&self, demands: &[Demand], packing: &PackingPrices) -> Vec<(usize, u64)> {
        let queued = self.state.queued_jobs();
        let mut jobs: Vec<&Job> = queued.filter(|job| job.order.needs.gpus > 0).collect();
        let first = first_of(self.height.get(), jobs.len());
        jobs.rotate_left(first);
        let mut looks = Looks::up_to(PRICE_LOOKS_PER_BLOCK);
        let mut wanted = Vec::new();
        for job in jobs {
            if looks.is_cut_off() {
                break;
            }
            wanted.extend(self.wanted_by(job, demands, packing, &mut looks));
        }
        wanted
    }

    /// The model that an order waits for, and how much of it in thousandths of a GPU.
    ///
    /// Stops: an order that would not pay the price, that nobody could serve, or that would be over at once, and raises it for all.
    fn wanted_by(
        &self,
        job: &Job,
        demands: &[Demand],
        packing: &PackingPrices,
        looks: &mut Looks,
    ) -> Option<(usize, u64)> {
        let needs = &job.order.needs;
        let market = (self.state.stock(), packing);
        let demand = self.state.job_demand(job, market, self.now)?;
        let (book, rates) = (&self.state.book, self.state.rates());
        let moves = |it: &&GpuModel| {
            needs.models.contains(**it) && demands[usize::from(it.tag())].load.capacity > 0
        };
        let serves = |it: &&GpuModel| {
            let only = JobNeeds {
                models: GpuModelSet::of(&[**it]),
                ..*needs
            };
            let demand = JobDemand {
                needs: &only,
                ..demand
            };
            book.may_serve_moving(&demand, &rates, looks)
        };
        // Counted once, with the first model that would do: counting it with each would raise them all.
        let mut models = GpuModel::ALL.iter().filter(moves);
        let place = usize::from(models.find(serves)?.tag());
        let price = self.state.schedule.prices.get(place).copied()?;
        // No member of a gang is paid more than its part.
        let part = Amount::new(job.purse().get() / u128::from(needs.gang.max(1)));
        let milli = u64::from(needs.gpu_milli_total()) * u64::from(needs.gang);
        let counts = per_second(part, needs) >= price && milli <= demands[place].load.capacity;
        let time = needs.reference.get().min(FULL_WAIT.get());
        counts.then(|| (place, milli * time / FULL_WAIT.get()))
    }
}
