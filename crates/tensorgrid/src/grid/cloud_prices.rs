//! Prices of clouds beside those of the grid: a file of dated rows (`--cloud-prices FILE`), and what the same hardware would cost
//! there for the same time.
//!
//! The rows are somebody's notes of public pages, never asked for by this program: each carries its day and its page, and is shown
//! with its age.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tg_sdk::dto::{MachineDto, QuoteDto};
use tg_types::{Amount, BASE_PRICES_PER_MINUTE, GpuModel};

use tg_console::date;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_console::table::Table;
use tg_sdk::clock;

/// The rows that this program comes with.
const CLOUD_PRICES: &str = include_str!("cloud-prices.toml");

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most rows of a file.
const ROWS_MAX: usize = 1_000;

/// Most bytes of a text in it.
const TEXT_BYTES_MAX: usize = 300;

/// Rows that are shown beside a quote, the cheapest first.
const SHOWN_MAX: usize = 5;

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// A file of prices as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    usd_per_tgrid: Option<f64>,
    #[serde(default)]
    price: Vec<PriceEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    cloud: String,
    product: String,
    gpu: Option<String>,
    gpus: Option<u16>,
    vcpus: Option<u16>,
    usd_per_hour: f64,
    read_on: String,
    source: String,
}

/// What a price is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hardware {
    /// GPUs of a model.
    Gpus(GpuModel, u16),
    /// Virtual cores.
    Cores(u16),
}

impl Hardware {
    /// What of an offer's machine a job with so many GPUs uses: those, one at least if there are any, and else its cores. An offer that
    /// does not say how many it has counts as one.
    pub(crate) fn of(machine: &MachineDto, gpus: u8) -> Self {
        if machine.gpus > 0 && machine.gpu != GpuModel::Other {
            return Self::Gpus(machine.gpu, u16::from(gpus.max(1)));
        }
        let cores = machine.cpu_milli.div_ceil(1_000).max(1);
        Self::Cores(u16::try_from(cores).unwrap_or(u16::MAX))
    }

    /// How many times as much as another; nothing if it is of another kind.
    fn times(self, other: Self) -> Option<f64> {
        match (self, other) {
            (Self::Gpus(model, count), Self::Gpus(other, per)) if model == other => {
                Some(f64::from(count) / f64::from(per))
            }
            (Self::Cores(count), Self::Cores(per)) => Some(f64::from(count) / f64::from(per)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Hardware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gpus(model, count) => write!(f, "{count} {model}"),
            Self::Cores(1) => f.write_str("1 virtual core"),
            Self::Cores(count) => write!(f, "{count} virtual cores"),
        }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
struct CloudPrice {
    cloud: String,
    product: String,
    hardware: Hardware,
    usd_per_hour: f64,
    read_on: String,
    age_days: u64,
    source: String,
}

/// A row's price of some hardware for some time.
#[derive(Debug, Clone, PartialEq)]
struct CloudCost<'a> {
    row: &'a CloudPrice,
    /// Dollars.
    usd: f64,
}

/// Prices of clouds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CloudPrices {
    rows: Vec<CloudPrice>,
    usd_per_tgrid: Option<f64>,
}

/// What is wrong with a file of prices, and where.
fn wrong(place: &str, text: String) -> Failure {
    Failure::new(
        Exit::Usage,
        anyhow::anyhow!(text).context(format!("read {place}")),
    )
    .hint("`tensorgrid market cloud-prices FILE` writes one whose comments say what each field is")
}

impl CloudPrices {
    /// Reads a file, if one is named.
    pub(crate) fn read(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else {
            return Ok(None);
        };
        let place = path.display().to_string();
        let bytes = files::read(path, FILE_BYTES_MAX)?;
        let text = String::from_utf8(bytes).or_fail(Exit::Usage, format!("read {place}"))?;
        let today = clock::now().get() / date::DAY_MS;
        Self::parse(&text, today)
            .map(Some)
            .map_err(|text| wrong(&place, text))
    }

    fn parse(text: &str, today: u64) -> Result<Self, String> {
        let file: PriceFile = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.price.len() > ROWS_MAX {
            return Err(format!("{} rows: {ROWS_MAX} at most", file.price.len()));
        }
        if file.usd_per_tgrid.is_some_and(|it| !is_price(it)) {
            return Err("usd_per_tgrid: dollars, above 0".to_owned());
        }
        let rows = file.price.into_iter().enumerate().map(|(index, entry)| {
            row(entry, today).map_err(|text| format!("price {}: {text}", index + 1))
        });
        Ok(Self {
            rows: rows.collect::<Result<_, _>>()?,
            usd_per_tgrid: file.usd_per_tgrid,
        })
    }

