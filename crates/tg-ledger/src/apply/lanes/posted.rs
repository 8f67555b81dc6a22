//! Posted prices: one job to the cheapest machine that fits, at what it asks.

use tg_market::cheapest;

use super::super::Execution;
use super::super::matching::{Board, Outcome};
use crate::error::InvariantError;
use crate::record::Job;

impl Execution {
    /// Gives a job to the cheapest offer; makes room for it if it goes first and nothing is free.
    pub(in crate::apply) fn place(
        &mut self,
        board: &mut Board<'_>,
        job: Job,
    ) -> Result<Outcome, InvariantError> {
        if !board.budget.admit(board.views.len(), 1) {
            return Ok(Outcome::Stopped);
        }
        let class = job.order.needs.class;
        let chosen = {
            let stock = self.stock();
            let market = (&*stock, &board.prices);
            let demand = self.state.job_demand(&job, market, self.now);
            demand.and_then(|it| cheapest(&it, board.views(class)))
        };
        match chosen {
            Some(quote) => self.lease_to(board, job, &quote),
            None => self.make_room(board, &job),
        }
    }
}
