//! Makes a failing run small: parts are left out one after the other as long as the same rule breaks.

use crate::plan::SimPlan;
use crate::run::{SimOptions, SimReport, run};

/// The smallest plan found in which the first violation of `report` is there too, and what came of it.
#[must_use]
pub fn shrink(report: &SimReport, options: SimOptions) -> SimReport {
    let Some(rule) = report.violations.first().map(|it| it.rule) else {
        return report.clone();
    };
    let fails = |plan: &SimPlan| {
        let tried = run(plan, options);
        let breaks = tried.violations.iter().any(|it| it.rule == rule);
        breaks.then_some(tried)
    };
    smallest(&report.plan, fails).map_or_else(|| report.clone(), |(_, report)| report)
}

/// The plan in which no part can be left out any more so that it fails, and what came of it; nothing if none can be from the beginning.
///
/// Parts are looked at until none of them can go: one that is needed beside another may be needed no longer once that one is gone.
fn smallest<T>(plan: &SimPlan, fails: impl Fn(&SimPlan) -> Option<T>) -> Option<(SimPlan, T)> {
    let mut smallest = plan.clone();
    let mut found = None;
    let mut progress = true;
    while progress {
        progress = false;
        for part in smallest.parts() {
            let tried = smallest.without(part);
            if let Some(report) = fails(&tried) {
                smallest = tried;
                found = Some(report);
                progress = true;
            }
        }
    }
    found.map(|report| (smallest, report))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::plan::{
        ClientPlan, FailureKind, GatewayPlan, LapsePlan, LeaverPlan, NewRelease, NewcomerPlan,
        PlanPart, PlannedFault, PlannedSeats, ProviderPlan, ProviderRole, RequestorPlan,
        RequestorRole, SeatRole,
    };

    /// A plan that has at least two of every part of which there can be two.
    fn large() -> SimPlan {
        let provider = ProviderPlan {
            role: ProviderRole::Wrong,
            gateway: 0,
            slots: 2,
            price_milli: 1_000,
            work_ms: 100,
            price_shock: false,
        };
        let requestor = RequestorPlan {
            role: RequestorRole::Honest,
            gateway: 0,
            orders: 40,
        };
        let fault = |at_ms| PlannedFault {
            at_ms,
            for_ms: 100,
            kind: FailureKind::Delay { ms: 50 },
        };
        let newcomer = NewcomerPlan {
            at_ms: 1_000,
            gateway: 0,
            snapshot: false,
            power_cut: None,
            is_silent: false,
        };
        let client = ClientPlan {
            gateway: 0,
            pause_ms: 500,
            lies_permille: 500,
        };
        let gateway = GatewayPlan {
            beside: 0,
            at_ms: 0,
            snapshot: true,
            power_cut: (9_000, 500),
            loses_chain: false,
        };
        let leaver = |seat| LeaverPlan { at_ms: 1_000, seat };
        let (at_ms, transfers) = (9_000, 2);
        SimPlan {
            seats: vec![
                SeatRole::Honest,
                SeatRole::Silent,
                SeatRole::Mangler,
                SeatRole::Honest,
            ],
            providers: vec![Some(provider); 3],
            requestors: vec![Some(requestor); 2],
            faults: vec![Some(fault(1_000)), Some(fault(2_000)), Some(fault(3_000))],
            release: vec![NewRelease { at_ms, seat: 0 }],
            seat_changes: PlannedSeats {
                newcomers: vec![Some(newcomer); 2],
                leavers: vec![Some(leaver(0)), Some(leaver(3))],
            },
            clients: vec![Some(client); 2],
            gateways: vec![Some(gateway); 2],
            clocks_ms: vec![200, 0, 0, -300],
            lapse: Some(LapsePlan {
                gateway: 0,
                transfers,
                at_ms,
            }),
            ..SimPlan::drawn(0)
        }
    }

    /// Shrinks the large plan as long as all of `needed` is in it and `more` holds; returns what is left and how often it was tried.
    fn shrunk(needed: &[PlanPart], more: impl Fn(&[PlanPart]) -> bool) -> (SimPlan, usize) {
        let tries = Cell::new(0);
        let fails = |plan: &SimPlan| {
            tries.set(tries.get() + 1);
            let parts = plan.parts();
            let fails = needed.iter().all(|it| parts.contains(it)) && more(&parts);
            fails.then_some(parts)
        };
        let plan = large();
        assert!(fails(&plan).is_some(), "it fails whole");
        let (small, parts) = smallest(&plan, fails).expect("something can be left out");
        assert_eq!(small.parts(), parts, "what came of it is of that plan");
        for part in parts {
            assert!(fails(&small.without(part)).is_none(), "{part} may go too");
        }
        (small, tries.get())
    }

    #[test]
    fn what_a_failure_needs_is_left_and_nothing_else() {
        let whole = large().parts();
        for needed in [
            vec![PlanPart::Fault(1)],
            vec![PlanPart::Links],
            vec![PlanPart::Orders],
            vec![PlanPart::Fault(0), PlanPart::Fault(2)],
            vec![PlanPart::Seat(2), PlanPart::Provider(1)],
            vec![PlanPart::Requestor(1), PlanPart::Release],
            vec![PlanPart::Leaver(1), PlanPart::Newcomer(0)],
            vec![PlanPart::Client(1), PlanPart::Lapse],
            vec![PlanPart::Gateway(1), PlanPart::Clocks],
            whole[..whole.len() - 1].to_vec(),
        ] {
            let (small, tries) = shrunk(&needed, |_| true);
            assert_eq!(small.parts(), needed);
            // What was left out stands in the command that runs it again, each part once.
            assert_eq!(small.without.len(), whole.len() - needed.len());
            let command = small.command();
            let told = small
                .without
                .iter()
                .all(|it| command.contains(&it.to_string()));
            assert!(told, "{command}");
            // Once whole, each part in at most two rounds, and what is left once more to see that it is needed.
            assert!(tries <= 1 + 3 * whole.len(), "{tries}");
        }
    }

    #[test]
    fn a_part_that_is_needed_beside_another_goes_after_it() {
        let first = PlanPart::Fault(0);
        // Without the requestor it fails with the fault and without it; beside the requestor only with it.
        let more =
            |parts: &[PlanPart]| parts.contains(&first) || !parts.contains(&PlanPart::Requestor(0));
        let (small, _) = shrunk(&[PlanPart::Provider(2)], more);
        assert_eq!(small.parts(), [PlanPart::Provider(2)]);
    }

    #[test]
    fn of_what_fails_in_two_ways_one_is_left() {
        let ways = [PlanPart::Fault(1), PlanPart::Seat(1)];
        let more = |parts: &[PlanPart]| ways.iter().any(|it| parts.contains(it));
        let (small, _) = shrunk(&[], more);
        let left = small.parts();
        assert!(left.len() == 1 && ways.contains(&left[0]), "{left:?}");
    }

    #[test]
    fn a_plan_of_which_nothing_can_go_is_left_as_it_is() {
        let plan = large();
        let whole = plan.parts();
        let fails = |tried: &SimPlan| (tried.parts() == whole).then_some(());
        assert!(fails(&plan).is_some());
        assert!(smallest(&plan, fails).is_none());
    }
}
