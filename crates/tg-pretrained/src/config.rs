//! The fields of `config.json`, typed; whatever is not taken is refused by its name and value.

use crate::error::PretrainedError;
use serde_json::{Map, Value};

/// Largest size that a field may state: axes, heads, layers.
const SIZE_MAX: u64 = 1 << 20;
/// Most layers of a model.
const LAYERS_MAX: usize = 512;

/// The configuration of a model.
#[derive(Debug, Clone)]
pub(crate) struct PretrainedConfig {
    fields: Map<String, Value>,
}

impl PretrainedConfig {
    pub(crate) const fn new(fields: Map<String, Value>) -> Self {
        Self { fields }
    }

    /// A field that is there and not null.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// The refusal of a field's value.
    pub(crate) fn refuse(&self, field: &str, taken: impl Into<String>) -> PretrainedError {
        let value = self.get(field).map_or("null".to_owned(), Value::to_string);
        PretrainedError::Field {
            field: field.to_owned(),
            value: value.chars().take(200).collect(),
            taken: taken.into(),
        }
    }

    /// A positive whole number.
    pub(crate) fn size(&self, field: &str) -> Result<usize, PretrainedError> {
        self.optional_size(field)?
            .ok_or_else(|| PretrainedError::Absent {
                field: field.to_owned(),
            })
    }

    /// A positive whole number, if the field is there.
    pub(crate) fn optional_size(&self, field: &str) -> Result<Option<usize>, PretrainedError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let number = value.as_u64().filter(|n| (1..=SIZE_MAX).contains(n));
        let size = number.and_then(|number| usize::try_from(number).ok());
        size.map(Some).ok_or_else(|| {
            self.refuse(field, format!("a whole number of 1 to {SIZE_MAX} is taken"))
        })
    }

    /// The number of layers.
    pub(crate) fn layers(&self, field: &str) -> Result<usize, PretrainedError> {
        let layers = self.size(field)?;
        if layers > LAYERS_MAX {
            return Err(self.refuse(field, format!("at most {LAYERS_MAX} layers are taken")));
        }
        Ok(layers)
    }

    /// Two sizes of which the second divides the first: the width of a stream and its heads.
    pub(crate) fn heads(&self, width: &str, heads: &str) -> Result<[usize; 2], PretrainedError> {
        let [size, count] = [self.size(width)?, self.size(heads)?];
        if size % count != 0 {
            return Err(self.refuse(heads, format!("a divisor of `{width}` = {size} is taken")));
        }
        Ok([size, count])
    }

    /// A finite number.
    pub(crate) fn number(&self, field: &str, default: f64) -> Result<f64, PretrainedError> {
        match self.get(field) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|number| number.is_finite())
                .ok_or_else(|| self.refuse(field, "a finite number is taken")),
        }
    }

    /// True or false.
    pub(crate) fn flag(&self, field: &str, default: bool) -> Result<bool, PretrainedError> {
        match self.get(field) {
            None => Ok(default),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| self.refuse(field, "true or false is taken")),
        }
    }

    /// A text, or what stands for it where it is absent.
    pub(crate) fn text<'a>(
        &'a self,
        field: &str,
        default: &'a str,
    ) -> Result<&'a str, PretrainedError> {
        match self.get(field) {
            None => Ok(default),
            Some(value) => value
                .as_str()
                .ok_or_else(|| self.refuse(field, "a text is taken")),
        }
    }

    /// Refuses a field that is there with another value than this.
    pub(crate) fn only(&self, field: &str, value: &Value) -> Result<(), PretrainedError> {
        match self.get(field) {
            Some(found) if found != value => {
                Err(self.refuse(field, format!("{value} alone is taken")))
            }
            _ => Ok(()),
        }
    }

    /// The fields of an object, if there is one.
    pub(crate) fn object(&self, field: &str) -> Result<Option<Self>, PretrainedError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self::new(fields.clone()))),
            Some(_) => Err(self.refuse(field, "an object is taken")),
        }
    }

    /// The class that the weights were saved from: the first of `architectures`; empty if none is named.
    pub(crate) fn architecture(&self) -> Result<&str, PretrainedError> {
        match self.get("architectures") {
            None => Ok(""),
            Some(Value::Array(names)) if names.is_empty() => Ok(""),
            Some(value) => value
                .get(0)
                .and_then(Value::as_str)
                .ok_or_else(|| self.refuse("architectures", "a list of class names is taken")),
        }
    }

    /// Names of the classes by their number, if there is one for each number from 0 on.
    pub(crate) fn labels(&self) -> Vec<String> {
        let Some(Value::Object(names)) = self.get("id2label") else {
            return Vec::new();
        };
        let one = |index: usize| names.get(&index.to_string())?.as_str();
        let found: Option<Vec<&str>> = (0..names.len()).map(one).collect();
        let found = found.unwrap_or_default();
        found.into_iter().map(str::to_owned).collect()
    }
}
