//! The folder that a demo writes to.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::Path;
use tg_console::files;

use tg_proof::PublicModel;

use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome};

/// Marks a folder as one that the demo made and may write into again.
const MARK: &str = "made-by-tensorgrid-demo";

/// What to do about a folder that cannot be had.
const ANOTHER: &str = "name another with --out DIR";

/// Makes the folder, or takes one that an earlier demo made. While the file that is given back is open, no other demo takes
/// it: that would remove the state of the grid that runs.
pub(crate) fn prepare(folder: &Path, state: &Path) -> Result<File, Failure> {
    let marked = folder.join(MARK);
    let occupied = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !marked.exists() {
        let text = format!(
            "the folder {} is not empty and not a demo's",
            folder.display()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(ANOTHER));
    }
    let made = make(folder);
    made.map_err(|failure| failure.hint(ANOTHER))?;
    let taken = take(folder, &marked)?;
    if state.exists() {
        std::fs::remove_dir_all(state)
            .or_fail(Exit::Failed, "remove the state of an earlier demo")?;
    }
    Ok(taken)
}

/// The folder and its parts.
fn make(folder: &Path) -> Outcome {
    for part in ["receipts", "proofs", "digits"] {
        let path = folder.join(part);
        std::fs::create_dir_all(&path)
            .or_fail(Exit::Failed, format!("make the folder {}", path.display()))?;
    }
    Ok(())
}

/// Marks the folder and locks the mark; the operating system gives it back when the process ends, however it ends.
fn take(folder: &Path, marked: &Path) -> Result<File, Failure> {
    let doing = || format!("mark the folder {}", folder.display());
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(marked)
        .or_fail(Exit::Failed, doing())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let text = format!("another demo writes to the folder {}", folder.display());
            let failure = Failure::new(Exit::Usage, anyhow::anyhow!(text));
            return Err(failure.hint(format!("wait for its end, or {ANOTHER}")));
        }
        Err(TryLockError::Error(error)) => return Err(error).or_fail(Exit::Failed, doing()),
    }
    file.write_all(b"`tensorgrid demo` writes here.\n")
        .or_fail(Exit::Failed, doing())?;
    Ok(file)
}

/// Leaves the public model.
pub(crate) fn leave_model(folder: &Path, public: &PublicModel) -> Outcome {
    files::write(&folder.join("lenet-digits.tgv"), &public.encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two demos in one folder: the second removed the state of the first, whose validators then failed, and the first at its
    /// end that of the second, which waited for ever.
    #[test]
    fn a_folder_has_one_demo_at_a_time() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("demo");
        let state = folder.join("grid");
        let first = prepare(&folder, &state).expect("a new folder");
        std::fs::create_dir(&state).expect("the first demo's state");
        let refused = prepare(&folder, &state).expect_err("it is taken");
        assert_eq!(refused.exit, Exit::Usage);
        assert!(state.exists(), "the state of a demo that runs stays");
        drop(first);
        let _second = prepare(&folder, &state).expect("the first has ended");
        assert!(!state.exists(), "what an earlier demo left is removed");
    }
}
