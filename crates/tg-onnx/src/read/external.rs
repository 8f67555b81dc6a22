//! External data: elements in a file beside the model's.

use super::problem::TensorProblem;
use crate::proto::TensorProto;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// Reads the `bytes` bytes of a tensor's external data. The location must be a plain relative path that, links
/// followed, lies in the folder; offset and length must lie in the file before anything is allocated.
pub(super) fn read(
    proto: &TensorProto,
    folder: Option<&Path>,
    bytes: usize,
) -> Result<Vec<u8>, TensorProblem> {
    let field = |key: &str| {
        let entry = proto.external_data.iter().find(|entry| entry.key == key);
        entry.map(|entry| entry.value.as_str())
    };
    let location = field("location").unwrap_or_default();
    let folder = folder.ok_or_else(|| TensorProblem::NoFolder(location.to_owned()))?;
    let path = resolve(folder, location)?;
    let number = |key: &str| match field(key) {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse::<u64>()
            .map(Some)
            .map_err(|_| TensorProblem::Location(format!("{location} ({key} {text})"))),
    };
    let offset = number("offset")?.unwrap_or(0);
    let stated = number("length")?;
    let failed = |error: std::io::Error| TensorProblem::External {
        path: path.clone(),
        kind: error.kind(),
    };
    let mut file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let wanted = bytes as u64;
    let end = offset.saturating_add(wanted);
    if end > size {
        return Err(TensorProblem::Short {
            path,
            offset,
            end,
            bytes: size,
        });
    }
    if stated.is_some_and(|length| length != wanted) {
        return Err(TensorProblem::Length {
            shape: proto.dims.clone(),
            got: usize::try_from(stated.unwrap_or(0)).unwrap_or(usize::MAX),
        });
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut raw = vec![0u8; bytes];
    file.read_exact(&mut raw).map_err(failed)?;
    Ok(raw)
}

fn resolve(folder: &Path, location: &str) -> Result<PathBuf, TensorProblem> {
    // The folder of a bare file name is the current one.
    let here = folder.as_os_str().is_empty();
    let folder = if here { Path::new(".") } else { folder };
    let outside = || TensorProblem::Location(location.to_owned());
    let relative = Path::new(location);
    let plain = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if location.is_empty() || !plain {
        return Err(outside());
    }
    let path = folder.join(relative);
    let failed = |error: std::io::Error| TensorProblem::External {
        path: path.clone(),
        kind: error.kind(),
    };
    let real = path.canonicalize().map_err(failed)?;
    let root = folder.canonicalize().map_err(failed)?;
    if real.starts_with(&root) && real.is_file() {
        Ok(real)
    } else {
        Err(outside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_beside_a_bare_file_name_is_found() {
        let folder = Path::new("Cargo.toml")
            .parent()
            .unwrap_or(Path::new("none"));
        assert!(folder.as_os_str().is_empty());
        assert!(resolve(folder, "Cargo.toml").is_ok());
        assert!(resolve(folder, "../Cargo.toml").is_err());
    }
}
