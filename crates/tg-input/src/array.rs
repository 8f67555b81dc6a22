//! Arrays as files hold them, and the rows that they are.

use super::form::{Expected, InputError, Layout, NamedInput, ROWS_MAX, fit, reordered};
use tg_float::convert;
use tg_float::npy::read_npy;
use tg_float::{FloatTensor, tensor::Data};

/// An array of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) values: ArrayValues,
}

/// The elements of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArrayValues {
    /// Numbers.
    Numbers(Vec<f32>),
    /// Eight-bit values, which are an image's where a model takes one.
    Bytes(Vec<u8>),
}

impl Array {
    /// A numpy array of numbers or truth values.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn of_npy(bytes: &[u8]) -> Result<Self, InputError> {
        let tensor = read_npy(bytes).map_err(InputError::Npy)?;
        Ok(Self::of_tensor(&tensor))
    }

    pub(super) fn of_tensor(tensor: &FloatTensor) -> Self {
        let values = match tensor.data() {
            Data::U8(bytes) => ArrayValues::Bytes(bytes.clone()),
            // A numpy file has numbers and truth values only.
            data => ArrayValues::Numbers(convert::to_f32(data).unwrap_or_default()),
        };
        Self {
            shape: tensor.shape().to_vec(),
            values,
        }
    }

    /// Numbers of a shape that they fill.
    pub(super) const fn of_numbers(shape: Vec<usize>, values: Vec<f32>) -> Self {
        Self {
            shape,
            values: ArrayValues::Numbers(values),
        }
    }

    /// What lies along its first axis.
    pub(super) fn items(self) -> Vec<Self> {
        let Some((&count, rest)) = self.shape.split_first() else {
            return Vec::new();
        };
        let (own, shape) = (rest.iter().product::<usize>(), rest.to_vec());
        let numbers = self.numbers();
        let item = |index: usize| {
            let values = numbers[index * own..][..own].to_vec();
            Self::of_numbers(shape.clone(), values)
        };
        (0..count).map(item).collect()
    }

    /// Its elements as numbers, bytes too.
    pub(super) fn numbers(self) -> Vec<f32> {
        match self.values {
            ArrayValues::Numbers(values) => values,
            ArrayValues::Bytes(bytes) => bytes.into_iter().map(f32::from).collect(),
        }
    }
}

impl Expected<'_> {
    /// How many rows an array of this shape is, and for each place of a row its element.
    fn order(&self, got: &[usize]) -> Option<(usize, Vec<usize>)> {
        if let [only] = self.inputs
            && let Some(rows) = only.rows_of(got)
        {
            return Some((rows, inverse(&only.places, self.shape.elements())));
        }
        let (rows, layout) = fit(got, self.shape)?;
        Some((rows, layout.order(self.shape)))
    }

    /// Whether an array of this shape is a model's whole input, or several.
    pub(super) fn fits(&self, got: &[usize]) -> bool {
        let by_name = matches!(self.inputs, [only] if only.rows_of(got).is_some());
        by_name || fit(got, self.shape).is_some()
    }
}

/// The rows of one array that holds a model's whole input.
pub(super) fn rows(array: Array, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    let shape = expected.shape;
    let Some((rows, order)) = expected.order(&array.shape) else {
        return Err(InputError::Shape {
            got: array.shape,
            expected: expected.described(),
        });
    };
    check_rows(rows)?;
    let elements: usize = array.shape.iter().product();
    let own = (elements / rows.max(1)).max(1);
    match &array.values {
        ArrayValues::Numbers(values) => {
            let each = values.chunks_exact(own).enumerate();
            each.map(|(row, values)| reordered(values, row, &order))
                .collect()
        }
        ArrayValues::Bytes(bytes) => {
            let channels = shape.channels as usize;
            let real = |row: &[u8]| {
                let places = order.iter().enumerate();
                let real = |(to, &from): (usize, &usize)| match row.get(from) {
                    Some(&byte) => expected.real(to % channels, byte),
                    None => 0.0,
                };
                places.map(real).collect()
            };
            Ok(bytes.chunks_exact(own).map(real).collect())
        }
    }
}

/// Per place of a row the element of the file that lies there; past the last one, if none does.
fn inverse(places: &[usize], elements: usize) -> Vec<usize> {
    let mut order = vec![usize::MAX; elements];
    for (element, &place) in places.iter().enumerate() {
        order[place] = element;
    }
    order
}

