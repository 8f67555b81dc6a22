//! Pi by Monte Carlo: which share of random points of a square lies in its circle.
//!
//! Chunk: seed and number of points (u64 each, little-endian). The output is how many points lay inside and how many there
//! were (u64 each), so that outputs of several runs are merged by adding. Points come from SplitMix64 of the seed.
#![no_std]

include!("abi.rs");

static mut INSIDE: u64 = 0;
static mut POINTS: u64 = 0;

fn step_chunk(chunk: &[u8]) -> u32 {
    if chunk.len() != 16 {
        return 1;
    }
    let (mut state, points) = (number(chunk, 0), number(chunk, 8));
    let mut inside = 0;
    let mut index = 0;
    while index < points {
        let (x, y) = (unit(&mut state), unit(&mut state));
        if x * x + y * y < 1.0 {
            inside += 1;
        }
        index += 1;
    }
    add(inside, points);
    0
}

/// Adds the output of another run.
#[unsafe(no_mangle)]
extern "C" fn merge(at: u32, length: u32) -> u32 {
    let answer = given(at, length);
    if answer.len() != 16 {
        return 1;
    }
    add(number(answer, 0), number(answer, 8));
    0
}

fn add(inside: u64, points: u64) {
    // One call at a time, and no threads.
    unsafe {
        INSIDE = INSIDE.wrapping_add(inside);
        POINTS = POINTS.wrapping_add(points);
    }
}

/// The next number in [0, 1), of 53 bits.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / 9_007_199_254_740_992.0
}

fn finish() {
    clear();
    // One call at a time, and no threads.
    let (inside, points) = unsafe { (INSIDE, POINTS) };
    put(&inside.to_le_bytes());
    put(&points.to_le_bytes());
}
