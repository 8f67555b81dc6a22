//! One case: an operator of TOSA, its operands, and the reference model's result.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tg_float::Data;
use tg_float::npy::read_npy;

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
    let tensor = read_npy(bytes)?;
    Ok(match tensor.data() {
        Data::Bool(values) => values.iter().map(|&x| i64::from(x)).collect(),
        Data::I8(values) => values.iter().map(|&x| i64::from(x)).collect(),
        Data::I16(values) => values.iter().map(|&x| i64::from(x)).collect(),
        Data::I32(values) => values.iter().map(|&x| i64::from(x)).collect(),
        other => bail!("elements that are not read: {:?}", other.dtype()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_float::FloatTensor;
    use tg_float::npy::write_npy;

    #[test]
    fn integers_of_every_width_are_read() {
        let check = |tensor: FloatTensor, expected: [i64; 2]| {
            let bytes = write_npy(&tensor).expect("numpy has the type");
            assert_eq!(npy(&bytes).expect("a good file"), expected);
        };
        check(FloatTensor::vector(vec![false, true]), [0, 1]);
        check(FloatTensor::vector(vec![-128i8, 5]), [-128, 5]);
        check(FloatTensor::vector(vec![-32_768i16, 1]), [-32_768, 1]);
        check(FloatTensor::vector(vec![-1i32, 1 << 30]), [-1, 1 << 30]);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(npy(b"PNG").is_err());
        let floats = write_npy(&FloatTensor::vector(vec![1.0f32])).expect("numpy has the type");
        assert!(npy(&floats).is_err());
    }
}
