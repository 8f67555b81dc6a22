#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

/// Floats spread over all bit patterns, and over [-30, 30].
fn samples() -> impl Iterator<Item = f32> {
    let everywhere = (0..=u32::MAX).step_by(20_011).map(f32::from_bits);
    let usual = (-600_000..600_000).map(|i| i as f32 * 5.03e-5);
    everywhere.chain(usual).filter(|x| x.is_finite())
}

/// Distance of a result from the exact value, in units in the last place of the exact value.
fn ulps(got: f32, exact: f64) -> f64 {
    if exact.is_nan() {
        assert_eq!(got.to_bits(), NAN_F32.to_bits());
        return 0.0;
    }
    let rounded = exact as f32;
    if rounded.is_infinite() || got.is_infinite() {
        // At the border of overflow both are right to one unit.
        return if got == rounded || got.abs() == f32::MAX || rounded.abs() == f32::MAX {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() >> 23) as i32 - 127;
    let unit = 2f64.powi(exponent - 23);
    (f64::from(got) - exact).abs() / unit
}

fn check(name: &str, bound: f64, function: fn(f32) -> f32, exact: fn(f64) -> f64) {
    let mut worst = (0.0, 0.0);
    for x in samples() {
        let error = ulps(function(x), exact(x.into()));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    assert!(
        worst.0 <= bound,
        "{name}({:e}) is off by {:.3} units",
        worst.1,
        worst.0
    );
}

/// Against the platform's functions in binary64, which are right to about 2^-52.
#[test]
fn errors_stay_within_the_stated_bounds() {
    check("exp", 1.5, exp, f64::exp);
    check("ln", 1.5, ln, f64::ln);
    check("tanh", 2.0, tanh, f64::tanh);
    check("sigmoid", 2.5, sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
    check("erf", 1.5, erf, wide::erf);
    check("exp_m1", 0.501, exp_m1, f64::exp_m1);
    check("ln_1p", 0.501, ln_1p, f64::ln_1p);
    check("sin", 0.501, sin, f64::sin);
    check("cos", 0.501, cos, f64::cos);
    check("tan", 0.501, tan, f64::tan);
    check("asin", 0.501, asin, f64::asin);
    check("acos", 0.501, acos, f64::acos);
    check("atan", 0.501, atan, f64::atan);
    check("sinh", 0.501, sinh, f64::sinh);
    check("cosh", 0.501, cosh, f64::cosh);
    check("asinh", 0.501, asinh, f64::asinh);
    check("acosh", 0.501, acosh, f64::acosh);
    check("atanh", 0.501, atanh, f64::atanh);
    check("pow 2.5", 0.51, |x| pow(x, 2.5), |x| x.powf(2.5));
    check("pow -3", 0.51, |x| pow(x, -3.0), |x| x.powi(-3));
}

#[test]
fn wide_functions_agree_with_the_platform() {
    type Pair = (&'static str, fn(f64) -> f64, fn(f64) -> f64);
    let pairs: [Pair; 16] = [
        ("exp", wide::exp, f64::exp),
        ("exp_m1", wide::exp_m1, f64::exp_m1),
        ("ln", wide::ln, f64::ln),
        ("ln_1p", wide::ln_1p, f64::ln_1p),
        ("sin", wide::sin, f64::sin),
        ("cos", wide::cos, f64::cos),
        ("tan", wide::tan, f64::tan),
        ("asin", wide::asin, f64::asin),
        ("acos", wide::acos, f64::acos),
        ("atan", wide::atan, f64::atan),
        ("sinh", wide::sinh, f64::sinh),
        ("cosh", wide::cosh, f64::cosh),
        ("tanh", wide::tanh, f64::tanh),
        ("asinh", wide::asinh, f64::asinh),
        ("acosh", wide::acosh, f64::acosh),
        ("atanh", wide::atanh, f64::atanh),
    ];
    let mut state = 7u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state
    };
    for (name, ours, theirs) in pairs {
        for round in 0..60_000u32 {
            let bits = random();
            let x = if round % 2 == 0 {
                f64::from_bits(bits)
            } else {
                (bits >> 11) as f64 * 2f64.powi(-53) * 60.0 - 30.0
            };
            // The platform's inverse hyperbolic functions overflow far out.
            if x.is_nan() || (name.ends_with('h') && x.abs() > 1e150) {
                continue;
            }
            let (got, want) = (ours(x), theirs(x));
            let same = got == want || (got.is_nan() && want.is_nan());
            // Multiples of pi cancel: there the error is absolute, in the angle's own unit.
            let near_zero = (got - want).abs() <= 1e-18;
            // Its inverse hyperbolic functions lose digits near their zeros.
            let bound = if name.starts_with('a') && name.ends_with('h') {
                1e-11
            } else {
                2f64.powi(-50)
            };
            let relative = (got - want).abs() / want.abs().max(f64::MIN_POSITIVE);
            assert!(
                same || near_zero || relative <= bound,
                "{name}({x:e}): {got:e}, {want:e}"
            );
        }
    }
}

#[test]
fn erf_matches_published_values() {
    // Abramowitz and Stegun, table 7.1.
    for (x, value) in [
        (0.1, 0.112_462_916_018_284_89),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (3.5, 0.999_999_256_901_627_7),
    ] {
        assert!((wide::erf(x) - value).abs() < 1e-15, "{x}");
        assert!((wide::erf(-x) + value).abs() < 1e-15, "{x}");
    }
}

#[test]
fn powers_have_their_special_cases() {
    let check = |x: f32, y: f32, expected: f32| {
        assert_eq!(pow(x, y).to_bits(), expected.to_bits(), "{x}^{y}");
    };
    check(-2.0, 5.0, -32.0);
    check(-2.0, 4.0, 16.0);
    check(-2.0, 0.5, NAN_F32);
    check(0.0, -1.0, f32::INFINITY);
    check(-0.0, -5.0, f32::NEG_INFINITY);
    check(0.0, 7.0, 0.0);
    check(f32::NAN, 0.0, 1.0);
    check(1.0, f32::NAN, 1.0);
    check(f32::INFINITY, -2.5, 0.0);
    check(0.5, f32::INFINITY, 0.0);
    check(2.0, f32::NEG_INFINITY, 0.0);
    check(f32::NEG_INFINITY, 5.0, f32::NEG_INFINITY);
    check(-1.0, f32::INFINITY, 1.0);
    check(9.0, 0.5, 3.0);
}

#[test]
fn nan_is_canonical_and_extremes_are_right() {
    let odd_nan = f32::from_bits(0xffa0_1234);
    for function in [exp, ln, tanh, sigmoid, erf, sin, cos, exp_m1] {
        assert_eq!(function(odd_nan).to_bits(), NAN_F32.to_bits());
    }
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
    assert_eq!(exp(0.0), 1.0);
    assert!(exp(-100.0) > 0.0, "subnormals are kept");
    assert_eq!(ln(0.0), f32::NEG_INFINITY);
    assert_eq!(ln(1.0), 0.0);
    assert_eq!(ln(f32::INFINITY), f32::INFINITY);
    assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
    assert_eq!(erf(f32::INFINITY), 1.0);
    assert_eq!(sigmoid(f32::NEG_INFINITY), 0.0);
    assert_eq!((tanh(-0.0)).to_bits(), (-0.0f32).to_bits());
}
