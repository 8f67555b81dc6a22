//! Files that survive a restart: whole ones, and lists of lines that grow.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest record that is read.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let mut file = File::create(&partial)?;
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

/// The records of a folder, files `*.json`; those that are none are left.
pub(super) fn records<T: DeserializeOwned>(folder: &Path, most: usize) -> io::Result<Vec<T>> {
    fs::create_dir_all(folder)?;
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
    /// Opens or makes it, and tells the lines that it has; those that are not of this type are left.
    pub(super) fn open<T: DeserializeOwned>(
        path: &Path,
        tell: &mut dyn FnMut(T),
    ) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.create(true).read(true).append(true).open(path)?;
        let mut reader = BufReader::new(&file);
        let (mut whole, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = (&mut reader)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            whole += read as u64;
            if let Ok(line) = serde_json::from_slice(&line) {
                tell(line);
            }
        }
        // What follows would be a part of the line that was cut off.
        file.set_len(whole)?;
        Ok(Self { file, bytes: whole })
    }

    /// Adds a line.
    pub(super) fn add<T: Serialize>(&mut self, line: &T) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.file.write_all(&bytes)?;
        self.file.sync_data()
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
            let file = LineFile::open(&path, &mut |line| all.push(line)).unwrap();
            (file, all)
        };
        let (mut file, all) = open();
        assert!(all.is_empty());
        [1, 22].iter().for_each(|line| file.add(line).unwrap());
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
}
