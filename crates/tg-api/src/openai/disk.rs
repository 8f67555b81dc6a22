//! Files that survive a restart: whole ones, and lists of lines that grow. They have what callers ask and are answered, and signed orders: only
//! the user of this process can read them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest record that is read.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// How files are made that nobody else can read.
fn private() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder that nobody else can look into, with those above it. One that is there already is closed to others, and so are the files
/// in it: a former version left them open.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    close_to_others(folder)?;
    Ok(())
}

#[cfg(unix)]
fn close_to_others(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let close = |path: &Path, open: u32, mode: u32| {
        let is_open = fs::metadata(path)?.permissions().mode() & open != 0;
        match is_open {
            true => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
            false => Ok(()),
        }
    };
    close(folder, 0o077, 0o700)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Not what a link leads to.
        if entry.file_type()?.is_file() {
            close(&entry.path(), 0o077, 0o600)?;
        }
    }
    Ok(())
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let mut options = private();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&partial, path)
}

/// Writes a record.
pub(super) fn write_record<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    write(path, &serde_json::to_vec(record)?)
}

/// Reads at most so many bytes of a file.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::other(format!("more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads a range of a file.
pub(super) fn read_range(path: &Path, range: Range<u64>) -> io::Result<Vec<u8>> {
    range_of(&mut File::open(path)?, range)
}

fn range_of(file: &mut File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let length = range.end.saturating_sub(range.start);
    file.seek(SeekFrom::Start(range.start))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// The records of a folder, files `*.json`; those that are none are left.
pub(super) fn records<T: DeserializeOwned>(folder: &Path, most: usize) -> io::Result<Vec<T>> {
    make_folder(folder)?;
    let paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| serde_json::from_slice(&read(path, RECORD_BYTES_MAX).ok()?).ok();
    Ok(paths.iter().filter_map(read).take(most).collect())
}

/// Largest line that is read.
const LINE_BYTES_MAX: u64 = 32 << 20;

/// A file to which lines are added. A line is on the disk when [`LineFile::add`] returns; one that was cut off by a power cut is not
/// there.
#[derive(Debug)]
pub(super) struct LineFile {
    file: File,
    bytes: u64,
}

impl LineFile {
    /// Opens or makes it, and tells the lines that it has, and where they stand; those that are not of this type are left.
    pub(super) fn open<T: DeserializeOwned>(
        path: &Path,
        tell: &mut dyn FnMut(T, Range<u64>),
    ) -> io::Result<Self> {
        let mut options = private();
        let file = options.create(true).read(true).append(true).open(path)?;
        let mut reader = BufReader::new(&file);
        let (mut whole, mut line) = (0_u64, Vec::new());
        loop {
            line.clear();
            let read = (&mut reader)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let begin = whole;
            whole += read as u64;
            if let Ok(line) = serde_json::from_slice(&line) {
                tell(line, begin..whole);
            }
        }
        // What follows would be a part of the line that was cut off.
        file.set_len(whole)?;
        Ok(Self { file, bytes: whole })
    }

    /// Adds a line, and tells where it stands.
    pub(super) fn add<T: Serialize>(&mut self, line: &T) -> io::Result<Range<u64>> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        // A line that could not be written may have left a part of itself.
        let begin = self.file.seek(SeekFrom::End(0))?;
        self.bytes = begin.saturating_add(bytes.len() as u64);
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        Ok(begin..self.bytes)
    }

    /// Reads a line.
    pub(super) fn line<T: DeserializeOwned>(&mut self, range: Range<u64>) -> io::Result<T> {
        Ok(serde_json::from_slice(&range_of(&mut self.file, range)?)?)
    }

    /// How many it has.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lines_survive_and_one_that_was_cut_off_is_not_there() {
        let folder = std::env::temp_dir().join(format!("tg-api-disk-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("lines");
        let open = || {
            let mut all: Vec<u32> = Vec::new();
            let file = LineFile::open(&path, &mut |line, _| all.push(line)).unwrap();
            (file, all)
        };
        let (mut file, all) = open();
        assert!(all.is_empty());
        let places = [1, 22].map(|line| file.add(&line).unwrap());
        assert_eq!(places, [0..2, 2..5]);
        assert_eq!(file.line::<u32>(2..5).unwrap(), 22);
        assert_eq!(read_range(&path, 0..1).unwrap(), b"1");
        assert!(read_range(&path, 0..9).is_err());
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"\"x\"\n33")
            .unwrap();
        let (mut file, all) = open();
        assert_eq!(all, [1, 22]);
        file.add(&4).unwrap();
        assert_eq!(open().1, [1, 22, 4]);
        write_record(&folder.join("a.json"), &7).unwrap();
        fs::write(folder.join("b.json"), "{").unwrap();
        assert_eq!(records::<u32>(&folder, 9).unwrap(), [7]);
        assert!(read(&path, 3).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Prompts, answers and signed orders.
    #[cfg(unix)]
    #[test]
    fn other_users_of_the_machine_read_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("tg-api-modes-{}", std::process::id()));
        let inner = folder.join("inner");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // What a former version left.
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("old.json"), "1").unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(inner.join("old.json"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(records::<u32>(&inner, 9).unwrap(), [1]);
        write(&inner.join("a"), b"x").unwrap();
        let lines = inner.join("lines");
        LineFile::open::<u32>(&lines, &mut |_, _| {}).unwrap();
        assert_eq!(mode(&inner), 0o700);
        for name in ["old.json", "a", "lines"] {
            assert_eq!(mode(&inner.join(name)), 0o600, "{name}");
        }
        assert!(records::<u32>(&folder.join("new"), 9).unwrap().is_empty());
        assert_eq!(mode(&folder.join("new")), 0o700);
        fs::remove_dir_all(&folder).unwrap();
    }
}