    /// What hardware would cost for a time, the cheapest first.
    fn costs(&self, hardware: Hardware, time_ms: u64) -> Vec<CloudCost<'_>> {
        let costs = self.rows.iter().filter_map(|row| {
            let times = hardware.times(row.hardware)?;
            let usd = row.usd_per_hour * times * time_ms as f64 / HOUR_MS;
            Some(CloudCost { row, usd })
        });
        let mut costs: Vec<CloudCost<'_>> = costs.collect();
        costs.sort_by(|a, b| a.usd.total_cmp(&b.usd));
        costs
    }

    /// What an amount is worth, if the file says what a TGRID is.
    fn worth(&self, amount: Amount) -> Option<f64> {
        // An amount is a decimal number: what is lost here is beyond what is shown.
        let tgrid: f64 = amount.to_string().parse().ok()?;
        self.usd_per_tgrid.map(|it| it * tgrid)
    }

    /// What the hardware of the quote that would be taken costs in clouds for the time that it declares; nothing without a quote.
    pub(crate) fn beside(&self, quotes: &[QuoteDto], gpus: u8) -> Option<String> {
        let quote = taken(quotes)?;
        let price = quote.price;
        let price = price.map(|price| price.saturating_add(quote.verification_fee));
        Some(self.beside_one(quote, gpus, (quote.eta_ms, price)))
    }

    /// What its hardware costs in clouds for the time that an endpoint may last, beside what its minutes come to here; nothing without a quote.
    pub(crate) fn beside_endpoint(
        &self,
        quotes: &[QuoteDto],
        gpus: u8,
        time_ms: u64,
    ) -> Option<String> {
        let quote = taken(quotes)?;
        let base = quote.offer.terms.price_base;
        let minute = base.checked_mul_div_ceil(BASE_PRICES_PER_MINUTE, 1);
        let price = minute.and_then(|minute| minute.checked_mul_div_ceil(time_ms, 60_000));
        Some(self.beside_one(quote, gpus, (time_ms, price)))
    }

    fn beside_one(
        &self,
        quote: &QuoteDto,
        gpus: u8,
        (time_ms, price): (u64, Option<Amount>),
    ) -> String {
        let hardware = Hardware::of(&quote.offer.terms.machine, gpus);
        let worth = price.and_then(|price| {
            let worth = self.worth(price)?;
            Some(format!("; here {} by your usd_per_tgrid", dollars(worth)))
        });
        let machine = &quote.offer.terms.machine;
        let unsaid = match hardware {
            Hardware::Cores(_) if machine.cpu_milli == 0 => ", of which the offer says no number,",
            _ => "",
        };
        format!(
            "{hardware}{unsaid} for {} elsewhere{}:\n{}",
            seconds(time_ms),
            worth.unwrap_or_default(),
            self.table(hardware, time_ms)
        )
    }

    /// The same as JSON.
    pub(crate) fn beside_json(&self, quotes: &[QuoteDto], gpus: u8) -> Value {
        let Some(quote) = taken(quotes) else {
            return Value::Null;
        };
        let hardware = Hardware::of(&quote.offer.terms.machine, gpus);
        let costs = self.costs(hardware, quote.eta_ms);
        let rows = costs.iter().map(|CloudCost { row, usd }| {
            json!({
                "cloud": row.cloud, "product": row.product, "usd_per_hour": row.usd_per_hour, "usd": usd,
                "read_on": row.read_on, "age_days": row.age_days, "source": row.source,
            })
        });
        json!({
            "hardware": hardware.to_string(), "time_ms": quote.eta_ms,
            "usd_here": quote.price.and_then(|it| self.worth(it.saturating_add(quote.verification_fee))),
            "rows": rows.collect::<Vec<_>>(),
        })
    }

    /// What the cheapest row takes for some hardware and time; nothing if there is none of it.
    pub(crate) fn cheapest(&self, hardware: Hardware, time_ms: u64) -> Option<f64> {
        self.costs(hardware, time_ms).first().map(|it| it.usd)
    }

    /// Ages of the newest and the oldest row, in days; nothing of a file without rows.
    pub(crate) fn ages(&self) -> Option<(u64, u64)> {
        let ages = self.rows.iter().map(|it| it.age_days);
        Some((ages.clone().min()?, ages.max()?))
    }

