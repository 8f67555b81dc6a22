//! The processor that the loops run on: its vector instructions, threads, scratch memory, and memory of values that are
//! no longer needed.
//!
//! Results do not depend on any of them. Each thread has its own, with one thread of work, until [`with_cpu`] or an
//! engine says otherwise.

use std::cell::RefCell;
use std::sync::Arc;
use tg_exec::kernels::memory::Plain;
use tg_exec::kernels::{Cpu, Scratch};

/// What loops use beside their inputs and outputs.
#[derive(Debug)]
pub(super) struct Machine {
    cpu: Arc<Cpu>,
    scratch: Scratch,
    spare: Spare,
}

impl Machine {
    /// A machine that keeps at most `spare_bytes` of memory for values to come.
    pub(super) fn new(cpu: Cpu, spare_bytes: usize) -> Self {
        Self {
            cpu: Arc::new(cpu),
            scratch: Scratch::new(),
            spare: Spare {
                free: Vec::new(),
                bytes: 0,
                bytes_max: spare_bytes,
            },
        }
    }

    pub(super) fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Keeps at most so much memory for values to come.
    pub(super) fn limit_spare(&mut self, bytes: usize) {
        self.spare.bytes_max = bytes;
        self.spare.trim();
    }

    /// Runs `work` with this machine on this thread.
    pub(super) fn install<R>(&mut self, work: impl FnOnce() -> R) -> R {
        /// Puts the machine of before back, also when `work` panics.
        struct Before<'a>(&'a mut Machine);
        impl Before<'_> {
            fn exchange(&mut self) {
                CPU.with_borrow_mut(|cpu| std::mem::swap(cpu, &mut self.0.cpu));
                SCRATCH.with_borrow_mut(|scratch| std::mem::swap(scratch, &mut self.0.scratch));
                SPARE.with_borrow_mut(|spare| std::mem::swap(spare, &mut self.0.spare));
            }
        }
        impl Drop for Before<'_> {
            fn drop(&mut self) {
                self.exchange();
            }
        }
        let mut before = Before(self);
        before.exchange();
        work()
    }
}

/// Vectors of values that are no longer needed, for the next ones.
#[derive(Debug, Default)]
struct Spare {
    free: Vec<Vec<f32>>,
    bytes: usize,
    bytes_max: usize,
}

impl Spare {
    /// The smallest vector with room for `count` numbers that is not far too large.
    fn take(&mut self, count: usize) -> Option<Vec<f32>> {
        let fits =
            |vector: &Vec<f32>| (count..=count.saturating_mul(2)).contains(&vector.capacity());
        let found = self.free.iter().enumerate().filter(|(_, v)| fits(v));
        let (index, _) = found.min_by_key(|(_, vector)| vector.capacity())?;
        let vector = self.free.swap_remove(index);
        self.bytes -= 4 * vector.capacity();
        Some(vector)
    }

    fn give(&mut self, vector: Vec<f32>) {
        self.bytes += 4 * vector.capacity();
        self.free.push(vector);
        self.trim();
    }

    /// Drops the oldest ones beyond the limit.
    fn trim(&mut self) {
        let mut old = 0;
        while self.bytes > self.bytes_max && old < self.free.len() {
            self.bytes -= 4 * self.free[old].capacity();
            old += 1;
        }
        self.free.drain(..old);
    }
}

thread_local! {
    static CPU: RefCell<Arc<Cpu>> = RefCell::new(Arc::new(Cpu::new(1)));
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// Runs `work` with this processor (level and threads) for every operator evaluated within, on this thread.
pub fn with_cpu<R>(cpu: Cpu, work: impl FnOnce() -> R) -> R {
    Machine::new(cpu, 0).install(work)
}

/// The processor of this thread.
pub(super) fn cpu() -> Arc<Cpu> {
    CPU.with_borrow(Arc::clone)
}

/// Calls `work` with the processor and the scratch memory of this thread. It must not call itself.
pub(super) fn with_scratch<R>(work: impl FnOnce(&Cpu, &mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| work(&cpu(), scratch))
}

/// Runs `work` compiled for the instructions in use; it must be an `#[inline(always)]` closure.
#[inline]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    cpu().vectorised(work)
}

/// Elements that a thread takes at a time where each costs little.
const SHARE: usize = 1 << 14;

/// Calls `work(first, part)` with parts of whole rows of `out`, each of `row` elements, shared among the threads;
/// `first` is the number of the part's first row. `work` must be an `#[inline(always)]` closure.
#[inline]
pub(super) fn in_parts<T: Plain + Sync>(
    out: &mut [T],
    row: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let row = row.max(1);
    // Rows by eight, so that sums can run side by side.
    let rows = (SHARE / row).next_multiple_of(8).max(8);
    let cpu = cpu();
    cpu.pool().run_parts(out, rows * row, &|_, index, part| {
        cpu.vectorised(
            #[inline(always)]
            || work(index * rows, part),
        );
    });
}

/// `count` numbers of unspecified value.
pub(super) fn take(count: usize) -> Vec<f32> {
    let spare = SPARE.with_borrow_mut(|spare| spare.take(count));
    let mut vector = spare.unwrap_or_else(|| Vec::with_capacity(count));
    vector.resize(count, 0.0);
    vector
}

/// Keeps the memory of a vector for [`take`].
pub(super) fn give(vector: Vec<f32>) {
    SPARE.with_borrow_mut(|spare| spare.give(vector));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_exec::kernels::SimdLevel;

    #[test]
    fn memory_is_used_again_within_its_limit() {
        let mut machine = Machine::new(Cpu::new(1), 4 * 100);
        machine.install(|| {
            let first = take(60);
            let place = first.as_ptr();
            give(first);
            let small = take(20);
            assert_ne!(small.as_ptr(), place, "far too large");
            let again = take(50);
            assert_eq!((again.as_ptr(), again.len()), (place, 50));
            give(again);
            give(vec![1.0; 90]);
            let other = take(60);
            assert_ne!(other.as_ptr(), place, "the oldest went");
            give(vec![0.0; 200]);
            assert!(take(200).iter().all(|&value| value == 0.0));
        });
        machine.limit_spare(0);
        assert_eq!((machine.spare.bytes, machine.spare.free.len()), (0, 0));
    }

    #[test]
    fn a_machine_is_put_back_also_after_a_panic() {
        let before = cpu().level();
        let caught = std::panic::catch_unwind(|| {
            with_cpu(
                Cpu::with_level(SimdLevel::Scalar, 1).unwrap_or_default(),
                || {
                    assert_eq!(cpu().level(), SimdLevel::Scalar);
                    std::panic::panic_any("stop");
                },
            );
        });
        assert!(caught.is_err());
        assert_eq!(cpu().level(), before);
    }
}
