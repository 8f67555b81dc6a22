//! The reserve: blobs are refused while little of the disk is free, so that the validator's own database and journal,
//! which live on the same disk, go on.

use std::path::Path;

/// Free bytes below which a store takes no blobs, unless a twentieth of the disk is less.
pub const DISK_RESERVE_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// The part of the disk that suffices on small disks.
const DISK_SHARE: u64 = 20;

/// The bytes that stay free for the validator on the disk of `folder`: `reserve`, or a twentieth of a small disk.
pub(super) fn reserve_on(folder: &Path, reserve: u64) -> u64 {
    disk(folder).map_or(reserve, |(_, size)| reserve.min(size / DISK_SHARE))
}

/// Free bytes on the disk of `folder`, if the system says.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    disk(folder).map(|(free, _)| free)
}

/// Free bytes and size of the disk of `folder`.
#[cfg(unix)]
fn disk(folder: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some((
        disk.f_bavail.saturating_mul(disk.f_frsize),
        disk.f_blocks.saturating_mul(disk.f_frsize),
    ))
}

/// Not known on other systems: the reserve is not kept there.
#[cfg(not(unix))]
fn disk(_: &Path) -> Option<(u64, u64)> {
    None
}
