//! Prices of clouds: a file of dated rows, and what some hardware would cost there for some time.
//!
//! The rows are somebody's notes of public pages, never asked for by this crate: each carries its day and its page.
//!
//! ```
//! use tg_sdk::clouds::{CloudHardware, CloudPrices};
//! use tg_types::GpuModel;
//!
//! let hour_ms = 3_600_000;
//! let prices = CloudPrices::built_in(20_800);
//! let cheapest = prices.cheapest(CloudHardware::Gpus(GpuModel::H100, 2), hour_ms);
//! assert!(cheapest > Some(0.0));
//! ```

use serde::Deserialize;
use tg_types::{Amount, GpuModel};

use crate::date;
use crate::dto::{CloudPriceDto, CloudPricesDto, MachineDto};

/// The file of the rows that come with this crate, whose comments say what each field is.
pub const BUILT_IN: &str = include_str!("cloud-prices.toml");

/// Most rows of a file.
pub const ROWS_MAX: usize = 1_000;

/// Most bytes of a text of a row.
const TEXT_BYTES_MAX: usize = 300;

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// Why a text is no table of prices.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CloudPricesError {
    /// It is not TOML, or has other fields.
    #[error("{message}")]
    Syntax {
        /// What the reader of TOML says, with the line.
        message: String,
    },
    /// It has too many rows.
    #[error("{rows} rows: {} at most", ROWS_MAX)]
    Rows {
        /// How many.
        rows: usize,
    },
    /// What it says that a TGRID is worth is no price.
    #[error("usd_per_tgrid: dollars, above 0")]
    Worth,
    /// A row is wrong.
    #[error("price {number}")]
    Row {
        /// Which one; the first is 1.
        number: usize,
        /// What is wrong.
        #[source]
        source: CloudRowError,
    },
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CloudRowError {
    /// A text is missing, too long, or cannot be shown.
    #[error("{field}: 1 to {} bytes without control characters", TEXT_BYTES_MAX)]
    Text {
        /// Its field.
        field: &'static str,
    },
    /// The page has no address.
    #[error("source: the address of the page, https://.., not {got:?}")]
    Source {
        /// What is there instead.
        got: String,
    },
    /// The price is none.
    #[error("usd_per_hour: dollars above 0 and below a million, not {got}")]
    Price {
        /// What is there instead.
        got: f64,
    },
    /// The day is none.
    #[error("read_on: the day on which the page said so, such as \"2026-11-27\", not {got:?}")]
    Day {
        /// What is there instead.
        got: String,
    },
    /// The day is yet to come.
    #[error("read_on: {read_on} is yet to come; today is {}", date::text(*today))]
    Future {
        /// The day of the row.
        read_on: String,
        /// Today, in days since 1970.
        today: u64,
    },
    /// The model of its GPUs is not known.
    #[error("gpu: {got:?} is none of {}", known_gpus())]
    Gpu {
        /// What is there instead.
        got: String,
    },
    /// It does not say for what hardware the price is.
    #[error("gpu with gpus (1 or more), or vcpus (1 or more) instead, says what the price is for")]
    Hardware,
}

fn known_gpus() -> String {
    let known = GpuModel::ALL.iter().filter(|it| **it != GpuModel::Other);
    let known: Vec<&str> = known.map(|it| it.as_str()).collect();
    known.join(", ")
}

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
pub enum CloudHardware {
    /// GPUs of a model.
    Gpus(GpuModel, u16),
    /// Virtual cores.
    Cores(u16),
}