/// The rows of a flat list of numbers each, in the order of a file without axes.
pub(super) fn flat_rows(
    rows: impl ExactSizeIterator<Item = Vec<f32>>,
    expected: Expected<'_>,
) -> Result<Vec<Vec<f32>>, InputError> {
    check_rows(rows.len())?;
    let elements = expected.shape.elements();
    let order = Layout::of_flat(expected.shape).order(expected.shape);
    let rows = rows.enumerate();
    rows.map(|(row, values)| {
        if values.len() != elements {
            return Err(InputError::RowLength {
                row,
                got: values.len(),
                expected: elements,
            });
        }
        reordered(&values, row, &order)
    })
    .collect()
}

/// Takes out the arrays by names that no input has, if another has the name of one, and says which.
pub(super) fn take_unread(
    arrays: &mut Vec<(Option<String>, Array)>,
    expected: Expected<'_>,
) -> Vec<String> {
    let known = |name: &str| expected.inputs.iter().any(|input| input.name == name);
    if !arrays
        .iter()
        .any(|(name, _)| name.as_deref().is_some_and(known))
    {
        return Vec::new();
    }
    let unread = arrays.extract_if(.., |(name, _)| {
        name.as_deref().is_some_and(|name| !known(name))
    });
    unread.filter_map(|(name, _)| name).collect()
}

/// The rows of arrays that hold an input each, by its name; arrays without one are, in order, those inputs that no name fits.
///
/// # Errors
/// If an array is of no input, an input has none, or they hold different numbers of rows.
pub(super) fn named_rows(
    mut arrays: Vec<(Option<String>, Array)>,
    expected: Expected<'_>,
) -> Result<Vec<Vec<f32>>, InputError> {
    let inputs = expected.inputs;
    if arrays.len() == 1
        && inputs.len() <= 1
        && let Some((_, only)) = arrays.pop()
    {
        return rows(only, expected);
    }
    let given = assigned(arrays, expected)?;
    let mut rows = None;
    for (input, array) in inputs.iter().zip(&given) {
        let name = || input.name.clone();
        let own = input.rows_of(&array.shape);
        let own = own.ok_or_else(|| InputError::InputShape {
            name: name(),
            got: array.shape.clone(),
            expected: input.shape.clone(),
        })?;
        check_rows(own)?;
        let first = *rows.get_or_insert(own);
        if own != first {
            return Err(InputError::Rows {
                name: name(),
                rows: own,
                expected: first,
            });
        }
    }
    let mut all = vec![vec![0.0; expected.shape.elements()]; rows.unwrap_or(0)];
    for (input, array) in inputs.iter().zip(given) {
        place(input, &array.numbers(), &mut all)?;
    }
    Ok(all)
}

/// An array for each input.
fn assigned(
    arrays: Vec<(Option<String>, Array)>,
    expected: Expected<'_>,
) -> Result<Vec<Array>, InputError> {
    let inputs = expected.inputs;
    let unknown = |name: &str| InputError::Name {
        name: name.chars().take(64).collect(),
        inputs: expected.described(),
    };
    let mut given: Vec<Option<Array>> = inputs.iter().map(|_| None).collect();
    let mut unnamed = Vec::new();
    for (name, array) in arrays {
        let Some(name) = name else {
            unnamed.push(array);
            continue;
        };
        let index = inputs.iter().position(|input| input.name == name);
        let slot = index.and_then(|index| given.get_mut(index));
        let slot = slot.filter(|slot| slot.is_none());
        *slot.ok_or_else(|| unknown(&name))? = Some(array);
    }
    let mut free = given.iter_mut().filter(|slot| slot.is_none());
    for (index, array) in unnamed.into_iter().enumerate() {
        let slot = free.next();
        *slot.ok_or_else(|| unknown(&format!("number {}", index + 1)))? = Some(array);
    }
    let each = inputs.iter().zip(given).map(|(input, array)| {
        array.ok_or_else(|| InputError::Missing {
            name: input.name.clone(),
            inputs: expected.described(),
        })
    });
    each.collect()
}

/// Puts the elements of an input, of one row after the other, where they lie in each row.
fn place(input: &NamedInput, values: &[f32], rows: &mut [Vec<f32>]) -> Result<(), InputError> {
    let each = values.chunks_exact(input.places.len().max(1));
    for (row, (values, all)) in each.zip(rows).enumerate() {
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(InputError::NotFinite { row, index });
        }
        for (&place, &value) in input.places.iter().zip(values) {
            all[place] = value;
        }
    }
    Ok(())
}

fn check_rows(rows: usize) -> Result<(), InputError> {
    if rows > ROWS_MAX {
        return Err(InputError::TooManyRows { rows });
    }
    Ok(())
}
