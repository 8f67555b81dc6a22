//! Everything that happened, and whether the demo kept its promises.

use std::path::PathBuf;

use tg_compile::digits::Digit;
use tg_sdk::dto::{JobDto, LeaseDto, LeaseEndDto, TotalsDto};
use tg_sdk::jobs::Inference;
use tg_types::Amount;

use super::participants::Player;

/// Validators of the embedded grid.
pub(crate) const VALIDATORS: usize = 4;

/// An account before and after.
#[derive(Debug, Clone)]
pub(crate) struct Balance {
    /// Its name.
    pub(crate) name: String,
    /// Before.
    pub(crate) before: Amount,
    /// After.
    pub(crate) after: Amount,
}

/// One digit's job.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The digit.
    pub(crate) digit: Digit,
    /// What the float model says.
    pub(crate) float_top: usize,
    /// The job at its end.
    pub(crate) job: JobDto,
    /// The checked result.
    pub(crate) inference: Inference,
    /// How long the provider that was paid proved, in milliseconds.
    pub(crate) prove_ms: Option<u64>,
}

/// Everything that happened.
#[derive(Debug)]
pub(crate) struct DemoRun {
    /// Who took part.
    pub(crate) players: Vec<Player>,
    /// The jobs.
    pub(crate) jobs: Vec<Finished>,
    /// All balances.
    pub(crate) balances: Vec<Balance>,
    /// The ledger's sums before and after.
    pub(crate) totals: [TotalsDto; 2],
    /// Blocks that were finalised.
    pub(crate) blocks: u64,
    /// Seconds from start to end.
    pub(crate) elapsed: f64,
    /// The id of the model that was asked.
    pub(crate) model: String,
    /// Names of the models of the grid, beginning with that one.
    pub(crate) models: Vec<String>,
    /// Composed security in bits.
    pub(crate) security_bits: f64,
    /// What was left on disk.
    pub(crate) folder: PathBuf,
}

impl DemoRun {
    /// The leases that ended by a rejection, with the index of their job.
    pub(crate) fn rejections(&self) -> impl Iterator<Item = (usize, &LeaseDto)> {
        self.jobs.iter().enumerate().flat_map(|(index, finished)| {
            let rejected = finished
                .job
                .leases
                .iter()
                .filter(|lease| lease.end == Some(LeaseEndDto::Rejected));
            rejected.map(move |lease| (index, lease))
        })
    }

    /// The player with an address.
    pub(crate) fn player(&self, lease: &LeaseDto) -> Option<&Player> {
        self.players
            .iter()
            .find(|player| player.address == lease.provider)
    }

    /// The first promise of the demo that was not kept.
    pub(crate) fn broken_promise(&self) -> Option<String> {
        for player in self.players.iter().filter(|player| player.lie.is_some()) {
            let slashed = self
                .rejections()
                .filter(|(_, lease)| lease.provider == player.address)
                .count();
            if slashed != 1 {
                return Some(format!(
                    "{} was slashed {slashed} times, not once",
                    player.name
                ));
            }
        }
        let paid_cheat = self.jobs.iter().find(|finished| {
            self.player(&finished.inference.receipt.lease)
                .is_none_or(|player| player.lie.is_some())
        });
        if let Some(finished) = paid_cheat {
            return Some(format!("job {} was paid to a cheat", finished.job.id));
        }
        self.totals
            .iter()
            .find(|totals| !conserved(totals))
            .map(|_| "money was not conserved".to_owned())
    }
}

/// Whether minted is balances, escrow, stake, collateral and burned.
pub(crate) fn conserved(totals: &TotalsDto) -> bool {
    let TotalsDto {
        minted,
        balances,
        escrow,
        stake,
        collateral,
        burned,
    } = totals;
    let sum = [balances, escrow, stake, collateral, burned]
        .into_iter()
        .fold(Amount::ZERO, |sum, &part| sum.saturating_add(part));
    sum == *minted
}
