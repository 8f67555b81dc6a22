//! Several numpy arrays in one file (`.npz`): a ZIP archive, entries stored or deflated.

use super::array::Array;
use super::form::{FILE_BYTES_MAX, InputError, NpzProblem};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::io::Read;
use tg_float::FloatTensor;
use tg_float::npy::read_npy;

/// Most arrays of a file.
const ENTRIES_MAX: usize = 64;
/// The record that ends an archive has so many bytes, without its comment.
const END_BYTES: usize = 22;
/// Most bytes of an archive's comment.
const COMMENT_MAX: usize = 1 << 16;
const END: &[u8] = b"PK\x05\x06";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

/// An entry of an archive's directory.
struct ArchiveEntry<'a> {
    name: &'a str,
    deflated: bool,
    /// Bytes in the archive.
    packed: usize,
    /// Bytes of the array's file.
    size: usize,
    /// Its CRC-32.
    sum: usize,
    /// Where its local header begins.
    at: usize,
}

/// The arrays with their names, in the order of the file's directory; `arr_0`, `arr_1`, ..., which numpy gives to arrays without
/// one, are no names.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(Option<String>, Array)>, InputError> {
    let tensors = tensors(bytes)?.into_iter();
    Ok(tensors
        .map(|(name, tensor)| (name, Array::of_tensor(&tensor)))
        .collect())
}

/// The same with elements of their own types.
pub(super) fn tensors(bytes: &[u8]) -> Result<Vec<(Option<String>, FloatTensor)>, InputError> {
    let entries = entries(bytes).map_err(InputError::Npz)?;
    let mut left = FILE_BYTES_MAX;
    let mut arrays = Vec::with_capacity(entries.len());
    for entry in entries {
        left = left
            .checked_sub(entry.size)
            .ok_or(InputError::Npz(NpzProblem::TooLarge))?;
        let file = entry.unpacked(bytes).map_err(InputError::Npz)?;
        let name = entry.name.strip_suffix(".npy").unwrap_or(entry.name);
        let number = name.strip_prefix("arr_").map(str::parse::<usize>);
        let name = (!matches!(number, Some(Ok(_)))).then(|| name.to_owned());
        arrays.push((name, read_npy(&file).map_err(InputError::Npy)?));
    }
    Ok(arrays)
}

fn entries(bytes: &[u8]) -> Result<Vec<ArchiveEntry<'_>>, NpzProblem> {
    let from = bytes.len().saturating_sub(END_BYTES + COMMENT_MAX);
    let tail = &bytes[from..];
    let end = tail.windows(END.len()).rposition(|window| window == END);
    let end = from + end.ok_or(NpzProblem::Damaged)?;
    let count = usize::from(u16_at(bytes, end + 10)?);
    let mut at = u32_at(bytes, end + 16)?;
    if count > ENTRIES_MAX {
        return Err(NpzProblem::Entries { entries: count });
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        if part(bytes, at, CENTRAL.len())? != CENTRAL {
            return Err(NpzProblem::Damaged);
        }
        let [name, extra, comment] = [28, 30, 32].map(|field| u16_at(bytes, at + field));
        let name_bytes = usize::from(name?);
        let name = std::str::from_utf8(part(bytes, at + 46, name_bytes)?);
        let method = u16_at(bytes, at + 10)?;
        let encrypted = u16_at(bytes, at + 8)? & 1 != 0;
        if encrypted || !matches!(method, 0 | 8) {
            return Err(NpzProblem::Method);
        }
        entries.push(ArchiveEntry {
            name: name.map_err(|_| NpzProblem::Damaged)?,
            deflated: method == 8,
            packed: u32_at(bytes, at + 20)?,
            size: u32_at(bytes, at + 24)?,
            sum: u32_at(bytes, at + 16)?,
            at: u32_at(bytes, at + 42)?,
        });
        at += 46 + name_bytes + usize::from(extra?) + usize::from(comment?);
    }
    Ok(entries)
}

impl ArchiveEntry<'_> {
    fn unpacked(&self, bytes: &[u8]) -> Result<Vec<u8>, NpzProblem> {
        if part(bytes, self.at, LOCAL.len())? != LOCAL {
            return Err(NpzProblem::Damaged);
        }
        let name = usize::from(u16_at(bytes, self.at + 26)?);
        let extra = usize::from(u16_at(bytes, self.at + 28)?);
        let packed = part(bytes, self.at + 30 + name + extra, self.packed)?;
        let mut file = Vec::new();
        if self.deflated {
            let limit = self.size as u64 + 1;
            let read = DeflateDecoder::new(packed)
                .take(limit)
                .read_to_end(&mut file);
            read.map_err(|_| NpzProblem::Damaged)?;
        } else {
            file.extend_from_slice(packed);
        }
        let mut sum = Crc::new();
        sum.update(&file);
        if file.len() != self.size || sum.sum() as usize != self.sum {
            return Err(NpzProblem::Damaged);
        }
        Ok(file)
    }
}

fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], NpzProblem> {
    let end = at.checked_add(length).ok_or(NpzProblem::Damaged)?;
    bytes.get(at..end).ok_or(NpzProblem::Damaged)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, NpzProblem> {
    let word = part(bytes, at, 2)?;
    Ok(u16::from_le_bytes([word[0], word[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize, NpzProblem> {
    let word = part(bytes, at, 4)?;
    Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize)
}
