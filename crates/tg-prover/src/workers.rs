//! The threads a proof is made on. Its bytes do not depend on how many there are.

/// Runs some work on a worker thread: a single one if the work is small, else one of all.
#[cfg(feature = "parallel")]
pub(crate) fn run<R: Send>(small: bool, work: impl FnOnce() -> R + Send) -> R {
    use std::sync::OnceLock;
    static SINGLE: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let single = || rayon::ThreadPoolBuilder::new().num_threads(1).build().ok();
    match SINGLE.get_or_init(single) {
        Some(pool) if small => pool.install(work),
        _ => rayon::join(work, || ()).0,
    }
}

/// Runs some work.
#[cfg(not(feature = "parallel"))]
pub(crate) fn run<R>(_: bool, work: impl FnOnce() -> R) -> R {
    work()
}
