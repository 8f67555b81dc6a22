//! Encoders of `ai.onnx.ml`: numbers and texts for numbers and texts, flags for categories, features side by side.

use super::call::Entry;
use super::call::Half::Native;
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use crate::convert;
use crate::tensor::{DType, Data, FloatTensor};
use std::collections::BTreeMap;

/// Steps of a look-up among the keys, or of reading one.
const KEY_STEPS: usize = 32;
/// What a text that no key names becomes, where the file does not say.
const UNUSED: &str = "_Unused";

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "LabelEncoder" => encode,
        "OneHotEncoder" => flag,
        "Imputer" => impute,
        "FeatureVectorizer" => put_together,
        "ZipMap" => keep,
        _ => return None,
    };
    Some((kernel, Native))
}

/// What a key is compared by: a text, or a number's bits with one zero and one NaN.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(String),
    Integer(i64),
    Bits(u64),
}

/// The keys of a list of texts, integers or floats.
fn keys(data: &Data) -> Option<Vec<Key>> {
    if let Data::String(texts) = data {
        return Some(texts.iter().cloned().map(Key::Text).collect());
    }
    if let Some(integers) = convert::to_i64(data) {
        return Some(integers.into_iter().map(Key::Integer).collect());
    }
    let bits = |value: f64| {
        let same = if value.is_nan() {
            f64::NAN
        } else {
            value + 0.0
        };
        Key::Bits(same.to_bits())
    };
    Some(convert::to_f64(data)?.into_iter().map(bits).collect())
}

/// The list of an attribute whose name begins so: texts, integers, floats or a tensor.
fn listed(call: &Call<'_>, kind: [&'static str; 4]) -> Result<Option<Data>, OpError> {
    let [texts, integers, floats, whole] = kind;
    if let Some(tensor) = call.tensor(whole)? {
        return Ok(Some(tensor.data().clone()));
    }
    if let Some(list) = call.texts(texts)? {
        return Ok(Some(Data::String(
            list.into_iter().map(str::to_owned).collect(),
        )));
    }
    if let Some(list) = call.ints(integers)? {
        return Ok(Some(Data::I64(list.to_vec())));
    }
    Ok(call.floats(floats)?.map(|list| Data::F32(list.to_vec())))
}

/// One element of the kind of the values, for what no key names.
fn default_of(call: &Call<'_>, values: &Data) -> Result<Data, OpError> {
    if let Some(tensor) = call.tensor("default_tensor")? {
        return match tensor.len() {
            1 => Ok(tensor.data().clone()),
            _ => Err(OpError::Attribute {
                name: "default_tensor",
            }),
        };
    }
    Ok(match values {
        Data::String(_) => Data::String(vec![call.text("default_string", UNUSED)?.to_owned()]),
        Data::I64(_) => Data::I64(vec![call.int("default_int64", -1)?]),
        Data::F32(_) => Data::F32(vec![call.float("default_float", -0.0)?]),
        other => {
            let zero = convert::from_f64(&[-0.0], other.dtype(), convert::CastMode::default());
            zero.ok_or(OpError::Attribute {
                name: "default_tensor",
            })?
        }
    })
}