impl CloudHardware {
    /// What of an offer's machine a job with so many GPUs uses: those, one at least if there are any, and else its cores. An offer that
    /// does not say how many it has counts as one.
    #[must_use]
    pub fn of(machine: &MachineDto, gpus: u8) -> Self {
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

impl std::fmt::Display for CloudHardware {
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
pub struct CloudPrice {
    /// The cloud.
    pub cloud: String,
    /// What it sells under which terms.
    pub product: String,
    /// What the price is for.
    pub hardware: CloudHardware,
    /// Dollars an hour.
    pub usd_per_hour: f64,
    /// The day on which the page said so.
    pub read_on: String,
    /// The address of the page.
    pub source: String,
    /// The same day, in days since 1970.
    day: u64,
}

/// A row's price of some hardware for some time.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudCost<'a> {
    /// The row.
    pub row: &'a CloudPrice,
    /// How old it is, in days.
    pub age_days: u64,
    /// Dollars.
    pub usd: f64,
}

/// Prices of clouds.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudPrices {
    rows: Vec<CloudPrice>,
    usd_per_tgrid: Option<f64>,
    today: u64,
}

impl CloudPrices {
    /// Reads a file of prices. `today` is in days since 1970.
    ///
    /// # Errors
    /// [`CloudPricesError`] names the row.
    pub fn parse(text: &str, today: u64) -> Result<Self, CloudPricesError> {
        let file: PriceFile = toml::from_str(text).map_err(|error| CloudPricesError::Syntax {
            message: error.to_string(),
        })?;
        let rows = file.price.len();
        if rows > ROWS_MAX {
            return Err(CloudPricesError::Rows { rows });
        }
        if file.usd_per_tgrid.is_some_and(|it| !is_price(it)) {
            return Err(CloudPricesError::Worth);
        }
        let rows = file.price.into_iter().enumerate().map(|(index, entry)| {
            row(entry, today).map_err(|source| CloudPricesError::Row {
                number: index + 1,
                source,
            })
        });
        Ok(Self {
            rows: rows.collect::<Result<_, _>>()?,
            usd_per_tgrid: file.usd_per_tgrid,
            today,
        })
    }

    /// The rows that come with this crate. They are there whatever the clock says: before their days their age is 0.
    ///
    /// # Panics
    /// Never: a test reads them.
    #[must_use]
    pub fn built_in(today: u64) -> Self {
        let prices = Self::parse(BUILT_IN, u64::MAX).expect("a test reads the rows of this crate");
        Self { today, ..prices }
    }

    /// What hardware would cost for a time, the cheapest first.
    #[must_use]
    pub fn costs(&self, hardware: CloudHardware, time_ms: u64) -> Vec<CloudCost<'_>> {
        let costs = self.rows.iter().filter_map(|row| {
            let times = hardware.times(row.hardware)?;
            Some(CloudCost {
                row,
                age_days: self.age_days(row),
                usd: row.usd_per_hour * times * time_ms as f64 / HOUR_MS,
            })
        });
        let mut costs: Vec<CloudCost<'_>> = costs.collect();
        costs.sort_by(|a, b| a.usd.total_cmp(&b.usd));
        costs
    }

    /// What the cheapest row takes for some hardware and time; nothing if there is none of it.
    #[must_use]
    pub fn cheapest(&self, hardware: CloudHardware, time_ms: u64) -> Option<f64> {
        self.costs(hardware, time_ms).first().map(|it| it.usd)
    }

    /// What an amount is worth in dollars, if the file says what a TGRID is.
    #[must_use]
    pub fn worth(&self, amount: Amount) -> Option<f64> {
        // An amount is a decimal number: what is lost here is beyond what is shown.
        let tgrid: f64 = amount.to_string().parse().ok()?;
        self.usd_per_tgrid.map(|it| it * tgrid)
    }

    /// Ages of the newest and the oldest row, in days; nothing of a file without rows.
    #[must_use]
    pub fn ages(&self) -> Option<(u64, u64)> {
        let ages = self.rows.iter().map(|it| self.age_days(it));
        Some((ages.clone().min()?, ages.max()?))
    }

    fn age_days(&self, row: &CloudPrice) -> u64 {
        self.today.saturating_sub(row.day)
    }
}

