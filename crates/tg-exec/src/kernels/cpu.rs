//! What the processor offers, and what a computation uses of it.

use super::pool::Pool;
use std::sync::OnceLock;

/// The environment variable that names the level of executions: `scalar`, `avx2` or `avx512-vnni`. Results are the same
/// at each. What a prover computes with was chosen when it was built (`-C target-cpu`).
pub const CPU_VARIABLE: &str = "TENSORGRID_CPU";

/// Why [`CPU_VARIABLE`] is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimdLevelError {
    /// No level has this name.
    #[error("{CPU_VARIABLE} is `{0}`; it takes scalar, avx2 or avx512-vnni")]
    Unknown(String),
    /// The processor lacks an instruction of the level.
    #[error("{CPU_VARIABLE} is `{0}`, which this processor does not have")]
    Missing(SimdLevel),
}

/// The vector instructions a computation uses. Results never depend on it, speed does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// Plain Rust; on every processor.
    Scalar,
    /// AVX2 and FMA: 256 bits.
    Avx2,
    /// AVX-512 F, BW, VL, DQ and VNNI: 512 bits and 8-bit dot products.
    Avx512Vnni,
}

impl SimdLevel {
    /// All levels, slowest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512Vnni];

    /// The level that [`CPU_VARIABLE`] names, if this machine has it; else the fastest of this machine. Looked up once.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<SimdLevel> = OnceLock::new();
        *BEST.get_or_init(|| {
            let fastest = || Self::available().last().unwrap_or(Self::Scalar);
            Self::forced().ok().flatten().unwrap_or_else(fastest)
        })
    }

    /// The level that the environment asks for by [`CPU_VARIABLE`], if it asks for one.
    ///
    /// # Errors
    /// If there is no level of that name, or this machine cannot run it.
    pub fn forced() -> Result<Option<Self>, SimdLevelError> {
        let Some(name) = std::env::var_os(CPU_VARIABLE) else {
            return Ok(None);
        };
        Self::named(&name.to_string_lossy()).map(Some)
    }

    /// The level of a name.
    fn named(name: &str) -> Result<Self, SimdLevelError> {
        let level = Self::ALL.into_iter().find(|level| level.name() == name);
        let level = level.ok_or_else(|| SimdLevelError::Unknown(name.to_owned()))?;
        if level.is_available() {
            Ok(level)
        } else {
            Err(SimdLevelError::Missing(level))
        }
    }

    /// The levels this machine can run, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|level| level.is_available())
    }

    /// Whether this machine can run the level.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.needs().iter().all(|name| {
            features()
                .iter()
                .any(|(feature, found)| feature == name && *found)
        })
    }

    /// The processor features the level needs.
    #[must_use]
    pub const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Scalar => &[],
            Self::Avx2 => &["avx2", "fma"],
            Self::Avx512Vnni => &[
                "avx2",
                "fma",
                "avx512f",
                "avx512bw",
                "avx512vl",
                "avx512vnni",
            ],
        }
    }

    /// The level's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512Vnni => "avx512-vnni",
        }
    }
}

impl std::fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The features the kernels know, and whether the processor (and the operating system) offers each. Empty on
/// architectures without vector kernels.
#[must_use]
pub fn features() -> Vec<(&'static str, bool)> {
    #[cfg(target_arch = "x86_64")]
    {
        vec![
            ("sse4.1", is_x86_feature_detected!("sse4.1")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512bw", is_x86_feature_detected!("avx512bw")),
            ("avx512vl", is_x86_feature_detected!("avx512vl")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
            ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
            ("avx512vbmi", is_x86_feature_detected!("avx512vbmi")),
        ]
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Vec::new()
    }
}

/// The processor as one computation uses it: a level and threads.
#[derive(Debug)]
pub struct Cpu {
    level: SimdLevel,
    byte_tables: bool,
    pool: Pool,
}

impl Cpu {
    /// The fastest level of this machine, with that many threads in all (at least one).
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::build(SimdLevel::best(), threads)
    }

    /// A level of choice, or nothing if this machine does not offer it.
    #[must_use]
    pub fn with_level(level: SimdLevel, threads: usize) -> Option<Self> {
        level.is_available().then(|| Self::build(level, threads))
    }

    fn build(level: SimdLevel, threads: usize) -> Self {
        let byte_tables =
            level == SimdLevel::Avx512Vnni && features().contains(&("avx512vbmi", true));
        Self {
            level,
            byte_tables,
            pool: Pool::new(threads),
        }
    }

    /// The vector instructions in use. The machine has them.
    #[must_use]
    pub const fn level(&self) -> SimdLevel {
        self.level
    }

    /// Whether 256-entry tables are looked up 64 bytes at a time.
    pub(super) const fn has_byte_tables(&self) -> bool {
        self.byte_tables
    }

    /// Runs plain loops, compiled for the instructions in use.
    #[inline]
    pub fn vectorised<R>(&self, run: impl FnOnce() -> R) -> R {
        match self.level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level is available.
            SimdLevel::Avx512Vnni => unsafe { with_avx512(run) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level is available.
            SimdLevel::Avx2 => unsafe { with_avx2(run) },
            _ => run(),
        }
    }

    /// The threads.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Threads in use, the caller's included.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.pool.threads()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn with_avx512<R>(run: impl FnOnce() -> R) -> R {
    run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<R>(run: impl FnOnce() -> R) -> R {
    run()
}

impl Default for Cpu {
    /// One thread at the fastest level.
    fn default() -> Self {
        Self::new(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_best_level_is_available_and_scalar_always_is() {
        assert!(SimdLevel::Scalar.is_available());
        let best = SimdLevel::best();
        assert!(best.is_available());
        assert_eq!(SimdLevel::available().max(), Some(best));
        assert_eq!(Cpu::with_level(best, 2).unwrap().threads(), 2);
    }

    #[test]
    fn levels_have_names() {
        for level in SimdLevel::ALL {
            let expected = match level.is_available() {
                true => Ok(level),
                false => Err(SimdLevelError::Missing(level)),
            };
            assert_eq!(SimdLevel::named(level.name()), expected);
        }
        for name in ["", "AVX2", "avx512"] {
            let unknown = SimdLevelError::Unknown(name.to_owned());
            assert_eq!(SimdLevel::named(name), Err(unknown));
        }
    }

    #[test]
    fn a_missing_level_is_refused() {
        for level in SimdLevel::ALL {
            assert_eq!(Cpu::with_level(level, 1).is_some(), level.is_available());
        }
    }

    #[test]
    fn every_needed_feature_is_reported() {
        let known: Vec<_> = features().into_iter().map(|(name, _)| name).collect();
        for level in SimdLevel::ALL {
            for name in level.needs() {
                assert!(known.is_empty() || known.contains(name), "{name}");
            }
        }
    }
}
