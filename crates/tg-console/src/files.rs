//! Reading a bounded file, writing one whole or not at all, and having one to oneself.

use crate::outcome::{Exit, Failure, OrFail};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long another process may hold a lock.
const LOCK_MAX: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(5);

/// A file's bytes, up to a limit.
///
/// # Errors
/// If it cannot be read or is larger.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let doing = format!("read {}", path.display());
    let file = std::fs::File::open(path).or_fail(Exit::Usage, doing.clone())?;
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .or_fail(Exit::Usage, doing.clone())?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!("{doing}: larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

/// Writes a file whole or not at all: to a neighbour first, then by rename.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_by(path, bytes, &mut std::fs::File::options())
}

/// The same of a file that only this user can read.
///
/// # Errors
/// If it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut options = std::fs::File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    write_by(path, bytes, &mut options)
}

fn write_by(path: &Path, bytes: &[u8], options: &mut std::fs::OpenOptions) -> Result<(), Failure> {
    let partial = partial(path);
    // Stops: a link or a file of another that waits under the name: what is written there would be theirs.
    let options = options.write(true).create_new(true);
    let written = options
        .open(&partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        // What was left half written is of no use; if it cannot be removed either, the error below says enough.
        let _gone = std::fs::remove_file(&partial);
    }
    written.or_fail(Exit::Failed, format!("write {}", path.display()))
}

/// A file that is locked as long as it is held, made if it is not there; nothing if another process holds it. Whoever is killed lets go of
/// it.
///
/// # Errors
/// If it cannot be made.
pub fn try_lock(path: &Path) -> Result<Option<File>, Failure> {
    let doing = format!("lock {}", path.display());
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).or_fail(Exit::Failed, doing.clone())?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).or_fail(Exit::Failed, doing),
    }
}

/// The same, after waiting for who holds it.
///
/// # Errors
/// If it cannot be made, or is held for long.
pub fn lock(path: &Path) -> Result<File, Failure> {
    let began = Instant::now();
    loop {
        if let Some(file) = try_lock(path)? {
            return Ok(file);
        }
        if began.elapsed() > LOCK_MAX {
            let text = format!("another command holds {} for long", path.display());
            return Err(Failure::new(Exit::Unavailable, anyhow::anyhow!(text)));
        }
        std::thread::sleep(LOCK_POLL);
    }
}

/// Finds out before long work whether `write` will find its folder, and may write there.
///
/// # Errors
/// If not.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let partial = partial(path);
    let created = std::fs::File::create_new(&partial).and_then(|_| std::fs::remove_file(&partial));
    created.or_fail(Exit::Usage, format!("write {}", path.display()))
}

/// The neighbour that is written first, under a name that nobody else has.
fn partial(path: &Path) -> PathBuf {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let drawn = entropy().map_or(0, |it| {
        u64::from_le_bytes([it[0], it[1], it[2], it[3], it[4], it[5], it[6], it[7]])
    });
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
    name.push(format!(
        ".{}-{count}-{drawn:016x}.partial",
        std::process::id()
    ));
    path.with_file_name(name)
}

/// 32 bytes of the operating system's randomness.
///
/// # Errors
/// If it has none.
pub fn entropy() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// Makes a file with one line that only this user can read.
///
/// # Errors
/// If it exists or cannot be written.
pub fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(path)
        .and_then(|mut file| writeln!(file, "{text}").and_then(|()| file.sync_all()));
    written.or_fail(Exit::Failed, format!("write {}", path.display()))
}

/// An 8-bit grey image as PNG.
///
/// # Errors
/// If the bytes are not width times height.
pub fn grey_png(width: u32, height: u32, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder
        .write_header()
        .or_fail(Exit::Failed, "write an image")?;
    writer
        .write_image_data(bytes)
        .or_fail(Exit::Failed, "write an image")?;
    writer.finish().or_fail(Exit::Failed, "write an image")?;
    Ok(file)
}
