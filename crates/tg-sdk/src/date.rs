//! Days since 1970-01-01 and their dates in the Gregorian calendar.

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// The calendar repeats after 400 years.
const DAYS_OF_400_YEARS: u64 = 146_097;

/// The last year of which [`day`] reads dates.
const YEAR_MAX: u64 = 9_999;

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

/// Days of the months of a year.
const fn months(year: u64) -> [u64; 12] {
    let february = if is_leap(year) { 29 } else { 28 };
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// The date of a day, such as `2026-11-27`.
#[must_use]
pub fn text(day: u64) -> String {
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
    let mut month = 1;
    for days in months(year) {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

/// The day of a date, such as `2026-11-27`; nothing if there is no such date from 1970 to 9999.
#[must_use]
pub fn day(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let mut part = |digits: usize| -> Option<u64> {
        let text = parts.next()?;
        let is_number = text.len() == digits && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| text.parse().ok())?
    };
    let (year, month, of_month) = (part(4)?, part(2)?, part(2)?);
    let months = months(year);
    let length = months.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let is_there = (1970..=YEAR_MAX).contains(&year) && (1..=*length).contains(&of_month);
    if parts.next().is_some() || !is_there {
        return None;
    }
    let years = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 });
    let before: u64 = months.iter().take(month as usize - 1).sum();
    Some(years.sum::<u64>() + before + of_month - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let check = |number: u64, expected: &str| {
            assert_eq!(text(number), expected, "{number}");
            assert_eq!(day(expected), Some(number), "{expected}");
        };
        check(0, "1970-01-01");
        check(58, "1970-02-28");
        check(59, "1970-03-01");
        check(11_016, "2000-02-29");
        check(20_783, "2026-11-26");
        check(47_541, "2100-03-01");
        check(146_097, "2370-01-01");
    }

    #[test]
    fn what_is_no_date_has_no_day() {
        for text in [
            "",
            "2026-11",
            "2026-11-31",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "1969-12-31",
            "26-11-01",
            "2026-1-01",
            "2026-11-01-1",
            "+026-11-01",
            "2026-11-0\u{661}",
        ] {
            assert_eq!(day(text), None, "{text:?}");
        }
    }
}
