//! Searches for the program that costs a validator most, by time and by memory that is really taken:
//! `cargo run --release -p tg-proof --example hardest -- SECONDS [SEED]`. Prints the worst ten.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unsafe_code,
    reason = "a search for people to read; the allocator counts"
)]

#[path = "../tests/it/costly.rs"]
#[allow(dead_code, reason = "the tests' own")]
mod costly;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The system's allocator, counting what is taken and the most that ever was.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let taken = TAKEN.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(taken, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(60, |text| text.parse().unwrap());
    let seed: u64 = arguments.next().map_or(1, |text| text.parse().unwrap());
    let measure = |program: &tg_ir::Program| {
        let before = TAKEN.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let cost = costly::cost(program);
        let taken = MOST.load(Ordering::Relaxed) - before;
        costly::Cost {
            declared: taken as u64,
            ..cost
        }
    };
    let mut found: Vec<_> = (seed..seed + 20)
        .map(|seed| costly::search(seed, Duration::from_millis(seconds * 50), &measure))
        .collect();
    found.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.time));
    for (genes, cost) in found.iter().take(10) {
        println!(
            "{:>9.3?} {:>4} MiB  {genes:?}",
            cost.time,
            cost.declared >> 20
        );
    }
}
