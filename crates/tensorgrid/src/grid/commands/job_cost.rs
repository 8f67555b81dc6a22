//! `tensorgrid job cost`: what an account spent, by day and model, and by project.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tg_sdk::clouds::{CloudHardware, CloudPrices};
use tg_sdk::date::{self, DAY_MS};
use tg_sdk::dto::{JobDto, JobStateDto, MachineDto, SettlementDto};
use tg_sdk::text::FromText as _;
use tg_sdk::{Client, JobFilter, clock};
use tg_types::{Address, Amount, JobId, ModelId, OfferId};

use super::{say_unproved, unproved_json};
use crate::grid::cloud_prices::dollars;
use crate::grid::connect::{self, Calling as _};
use crate::grid::job_args::JobCostArguments;
use crate::grid::projects;
use tg_console::outcome::{Exit, Failure, Outcome, line};
use tg_console::table::{Table, brief, short};

/// Most jobs that are summed up.
const JOBS_MAX: u32 = 100_000;

/// What is summed up in one row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CostKey {
    /// The day in which jobs were ordered.
    day: u64,
    /// The project; nothing if it is not asked for, or a job has none.
    project: Option<String>,
    model: ModelId,
}

/// By what jobs are summed up.
struct Grouping {
    /// The projects of jobs, if they are asked for.
    projects: Option<BTreeMap<JobId, String>>,
    first_day: u64,
}

impl Grouping {
    /// The row of a job; nothing if it is older than what is asked for.
    fn key(&self, job: &JobDto) -> Option<CostKey> {
        let projects = self.projects.as_ref();
        let key = CostKey {
            day: day_of(job),
            project: projects.and_then(|it| it.get(&job.id).cloned()),
            model: job.model,
        };
        (key.day >= self.first_day).then_some(key)
    }
}

/// What jobs of one row came to.
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

/// What clouds would have taken for jobs of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Elsewhere {
    /// Dollars, by the cheapest row for each job's hardware and time.
    usd: f64,
    /// Jobs that ran and are not in it: their offer is gone, or no row is of its hardware.
    unknown: u64,
}

impl Elsewhere {
    fn add(&mut self, other: Self) {
        self.usd += other.usd;
        self.unknown += other.unknown;
    }
}

/// What clouds would have taken, by row.
struct CloudSums {
    sums: BTreeMap<CostKey, Elsewhere>,
    /// Ages of the newest and the oldest row, in days.
    ages: (u64, u64),
}

/// How long a job was being run.
fn ran_ms(job: &JobDto, now_ms: u64) -> u64 {
    let ends = job.history.iter().skip(1).map(|it| it.at_ms);
    let steps = job.history.iter().zip(ends.chain([now_ms]));
    let running = steps.filter(|(step, _)| step.state == JobStateDto::Running);
    running
        .map(|(step, end)| end.saturating_sub(step.at_ms))
        .sum()
}

/// What clouds would have taken for the time in which jobs were run, on the hardware of the offers that ran them.
fn elsewhere(
    (jobs, grouping): (&[JobDto], &Grouping),
    clouds: &CloudPrices,
    (offers, now_ms): (&BTreeMap<OfferId, MachineDto>, u64),
) -> BTreeMap<CostKey, Elsewhere> {
    let mut sums: BTreeMap<CostKey, Elsewhere> = BTreeMap::new();
    for job in jobs {
        let ran = ran_ms(job, now_ms);
        let lease = job.leases.last().filter(|_| ran > 0);
        let (Some(lease), Some(key)) = (lease, grouping.key(job)) else {
            continue;
        };
        let usd = offers.get(&lease.offer).and_then(|machine| {
            let hardware = CloudHardware::of(machine, job.needs.gpus);
            clouds.cheapest(hardware, ran)
        });
        sums.entry(key).or_default().add(Elsewhere {
            usd: usd.unwrap_or(0.0),
            unknown: u64::from(usd.is_none()),
        });
    }
    sums
}

