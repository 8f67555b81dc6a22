//! One piece of code at the widest instruction set the machine has.
//!
//! The code is the same; compiled with more features the loops use wider registers and a hardware fused multiply-add
//! instead of the exact software one. Rust neither reorders nor contracts float arithmetic, so the bits are the same.
#![allow(
    unsafe_code,
    reason = "calling a function compiled with target features, after the check that the machine has them"
)]

/// Instruction set to run at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the program was compiled for.
    Base,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

/// The widest level of this machine.
#[must_use]
pub fn best() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("fma")
        {
            return Level::Avx512;
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            return Level::Avx2;
        }
    }
    Level::Base
}

/// Runs `work` at the widest level. `work` must be an `#[inline(always)]` closure, or it is compiled for the base.
#[inline]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    at(best(), work)
}

/// Runs `work` at a level, or at the widest one below it that the machine has.
#[inline]
pub(crate) fn at<R>(level: Level, work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        match level.min(best()) {
            // SAFETY: `best` found these features on this machine.
            Level::Avx512 => return unsafe { avx512(work) },
            // SAFETY: `best` found these features on this machine.
            Level::Avx2 => return unsafe { avx2(work) },
            Level::Base => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