    /// The cheapest rows for some hardware and time, each with its age.
    fn table(&self, hardware: Hardware, time_ms: u64) -> String {
        let costs = self.costs(hardware, time_ms);
        if costs.is_empty() {
            return format!("the file of cloud prices has no row of {hardware}");
        }
        let mut table = Table::new(&["cloud", "product", "an hour", "this", "read", "page"]);
        for CloudCost { row, usd } in costs.iter().take(SHOWN_MAX) {
            table.row(vec![
                row.cloud.clone(),
                row.product.clone(),
                dollars(row.usd_per_hour),
                dollars(*usd),
                format!("{}, {} days ago", row.read_on, row.age_days),
                row.source.clone(),
            ]);
        }
        format!("{table}\n{NOTE}")
    }
}

/// The quote by which a job would be placed now.
fn taken(quotes: &[QuoteDto]) -> Option<&QuoteDto> {
    quotes.iter().find(|it| it.chosen).or(quotes.first())
}

/// What every comparison lacks.
const NOTE: &str = "prices of clouds are notes with a day, not asked for now; nobody there checks a result, and idle time is paid";

/// Whether a number is a price.
fn is_price(usd: f64) -> bool {
    usd > 0.0 && usd < 1e6
}

fn row(entry: PriceEntry, today: u64) -> Result<CloudPrice, String> {
    let PriceEntry {
        cloud,
        product,
        gpu,
        gpus,
        vcpus,
        usd_per_hour,
        read_on,
        source,
    } = entry;
    for (name, text) in [
        ("cloud", &cloud),
        ("product", &product),
        ("source", &source),
    ] {
        let is_shown = !text.is_empty() && !text.chars().any(char::is_control);
        if !is_shown || text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "{name}: 1 to {TEXT_BYTES_MAX} bytes without control characters"
            ));
        }
    }
    if !(source.starts_with("https://") || source.starts_with("http://")) {
        return Err(format!(
            "source: the address of the page, https://.., not {source:?}"
        ));
    }
    if !is_price(usd_per_hour) {
        return Err(format!(
            "usd_per_hour: dollars above 0 and below a million, not {usd_per_hour}"
        ));
    }
    let Some(day) = date::day(&read_on) else {
        return Err(format!(
            "read_on: the day on which the page said so, such as \"2026-11-27\", not {read_on:?}"
        ));
    };
    let age_days = today.checked_sub(day).ok_or_else(|| {
        format!(
            "read_on: {read_on} is yet to come; today is {}",
            date::text(today)
        )
    })?;
    Ok(CloudPrice {
        hardware: hardware(gpu.as_deref(), gpus, vcpus)?,
        cloud,
        product,
        usd_per_hour,
        read_on,
        age_days,
        source,
    })
}

fn hardware(gpu: Option<&str>, gpus: Option<u16>, vcpus: Option<u16>) -> Result<Hardware, String> {
    match (gpu, gpus, vcpus) {
        (None, None, Some(vcpus)) if vcpus > 0 => Ok(Hardware::Cores(vcpus)),
        (Some(gpu), gpus, None) if gpus != Some(0) => {
            let known = GpuModel::from_name(gpu).filter(|it| *it != GpuModel::Other);
            let model = known.ok_or_else(|| {
                let known = GpuModel::ALL.iter().filter(|it| **it != GpuModel::Other);
                let known: Vec<&str> = known.map(|it| it.as_str()).collect();
                format!("gpu: {gpu:?} is none of {}", known.join(", "))
            })?;
            Ok(Hardware::Gpus(model, gpus.unwrap_or(1)))
        }
        _ => Err(
            "gpu with gpus (1 or more), or vcpus (1 or more) instead, says what the price is for"
                .to_owned(),
        ),
    }
}

/// Dollars with three significant digits, and no less than whole cents of large ones.
pub(crate) fn dollars(usd: f64) -> String {
    if usd <= 0.0 {
        return "$0".to_owned();
    }
    let places = (2.0 - usd.log10().floor()).clamp(2.0, 12.0);
    format!("${usd:.*}", places as usize)
}

fn seconds(ms: u64) -> String {
    match ms {
        0..=99_999 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min", ms / 60_000),
    }
}

