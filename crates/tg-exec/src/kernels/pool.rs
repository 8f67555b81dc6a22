//! Threads that share the tasks of one computation.
//!
//! Every task writes its own part of an output, so which thread runs it changes nothing but the time. The threads
//! are started once and sleep in between; starting a computation allocates nothing.

use super::memory::{Plain, Shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Most threads of a pool.
pub const THREADS_MAX: usize = 256;

/// What threads run: `call(thread, task)`.
type Call<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A computation in progress.
#[derive(Clone, Copy)]
struct Job {
    call: *const Call<'static>,
    tasks: usize,
}

// SAFETY: the pointer is used only while `Pool::run` runs, in which time the closure, which is `Sync`, is alive.
unsafe impl Send for Job {}

#[derive(Default)]
struct State {
    /// Counts computations; a thread that sees a new number joins, if the computation is still in progress.
    round: u64,
    job: Option<Job>,
    /// Threads that have joined the present computation and not finished. The caller waits for these alone: a thread
    /// that wakes up when all tasks are taken costs nothing.
    busy: usize,
    stop: bool,
}

#[derive(Default)]
struct Control {
    state: Mutex<State>,
    start: Condvar,
    done: Condvar,
    next: AtomicUsize,
    panicked: AtomicBool,
}

impl Control {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs tasks until none is left.
    fn take_tasks(&self, thread: usize, call: &Call<'_>, tasks: usize) {
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| call(thread, task))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    fn serve(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let Job { call, tasks } = {
                let mut state = self.state();
                loop {
                    if state.stop {
                        return;
                    }
                    let is_new = state.round != seen;
                    if let Some(job) = state.job.filter(|_| is_new) {
                        seen = state.round;
                        state.busy += 1;
                        break job;
                    }
                    state = self
                        .start
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            };
            // SAFETY: `Pool::run` does not return before this thread, which joined while the computation was in
            // progress, counts itself out below, and the closure outlives that call.
            self.take_tasks(thread, unsafe { &*call }, tasks);
            let mut state = self.state();
            state.busy -= 1;
            if state.busy == 0 {
                self.done.notify_all();
            }
        }
    }
}

/// A fixed number of threads, the caller's included.
pub struct Pool {
    control: Arc<Control>,
    /// One computation at a time.
    turn: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.threads())
    }
}

impl Pool {
    /// A pool of that many threads, at least one (the caller's) and at most [`THREADS_MAX`]. If the system gives
    /// fewer, the pool is smaller.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let control = Arc::new(Control::default());
        let workers = (1..threads.clamp(1, THREADS_MAX))
            .map_while(|thread| {
                let control = Arc::clone(&control);
                std::thread::Builder::new()
                    .name(format!("kernel-{thread}"))
                    .spawn(move || control.serve(thread))
                    .ok()
            })
            .collect();
        Self {
            control,
            turn: Mutex::new(()),
            workers,
        }
    }

    /// Threads, the caller's included.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `call(thread, task)` once for each task below `tasks`, with `thread` below [`Self::threads`]; no two
    /// calls at one time have one `thread`. Returns when all are done. A call must not run this pool again.
    ///
    /// # Panics
    /// If a call panics.
    pub fn run(&self, tasks: usize, call: &(dyn Fn(usize, usize) + Sync)) {
        if self.workers.is_empty() || tasks <= 1 {
            (0..tasks).for_each(|task| call(0, task));
            return;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let control = &*self.control;
        // SAFETY: only the lifetime changes. The pointer is dropped from the state before this function returns, and
        // every thread that took it has counted itself out by then.
        let pointer = unsafe { std::mem::transmute::<*const Call<'_>, *const Call<'static>>(call) };
        {
            let mut state = control.state();
            control.next.store(0, Ordering::Relaxed);
            state.job = Some(Job {
                call: pointer,
                tasks,
            });
            state.round += 1;
        }
        control.start.notify_all();
        control.take_tasks(0, call, tasks);
        let mut state = control.state();
        // Nobody joins from here on.
        state.job = None;
        while state.busy > 0 {
            state = control
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        assert!(
            !control.panicked.swap(false, Ordering::Relaxed),
            "a task of a computation panicked"
        );
    }
}

impl Pool {
    /// Calls `call(thread, index, part)` once for each part of `length` values (the last may be shorter), as
    /// [`Self::run`] does for tasks.
    ///
    /// # Panics
    /// If `length` is 0 or a call panics.
    pub fn run_parts<T: Plain + Sync>(
        &self,
        values: &mut [T],
        length: usize,
        call: &(dyn Fn(usize, usize, &mut [T]) + Sync),
    ) {
        let count = values.len();
        let values = Shared::new(values);
        self.run(count.div_ceil(length), &|thread, index| {
            let first = index * length;
            // SAFETY: parts are disjoint, and each is handed to one call.
            let part = unsafe { values.part(first, length.min(count - first)) };
            call(thread, index, part);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.control.state().stop = true;
        self.control.start.notify_all();
        for worker in self.workers.drain(..) {
            // A worker returns nothing and catches the panics of its tasks.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads);
            for tasks in [0, 1, 2, 7, 100] {
                let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
                pool.run(tasks, &|thread, task| {
                    assert!(thread < threads);
                    counts[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn no_two_tasks_share_a_thread_number_at_one_time() {
        let pool = Pool::new(4);
        let inside: Vec<AtomicU32> = (0..4).map(|_| AtomicU32::new(0)).collect();
        pool.run(500, &|thread, _| {
            assert_eq!(inside[thread].fetch_add(1, Ordering::SeqCst), 0);
            std::thread::yield_now();
            inside[thread].fetch_sub(1, Ordering::SeqCst);
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(10, &|_, task| assert!(task != 5, "five"));
        }));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, &|_, task| {
            sum.fetch_add(task, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 45);
    }

    #[test]
    fn parts_cover_a_slice_once() {
        let pool = Pool::new(3);
        for count in [0, 1, 9, 10, 11, 100] {
            let mut values = vec![0i32; count];
            pool.run_parts(&mut values, 10, &|_, index, part| {
                for (offset, value) in part.iter_mut().enumerate() {
                    *value += i32::try_from(index * 10 + offset).unwrap();
                }
            });
            assert!(values.iter().copied().eq(0..i32::try_from(count).unwrap()));
        }
    }

    #[test]
    fn several_callers_take_turns() {
        let pool = Pool::new(3);
        let sum = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.run(8, &|_, task| {
                            sum.fetch_add(task, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 4 * 50 * 28);
    }
}
