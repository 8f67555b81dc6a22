//! JSON inputs: numbers in nested or flat lists, of one input or of each by its name.
//!
//! `{"input_data": X}` and `X` alone are the whole input of a model: one flat list of numbers per row, a list nested as the
//! input's axes, or a list of such. `{"NAME": X, ...}` has a list for each input. Numbers are read one by one, so that a file
//! takes no more memory than its numbers.

use super::array::{Array, flat_rows, named_rows, rows, take_unread};
use super::form::{Expected, InputError};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Most lists within each other.
const DEPTH_MAX: usize = 9;
/// Most names.
const NAMES_MAX: usize = 64;
/// The name that stands for a model's whole input.
const WHOLE: &str = "input_data";

/// A list of lists that may be of different shapes.
#[derive(Debug, Default)]
struct NestedLists {
    /// The shape of so many items in turn.
    runs: Vec<(Vec<usize>, usize)>,
    values: Vec<f32>,
    /// Whether it is a number alone.
    number: bool,
}

/// What a file holds.
enum File {
    Whole(NestedLists),
    Named(Vec<(String, NestedLists)>),
}

/// The rows of a file; arrays that no input reads are taken out and named, if they may be there.
pub(super) fn read(
    bytes: &[u8],
    expected: Expected<'_>,
    unread: Option<&mut Vec<String>>,
) -> Result<Vec<Vec<f32>>, InputError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let file = FileSeed
        .deserialize(&mut reader)
        .map_err(InputError::Json)?;
    reader.end().map_err(InputError::Json)?;
    match file {
        File::Whole(lists) => whole(lists, expected),
        File::Named(named) => {
            let arrays = named.into_iter().map(|(name, lists)| match lists.array() {
                Ok(array) => Ok((Some(name), array)),
                Err(_) => Err(InputError::Ragged { name }),
            });
            let mut arrays = arrays.collect::<Result<_, _>>()?;
            if let Some(unread) = unread {
                unread.extend(take_unread(&mut arrays, expected));
            }
            named_rows(arrays, expected)
        }
    }
}

/// The arrays of a file, by their names if it has some.
pub(super) fn arrays(bytes: &[u8]) -> Result<Vec<(Option<String>, Array)>, InputError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let file = FileSeed
        .deserialize(&mut reader)
        .map_err(InputError::Json)?;
    reader.end().map_err(InputError::Json)?;
    let named = match file {
        File::Whole(lists) => vec![(None, lists)],
        File::Named(named) => named
            .into_iter()
            .map(|(n, lists)| (Some(n), lists))
            .collect(),
    };
    let each = named.into_iter().map(|(name, lists)| match lists.array() {
        Ok(array) => Ok((name, array)),
        Err(_) => Err(InputError::Ragged {
            name: name.unwrap_or_default(),
        }),
    });
    each.collect()
}

/// The one array of a file that holds one input of several.
pub(super) fn array(bytes: &[u8]) -> Result<Array, InputError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let lists = NestedListsSeed
        .deserialize(&mut reader)
        .map_err(InputError::Json)?;
    reader.end().map_err(InputError::Json)?;
    let name = String::new();
    lists.array().map_err(|_| InputError::Ragged { name })
}

fn whole(lists: NestedLists, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    let inputs = expected.inputs.len();
    let items = match lists.array() {
        Ok(array) if array.shape.first() == Some(&0) => return Ok(Vec::new()),
        Ok(array) if expected.fits(&array.shape) => return rows(array, expected),
        // A list for each input of a model of several.
        Ok(array) if inputs > 1 && array.shape.first() == Some(&inputs) => array.items(),
        // A row of the wrong length is named.
        Ok(array) if array.shape.len() == 2 => array.items(),
        Ok(array) => return rows(array, expected),
        Err(items) => items,
    };
    if inputs > 1 && items.len() == inputs {
        let unnamed = items.into_iter().map(|item| (None, item));
        return named_rows(unnamed.collect(), expected);
    }
    flat_rows(items.into_iter().map(Array::numbers), expected)
}

