//! The safetensors format: eight bytes of length, a JSON header, the tensors' bytes.
//!
//! The header is untrusted. It is bounded, and every tensor's place is checked against its type, its shape and the file
//! before anything of that size is allocated.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use tg_float::convert::{bf16_to_f32, f16_to_f32};

/// Most bytes of a header.
const HEADER_MAX: u64 = 32 << 20;
/// Most axes of a tensor.
const RANK_MAX: usize = 8;

/// What is wrong with a safetensors file.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsProblem {
    /// It cannot be read.
    #[error("it cannot be read to the end that its header states")]
    Read(#[from] std::io::Error),
    /// The header is larger than the file or the limit.
    #[error("its header has {stated} bytes, and at most {limit} are possible or taken")]
    Header {
        /// The stated length.
        stated: u64,
        /// The limit.
        limit: u64,
    },
    /// The header is not the JSON of the format.
    #[error("its header is not a list of tensors as JSON")]
    Json(#[from] serde_json::Error),
    /// A tensor whose place does not fit its type, its shape or the file.
    #[error("the place of `{name}` does not fit its type and shape or the file")]
    Place {
        /// The tensor.
        name: String,
    },
    /// A type that is not taken.
    #[error("the tensor `{name}` has the type {dtype}; F32, F16 and BF16 are taken")]
    Type {
        /// The tensor.
        name: String,
        /// Its type.
        dtype: String,
    },
}

/// A tensor in the header.
#[derive(Debug, Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Either the metadata or a tensor.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawItem {
    Tensor(RawEntry),
    Other(serde::de::IgnoredAny),
}

/// A tensor's type, shape and first byte.
#[derive(Debug, Clone)]
struct TensorPlace {
    dtype: String,
    shape: Vec<usize>,
    start: u64,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct SafetensorsFile<R> {
    source: R,
    places: BTreeMap<String, TensorPlace>,
}

impl<R: Read + Seek> SafetensorsFile<R> {
    /// Reads the header.
    pub(crate) fn open(mut source: R) -> Result<Self, SafetensorsProblem> {
        let length = source.seek(SeekFrom::End(0))?;
        source.seek(SeekFrom::Start(0))?;
        let mut stated = [0; 8];
        source.read_exact(&mut stated)?;
        let stated = u64::from_le_bytes(stated);
        let limit = HEADER_MAX.min(length.saturating_sub(8));
        if stated > limit {
            return Err(SafetensorsProblem::Header { stated, limit });
        }
        let mut header = Vec::new();
        (&mut source).take(stated).read_to_end(&mut header)?;
        let items: BTreeMap<String, RawItem> = serde_json::from_slice(&header)?;
        let mut places = BTreeMap::new();
        for (name, item) in items {
            match item {
                RawItem::Other(_) if name == "__metadata__" => {}
                RawItem::Other(_) => return Err(SafetensorsProblem::Place { name }),
                RawItem::Tensor(entry) => {
                    let place = placed(&entry, 8 + stated, length);
                    let Some(place) = place else {
                        return Err(SafetensorsProblem::Place { name });
                    };
                    places.insert(name, place);
                }
            }
        }
        Ok(Self { source, places })
    }

    /// The names of its tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.places.get(name)?.shape)
    }

    /// The elements of a tensor as `f32`; `None` if there is no such tensor.
    pub(crate) fn values(&mut self, name: &str) -> Result<Option<Vec<f32>>, SafetensorsProblem> {
        let Some(place) = self.places.get(name) else {
            return Ok(None);
        };
        let refused = || SafetensorsProblem::Type {
            name: name.to_owned(),
            dtype: place.dtype.clone(),
        };
        let size = match place.dtype.as_str() {
            "F32" => 4,
            "F16" | "BF16" => 2,
            _ => return Err(refused()),
        };
        let count: usize = place.shape.iter().product();
        let mut bytes = vec![0; count * size];
        self.source.seek(SeekFrom::Start(place.start))?;
        self.source.read_exact(&mut bytes)?;
        let half = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
        let values = match place.dtype.as_str() {
            "F32" => bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect(),
            "F16" => bytes
                .chunks_exact(2)
                .map(|pair| f16_to_f32(half(pair)))
                .collect(),
            _ => bytes
                .chunks_exact(2)
                .map(|pair| bf16_to_f32(half(pair)))
                .collect(),
        };
        Ok(Some(values))
    }
}

/// Bytes of an element of a type of the format; `None` for types of less than a byte and unknown ones.
fn size_of(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F64" | "I64" | "U64" | "C64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => 1,
        _ => return None,
    })
}

/// Where a tensor is, if that fits.
fn placed(entry: &RawEntry, data: u64, length: u64) -> Option<TensorPlace> {
    let [start, end] = entry.data_offsets;
    let elements = entry
        .shape
        .iter()
        .try_fold(1u64, |all, &axis| all.checked_mul(axis))?;
    let bytes = end.checked_sub(start)?;
    if entry.shape.len() > RANK_MAX || data.checked_add(end)? > length {
        return None;
    }
    // The bytes of a type that is not taken are never read.
    if let Some(size) = size_of(&entry.dtype)
        && elements.checked_mul(size)? != bytes
    {
        return None;
    }
    let axes = entry.shape.iter().map(|&axis| usize::try_from(axis).ok());
    Some(TensorPlace {
        dtype: entry.dtype.clone(),
        shape: axes.collect::<Option<_>>()?,
        start: data + start,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::io::Cursor;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn the_three_types_are_read() {
        let header = r#"{"__metadata__":{"format":"pt"},
            "a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},
            "b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},
            "c":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},
            "d":{"dtype":"I64","shape":[0],"data_offsets":[10,10]}}"#;
        let mut data = 1.5f32.to_le_bytes().to_vec();
        data.extend([0x00, 0x3c, 0x00, 0xc0, 0x80, 0x3f]);
        let mut open = SafetensorsFile::open(Cursor::new(file(header, &data))).unwrap();
        assert_eq!(open.names().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(open.shape("a"), Some(&[1, 1][..]));
        assert_eq!(open.values("a").unwrap(), Some(vec![1.5]));
        assert_eq!(open.values("b").unwrap(), Some(vec![1.0, -2.0]));
        assert_eq!(open.values("c").unwrap(), Some(vec![1.0]));
        assert_eq!(open.values("none").unwrap(), None);
        assert!(matches!(
            open.values("d"),
            Err(SafetensorsProblem::Type { .. })
        ));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let one = |place: &str| {
            let header = format!(r#"{{"a":{{"dtype":"F32",{place}}}}}"#);
            SafetensorsFile::open(Cursor::new(file(&header, &[0; 8]))).map(|_| ())
        };
        one(r#""shape":[2],"data_offsets":[0,8]"#).unwrap();
        for place in [
            r#""shape":[3],"data_offsets":[0,8]"#,
            r#""shape":[3],"data_offsets":[0,12]"#,
            r#""shape":[2],"data_offsets":[8,0]"#,
            r#""shape":[4294967296,4294967296],"data_offsets":[0,0]"#,
            r#""shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]"#,
            r#""shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]"#,
            r#""shape":[-2],"data_offsets":[0,8]"#,
        ] {
            let found = one(place);
            assert!(
                matches!(found, Err(SafetensorsProblem::Place { .. })),
                "{place}: {found:?}"
            );
        }
        let long = u64::MAX.to_le_bytes().to_vec();
        let found = SafetensorsFile::open(Cursor::new(long));
        assert!(matches!(found, Err(SafetensorsProblem::Header { .. })));
    }
}
