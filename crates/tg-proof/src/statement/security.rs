//! The composed security level of a model's proofs and of its registration.

pub use crate::argument::soundness::{BEFORE, ErrorTerm, FOLDS, LEVEL, combination_before};
use crate::plan::modes::Modes;
use crate::statement::model::PublicModel;
use crate::verify::composed;
pub use crate::verify::composed::SecurityReport;

/// Adds up what a proof about one input of a model may get wrong; nothing if the library gives no bound for an opening.
#[must_use]
pub fn report(model: &PublicModel) -> Option<SecurityReport> {
    composed::report(&model.secured(), model.shape())
}

/// Adds up what a proof about a batch of inputs may get wrong; nothing if such proofs are not admitted.
#[must_use]
pub fn report_batch(model: &PublicModel, batch: usize) -> Option<SecurityReport> {
    let shape = model.shape_of(batch).ok()?;
    composed::report(&model.secured(), &shape)
}

/// Adds up what a proof in zero knowledge about a batch of inputs may get wrong; nothing if such proofs are not admitted.
#[must_use]
pub fn report_zk(model: &PublicModel, batch: usize, modes: Modes) -> Option<SecurityReport> {
    let shape = model.zk_shape_of(batch, modes).ok()?;
    composed::report_zk(&model.secured(), &shape)
}

/// Adds up what the registration of a model may get wrong; nothing if the library gives no bound for its opening.
#[must_use]
pub fn registration_report(model: &PublicModel) -> Option<SecurityReport> {
    composed::registration_report(&model.secured())
}
