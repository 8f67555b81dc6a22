//! Prices that follow demand: one for each GPU model, for the offers that chose it.
//!
//! The controller is [`tg_market::pricing::DynamicPrice`]. It moves between the lowest ask of the model and [`PRICE_SPAN`]
//! times it, by a bounded step per block. A job is never charged more than its maximum price, however the price has changed
//! since its requestor saw it.

use tg_market::pricing::{DynamicPrice, Load};
use tg_types::{Amount, GpuModel};

use super::super::Execution;
use super::auction::per_second;

/// How many times the least ask of its model a price may become.
const PRICE_SPAN: u64 = 16;

/// What one GPU model sees.
#[derive(Debug, Clone, Copy)]
struct Demand {
    load: Load,
    floor: Option<Amount>,
}

impl Execution {
    /// Moves every model's price by what was used and waited for.
    pub(in crate::apply) fn move_prices(&mut self) {
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
        for job in self.state.queued_jobs() {
            let needs = &job.order.needs;
            let wanted = u64::from(needs.gpu_milli_total()) * u64::from(needs.gang);
            // Counted once, with the first model that would do: counting it with each would raise them all.
            let first = GpuModel::ALL.iter().find(|it| {
                needs.models.contains(**it) && demands[usize::from(it.tag())].load.capacity > 0
            });
            let Some(place) = first.map(|it| usize::from(it.tag())) else {
                continue;
            };
            // Stops: an order that would not pay the price, or that nobody could serve, and raises it for all.
            let price = self.state.schedule.prices.get(place).copied();
            let pays = price.is_some_and(|price| per_second(job.purse(), needs) >= price);
            let load = &mut demands[place].load;
            if pays && wanted <= load.capacity {
                load.queued = load.queued.saturating_add(wanted);
            }
        }
        for (price, demand) in self.state.schedule.prices.iter_mut().zip(demands) {
            let Some(low) = demand.floor else { continue };
            let high = low.checked_mul_div_ceil(PRICE_SPAN, 1).unwrap_or(low);
            let mut moving = DynamicPrice::new(*price, low, high);
            moving.step(&demand.load);
            *price = moving.price();
        }
    }
}
