//! Which project a job was ordered for: labels of this machine in a file beside the key, as orders carry none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tg_sdk::endpoint::record::is_name;
use tg_types::JobId;

use super::connect_args::KeyArguments;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, say};

/// The folder of accounts of development networks, which have no key file.
const DEVELOPMENT: &str = "tensorgrid-projects";

/// Jobs with a label at most; of more, those that were ordered first lose theirs. `job cost` looks at as many.
const JOBS_MAX: usize = 100_000;

/// Most bytes of a file of labels: an id, a name and what is between them are at most 132 bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

const _: () = assert!(JOBS_MAX as u64 * 132 <= FILE_BYTES_MAX);

/// Reads the name of a project.
///
/// # Errors
/// What a name is.
pub(crate) fn name(text: &str) -> Result<String, String> {
    is_name(text)
        .then(|| text.to_owned())
        .ok_or_else(|| NAMES.to_owned())
}

const NAMES: &str = "letters, digits, `-`, `_` and `.`, 64 at most, beginning with a letter or a digit and not with 0x";

/// Where the jobs of a command are noted.
#[derive(Debug)]
pub(crate) struct ProjectNote {
    file: PathBuf,
    project: String,
}

impl ProjectNote {
    /// The note of a project, if one is named. Its file is read now, so that a damaged one is told before anything is ordered.
    pub(crate) fn of(project: Option<&str>, key: &KeyArguments) -> Result<Option<Self>, Failure> {
        let Some(project) = project else {
            return Ok(None);
        };
        let file = file_of(key);
        read(&file)?;
        if key.key.is_none() {
            let doing = format!("make the folder {DEVELOPMENT}");
            std::fs::create_dir_all(DEVELOPMENT).or_fail(Exit::Failed, doing)?;
        }
        let project = project.to_owned();
        Ok(Some(Self { file, project }))
    }

    fn add(&self, job: JobId) -> Outcome {
        let _turn = files::lock(&beside(&self.file, ".turn"))?;
        let mut labels = read(&self.file)?;
        labels.retain(|(other, _)| *other != job);
        labels.push((job, self.project.clone()));
        let first = labels.len().saturating_sub(JOBS_MAX);
        files::write_private(&self.file, text_of(&labels[first..]).as_bytes())
    }
}

/// Says which job was ordered, as the `part` of what was asked for, and takes note of its project. What fails of that is said: the job is
/// ordered all the same.
pub(crate) fn tell_ordered(part: &str, job: JobId, note: Option<&ProjectNote>) {
    say(format_args!("{part}job {job}"));
    if let Some(note) = note
        && let Err(failure) = note.add(job)
    {
        say(format_args!(
            "the job is not noted under project {}: {:#}",
            note.project, failure.error
        ));
    }
}

/// The projects of the jobs that were ordered with a key on this machine.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn labels(key: &KeyArguments) -> Result<BTreeMap<JobId, String>, Failure> {
    Ok(read(&file_of(key))?.into_iter().collect())
}

/// `KEY.projects`, or that of an account of development networks.
fn file_of(key: &KeyArguments) -> PathBuf {
    match &key.key {
        Some(key) => beside(key, ".projects"),
        None => Path::new(DEVELOPMENT).join(&key.account),
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn read(file: &Path) -> Result<Vec<(JobId, String)>, Failure> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let bytes = files::read(file, FILE_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    labels_of(&text).map_err(|line| {
        let text = format!(
            "{}: line {line} names no job and project",
            file.display()
        );
        Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
            "a line is JOB-ID PROJECT: mend or remove this one; or remove the file, which loses nothing but the labels of earlier jobs",
        )
    })
}

/// The labels of a text, in its order, or the number of the first line that is none.
fn labels_of(text: &str) -> Result<Vec<(JobId, String)>, usize> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let label = |line: &str| {
        let (job, project) = line.trim().split_once(' ')?;
        let job = JobId::from_hex(job)?;
        is_name(project).then(|| (job, project.to_owned()))
    };
    lines
        .map(|(index, line)| label(line).ok_or(index + 1))
        .collect()
}

fn text_of(labels: &[(JobId, String)]) -> String {
    let lines = labels.iter();
    lines
        .map(|(job, project)| format!("{job} {project}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn note(folder: &Path, project: &str) -> ProjectNote {
        ProjectNote {
            file: folder.join("key.projects"),
            project: project.to_owned(),
        }
    }

    #[test]
    fn jobs_are_noted_beside_each_other_and_the_last_note_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (JobId::new([1; 32]), JobId::new([2; 32]));
        note(folder.path(), "vision").add(one).unwrap();
        note(folder.path(), "texts").add(two).unwrap();
        note(folder.path(), "audio").add(one).unwrap();
        let kept = read(&folder.path().join("key.projects")).unwrap();
        let expected = [(two, "texts".to_owned()), (one, "audio".to_owned())];
        assert_eq!(kept, expected);
        assert_eq!(labels_of(&text_of(&expected)), Ok(expected.to_vec()));
    }

    #[test]
    fn a_damaged_file_is_told_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.projects");
        let job = JobId::new([1; 32]);
        for damaged in ["what", "0x12 vision", &format!("{job} ../vision")] {
            let text = format!("{job} vision\n\n{damaged}\n");
            std::fs::write(&file, &text).unwrap();
            let failure = note(folder.path(), "vision").add(job).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            let told = format!("{:#}", failure.error);
            assert!(told.contains("line 3 names no job"), "{told}");
            assert!(failure.hint.unwrap().contains("JOB-ID PROJECT"));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        std::fs::write(&file, vec![b'\n'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(read(&file).is_err());
    }

    #[test]
    fn a_project_has_a_name_that_stands_in_a_line() {
        for (text, is_taken) in [("vision-2.1", true), ("a b", false), ("", false)] {
            assert_eq!(name(text).is_ok(), is_taken, "{text}");
        }
    }
}
