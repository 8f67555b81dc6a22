//! Money: text, arithmetic and its borders.

use proptest::prelude::*;
use tg_types::{Amount, Decode, DurationMs, Encode, Height, ParseAmountError, TimestampMs};

use crate::samples::terms;

const TGRID: u128 = 1_000_000_000_000_000_000;

#[test]
fn amounts_are_read_and_written_as_decimals() {
    fn check(text: &str, expected: Result<u128, ParseAmountError>) {
        assert_eq!(text.parse(), expected.map(Amount::new), "{text}");
    }
    check("0", Ok(0));
    check("1", Ok(TGRID));
    check("1.5", Ok(TGRID * 3 / 2));
    check("007.10", Ok(7 * TGRID + TGRID / 10));
    check("0.000000000000000001", Ok(1));
    check("340282366920938463463.374607431768211455", Ok(u128::MAX));
    check(
        "340282366920938463463.374607431768211456",
        Err(ParseAmountError::TooLarge),
    );
    check(
        "99999999999999999999999999999999999999999",
        Err(ParseAmountError::TooLarge),
    );
    check(
        "1.0000000000000000001",
        Err(ParseAmountError::TooFine { places: 19 }),
    );
    for text in [
        "", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "1.2.3", "٣",
    ] {
        check(text, Err(ParseAmountError::NotDecimal));
    }
    assert_eq!(Amount::new(TGRID * 3 / 2).to_string(), "1.5");
    assert_eq!(Amount::from_tgrid(12).to_string(), "12");
    assert_eq!(Amount::new(1).to_string(), "0.000000000000000001");
    assert_eq!(format!("{:>5}", Amount::from_tgrid(12)), "   12");
    assert_eq!(format!("{:?}", Amount::from_tgrid(1)), "Amount(1 TGRID)");
}

#[test]
fn arithmetic_stops_at_the_ends() {
    assert_eq!(Amount::MAX.checked_add(Amount::new(1)), None);
    assert_eq!(Amount::ZERO.checked_sub(Amount::new(1)), None);
    assert_eq!(Amount::MAX.saturating_add(Amount::MAX), Amount::MAX);
    assert_eq!(Amount::ZERO.saturating_sub(Amount::MAX), Amount::ZERO);
    assert_eq!(Amount::MAX.checked_mul_div_ceil(1, 0), None);
    assert_eq!(Amount::MAX.checked_mul_div_ceil(2, 1), None);
    assert_eq!(Amount::MAX.checked_mul_div_ceil(7, 7), Some(Amount::MAX));
    assert_eq!(Amount::MAX.ppm_ceil(1_000_000), Amount::MAX);
    assert_eq!(Amount::MAX.ppm_ceil(u32::MAX), Amount::MAX);
    assert_eq!(Amount::new(1).ppm_ceil(1), Amount::new(1));
    assert_eq!(Amount::new(10).split(0), None);
    assert_eq!(
        Amount::new(10).split(3),
        Some((Amount::new(3), Amount::new(1)))
    );
    assert_eq!(
        TimestampMs::new(u64::MAX).saturating_add(DurationMs::new(1)),
        TimestampMs::new(u64::MAX)
    );
    assert_eq!(
        TimestampMs::new(1).saturating_since(TimestampMs::new(2)),
        DurationMs::ZERO
    );
    assert_eq!(Height::new(4).next(), Height::new(5));
}

#[test]
fn offers_charge_every_begun_million() {
    let terms = terms();
    let (base, per_mmac) = (terms.price_base.get(), terms.price_per_mmac.get());
    for (macs, millions) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
        assert_eq!(
            terms.price(macs),
            Some(Amount::new(base + millions * per_mmac))
        );
    }
    // 4,000 million per second: 8 * 10^9 take two seconds more than the base of 250 ms.
    assert_eq!(terms.duration(8_000_000_000), DurationMs::new(2_250));
    assert_eq!(terms.duration(1), DurationMs::new(251));
    let mut extreme = terms;
    extreme.speed_mmac_per_s = 0;
    assert_eq!(extreme.duration(1), DurationMs::new(u64::MAX));
    extreme.price_per_mmac = Amount::MAX;
    assert_eq!(extreme.price(2_000_000), None);
    assert_eq!(extreme.price(1), None);
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn text_round_trips(units: u128) {
        let amount = Amount::new(units);
        prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        prop_assert_eq!(Amount::from_bytes(&amount.to_bytes()), Ok(amount));
    }

    #[test]
    fn parse_never_panics(text in "\\PC{0,48}") {
        let _ = text.parse::<Amount>();
    }

    #[test]
    fn mul_div_is_exact(units in 0..u128::from(u64::MAX), count: u64, per in 1..u64::MAX) {
        let product = units * u128::from(count);
        let expected = product.div_ceil(u128::from(per));
        prop_assert_eq!(
            Amount::new(units).checked_mul_div_ceil(count, per),
            Some(Amount::new(expected))
        );
    }

    #[test]
    fn ppm_is_exact(units in 0..(1u128 << 100), parts in 0..=1_000_000u32) {
        let expected = (units * u128::from(parts)).div_ceil(1_000_000);
        prop_assert_eq!(Amount::new(units).ppm_ceil(parts), Amount::new(expected));
    }

    #[test]
    fn split_keeps_everything(units: u128, count in 1..1_000u32) {
        let (share, rest) = Amount::new(units).split(count).unwrap();
        prop_assert_eq!(share.get() * u128::from(count) + rest.get(), units);
        prop_assert!(rest.get() < u128::from(count));
    }
}
