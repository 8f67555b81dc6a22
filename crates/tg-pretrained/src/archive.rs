//! Zip archives whose files are stored as they are, which is how PyTorch writes tensors: the list of files at the end, and
//! where each one's bytes begin.
//!
//! All of it is untrusted: every place is checked against the length of the archive before anything of that size is read.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

/// Most bytes of the list of files.
const LIST_MAX: u64 = 32 << 20;
/// Most bytes behind the list: a record of 22 bytes and a comment.
const TAIL_MAX: u64 = 22 + 65_535;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveProblem {
    /// It cannot be read.
    #[error("it cannot be read to the end that its list of files states")]
    Read(#[from] std::io::Error),
    /// It has no list of files.
    #[error("it is not a zip archive")]
    NotOne,
    /// The list of files does not fit the archive.
    #[error("its list of files does not fit its length")]
    List,
    /// A file that is packed, or whose place does not fit the archive.
    #[error("the file `{name}` in it is packed or does not fit its length")]
    Place {
        /// The file.
        name: String,
    },
}

/// First byte and length of a file in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePlace {
    /// Where the file's own header is.
    header: u64,
    pub(crate) length: u64,
}

/// The bytes of a record, from its start on.
struct ZipRecord<'a>(&'a [u8]);

impl ZipRecord<'_> {
    fn number(&self, at: usize, bytes: usize) -> Option<u64> {
        let own = self.0.get(at..at + bytes)?.iter().rev();
        Some(own.fold(0, |all, &byte| all << 8 | u64::from(byte)))
    }

    fn starts_with(&self, mark: [u8; 4]) -> bool {
        self.0.starts_with(&mark)
    }
}

/// The files of an archive, by name.
pub(crate) fn files<R: Read + Seek>(
    source: &mut R,
) -> Result<BTreeMap<String, FilePlace>, ArchiveProblem> {
    let length = source.seek(SeekFrom::End(0))?;
    let tail = bytes_at(
        source,
        length.saturating_sub(TAIL_MAX),
        length.min(TAIL_MAX),
    )?;
    let mut starts = (0..tail.len().saturating_sub(21)).rev();
    let end = starts.find(|&at| tail[at..].starts_with(b"PK\x05\x06"));
    let end = end.ok_or(ArchiveProblem::NotOne)?;
    let record = ZipRecord(&tail[end..]);
    let of =
        |record: &ZipRecord<'_>, at, bytes| record.number(at, bytes).ok_or(ArchiveProblem::List);
    let mut list = [of(&record, 12, 4)?, of(&record, 16, 4)?];
    // A large archive has a longer record before this one.
    let locator = end.checked_sub(20).map(|at| ZipRecord(&tail[at..end]));
    if let Some(locator) = locator.filter(|record| record.starts_with(*b"PK\x06\x07")) {
        let at = of(&locator, 8, 8)?;
        if at.checked_add(56).is_none_or(|end| end > length) {
            return Err(ArchiveProblem::List);
        }
        let long = bytes_at(source, at, 56)?;
        let long = ZipRecord(&long);
        if !long.starts_with(*b"PK\x06\x06") {
            return Err(ArchiveProblem::List);
        }
        list = [of(&long, 40, 8)?, of(&long, 48, 8)?];
    }
    let [size, start] = list;
    if size > LIST_MAX || start.checked_add(size).is_none_or(|end| end > length) {
        return Err(ArchiveProblem::List);
    }
    listed(&bytes_at(source, start, size)?, length)
}

/// The files of a list.
fn listed(list: &[u8], length: u64) -> Result<BTreeMap<String, FilePlace>, ArchiveProblem> {
    let mut files = BTreeMap::new();
    let mut rest = list;
    while !rest.is_empty() {
        let record = ZipRecord(rest);
        if !record.starts_with(*b"PK\x01\x02") {
            return Err(ArchiveProblem::List);
        }
        let of = |at, bytes| record.number(at, bytes).ok_or(ArchiveProblem::List);
        let [name, extra, comment] = [
            of(28, 2)? as usize,
            of(30, 2)? as usize,
            of(32, 2)? as usize,
        ];
        let all = 46 + name + extra + comment;
        let own = rest.get(..all).ok_or(ArchiveProblem::List)?;
        let text = String::from_utf8_lossy(&own[46..46 + name]).into_owned();
        let mut numbers = [of(24, 4)?, of(20, 4)?, of(42, 4)?];
        widen(&mut numbers, &own[46 + name..46 + name + extra]);
        let [plain, packed, header] = numbers;
        let stored = of(10, 2)? == 0 && plain == packed;
        let fits = header.checked_add(packed).is_some_and(|end| end <= length);
        if !stored || !fits {
            return Err(ArchiveProblem::Place { name: text });
        }
        let place = FilePlace {
            header,
            length: plain,
        };
        files.insert(text, place);
        rest = &rest[all..];
    }
    Ok(files)
}

/// Numbers that do not fit four bytes are in an extra field, in this order.
fn widen(numbers: &mut [u64; 3], mut extra: &[u8]) {
    while extra.len() >= 4 {
        let record = ZipRecord(extra);
        let [kind, length] = [0, 2].map(|at| record.number(at, 2).unwrap_or_default());
        let end = (4 + length as usize).min(extra.len());
        if kind == 1 {
            let mut own = extra[4..end].chunks_exact(8);
            for number in numbers.iter_mut().filter(|n| **n == u64::from(u32::MAX)) {
                if let Some(wide) = own.next() {
                    *number = ZipRecord(wide).number(0, 8).unwrap_or_default();
                }
            }
        }
        extra = &extra[end..];
    }
}

/// The first byte of a file, after its own header.
pub(crate) fn start_of<R: Read + Seek>(
    source: &mut R,
    name: &str,
    place: FilePlace,
) -> Result<u64, ArchiveProblem> {
    let wrong = || ArchiveProblem::Place {
        name: name.to_owned(),
    };
    let header = bytes_at(source, place.header, 30)?;
    let record = ZipRecord(&header);
    if !record.starts_with(*b"PK\x03\x04") {
        return Err(wrong());
    }
    let more = [26, 28].map(|at| record.number(at, 2).unwrap_or_default());
    Ok(place.header + 30 + more[0] + more[1])
}

/// So many bytes from a place on.
pub(crate) fn bytes_at<R: Read + Seek>(
    source: &mut R,
    start: u64,
    length: u64,
) -> Result<Vec<u8>, std::io::Error> {
    source.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    source.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
