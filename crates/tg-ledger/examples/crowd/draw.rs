//! A search for worse shapes: drawn, a tenth as large, then the worst at full size.

use super::measure;
use super::shape::{LONELY, Miss, Shape};

/// A generator of numbers (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (value ^ value >> 31) % limit
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

fn drawn(draws: &mut Draws) -> Shape {
    let miss = [Miss::Mode, Miss::Ram, Miss::GpuMemory, Miss::Deadline];
    let least = draws.one_of(&[2, 4, 8, 16, 32]);
    Shape {
        name: "drawn",
        offers: 6_500,
        jobs: 900,
        gangs: 100,
        spot: 0,
        prices: draws.one_of(&[1, 30, 1_000, usize::MAX]),
        kinds: draws.one_of(&[1, 1, 8, 400, usize::MAX]),
        sizes: draws.one_of(&[1, 16, 256]),
        apart: draws.one_of(&[0, 1, 20, 1_000]),
        miss: draws.one_of(&miss),
        footprints: draws.one_of(&[1, 100, 10_000]),
        members: (least, 1),
        sides: draws.one_of(&[2, 100, 900]),
        is_shared: draws.below(2) == 1,
        updates: draws.one_of(&[0, 0, 20, 150]),
        posts: draws.one_of(&[0, 0, 20]),
        raises: draws.one_of(&[0, 0, 100]),
        cancels: draws.one_of(&[0, 0, 20]),
        guaranteed: draws.one_of(&[0, 0, 20]),
        orders: draws.one_of(&[0, 20]),
        new_gangs: draws.one_of(&[0, 4]),
    }
}

/// Draws `count` shapes from `seed`, and measures the worst of them at full size.
pub(crate) fn search(count: u64, seed: u64) {
    let mut draws = Draws(seed);
    let mut worst: Option<(u64, Shape)> = None;
    for _ in 0..count {
        let shape = drawn(&mut draws);
        let cost = measure(&shape, 12);
        if worst.is_none_or(|(most, _)| cost.worst_us > most) {
            println!("  {shape:?}");
            worst = Some((cost.worst_us, shape));
        }
    }
    let Some((_, shape)) = worst else { return };
    println!("{shape:?}");
    let full = Shape {
        name: "the worst of those drawn",
        offers: LONELY.offers,
        jobs: LONELY.jobs,
        gangs: LONELY.gangs,
        ..shape
    };
    let cost = measure(&full, 24);
    println!("median {} us, worst {} us", cost.median_us, cost.worst_us);
}
