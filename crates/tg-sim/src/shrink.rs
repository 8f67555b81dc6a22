//! Makes a failing run small: parts are left out one after the other as long as the same rule breaks.

use crate::plan::{PlanPart, SimPlan};
use crate::run::{SimOptions, SimReport, run};

/// The smallest plan found in which the first violation of `report` is there too, and what came of it.
#[must_use]
pub fn shrink(report: &SimReport, options: SimOptions) -> SimReport {
    let Some(rule) = report.violations.first().map(|it| it.rule) else {
        return report.clone();
    };
    let mut smallest = report.clone();
    let mut progress = true;
    while progress {
        progress = false;
        for part in smallest.plan.parts() {
            let plan: SimPlan = smallest.plan.without(part);
            // Leaving orders out again and again ends at one order each.
            if part == PlanPart::Orders && smallest.plan.without.contains(&part) {
                continue;
            }
            let tried = run(&plan, options);
            if tried.violations.iter().any(|it| it.rule == rule) {
                smallest = tried;
                progress = true;
            }
        }
    }
    smallest
}