/// Writes the file that this program comes with; it is not written over another.
pub(crate) fn write_sample(path: Option<&Path>) -> Outcome {
    let Some(path) = path else {
        return Ok(line(CLOUD_PRICES.trim_end())?);
    };
    if path.exists() {
        let text = format!("{} is there already", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("name another file: rows that you changed are not written over"));
    }
    files::write(path, CLOUD_PRICES.as_bytes())?;
    say(format_args!(
        "wrote {}; read the pages that it names before you decide by it",
        path.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const ROW: &str = "[[price]]\ncloud = \"C\"\nproduct = \"p\"\nusd_per_hour = 8.0\nread_on = \"2026-11-01\"\nsource = \"https://c\"\n";

    fn parsed(text: &str) -> Result<CloudPrices, String> {
        CloudPrices::parse(text, date::day("2026-11-27").unwrap())
    }

    #[test]
    fn the_rows_that_come_with_the_program_are_read_and_are_of_the_past() {
        let prices = parsed(CLOUD_PRICES).unwrap();
        assert!(prices.rows.len() >= 5 && prices.usd_per_tgrid.is_none());
        assert!(prices.rows.iter().all(|it| it.age_days > 0));
        let hardware = Hardware::Gpus(GpuModel::H100, 2);
        let costs = prices.costs(hardware, 3_600_000);
        // Two of one cost what a quarter of eight do.
        let aws = costs.iter().find(|it| it.row.cloud == "AWS").unwrap();
        assert!((aws.usd - 55.04 / 4.0).abs() < 1e-9);
        assert!(costs.windows(2).all(|pair| pair[0].usd <= pair[1].usd));
        let shown = prices.table(hardware, 3_600_000);
        assert!(
            shown.contains("days ago") && shown.contains("https://"),
            "{shown}"
        );
    }

    #[test]
    fn time_and_hardware_decide_what_it_costs() {
        let prices = parsed(&format!(
            "usd_per_tgrid = 0.5\n{ROW}gpu = \"h100\"\ngpus = 4\n"
        ))
        .unwrap();
        let cost = |hardware, ms| prices.costs(hardware, ms).first().map(|it| it.usd);
        assert_eq!(
            cost(Hardware::Gpus(GpuModel::H100, 1), 3_600_000),
            Some(2.0)
        );
        assert_eq!(
            cost(Hardware::Gpus(GpuModel::H100, 2), 1_800_000),
            Some(2.0)
        );
        assert_eq!(cost(Hardware::Gpus(GpuModel::H200, 1), 3_600_000), None);
        assert_eq!(cost(Hardware::Cores(1), 3_600_000), None);
        assert_eq!(prices.worth("3".parse().unwrap()), Some(1.5));
        let absent = prices.table(Hardware::Cores(2), 1);
        assert!(absent.contains("no row of 2 virtual cores"), "{absent}");
    }

    #[test]
    fn a_machine_is_its_gpus_or_its_cores() {
        let mut machine = MachineDto::default();
        assert_eq!(Hardware::of(&machine, 0), Hardware::Cores(1));
        machine.cpu_milli = 2_500;
        assert_eq!(Hardware::of(&machine, 4), Hardware::Cores(3));
        (machine.gpus, machine.gpu) = (8, GpuModel::H200);
        assert_eq!(Hardware::of(&machine, 0), Hardware::Gpus(GpuModel::H200, 1));
        assert_eq!(Hardware::of(&machine, 4), Hardware::Gpus(GpuModel::H200, 4));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_row() {
        let second = |more: &str| format!("{ROW}vcpus = 2\n{ROW}{more}\n");
        for (text, said) in [
            (second("vcpus = 0"), "price 2: gpu with gpus"),
            (
                second("gpu = \"h100\"\nvcpus = 1"),
                "price 2: gpu with gpus",
            ),
            (second("gpus = 1"), "price 2: gpu with gpus"),
            (
                second("gpu = \"h999\""),
                "price 2: gpu: \"h999\" is none of t4, ",
            ),
            (ROW.replace("8.0", "-1.0"), "price 1: usd_per_hour"),
            (ROW.replace("8.0", "nan"), "price 1: usd_per_hour"),
            (ROW.replace("2026-11-01", "2026-02-30"), "price 1: read_on"),
            (
                ROW.replace("2026-11-01", "2026-11-28"),
                "is yet to come; today is 2026-11-27",
            ),
            (ROW.replace("https://c", "ftp://c"), "price 1: source"),
            (ROW.replace("\"C\"", "\"\\u001b[2J\""), "price 1: cloud"),
            (format!("{ROW}colour = 1\n"), "colour"),
            ("usd_per_tgrid = 0.0\n".to_owned(), "usd_per_tgrid"),
            ("price = 3".to_owned(), "price"),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
        let many = ROW.repeat(ROWS_MAX + 1);
        assert!(parsed(&many).unwrap_err().contains("1000 at most"));
    }

    #[test]
    fn dollars_have_three_digits() {
        for (usd, expected) in [
            (55.04, "$55.04"),
            (1_234.5, "$1234.50"),
            (0.012_345, "$0.0123"),
            (0.000_000_5, "$0.000000500"),
            (0.0, "$0"),
        ] {
            assert_eq!(dollars(usd), expected);
        }
    }
}
