//! Posted prices: one job to the cheapest machine that fits, at what it asks.

use super::super::Execution;
use super::super::matching::{Board, Outcome};
use crate::error::InvariantError;
use crate::record::Job;

impl Execution {
    /// Gives a job to the cheapest offer; makes room for it if it goes first and nothing is free.
    pub(in crate::apply) fn place(
        &mut self,
        board: &mut Board,
        job: Job,
    ) -> Result<Outcome, InvariantError> {
        if !board.budget.admits(1) {
            return Ok(Outcome::Stopped);
        }
        let mut looks = board.budget.next();
        let market = (self.state.stock(), &board.prices);
        let demand = self.state.job_demand(&job, market, self.now);
        let chosen = demand.and_then(|it| self.state.cheapest_offer(&it, &mut looks, None));
        board.budget.spend(looks);
        if looks.is_cut_off() {
            return Ok(Outcome::CutOff);
        }
        match chosen {
            Some(quote) => self.lease_to(board, job, &quote),
            None => self.make_room(board, &job),
        }
    }
}
