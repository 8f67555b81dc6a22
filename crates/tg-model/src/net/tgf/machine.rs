//! The processor that the loops run on: its vector instructions, threads and scratch memory.
//!
//! Results do not depend on any of them. Each thread has its own, with one thread of work, until [`with_cpu`] says
//! otherwise.

use crate::kernels::{Cpu, Scratch};
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static CPU: RefCell<Rc<Cpu>> = RefCell::new(Rc::new(Cpu::new(1)));
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Runs `work` with this processor (level and threads) for every operator evaluated within, on this thread.
pub fn with_cpu<R>(cpu: Cpu, work: impl FnOnce() -> R) -> R {
    /// Puts the processor of before back, also when `work` panics.
    struct Before(Rc<Cpu>);
    impl Drop for Before {
        fn drop(&mut self) {
            CPU.with(|slot| slot.replace(Rc::clone(&self.0)));
        }
    }
    let _before = Before(CPU.with(|slot| slot.replace(Rc::new(cpu))));
    work()
}

/// The processor of this thread.
pub(super) fn cpu() -> Rc<Cpu> {
    CPU.with(|slot| Rc::clone(&slot.borrow()))
}

/// Calls `work` with the processor and the scratch memory of this thread. It must not call itself.
pub(super) fn with_scratch<R>(work: impl FnOnce(&Cpu, &mut Scratch) -> R) -> R {
    SCRATCH.with(|scratch| work(&cpu(), &mut scratch.borrow_mut()))
}

/// Runs `work` compiled for the instructions in use; it must be an `#[inline(always)]` closure.
#[inline]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    cpu().vectorised(work)
}