impl From<&CloudPrices> for CloudPricesDto {
    fn from(prices: &CloudPrices) -> Self {
        let CloudPrices {
            rows,
            usd_per_tgrid,
            today: _,
        } = prices;
        Self {
            usd_per_tgrid: *usd_per_tgrid,
            rows: rows.iter().map(CloudPriceDto::from).collect(),
        }
    }
}

impl From<&CloudPrice> for CloudPriceDto {
    fn from(price: &CloudPrice) -> Self {
        let CloudPrice {
            cloud,
            product,
            hardware,
            usd_per_hour,
            read_on,
            source,
            day: _,
        } = price;
        let (gpu, gpus, vcpus) = match *hardware {
            CloudHardware::Gpus(model, count) => (Some(model), count, 0),
            CloudHardware::Cores(count) => (None, 0, count),
        };
        Self {
            cloud: cloud.clone(),
            product: product.clone(),
            gpu,
            gpus,
            vcpus,
            usd_per_hour: *usd_per_hour,
            read_on: read_on.clone(),
            source: source.clone(),
        }
    }
}

/// Whether a number is a price.
fn is_price(usd: f64) -> bool {
    usd > 0.0 && usd < 1e6
}

fn row(entry: PriceEntry, today: u64) -> Result<CloudPrice, CloudRowError> {
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
    for (field, text) in [
        ("cloud", &cloud),
        ("product", &product),
        ("source", &source),
    ] {
        let is_shown = !text.is_empty() && !text.chars().any(char::is_control);
        if !is_shown || text.len() > TEXT_BYTES_MAX {
            return Err(CloudRowError::Text { field });
        }
    }
    if !(source.starts_with("https://") || source.starts_with("http://")) {
        return Err(CloudRowError::Source { got: source });
    }
    if !is_price(usd_per_hour) {
        return Err(CloudRowError::Price { got: usd_per_hour });
    }
    let Some(day) = date::day(&read_on) else {
        return Err(CloudRowError::Day { got: read_on });
    };
    if day > today {
        return Err(CloudRowError::Future { read_on, today });
    }
    Ok(CloudPrice {
        hardware: hardware(gpu, gpus, vcpus)?,
        cloud,
        product,
        usd_per_hour,
        read_on,
        source,
        day,
    })
}

