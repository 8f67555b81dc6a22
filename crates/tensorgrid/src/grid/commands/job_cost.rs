//! `tensorgrid job cost`: what an account spent, by day and model.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tg_sdk::JobFilter;
use tg_sdk::dto::{JobDto, SettlementDto};
use tg_sdk::text::FromText as _;
use tg_types::{Address, Amount, ModelId};

use crate::grid::connect::{self, Calling as _};
use crate::grid::infer;
use crate::grid::job_args::JobCostArguments;
use tg_console::outcome::{self, Exit, Failure, Outcome, line};
use tg_console::table::{Table, brief, short};

/// Most jobs that are summed up.
const JOBS_MAX: u32 = 100_000;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// What jobs of one model and one day came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spending {
    jobs: u64,
    /// What providers, validators and others got, and what was burned.
    spent: Amount,
    /// What is locked for jobs that did not end.
    locked: Amount,
}

impl Spending {
    fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.spent = self.spent.saturating_add(other.spent);
        self.locked = self.locked.saturating_add(other.locked);
    }

    fn of(job: &JobDto) -> Self {
        match &job.settlement {
            Some(settlement) => Self {
                jobs: 1,
                spent: charged(settlement),
                locked: Amount::ZERO,
            },
            None => Self {
                jobs: 1,
                spent: job.served,
                locked: job.escrow,
            },
        }
    }
}

/// What of a job's money did not come back.
fn charged(settlement: &SettlementDto) -> Amount {
    let SettlementDto {
        price,
        members,
        verification_fee,
        refund: _,
        burned,
        bonus,
        compensation,
    } = settlement;
    let parts = [
        price,
        members,
        verification_fee,
        burned,
        bonus,
        compensation,
    ];
    let mut sum = Amount::ZERO;
    for part in parts {
        sum = sum.saturating_add(*part);
    }
    sum
}

/// Sums jobs by the day in which they were ordered and by their model.
fn summed(jobs: &[JobDto], first_day: u64) -> BTreeMap<(u64, ModelId), Spending> {
    let mut sums: BTreeMap<(u64, ModelId), Spending> = BTreeMap::new();
    for job in jobs {
        let day = job.history.first().map_or(0, |step| step.at_ms / DAY_MS);
        if day >= first_day {
            sums.entry((day, job.model))
                .or_default()
                .add(Spending::of(job));
        }
    }
    sums
}

/// Prints what an account spent.
pub(crate) async fn run(arguments: &JobCostArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let address = match &arguments.address {
        Some(text) => Address::from_text(text).ok_or_else(|| {
            let expected = format!("{text:?} is not {}", Address::EXPECTED);
            Failure::new(Exit::Usage, anyhow::anyhow!(expected))
        })?,
        None => connect::wallet(&client, &arguments.key).await?.address(),
    };
    let filter = JobFilter {
        requestor: Some(address),
        mode: None,
        limit: Some(JOBS_MAX),
    };
    let jobs = client.jobs(filter).await.calling("list the jobs")?;
    let today = infer::now().get() / DAY_MS;
    let days = arguments.days.map_or(u64::MAX, u64::from);
    let sums = summed(&jobs, today.saturating_add(1).saturating_sub(days));
    let models = client.models().await.calling("list the models")?;
    let names: BTreeMap<ModelId, String> = models.into_iter().map(|it| (it.id, it.name)).collect();
    let name = |model: &ModelId| names.get(model).cloned().unwrap_or_else(|| brief(model));
    if as_json {
        return Ok(outcome::json(&document(address, &sums, name))?);
    }
    if arguments.csv {
        return print_csv(&sums, name);
    }
    print(address, &sums, name)
}

type Sums = BTreeMap<(u64, ModelId), Spending>;

fn total(sums: &Sums) -> Spending {
    let mut total = Spending::default();
    for spending in sums.values() {
        total.add(*spending);
    }
    total
}

fn print(address: Address, sums: &Sums, name: impl Fn(&ModelId) -> String) -> Outcome {
    let mut table = Table::new(&["day", "model", "jobs", "spent", "locked"]);
    for ((day, model), spending) in sums.iter().rev() {
        table.row(vec![
            date(*day),
            name(model),
            spending.jobs.to_string(),
            short(spending.spent),
            short(spending.locked),
        ]);
    }
    line(table)?;
    let total = total(sums);
    let plural = if total.jobs == 1 { "" } else { "s" };
    Ok(line(format_args!(
        "{} job{plural} of {address}: {} TGRID spent, {} locked; fees of transactions and rent are not in it",
        total.jobs,
        short(total.spent),
        short(total.locked)
    ))?)
}

fn print_csv(sums: &Sums, name: impl Fn(&ModelId) -> String) -> Outcome {
    line("day,model,model_id,jobs,spent_tgrid,locked_tgrid")?;
    for ((day, model), spending) in sums {
        // Names of the grid are text of others.
        let name = name(model).replace('"', "\"\"");
        line(format_args!(
            "{},\"{name}\",{model},{},{},{}",
            date(*day),
            spending.jobs,
            spending.spent,
            spending.locked
        ))?;
    }
    Ok(())
}

fn document(address: Address, sums: &Sums, name: impl Fn(&ModelId) -> String) -> Value {
    let rows = sums.iter().map(|((day, model), spending)| {
        json!({
            "day": date(*day), "model": name(model), "model_id": model.to_string(), "jobs": spending.jobs,
            "spent": spending.spent.to_string(), "locked": spending.locked.to_string(),
        })
    });
    let rows: Vec<Value> = rows.collect();
    let total = total(sums);
    json!({
        "account": address.to_string(), "rows": rows, "jobs": total.jobs,
        "spent": total.spent.to_string(), "locked": total.locked.to_string(),
    })
}

/// The date of a day since 1970-01-01, in the Gregorian calendar.
fn date(day: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    // The calendar repeats after 400 years.
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let (mut year, mut left) = (
        1970 + 400 * (day / DAYS_OF_400_YEARS),
        day % DAYS_OF_400_YEARS,
    );
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if left < days {
            break;
        }
        left -= days;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let check = |day: u64, expected: &str| assert_eq!(date(day), expected, "{day}");
        check(0, "1970-01-01");
        check(58, "1970-02-28");
        check(59, "1970-03-01");
        check(11_016, "2000-02-29");
        check(20_783, "2026-11-26");
        check(47_541, "2100-03-01");
        check(146_097, "2370-01-01");
    }

    #[test]
    fn spending_adds_up() {
        let one = Spending {
            jobs: 1,
            spent: Amount::new(5),
            locked: Amount::ZERO,
        };
        let other = Spending {
            jobs: 2,
            spent: Amount::new(1),
            locked: Amount::new(7),
        };
        let (first, second) = (ModelId::new([1; 32]), ModelId::new([2; 32]));
        let sums = BTreeMap::from([((1, first), one), ((1, second), other)]);
        let sum = total(&sums);
        assert_eq!(
            (sum.jobs, sum.spent, sum.locked),
            (3, Amount::new(6), Amount::new(7))
        );
    }
}
