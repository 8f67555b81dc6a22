//! Prices of clouds beside those of the grid: a file of dated rows (`--cloud-prices FILE`), and what the same hardware would cost
//! there for the same time.
//!
//! What a file may say, and what follows from it, is in [`tg_sdk::clouds`]; here files are read, and costs shown with the age of
//! their rows.

use std::path::Path;

use serde_json::{Value, json};
use tg_sdk::clock;
use tg_sdk::clouds::{BUILT_IN, CloudCost, CloudHardware, CloudPrices};
use tg_sdk::date::DAY_MS;
use tg_sdk::dto::{CloudPricesDto, QuoteDto};
use tg_types::{Amount, BASE_PRICES_PER_MINUTE};

use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_console::table::Table;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Rows that are shown beside a quote, the cheapest first.
const SHOWN_MAX: usize = 5;

/// Today, in days since 1970.
fn today() -> u64 {
    clock::now().get() / DAY_MS
}

/// Reads a file, if one is named.
pub(crate) fn read(path: Option<&Path>) -> Result<Option<CloudPrices>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let doing = format!("read {}", path.display());
    let bytes = files::read(path, FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).or_fail(Exit::Usage, doing.clone())?;
    let prices = CloudPrices::parse(&text, today()).or_fail(Exit::Usage, doing);
    prices.map(Some).map_err(|failure| {
        failure.hint(
            "`tensorgrid market cloud-prices FILE` writes one whose comments say what each field is",
        )
    })
}

/// What a node tells of clouds: the rows of a file, those that come with the program if none is named.
pub(crate) fn told(path: Option<&Path>) -> Result<CloudPricesDto, Failure> {
    let prices = read(path)?.unwrap_or_else(|| CloudPrices::built_in(today()));
    Ok(CloudPricesDto::from(&prices))
}

/// What the hardware of the quote that would be taken costs in clouds for the time that it declares; nothing without a quote.
pub(crate) fn beside(prices: &CloudPrices, quotes: &[QuoteDto], gpus: u8) -> Option<String> {
    let quote = taken(quotes)?;
    let price = quote.price;
    let price = price.map(|price| price.saturating_add(quote.verification_fee));
    Some(beside_one(prices, (quote, gpus), (quote.eta_ms, price)))
}

/// What its hardware costs in clouds for the time that an endpoint may last, beside what its minutes come to here; nothing without a quote.
pub(crate) fn beside_endpoint(
    prices: &CloudPrices,
    (quotes, gpus): (&[QuoteDto], u8),
    time_ms: u64,
) -> Option<String> {
    let quote = taken(quotes)?;
    let base = quote.offer.terms.price_base;
    let minute = base.checked_mul_div_ceil(BASE_PRICES_PER_MINUTE, 1);
    let price = minute.and_then(|minute| minute.checked_mul_div_ceil(time_ms, 60_000));
    Some(beside_one(prices, (quote, gpus), (time_ms, price)))
}

fn beside_one(
    prices: &CloudPrices,
    (quote, gpus): (&QuoteDto, u8),
    (time_ms, price): (u64, Option<Amount>),
) -> String {
    let machine = &quote.offer.terms.machine;
    let hardware = CloudHardware::of(machine, gpus);
    let worth = price.and_then(|price| {
        let worth = prices.worth(price)?;
        Some(format!("; here {} by your usd_per_tgrid", dollars(worth)))
    });
    let unsaid = match hardware {
        CloudHardware::Cores(_) if machine.cpu_milli == 0 => ", of which the offer says no number,",
        _ => "",
    };
    format!(
        "{hardware}{unsaid} for {} elsewhere{}:\n{}",
        seconds(time_ms),
        worth.unwrap_or_default(),
        table(prices, hardware, time_ms)
    )
}

