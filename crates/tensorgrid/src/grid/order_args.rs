//! What every order says: its price, its time, and what it needs of a machine.

use std::path::PathBuf;

use clap::Args;
use tg_jobfile::seconds;
use tg_types::limits::{RETENTION_MAX, RETENTION_MIN};
use tg_types::{Amount, DurationMs};

use super::cloud_prices;
use super::projects;
use tg_console::needs::NeedsArguments;
use tg_console::needs::amount;
use tg_console::outcome::Failure;
use tg_sdk::clouds::CloudPrices;

/// Heading of what an order may say beside its price.
pub(crate) const ORDER: &str = "Order";

/// Heading of whom to trust.
pub(crate) const TRUST: &str = "What is believed";

/// Heading of which grid, and who signs.
pub(crate) const ACCOUNT: &str = "Grid and account";

/// What every order says.
#[derive(Debug, Clone, Args)]
pub(crate) struct OrderArguments {
    /// Most that is paid to the provider, in TGRID. If absent, twice what the third cheapest asks; of an order with needs of its
    /// own, twice what a dry run of it comes to.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) max_price: Option<Amount>,
    /// Seconds the job may take.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) deadline_s: u64,
    /// Do not ask before spending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Say what ordering would come to in the next block, and order nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Providers to try at most.
    #[arg(
        long,
        default_value_t = tg_types::limits::ATTEMPTS_USUAL,
        value_parser = clap::value_parser!(u8).range(1..=16),
        help_heading = ORDER
    )]
    pub(crate) attempts: u8,
    /// For how long validators keep the answer once it is paid, in seconds or as 10m, 12h, 30d; 0 if they need not.
    #[arg(long, default_value = "1d", value_parser = retention, value_name = "TIME", help_heading = ORDER)]
    pub(crate) retention: DurationMs,
    /// The project that it is for: kept on this machine beside the key, for `job cost --project`.
    #[arg(long, value_parser = projects::name, value_name = "NAME", help_heading = ORDER)]
    pub(crate) project: Option<String>,
    #[command(flatten, next_help_heading = ORDER)]
    pub(crate) clouds: CloudPriceArguments,
    #[command(flatten)]
    pub(crate) needs: NeedsArguments,
}

/// Reads for how long an answer is kept.
fn retention(text: &str) -> Result<DurationMs, String> {
    let time = seconds(text.trim()).map(DurationMs::from_secs);
    let is_fit =
        |it: &DurationMs| *it == DurationMs::ZERO || (RETENTION_MIN..=RETENTION_MAX).contains(it);
    time.filter(is_fit)
        .ok_or_else(|| "a time from 10m to 30d, in seconds or as 10m, 12h, 30d, or 0".to_owned())
}

/// Prices of clouds beside those of the grid.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CloudPriceArguments {
    /// Show what the same hardware would cost in clouds for the same time, by the dated rows of a file that
    /// `tensorgrid market cloud-prices` writes.
    #[arg(long, value_name = "FILE", env = "TENSORGRID_CLOUD_PRICES")]
    pub(crate) cloud_prices: Option<PathBuf>,
}

impl CloudPriceArguments {
    /// The file's prices, if one is named.
    pub(crate) fn read(&self) -> Result<Option<CloudPrices>, Failure> {
        cloud_prices::read(self.cloud_prices.as_deref())
    }
}
