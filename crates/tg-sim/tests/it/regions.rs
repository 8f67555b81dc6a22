//! Finality between regions of the world.

use std::time::Duration;

use tg_sim::regions::{RegionalPlan, measure, percentile};

/// One seat in each region and few blocks: all of them are seen by all seats, within what the links allow, and again.
#[test]
fn blocks_are_final_as_soon_as_links_allow() {
    let plan = RegionalPlan {
        seed: 3,
        seats_per_region: 1,
        blocks: 6,
        jitter: Duration::ZERO,
        step: Duration::from_micros(100),
    };
    let report = measure(&plan);
    assert_eq!(report.seats, 10);
    assert_eq!(
        (report.at_proposer_us.len(), report.at_seats_us.len()),
        (6, 60)
    );
    // The fastest proposer of the table is final some 100 ms earlier than the median of 285 ms, and a view that is lost takes 1.5 s.
    let median = percentile(&report.at_seats_us, 50).expect("there are blocks");
    assert!((150_000..600_000).contains(&median), "{report:?}");
    assert!(report.views >= report.height, "{report:?}");
    let again = measure(&plan);
    assert_eq!(again.at_seats_us, report.at_seats_us);
}

#[test]
fn percentiles_are_of_what_is_there() {
    assert_eq!(percentile(&[], 50), None);
    assert_eq!(percentile(&[7], 99), Some(7));
    let hundred: Vec<u64> = (0..=100).collect();
    assert_eq!(percentile(&hundred, 50), Some(50));
    assert_eq!(percentile(&hundred, 99), Some(99));
}
