//! The folder that a demo writes to.

use std::path::Path;

use tg_proof::PublicModel;

use crate::offline::files;
use crate::outcome::{Exit, Failure, OrFail, Outcome};

/// Marks a folder as one that the demo made and may write into again.
const MARK: &str = "made-by-tensorgrid-demo";

/// Makes the folder, or takes one that an earlier demo made.
pub(crate) fn prepare(folder: &Path, state: &Path) -> Outcome {
    let marked = folder.join(MARK);
    let occupied = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !marked.exists() {
        let text = format!(
            "the folder {} is not empty and not a demo's",
            folder.display()
        );
        return Err(
            Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("name another with --out DIR")
        );
    }
    for part in ["receipts", "proofs", "digits"] {
        let path = folder.join(part);
        std::fs::create_dir_all(&path)
            .or_fail(Exit::Failed, format!("make the folder {}", path.display()))?;
    }
    if state.exists() {
        std::fs::remove_dir_all(state)
            .or_fail(Exit::Failed, "remove the state of an earlier demo")?;
    }
    files::write(&marked, b"`tensorgrid demo` writes here.\n")
}

/// Leaves the public model.
pub(crate) fn leave_model(folder: &Path, public: &PublicModel) -> Outcome {
    files::write(&folder.join("lenet-digits.tgv"), &public.encode())
}