/// The day in which a job was ordered.
fn day_of(job: &JobDto) -> u64 {
    job.history.first().map_or(0, |step| step.at_ms / DAY_MS)
}

/// Sums jobs by row.
fn summed(jobs: &[JobDto], grouping: &Grouping) -> Sums {
    let mut sums = Sums::new();
    for job in jobs {
        if let Some(key) = grouping.key(job) {
            sums.entry(key).or_default().add(Spending::of(job));
        }
    }
    sums
}

/// Prints what an account spent.
pub(crate) async fn run(arguments: &JobCostArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let clouds = arguments.clouds.read()?;
    let projects = match arguments.project {
        Some(_) => Some(projects::labels(&arguments.key)?),
        None => None,
    };
    let address = match &arguments.address {
        Some(text) => Address::from_text(text).ok_or_else(|| {
            let expected = format!("{text:?} is not {}", Address::EXPECTED);
            Failure::new(Exit::Usage, anyhow::anyhow!(expected))
        })?,
        None => connect::wallet(&client, &arguments.key).await?.address(),
    };
    let filter = JobFilter {
        requestor: Some(address),
        provider: None,
        mode: None,
        limit: Some(JOBS_MAX),
    };
    let mut jobs = client.jobs(filter).await.calling("list the jobs")?;
    let today = clock::now().get() / DAY_MS;
    let days = arguments.days.map_or(u64::MAX, u64::from);
    let grouping = Grouping {
        projects,
        first_day: today.saturating_add(1).saturating_sub(days),
    };
    if let Some(Some(name)) = &arguments.project {
        jobs.retain(|job| {
            let own = grouping.projects.as_ref().and_then(|it| it.get(&job.id));
            own == Some(name)
        });
    }
    let sums = summed(&jobs, &grouping);
    let models = client.models().await.calling("list the models")?;
    let names: BTreeMap<ModelId, String> = models.into_iter().map(|it| (it.id, it.name)).collect();
    let name = |model: &ModelId| names.get(model).cloned().unwrap_or_else(|| brief(model));
    let clouds = match clouds {
        Some(clouds) => cloud_sums(&client, (&jobs, &grouping), &clouds).await?,
        None => None,
    };
    if as_json {
        let clouds = clouds.as_ref();
        return unproved_json(&document(address, (&sums, clouds), name));
    }
    say_unproved(&client);
    let has_projects = grouping.projects.is_some();
    if arguments.csv {
        return print_csv((&sums, clouds.as_ref()), has_projects, name);
    }
    print(address, (&sums, clouds.as_ref()), has_projects, name)
}

/// What clouds would have taken for jobs; nothing of a file without rows.
async fn cloud_sums(
    client: &Client,
    of: (&[JobDto], &Grouping),
    clouds: &CloudPrices,
) -> Result<Option<CloudSums>, Failure> {
    let Some(ages) = clouds.ages() else {
        return Ok(None);
    };
    let offers = client.offers().await.calling("list the offers")?;
    let machines = offers.into_iter().map(|it| (it.id, it.terms.machine));
    let machines: BTreeMap<OfferId, MachineDto> = machines.collect();
    let now = clock::now().get();
    Ok(Some(CloudSums {
        sums: elsewhere(of, clouds, (&machines, now)),
        ages,
    }))
}

type Sums = BTreeMap<CostKey, Spending>;

fn total(sums: &Sums) -> Spending {
    let mut total = Spending::default();
    for spending in sums.values() {
        total.add(*spending);
    }
    total
}

/// What a row says of clouds.
fn beside(clouds: Option<&CloudSums>, key: &CostKey) -> Option<Elsewhere> {
    clouds.map(|it| it.sums.get(key).copied().unwrap_or_default())
}

