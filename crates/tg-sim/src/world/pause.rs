//! A time in which no validator runs, and the wall clock of each goes on.

use std::time::Duration;

use super::SimWorld;
use crate::grid::now_ms;
use crate::plan::{Loss, PAUSE, SeatRole};

impl SimWorld {
    /// All validators lose power once the account that is left is empty, and start again when their clocks are later by [`PAUSE`].
    ///
    /// A validator believes its wall clock when it starts, and only after a minute when it jumps while it runs: so they start anew.
    pub(crate) async fn turn_pause(&mut self) {
        let now = now_ms(&self.context);
        let is_due = self.grid.plan.lapse.is_some_and(|it| it.at_ms <= now);
        if !is_due || !self.grid.is_left_empty() || self.grid.paused_ms() > 0 {
            return;
        }
        let what = format!("all validators are off for {} s", PAUSE.get() / 1_000);
        self.grid.line(&self.context, "world", &what);
        let mut off = Vec::new();
        for index in 0..self.seats.len() {
            let seat = &mut self.seats[index];
            // Those that are two are started once. They stay as they are, with clocks that are wrong now.
            if matches!(seat.role, SeatRole::Twins | SeatRole::Equivocator) {
                continue;
            }
            seat.paused = Duration::from_millis(PAUSE.get());
            if seat.node.is_some() {
                off.push(index);
                self.power_off(index, Loss::Unsynced).await;
            }
        }
        self.grid.paused(PAUSE.get());
        for index in off {
            self.power_on(index).await;
        }
    }
}
