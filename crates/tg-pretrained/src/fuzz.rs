//! Entries for fuzzing.

use crate::safetensors::SafetensorsFile;
use crate::torch::TorchFile;
use std::io::Cursor;

/// Any bytes as a safetensors file: its header, and every tensor of a type that is read.
pub fn safetensors(bytes: &[u8]) {
    let Ok(mut file) = SafetensorsFile::open(Cursor::new(bytes)) else {
        return;
    };
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    for name in names {
        let _values = file.values(&name);
    }
}

/// Any bytes as a file of weights of PyTorch: its archive, its pickle, and every tensor of a type that is read.
pub fn torch(bytes: &[u8]) {
    let Ok(mut file) = TorchFile::open(Cursor::new(bytes)) else {
        return;
    };
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    for name in names {
        let _values = file.values(&name);
    }
}