/// The value that stands beside an element's key, or the default.
fn encode(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let kinds = [
        ["keys_strings", "keys_int64s", "keys_floats", "keys_tensor"],
        [
            "values_strings",
            "values_int64s",
            "values_floats",
            "values_tensor",
        ],
    ];
    let lists = [listed(call, kinds[0])?, listed(call, kinds[1])?];
    let [Some(known), Some(values)] = lists else {
        return call.refuse("an encoder without keys and values");
    };
    let wrong = || OpError::invalid("there is not one value per key");
    call.charge_steps(&[known.len(), KEY_STEPS])?;
    call.charge_steps(&[input.len(), KEY_STEPS])?;
    let known = keys(&known).ok_or_else(wrong)?;
    if known.len() != values.len() {
        return Err(wrong());
    }
    let default = default_of(call, &values)?;
    if values.dtype() != default.dtype() {
        return Err(OpError::Attribute {
            name: "default_tensor",
        });
    }
    call.reserve_texts(input.len(), UNUSED.len())?;
    call.reserve(input.len(), input.dtype())?;
    call.reserve(input.len(), values.dtype())?;
    // Of equal keys the first counts.
    let mut places = BTreeMap::new();
    for (place, key) in known.into_iter().enumerate() {
        places.entry(key).or_insert(place);
    }
    let asked = keys(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let found: Vec<Option<usize>> = asked.iter().map(|key| places.get(key).copied()).collect();
    let data = picked(&values, &default, &found).ok_or_else(wrong)?;
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

/// The values at these places, and the default where there is none.
fn picked(values: &Data, default: &Data, places: &[Option<usize>]) -> Option<Data> {
    fn each<T: Clone>(values: &[T], default: &[T], places: &[Option<usize>]) -> Option<Vec<T>> {
        let default = default.first()?;
        let one = |place: &Option<usize>| match place {
            Some(place) => values.get(*place).cloned(),
            None => Some(default.clone()),
        };
        places.iter().map(one).collect()
    }
    match (values, default) {
        (Data::String(values), Data::String(default)) => {
            each(values, default, places).map(Data::String)
        }
        (Data::I64(values), Data::I64(default)) => each(values, default, places).map(Data::I64),
        (Data::F32(values), Data::F32(default)) => each(values, default, places).map(Data::F32),
        _ => {
            let dtype = values.dtype();
            let (values, default) = (convert::to_f64(values)?, convert::to_f64(default)?);
            let all = each(&values, &default, places)?;
            convert::from_f64(&all, dtype, convert::CastMode::default())
        }
    }
}

/// A flag for each category along a new last axis.
fn flag(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let texts = call.texts("cats_strings")?.unwrap_or_default();
    let integers = call.ints("cats_int64s")?.unwrap_or_default();
    let (asked, known) = match input.data() {
        Data::String(values) if !texts.is_empty() => (
            values.iter().cloned().map(Key::Text).collect(),
            texts
                .iter()
                .map(|&text| Key::Text(text.to_owned()))
                .collect(),
        ),
        data if !integers.is_empty() => {
            let whole = convert::to_i64(data).or_else(|| {
                let values = convert::to_f64(data)?;
                Some(values.into_iter().map(|value| value as i64).collect())
            });
            let whole = whole.ok_or_else(|| call.wrong_type(0))?;
            (
                whole.into_iter().map(Key::Integer).collect::<Vec<_>>(),
                integers
                    .iter()
                    .copied()
                    .map(Key::Integer)
                    .collect::<Vec<_>>(),
            )
        }
        _ => return Err(call.wrong_type(0)),
    };
    let mut shape = input.shape().to_vec();
    shape.push(known.len());
    call.charge_steps(&[asked.len(), KEY_STEPS])?;
    call.charge_steps(&[known.len(), KEY_STEPS])?;
    let mut out = call.filled(&shape, 0f32)?;
    let places: BTreeMap<&Key, usize> = known.iter().zip(0..).collect();
    for (key, out) in asked.iter().zip(out.chunks_exact_mut(known.len())) {
        match places.get(key) {
            Some(&place) => out[place] = 1.0,
            None if call.flag("zeros", true)? => {}
            None => return Err(OpError::invalid("a value is none of the categories")),
        }
    }
    one(shape, out)
}

/// What is missing is replaced, feature by feature.
fn impute(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let features = input.shape().last().copied().unwrap_or(1).max(1);
    let fits = |length: usize| length == 1 || length == features;
    let wrong = || OpError::invalid("the values that are put do not fit the features");
    call.reserve(input.len(), input.dtype())?;
    let data = match input.data() {
        Data::I64(values) => {
            let put = call.ints("imputed_value_int64s")?.unwrap_or_default();
            let replaced = call.int("replaced_value_int64", 0)?;
            if !fits(put.len()) {
                return Err(wrong());
            }
            let one = |(at, &value): (usize, &i64)| match value == replaced {
                true => put[at % features % put.len()],
                false => value,
            };
            Data::I64(values.iter().enumerate().map(one).collect())
        }
        Data::F32(values) => {
            let put = call.floats("imputed_value_floats")?.unwrap_or_default();
            let replaced = call.float("replaced_value_float", 0.0)?;
            if !fits(put.len()) {
                return Err(wrong());
            }
            let missing = |value: f32| value == replaced || replaced.is_nan() && value.is_nan();
            let one = |(at, &value): (usize, &f32)| match missing(value) {
                true => put[at % features % put.len()],
                false => value,
            };
            Data::F32(values.iter().enumerate().map(one).collect())
        }
        _ => return Err(call.wrong_type(0)),
    };
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

/// The features of all inputs side by side, as floats.
fn put_together(call: &Call<'_>) -> Results {
    let mut parts = Vec::new();
    for index in 0..call.inputs.len() {
        let input = call.input(index)?;
        let (rows, width) = match *input.shape() {
            [width] => (1, width),
            [rows, width] => (rows, width),
            _ => return Err(OpError::invalid("an input is not rows of features")),
        };
        call.reserve(input.len(), DType::F32)?;
        let values = convert::to_f32(input.data()).ok_or_else(|| call.wrong_type(index))?;
        parts.push((rows, width, values));
    }
    let rows = parts.first().map_or(0, |part| part.0);
    if parts.iter().any(|part| part.0 != rows) {
        return Err(OpError::invalid("the inputs differ in rows"));
    }
    let width = parts.iter().map(|part| part.1).sum();
    let mut out = Vec::with_capacity(call.reserve_shape(&[rows, width], DType::F32)?);
    for row in 0..rows {
        for (_, width, values) in &parts {
            out.extend_from_slice(&values[row * width..(row + 1) * width]);
        }
    }
    one(vec![rows, width], out)
}

/// Names for the columns of its input, which stay as they are: a tensor has no names.
fn keep(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    call.reserve(input.len(), input.dtype())?;
    let same = FloatTensor::new(input.shape().to_vec(), input.data().clone());
    Ok(vec![same.map_err(OpError::Tensor)?])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::tests::node;
    use super::super::{Budget, OpError, evaluate};
    use crate::graph::{Attribute, Node};
    use crate::tensor::FloatTensor;

    fn learned(op: &str, attributes: &[(&str, Attribute)], inputs: usize) -> Node {
        let mut node = node(op, 2, attributes, inputs, 1);
        "ai.onnx.ml".clone_into(&mut node.domain);
        node
    }

    fn texts(list: &[&str]) -> Attribute {
        Attribute::Texts(list.iter().map(|text| text.as_bytes().to_vec()).collect())
    }

    fn words(list: &[&str]) -> FloatTensor {
        FloatTensor::vector(list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    fn of(node: &Node, x: &FloatTensor) -> Result<FloatTensor, OpError> {
        evaluate(node, &[Some(x)], &Budget::default()).map(|mut all| all.remove(0))
    }

    #[test]
    fn keys_of_any_kind_have_values_of_any_kind() {
        let to_numbers = [
            ("keys_strings", texts(&["a", "b", "a"])),
            ("values_int64s", Attribute::Ints(vec![7, 8, 9])),
        ];
        let encoder = learned("LabelEncoder", &to_numbers, 1);
        let numbers = of(&encoder, &words(&["b", "a", "c"])).unwrap();
        assert_eq!(numbers, FloatTensor::vector(vec![8i64, 7, -1]));
        let to_texts = [
            ("keys_floats", Attribute::Floats(vec![0.0, f32::NAN])),
            ("values_strings", texts(&["zero", "none"])),
        ];
        let encoder = learned("LabelEncoder", &to_texts, 1);
        let x = FloatTensor::vector(vec![f32::NAN, -0.0, 1.0]);
        assert_eq!(
            of(&encoder, &x).unwrap(),
            words(&["none", "zero", "_Unused"])
        );
        let short = encoder.with("values_strings", texts(&["zero"]));
        assert!(matches!(of(&short, &x), Err(OpError::Invalid { .. })));
    }

    /// As onnxruntime 1.31.1 does it: fractions are cut off.
    #[test]
    fn categories_are_flags() {
        let categories = [("cats_int64s", Attribute::Ints(vec![0, 2, -1]))];
        let encoder = learned("OneHotEncoder", &categories, 1);
        let x = FloatTensor::of(vec![2, 2], vec![0.5f32, -1.0, 2.0, 7.0]).unwrap();
        let flags = vec![1f32, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        let expected = FloatTensor::of(vec![2, 2, 3], flags).unwrap();
        assert_eq!(of(&encoder, &x).unwrap(), expected);
        let strict = encoder.with("zeros", Attribute::Int(0));
        assert!(matches!(of(&strict, &x), Err(OpError::Invalid { .. })));
        let encoder = learned("OneHotEncoder", &[("cats_strings", texts(&["x", "y"]))], 1);
        let flags = FloatTensor::of(vec![2, 2], vec![0f32, 1.0, 0.0, 0.0]).unwrap();
        assert_eq!(of(&encoder, &words(&["y", "z"])).unwrap(), flags);
    }

    #[test]
    fn what_is_missing_is_put() {
        let put = [
            ("imputed_value_floats", Attribute::Floats(vec![5.0, 6.0])),
            ("replaced_value_float", Attribute::Float(f32::NAN)),
        ];
        let x = FloatTensor::of(vec![2, 2], vec![f32::NAN, f32::NAN, 1.0, 2.0]).unwrap();
        let full = FloatTensor::of(vec![2, 2], vec![5f32, 6.0, 1.0, 2.0]).unwrap();
        assert_eq!(of(&learned("Imputer", &put, 1), &x).unwrap(), full);
        let both = learned("FeatureVectorizer", &[], 2);
        let whole = FloatTensor::of(vec![2, 1], vec![3i64, 4]).unwrap();
        let all = evaluate(&both, &[Some(&full), Some(&whole)], &Budget::default()).unwrap();
        let expected = FloatTensor::of(vec![2, 3], vec![5f32, 6.0, 3.0, 1.0, 2.0, 4.0]).unwrap();
        assert_eq!(all[0], expected);
        assert_eq!(of(&learned("ZipMap", &[], 1), &full).unwrap(), full);
    }
}