impl NestedLists {
    /// One array, or the items, if these are of different shapes.
    fn array(mut self) -> Result<Array, Vec<Array>> {
        if self.number {
            return Ok(Array::of_numbers(Vec::new(), self.values));
        }
        if self.runs.len() <= 1 {
            let (item, count) = self.runs.pop().unwrap_or_default();
            let mut shape = vec![count];
            shape.extend(item);
            return Ok(Array::of_numbers(shape, self.values));
        }
        let mut rest = self.values.as_slice();
        let mut items = Vec::new();
        for (shape, count) in self.runs {
            for _ in 0..count {
                let (own, after) = rest.split_at(shape.iter().product());
                rest = after;
                items.push(Array::of_numbers(shape.clone(), own.to_vec()));
            }
        }
        Err(items)
    }
}

struct FileSeed;

impl<'de> DeserializeSeed<'de> for FileSeed {
    type Value = File;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<File, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FileSeed {
    type Value = File;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("lists of numbers, or an object with a list for each input")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<File, A::Error> {
        NestedListsSeed.visit_seq(items).map(File::Whole)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
        let mut named = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if named.len() == NAMES_MAX {
                return Err(A::Error::custom("an object of too many inputs"));
            }
            named.push((name, map.next_value_seed(NestedListsSeed)?));
        }
        Ok(match named.as_mut_slice() {
            [(name, lists)] if name == WHOLE => File::Whole(std::mem::take(lists)),
            _ => File::Named(named),
        })
    }
}

struct NestedListsSeed;

impl<'de> DeserializeSeed<'de> for NestedListsSeed {
    type Value = NestedLists;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NestedLists, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NestedListsSeed {
    type Value = NestedLists;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("numbers in lists")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NestedLists, A::Error> {
        let mut lists = NestedLists::default();
        loop {
            let values = &mut lists.values;
            let Some(shape) = items.next_element_seed(Item { values, depth: 1 })? else {
                return Ok(lists);
            };
            match lists.runs.last_mut() {
                Some((last, count)) if *last == shape => *count += 1,
                _ => lists.runs.push((shape, 1)),
            }
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<NestedLists, E> {
        Ok(NestedLists {
            values: vec![single(value)],
            number: true,
            ..NestedLists::default()
        })
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<NestedLists, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<NestedLists, E> {
        self.visit_f64(value as f64)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<NestedLists, E> {
        self.visit_f64(f64::from(u8::from(value)))
    }
}

/// An item of a list: a number or a list, whose numbers are added to `values`. It gives its shape.
struct Item<'a> {
    values: &'a mut Vec<f32>,
    depth: usize,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "models take single precision; what does not fit becomes an infinity, which is refused"
)]
const fn single(value: f64) -> f32 {
    value as f32
}

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = Vec<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<usize>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item<'_> {
    type Value = Vec<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a list of such")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<usize>, A::Error> {
        let depth = self.depth + 1;
        if depth > DEPTH_MAX {
            return Err(A::Error::custom("lists within more than 9 lists"));
        }
        let values = self.values;
        let mut count = 0;
        let mut first: Option<Vec<usize>> = None;
        while let Some(shape) = items.next_element_seed(Item {
            values: &mut *values,
            depth,
        })? {
            count += 1;
            if first.get_or_insert_with(|| shape.clone()) != &shape {
                return Err(A::Error::custom("lists of one list with different lengths"));
            }
        }
        let mut shape = vec![count];
        shape.extend(first.unwrap_or_default());
        Ok(shape)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Vec<usize>, E> {
        self.values.push(single(value));
        Ok(Vec::new())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Vec<usize>, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Vec<usize>, E> {
        self.visit_f64(value as f64)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Vec<usize>, E> {
        self.visit_f64(f64::from(u8::from(value)))
    }
}
