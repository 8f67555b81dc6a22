//! placeholder
use super::{LowerError, LowerOptions, LoweredModel};
use crate::passes::Prepared;

pub(crate) fn lower(_: &Prepared, _: &LowerOptions) -> Result<Option<LoweredModel>, LowerError> {
    Ok(None)
}
