//! A plan in words: what is printed before a run begins.

use std::fmt;

use super::{Links, NewRelease, PlannedFault, SeatRole, SimPlan};

impl fmt::Display for SimPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            seats,
            links,
            providers,
            requestors,
            faults,
            release,
            seat_changes,
            lapse: _,
            clients: _,
            gateways: _,
            clocks_ms: _,
            mode: _,
            by_tile: _,
            run_whole: _,
            retains: _,
            programs: _,
            floats: _,
            seals: _,
            heal_ms,
            without: _,
        } = self;
        writeln!(
            f,
            "seed {seed}: {} validators, faults until {heal_ms} ms",
            seats.len()
        )?;
        let Links {
            latency_ms,
            jitter_ms,
            loss_permille,
        } = links;
        writeln!(
            f,
            "  links: {latency_ms} ms, jitter {jitter_ms} ms, {loss_permille} of 1,000 lost"
        )?;
        write_rules(f, self)?;
        for (index, role) in seats.iter().enumerate() {
            if *role != SeatRole::Honest {
                writeln!(f, "  seat{index}: {role:?}")?;
            }
        }
        for (index, provider) in providers.iter().enumerate() {
            if let Some(provider) = provider {
                writeln!(f, "  provider{index}: {provider:?}")?;
            }
        }
        for (index, requestor) in requestors.iter().enumerate() {
            if let Some(requestor) = requestor {
                writeln!(f, "  requestor{index}: {requestor:?}")?;
            }
        }
        for NewRelease { at_ms, seat } in release {
            writeln!(f, "  {at_ms} ms: seat{seat} has the new release")?;
        }
        seat_changes.write(f, seats.len())?;
        write_parties(f, self)?;
        write_faults(f, faults)
    }
}

/// How results are checked, and what clocks there are.
fn write_rules(f: &mut fmt::Formatter<'_>, plan: &SimPlan) -> fmt::Result {
    if let Some(mode) = plan.mode {
        writeln!(f, "  all results checked by {}", mode.as_str())?;
    }
    let rules = [
        (plan.programs, "orders name a program"),
        (plan.floats, "orders name a float model"),
        (plan.seals, "orders are sealed that else ask for a proof"),
        (
            plan.retains,
            "answers are kept, and seats are asked for them",
        ),
        (plan.run_whole, "committees run short runs whole"),
        (
            plan.by_tile,
            "validators repeat no runs: disputes end at a tile",
        ),
    ];
    for (_, rule) in rules.iter().filter(|(holds, _)| *holds) {
        writeln!(f, "  {rule}")?;
    }
    let seats = 0..plan.seats.len() + plan.seat_changes.newcomers.len();
    let is_honest =
        |seat: &usize| *plan.seats.get(*seat).unwrap_or(&SeatRole::Honest) == SeatRole::Honest;
    let clocks = seats
        .filter(is_honest)
        .map(|seat| (seat, plan.clock_ms(seat)));
    for (seat, ms) in clocks.filter(|(_, ms)| *ms != 0) {
        writeln!(f, "  seat{seat}: its clock is {ms:+} ms off")?;
    }
    Ok(())
}

/// Who takes part beside validators, providers and requestors.
fn write_parties(f: &mut fmt::Formatter<'_>, plan: &SimPlan) -> fmt::Result {
    if let Some(lapse) = &plan.lapse {
        writeln!(f, "  an account is left: {lapse:?}")?;
    }
    for (index, client) in plan.clients.iter().enumerate() {
        if let Some(client) = client {
            writeln!(f, "  client{index}: {client:?}")?;
        }
    }
    for (index, gateway) in plan.gateways.iter().enumerate() {
        if let Some(gateway) = gateway {
            writeln!(f, "  gateway{index}: {gateway:?}")?;
        }
    }
    Ok(())
}

fn write_faults(f: &mut fmt::Formatter<'_>, faults: &[Option<PlannedFault>]) -> fmt::Result {
    for (index, fault) in faults.iter().enumerate() {
        if let Some(PlannedFault {
            at_ms,
            for_ms,
            kind,
        }) = fault
        {
            writeln!(f, "  fault{index}: at {at_ms} ms for {for_ms} ms {kind:?}")?;
        }
    }
    Ok(())
}
