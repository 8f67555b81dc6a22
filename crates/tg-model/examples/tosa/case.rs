//! One case: an operator of TOSA, its operands, and the reference model's result.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Element types of TOSA's integer profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Truth values, as 0 and 1.
    Bool,
    /// 8 bits.
    I8,
    /// 16 bits.
    I16,
    /// 32 bits.
    I32,
    /// Sizes, kernel sides and the like; no tensor.
    Shape,
}

/// An operand or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Values {
    /// Type of the elements.
    pub kind: Kind,
    /// Axes, outermost first.
    pub shape: Vec<u32>,
    /// Elements, last axis innermost.
    pub elements: Vec<i64>,
}

impl Values {
    /// The one element of a zero point or a shift.
    pub(crate) fn scalar(&self) -> i64 {
        self.elements.first().copied().unwrap_or(0)
    }

    /// The greatest absolute value.
    pub(crate) fn magnitude(&self) -> i64 {
        self.elements.iter().map(|x| x.abs()).max().unwrap_or(0)
    }
}

/// A case as `xtask/python/dump_tosa_cases.py` writes it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// TOSA's name of the operator.
    pub operator: String,
    /// Its attributes.
    pub attributes: Value,
    /// Its operands, in TOSA's order.
    pub operands: Vec<Values>,
    /// What the reference model gave.
    pub result: Values,
}

impl Case {
    /// Reads `folder/case.json` and the arrays it names.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let text = fs::read_to_string(folder.join("case.json"))?;
        let json: Value = serde_json::from_str(&text)?;
        let operands = json["operands"].as_array().context("no operands")?;
        Ok(Self {
            operator: json["operator"].as_str().context("no operator")?.to_owned(),
            attributes: json["attributes"].clone(),
            operands: operands
                .iter()
                .map(|operand| values(folder, operand))
                .collect::<Result<_>>()?,
            result: values(folder, &json["result"])?,
        })
    }

    /// A list of integers among the attributes; empty where there is none.
    pub(crate) fn list(&self, name: &str) -> Vec<i64> {
        integers(&self.attributes[name])
    }

    /// An integer among the attributes.
    pub(crate) fn integer(&self, name: &str) -> i64 {
        self.attributes[name].as_i64().unwrap_or(0)
    }

    /// A flag among the attributes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.attributes[name].as_bool().unwrap_or(false)
    }
}

fn integers(list: &Value) -> Vec<i64> {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(Value::as_i64).collect()
}

fn values(folder: &Path, json: &Value) -> Result<Values> {
    let kind = match json["type"].as_str() {
        Some("BOOL") => Kind::Bool,
        Some("INT8") => Kind::I8,
        Some("INT16") => Kind::I16,
        Some("INT32") => Kind::I32,
        Some("SHAPE") => Kind::Shape,
        other => bail!("an element type that is not read: {other:?}"),
    };
    if kind == Kind::Shape {
        let elements = integers(&json["values"]);
        let shape = vec![u32::try_from(elements.len())?];
        return Ok(Values {
            kind,
            shape,
            elements,
        });
    }
    let file = json["file"].as_str().context("no file")?;
    let bytes = fs::read(folder.join(file)).with_context(|| file.to_owned())?;
    let elements = npy(&bytes).with_context(|| file.to_owned())?;
    let shape = integers(&json["shape"]);
    let shape: Vec<u32> = shape
        .into_iter()
        .map(u32::try_from)
        .collect::<Result<_, _>>()?;
    let expected: usize = shape.iter().map(|&side| side as usize).product();
    ensure!(
        elements.len() == expected,
        "{file} has {} elements",
        elements.len()
    );
    Ok(Values {
        kind,
        shape,
        elements,
    })
}

/// The elements of a numpy file of integers or truth values.
fn npy(bytes: &[u8]) -> Result<Vec<i64>> {
    ensure!(bytes.starts_with(b"\x93NUMPY\x01"), "no numpy file");
    let length = bytes.get(8..10).context("no header")?;
    let data_at = 10 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    let header = String::from_utf8_lossy(bytes.get(10..data_at).context("no header")?);
    ensure!(header.contains("'fortran_order': False"), "Fortran order");
    let data = &bytes[data_at..];
    let width = |text: &str| header.contains(&format!("'descr': '{text}'"));
    Ok(if width("|i1") {
        data.iter().map(|b| i64::from(b.cast_signed())).collect()
    } else if width("|b1") {
        data.iter().map(|b| i64::from(*b)).collect()
    } else if width("<i2") {
        let words = data.as_chunks::<2>().0.iter();
        words.map(|&w| i64::from(i16::from_le_bytes(w))).collect()
    } else if width("<i4") {
        let words = data.as_chunks::<4>().0.iter();
        words.map(|&w| i64::from(i32::from_le_bytes(w))).collect()
    } else {
        bail!("elements that are not read: {header}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}\n");
        let length = u16::try_from(header.len()).expect("a short header");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn integers_of_every_width_are_read() {
        let check = |descr: &str, data: &[u8], expected: [i64; 2]| {
            assert_eq!(
                npy(&file(descr, data)).expect("a good file"),
                expected,
                "{descr}"
            );
        };
        check("|b1", &[0, 1], [0, 1]);
        check("|i1", &[0x80, 5], [-128, 5]);
        check("<i2", &[0, 0x80, 1, 0], [-32_768, 1]);
        check("<i4", &[255, 255, 255, 255, 0, 0, 0, 64], [-1, 1 << 30]);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(npy(b"PNG").is_err());
        assert!(npy(&file("<f4", &[0; 8])).is_err());
        assert!(npy(b"\x93NUMPY\x01\x00\xff\xff{").is_err());
    }
}