fn print(
    address: Address,
    (sums, clouds): (&Sums, Option<&CloudSums>),
    has_projects: bool,
    name: impl Fn(&ModelId) -> String,
) -> Outcome {
    let mut head = vec!["day", "model", "jobs", "spent", "locked"];
    head.extend(clouds.map(|_| "in a cloud"));
    head.extend(has_projects.then_some("project"));
    let mut table = Table::new(&head);
    for (key, spending) in sums.iter().rev() {
        let mut row = vec![
            date::text(key.day),
            name(&key.model),
            spending.jobs.to_string(),
            short(spending.spent),
            short(spending.locked),
        ];
        row.extend(beside(clouds, key).map(|it| dollars(it.usd)));
        let project = key.project.as_deref().unwrap_or("-");
        row.extend(has_projects.then(|| project.to_owned()));
        table.row(row);
    }
    line(table)?;
    let total = total(sums);
    let plural = if total.jobs == 1 { "" } else { "s" };
    line(format_args!(
        "{} job{plural} of {address}: {} TGRID spent, {} locked; fees of transactions and rent are not in it",
        total.jobs,
        short(total.spent),
        short(total.locked)
    ))?;
    let Some(clouds) = clouds else {
        return Ok(());
    };
    let mut all = Elsewhere::default();
    for key in sums.keys() {
        all.add(beside(Some(clouds), key).unwrap_or_default());
    }
    let (newest, oldest) = clouds.ages;
    Ok(line(format_args!(
        "{} in a cloud for the time in which they ran, by rows of {newest} to {oldest} days ago and for nothing that waits or is checked; {} jobs are \
         not in it, whose offer is gone or whose hardware has no row",
        dollars(all.usd),
        all.unknown
    ))?)
}

fn print_csv(
    (sums, clouds): (&Sums, Option<&CloudSums>),
    has_projects: bool,
    name: impl Fn(&ModelId) -> String,
) -> Outcome {
    let project = if has_projects { ",project" } else { "" };
    let more = if clouds.is_some() {
        ",cloud_usd,cloud_unknown_jobs"
    } else {
        ""
    };
    line(format_args!(
        "day,model,model_id,jobs,spent_tgrid,locked_tgrid{more}{project}"
    ))?;
    for (key, spending) in sums {
        let CostKey {
            day,
            project,
            model,
        } = key;
        // Names of the grid are text of others.
        let name = name(model).replace('"', "\"\"");
        let more = beside(clouds, key).map(|it| format!(",{},{}", it.usd, it.unknown));
        let project = project.as_deref().unwrap_or_default();
        let project = has_projects.then(|| format!(",{project}"));
        line(format_args!(
            "{},\"{name}\",{model},{},{},{}{}{}",
            date::text(*day),
            spending.jobs,
            spending.spent,
            spending.locked,
            more.unwrap_or_default(),
            project.unwrap_or_default()
        ))?;
    }
    Ok(())
}

fn document(
    address: Address,
    (sums, clouds): (&Sums, Option<&CloudSums>),
    name: impl Fn(&ModelId) -> String,
) -> Value {
    let rows = sums.iter().map(|(key, spending)| {
        let CostKey {
            day,
            project,
            model,
        } = key;
        let beside = beside(clouds, key);
        json!({
            "day": date::text(*day), "model": name(model), "model_id": model.to_string(), "jobs": spending.jobs,
            "spent": spending.spent.to_string(), "locked": spending.locked.to_string(),
            "project": project, "cloud_usd": beside.map(|it| it.usd), "cloud_unknown_jobs": beside.map(|it| it.unknown),
        })
    });
    let rows: Vec<Value> = rows.collect();
    let total = total(sums);
    json!({
        "account": address.to_string(), "rows": rows, "jobs": total.jobs,
        "spent": total.spent.to_string(), "locked": total.locked.to_string(),
        "cloud_ages_days": clouds.map(|it| [it.ages.0, it.ages.1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let key = |project: Option<&str>| CostKey {
            day: 1,
            project: project.map(str::to_owned),
            model: ModelId::new([1; 32]),
        };
        let sums = BTreeMap::from([(key(None), one), (key(Some("vision")), other)]);
        let sum = total(&sums);
        assert_eq!(
            (sum.jobs, sum.spent, sum.locked),
            (3, Amount::new(6), Amount::new(7))
        );
    }
}
