//! Gangs: many machines or none, near each other, with shorter jobs filling the gaps while a gang waits.
//!
//! A neighbourhood is a square of network coordinates with a given side; any two machines in one are at most twice
//! the side apart. A gang takes the neighbourhood that fits it with the fewest members to spare, so large
//! neighbourhoods stay whole for large gangs. While the first gang in the queue waits, the earliest time it can start
//! is reserved (EASY backfill): a job may go ahead of it if it ends by then, or takes only what the gang leaves.

use std::collections::BTreeMap;

use tg_types::TimestampMs;

use crate::cluster::{NodeIndex, Request};
use crate::packing::{PackingScheduler, Placed};

/// Most members of a gang.
pub const GANG_MEMBERS_MAX: u32 = 1_024;

/// A gang: `members` times the same request, in one neighbourhood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gang {
    /// What each member needs.
    pub request: Request,
    /// How many, 1 to [`GANG_MEMBERS_MAX`].
    pub members: u32,
    /// Side of a neighbourhood in microseconds.
    pub neighbourhood_us: u32,
}

/// Places all members of `gang` in one neighbourhood, or none.
pub fn place_gang(scheduler: &mut PackingScheduler, gang: &Gang) -> Option<Vec<Placed>> {
    if gang.members == 0 || gang.members > GANG_MEMBERS_MAX {
        return None;
    }
    let mut candidates: Vec<(u32, (i32, i32))> = Vec::new();
    let cells = neighbourhoods(scheduler, gang);
    for (cell, nodes) in &cells {
        let room: u32 = nodes.iter().map(|(_, room)| *room).sum();
        if room >= gang.members {
            candidates.push((room, *cell));
        }
    }
    candidates.sort_unstable();
    for (_, cell) in candidates {
        if let Some(placed) = place_in(scheduler, gang, &cells[&cell]) {
            return Some(placed);
        }
    }
    None
}

type Cells = BTreeMap<(i32, i32), Vec<(NodeIndex, u32)>>;

/// Machines that can take members, by neighbourhood, with how many each can take.
fn neighbourhoods(scheduler: &PackingScheduler, gang: &Gang) -> Cells {
    let cluster = scheduler.cluster();
    let kinds = cluster.kinds().filter(&gang.request);
    let side = i64::from(gang.neighbourhood_us.max(1));
    let mut cells = Cells::new();
    for node in cluster.nodes() {
        if !kinds.contains(cluster.kind(node)) {
            continue;
        }
        let room = room_on(scheduler, node, &gang.request);
        if room > 0 {
            let [x, y] = cluster.spec(node).coordinate;
            let cell = |it: i32| i64::from(it).div_euclid(side) as i32;
            cells
                .entry((cell(x), cell(y)))
                .or_default()
                .push((node, room));
        }
    }
    cells
}

/// How many times `request` fits on `node` now.
fn room_on(scheduler: &PackingScheduler, node: NodeIndex, request: &Request) -> u32 {
    let cluster = scheduler.cluster();
    let free = cluster.free(node);
    let times = |have: u32, need: u32| have.checked_div(need).unwrap_or(u32::MAX);
    let host = times(free.cpu_milli, request.cpu_milli())
        .min(times(free.memory_mib, request.memory_mib()))
        .min(times(free.disk_gib, request.disk_gib()));
    let on_device = |device: usize| cluster.device_room(node, device, request);
    let gpus = u32::from(request.gpus());
    let devices = match gpus {
        0 => u32::MAX,
        _ => (0..free.gpu_milli.len()).map(on_device).sum::<u32>() / gpus,
    };
    host.min(devices).min(GANG_MEMBERS_MAX)
}

fn place_in(
    scheduler: &mut PackingScheduler,
    gang: &Gang,
    nodes: &[(NodeIndex, u32)],
) -> Option<Vec<Placed>> {
    let mark = scheduler.mark();
    // Machines with the most room first: few machines, little traffic between them.
    let mut order: Vec<(NodeIndex, u32)> = nodes.to_vec();
    order.sort_by_key(|(node, room)| (std::cmp::Reverse(*room), scheduler.index().rank(*node)));
    let mut placed = Vec::new();
    for (node, _) in order {
        while placed.len() < gang.members as usize {
            let devices = scheduler.cluster().devices_for(node, &gang.request, None);
            let member = devices.and_then(|it| scheduler.place_on(node, it, &gang.request));
            let Some(member) = member else { break };
            placed.push(member);
        }
    }
    if placed.len() == gang.members as usize {
        return Some(placed);
    }
    scheduler.undo_to(mark);
    None
}

/// A job that runs now and the latest time it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Latest end.
    pub ends: TimestampMs,
    /// Units it holds.
    pub units: u32,
}

/// When the first gang in the queue starts at the latest, and what it leaves free then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shadow {
    /// The gang's start.
    pub starts: TimestampMs,
    /// Units free beside it at that time.
    pub spare: u32,
}

/// When `needed` units are free at the latest; `None` if they never are.
#[must_use]
pub fn shadow(now: TimestampMs, free: u32, running: &[Running], needed: u32) -> Option<Shadow> {
    let mut ends: Vec<Running> = running.to_vec();
    ends.sort_by_key(|job| job.ends);
    let mut units = free;
    let mut at = now;
    let mut rest = ends.iter().peekable();
    loop {
        // Everything that ends at the same time is free together.
        while let Some(job) = rest.next_if(|job| job.ends <= at) {
            units = units.saturating_add(job.units);
        }
        if units >= needed {
            return Some(Shadow {
                starts: at,
                spare: units - needed,
            });
        }
        at = rest.peek()?.ends;
    }
}

/// Whether a job of `units` that ends at `ends` may start now ahead of the gang that `shadow` is of. A job that runs
/// on past the gang's start takes of [`Shadow::spare`], which the caller reduces.
#[must_use]
pub fn may_backfill(shadow: &Shadow, free: u32, units: u32, ends: TimestampMs) -> bool {
    units <= free && (ends <= shadow.starts || units <= shadow.spare)
}