/// The same as JSON.
pub(crate) fn beside_json(prices: &CloudPrices, quotes: &[QuoteDto], gpus: u8) -> Value {
    let Some(quote) = taken(quotes) else {
        return Value::Null;
    };
    let hardware = CloudHardware::of(&quote.offer.terms.machine, gpus);
    let costs = prices.costs(hardware, quote.eta_ms);
    let rows = costs.iter().map(|CloudCost { row, age_days, usd }| {
        json!({
            "cloud": row.cloud, "product": row.product, "usd_per_hour": row.usd_per_hour, "usd": usd,
            "read_on": row.read_on, "age_days": age_days, "source": row.source,
        })
    });
    let here = quote
        .price
        .map(|it| it.saturating_add(quote.verification_fee));
    json!({
        "hardware": hardware.to_string(), "time_ms": quote.eta_ms,
        "usd_here": here.and_then(|it| prices.worth(it)),
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// The cheapest rows for some hardware and time, each with its age.
fn table(prices: &CloudPrices, hardware: CloudHardware, time_ms: u64) -> String {
    let costs = prices.costs(hardware, time_ms);
    if costs.is_empty() {
        return format!("the file of cloud prices has no row of {hardware}");
    }
    let mut table = Table::new(&["cloud", "product", "an hour", "this", "read", "page"]);
    for CloudCost { row, age_days, usd } in costs.iter().take(SHOWN_MAX) {
        table.row(vec![
            row.cloud.clone(),
            row.product.clone(),
            dollars(row.usd_per_hour),
            dollars(*usd),
            format!("{}, {age_days} days ago", row.read_on),
            row.source.clone(),
        ]);
    }
    format!("{table}\n{NOTE}")
}

/// The quote by which a job would be placed now.
fn taken(quotes: &[QuoteDto]) -> Option<&QuoteDto> {
    quotes.iter().find(|it| it.chosen).or(quotes.first())
}

/// What every comparison lacks.
const NOTE: &str = "prices of clouds are notes with a day, not asked for now; nobody there checks a result, and idle time is paid";

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
        return Ok(line(BUILT_IN.trim_end())?);
    };
    if path.exists() {
        let text = format!("{} is there already", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("name another file: rows that you changed are not written over"));
    }
    files::write(path, BUILT_IN.as_bytes())?;
    say(format_args!(
        "wrote {}; read the pages that it names before you decide by it",
        path.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_sdk::date;
    use tg_types::GpuModel;

    use super::*;

    #[test]
    fn rows_are_shown_with_their_age_and_page() {
        let prices = CloudPrices::built_in(date::day("2026-11-27").unwrap());
        let hardware = CloudHardware::Gpus(GpuModel::H100, 2);
        let shown = table(&prices, hardware, 3_600_000);
        assert!(
            shown.contains("2026-11-09, 18 days ago") && shown.contains("https://"),
            "{shown}"
        );
        let absent = table(&prices, CloudHardware::Gpus(GpuModel::P100, 2), 1);
        assert!(absent.contains("no row of 2 p100"), "{absent}");
    }

    #[test]
    fn a_node_tells_the_rows_of_its_file_or_those_of_the_program() {
        let usual = told(None).unwrap();
        assert!(usual.rows.iter().any(|it| it.gpu == Some(GpuModel::H100)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let row = "[[price]]\ncloud = \"C\"\nproduct = \"p\"\nvcpus = 2\nusd_per_hour = 8.0\nread_on = \"2020-11-01\"\nsource = \"https://c\"\n";
        std::fs::write(&path, format!("usd_per_tgrid = 0.5\n{row}")).unwrap();
        let own = told(Some(&path)).unwrap();
        assert_eq!(own.usd_per_tgrid, Some(0.5));
        assert_eq!(own.rows.len(), 1);
        assert_eq!((own.rows[0].vcpus, own.rows[0].gpu), (2, None));
        std::fs::write(&path, row.replace("8.0", "0.0")).unwrap();
        let failure = told(Some(&path)).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        let text = format!("{:#}", failure.error);
        assert!(
            text.contains("prices.toml: price 1: usd_per_hour"),
            "{text}"
        );
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