fn hardware(
    gpu: Option<String>,
    gpus: Option<u16>,
    vcpus: Option<u16>,
) -> Result<CloudHardware, CloudRowError> {
    match (gpu, gpus, vcpus) {
        (None, None, Some(vcpus)) if vcpus > 0 => Ok(CloudHardware::Cores(vcpus)),
        (Some(gpu), gpus, None) if gpus != Some(0) => {
            let known = GpuModel::from_name(&gpu).filter(|it| *it != GpuModel::Other);
            let model = known.ok_or(CloudRowError::Gpu { got: gpu })?;
            Ok(CloudHardware::Gpus(model, gpus.unwrap_or(1)))
        }
        _ => Err(CloudRowError::Hardware),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::error::Error as _;

    use super::*;

    const ROW: &str = "[[price]]\ncloud = \"C\"\nproduct = \"p\"\nusd_per_hour = 8.0\nread_on = \"2026-11-01\"\nsource = \"https://c\"\n";

    fn today() -> u64 {
        date::day("2026-11-27").unwrap()
    }

    fn parsed(text: &str) -> Result<CloudPrices, CloudPricesError> {
        CloudPrices::parse(text, today())
    }

    /// What is wrong with a text, with its cause.
    fn wrong(text: &str) -> String {
        let error = parsed(text).unwrap_err();
        let cause = error.source().map(|it| format!(": {it}"));
        format!("{error}{}", cause.unwrap_or_default())
    }

    #[test]
    fn the_rows_that_come_with_the_crate_are_read_and_are_of_the_past() {
        let prices = parsed(BUILT_IN).unwrap();
        assert_eq!(CloudPrices::built_in(today()), prices);
        assert!(prices.rows.len() >= 5 && prices.usd_per_tgrid.is_none());
        assert!(prices.ages().unwrap().0 > 0);
        let costs = prices.costs(CloudHardware::Gpus(GpuModel::H100, 2), 3_600_000);
        // Two of one cost what a quarter of eight do.
        let aws = costs.iter().find(|it| it.row.cloud == "AWS").unwrap();
        assert!((aws.usd - 55.04 / 4.0).abs() < 1e-9);
        assert!(costs.windows(2).all(|pair| pair[0].usd <= pair[1].usd));
    }

    /// Stops: a node that does not start, or shows no prices, because its clock is behind.
    #[test]
    fn the_rows_that_come_with_the_crate_are_there_by_any_clock() {
        for today in [0, u64::MAX] {
            let prices = CloudPrices::built_in(today);
            let (newest, oldest) = prices.ages().unwrap();
            assert_eq!(oldest == 0, today == 0, "{newest} {oldest}");
            assert_eq!(prices.rows.len(), parsed(BUILT_IN).unwrap().rows.len());
        }
    }

    #[test]
    fn time_and_hardware_decide_what_it_costs() {
        let prices = parsed(&format!(
            "usd_per_tgrid = 0.5\n{ROW}gpu = \"h100\"\ngpus = 4\n"
        ))
        .unwrap();
        let cost = |hardware, ms| prices.cheapest(hardware, ms);
        let gpus = |count| CloudHardware::Gpus(GpuModel::H100, count);
        assert_eq!(cost(gpus(1), 3_600_000), Some(2.0));
        assert_eq!(cost(gpus(2), 1_800_000), Some(2.0));
        let other = CloudHardware::Gpus(GpuModel::H200, 1);
        assert_eq!(cost(other, 3_600_000), None);
        assert_eq!(cost(CloudHardware::Cores(1), 3_600_000), None);
        assert_eq!(prices.worth("3".parse().unwrap()), Some(1.5));
        assert_eq!(prices.costs(gpus(1), 1)[0].age_days, 26);
        assert_eq!(prices.ages(), Some((26, 26)));
        assert_eq!(parsed("").unwrap().ages(), None);
    }

    #[test]
    fn a_machine_is_its_gpus_or_its_cores() {
        let mut machine = MachineDto::default();
        assert_eq!(CloudHardware::of(&machine, 0), CloudHardware::Cores(1));
        machine.cpu_milli = 2_500;
        assert_eq!(CloudHardware::of(&machine, 4), CloudHardware::Cores(3));
        (machine.gpus, machine.gpu) = (8, GpuModel::H200);
        for (asked, used) in [(0, 1), (4, 4)] {
            let expected = CloudHardware::Gpus(GpuModel::H200, used);
            assert_eq!(CloudHardware::of(&machine, asked), expected);
        }
    }

    #[test]
    fn what_travels_has_the_rows() {
        let text = format!("usd_per_tgrid = 0.5\n{ROW}gpu = \"h100\"\ngpus = 4\n{ROW}vcpus = 2\n");
        let dto = CloudPricesDto::from(&parsed(&text).unwrap());
        let json = serde_json::to_value(&dto).unwrap();
        assert_eq!(json["usd_per_tgrid"], 0.5);
        let expected = serde_json::json!({
            "cloud": "C", "product": "p", "gpu": "h100", "gpus": 4, "vcpus": 0, "usd_per_hour": 8.0,
            "read_on": "2026-11-01", "source": "https://c",
        });
        assert_eq!(json["rows"][0], expected);
        assert_eq!(json["rows"][1]["gpu"], serde_json::Value::Null);
        assert_eq!(json["rows"][1]["vcpus"], 2);
        let read: CloudPricesDto = serde_json::from_value(json).unwrap();
        assert_eq!(read, dto);
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
            let error = wrong(&text);
            assert!(error.contains(said), "{said}: {error}");
        }
        let many = ROW.repeat(ROWS_MAX + 1);
        assert!(wrong(&many).contains("1000 at most"));
    }
}
