//! `tensorgrid job validate`, `submit` and `schema`: job files become the commands that they stand for.

use std::path::Path;

use serde_json::{Value, json};
use tg_sdk::dto::DryRunDto;
use tg_types::Amount;

use super::job_words::{self, Ordered};
use super::{endpoint, infer, program, write};
use crate::grid::describe::describe_why;
use crate::grid::job_args::{JobEnvArguments, JobSubmitArguments, JobValidateArguments};
use tg_console::outcome::{self, Exit, Failure, Outcome, line, say};
use tg_console::table::{Table, short};
use tg_jobfile::JOB_FILE_BYTES_MAX;
use tg_jobfile::order::{JobFile, ReadJob, given_values, read_job};
use tg_jobfile::problem::{JobNote, JobPlace, JobProblem};
use tg_jobfile::schema;

/// Prints the JSON Schema of job files.
pub(crate) fn print_schema() -> Outcome {
    Ok(outcome::json(&schema::schema())?)
}

/// Reads job files and says what they ask for, or what is wrong with them.
pub(crate) fn validate(arguments: &JobValidateArguments, as_json: bool) -> Outcome {
    let given = values(&arguments.envs)?;
    let (mut refused, mut listed) = (0, Vec::new());
    for path in &arguments.files {
        let checked = read(path, &given)?;
        refused += usize::from(checked.job.is_none());
        if as_json {
            listed.push(checked_json(path, &checked));
        } else {
            print(path, &checked)?;
        }
    }
    if as_json {
        outcome::json(&Value::Array(listed))?;
    }
    if refused == 0 {
        return Ok(());
    }
    let text = match (refused, arguments.files.as_slice()) {
        (1, [path]) => format!("{} is refused", path.display()),
        (_, files) => format!("{refused} of {} job files are refused", files.len()),
    };
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
        .hint("docs/JOBS.md has every field; `tensorgrid job schema` is for editors"))
}

/// Orders what a job file asks for.
pub(crate) async fn submit(arguments: &JobSubmitArguments, as_json: bool) -> Outcome {
    let path = &arguments.file;
    let checked = read(path, &values(&arguments.envs)?)?;
    for note in &checked.notes {
        say(note_line(path, note));
    }
    let Some((job, mut choices)) = checked.job else {
        say(problem_lines(path, &checked.problems));
        let text = format!("{} is refused; nothing was ordered", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    };
    for choice in &mut choices {
        choice.set(arguments);
    }
    let chosen = match choices.len() {
        1 => 0,
        _ => choose(&job, &choices).await?,
    };
    say(format_args!(
        "the order of: {}",
        job_words::shell(&job.words(&job.machines.alternatives[chosen]))
    ));
    match choices.swap_remove(chosen) {
        Ordered::Infer(arguments) => Box::pin(infer::run(&arguments, as_json)).await,
        Ordered::Write(arguments) => write::run(&arguments, as_json).await,
        Ordered::Program(arguments) => program::submit(&arguments, as_json).await,
        Ordered::Endpoint(arguments) => endpoint::open(&arguments, as_json).await,
    }
}

/// What the order of a choice would come to in the next block.
async fn quote(choice: &Ordered) -> Result<DryRunDto, Failure> {
    let mut choice = choice.clone();
    choice.set_dry_run();
    match choice {
        Ordered::Infer(arguments) => infer::quote(&arguments).await,
        Ordered::Write(arguments) => write::quote(&arguments).await,
        Ordered::Program(arguments) => program::quote(&arguments).await,
        Ordered::Endpoint(arguments) => endpoint::quote(&arguments).await,
    }
}

/// The alternative that is ordered: the cheapest that is offered, or of ordered ones the first.
async fn choose(job: &JobFile, choices: &[Ordered]) -> Result<usize, Failure> {
    let mut table = Table::new(&["alternative", "line", "machine", "would be charged"]);
    let mut offered: Vec<(usize, Amount)> = Vec::new();
    let mut reasons = Vec::new();
    for (index, choice) in choices.iter().enumerate() {
        let answer = quote(choice).await?;
        let charge = answer.charge;
        let place = job.machines.alternatives[index].place;
        table.row(vec![
            (index + 1).to_string(),
            place.line.to_string(),
            job_words::machine(choice),
            charge.map_or_else(|| "not offered now".to_owned(), short),
        ]);
        match charge {
            Some(charge) => offered.push((index, charge)),
            None => reasons.push(format!(
                "alternative {}: {}",
                index + 1,
                describe_why(&answer.why)
            )),
        }
        if charge.is_some() && job.machines.ordered {
            break;
        }
    }
    say(table);
    let cheapest = offered.iter().min_by_key(|(_, charge)| *charge);
    let Some((index, charge)) = cheapest else {
        say(reasons.join("\n"));
        let text = "none of the alternatives is offered now; nothing was ordered";
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
            .hint("relax an alternative, or submit again later; `tensorgrid provider list` shows the offers"));
    };
    let why = match job.machines.ordered {
        true => "the first that is offered",
        false => "the cheapest that is offered",
    };
    say(format_args!(
        "alternative {} is ordered, {why}: {} TGRID",
        index + 1,
        short(*charge)
    ));
    Ok(*index)
}

/// A job file with the commands of its alternatives.
struct CheckedJob {
    job: Option<(JobFile, Vec<Ordered>)>,
    problems: Vec<JobProblem>,
    notes: Vec<JobNote>,
}

fn values(envs: &JobEnvArguments) -> Result<Vec<(String, String)>, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    given_values(&envs.env, environment)
        .map_err(|text| Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("--env NAME=VALUE"))
}

/// Reads a file, and checks the commands that it stands for.
fn read(path: &Path, given: &[(String, String)]) -> Result<CheckedJob, Failure> {
    let bytes = read_bounded(path)?;
    let ReadJob {
        order,
        mut problems,
        notes,
    } = read_job(&bytes, given);
    let job = order.and_then(|job| match job_words::ordered(&job) {
        Ok(choices) => Some((job, choices)),
        Err(found) => {
            problems.extend(found);
            None
        }
    });
    Ok(CheckedJob {
        job,
        problems,
        notes,
    })
}

/// The bytes of a file, a byte more than is taken at most: the reader says that it is too long.
fn read_bounded(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    use tg_console::outcome::OrFail as _;
    let doing = format!("read {}", path.display());
    let limit = u64::try_from(JOB_FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let read = std::fs::File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    read.or_fail(Exit::Usage, doing)
}

fn print(path: &Path, checked: &CheckedJob) -> Outcome {
    match &checked.job {
        Some((job, choices)) => {
            line(format_args!("{}: fine", path.display()))?;
            for text in job_words::described(job, choices) {
                line(format_args!("  {text}"))?;
            }
        }
        None => say(problem_lines(path, &checked.problems)),
    }
    for note in &checked.notes {
        say(note_line(path, note));
    }
    Ok(())
}

fn problem_lines(path: &Path, problems: &[JobProblem]) -> String {
    let lines = problems.iter().map(|problem| {
        format!(
            "{}:{}: {}\n    {}",
            path.display(),
            problem.place,
            problem.text,
            problem.hint
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn note_line(path: &Path, note: &JobNote) -> String {
    format!("{}:{}: note: {}", path.display(), note.place, note.text)
}

fn checked_json(path: &Path, checked: &CheckedJob) -> Value {
    let at = |place: &JobPlace, text: &str| json!({ "line": place.line, "column": place.column, "text": text });
    let problems = checked.problems.iter().map(|it| {
        let mut value = at(&it.place, &it.text);
        value["hint"] = it.hint.clone().into();
        value
    });
    let problems: Vec<Value> = problems.collect();
    let notes: Vec<Value> = checked
        .notes
        .iter()
        .map(|it| at(&it.place, &it.text))
        .collect();
    let commands = checked.job.iter().flat_map(|(job, _)| {
        let machines = job.machines.alternatives.iter();
        machines.map(|machine| job.words(machine))
    });
    let commands: Vec<Vec<String>> = commands.collect();
    let ordered = checked
        .job
        .as_ref()
        .is_some_and(|(job, _)| job.machines.ordered);
    json!({
        "file": path.display().to_string(), "valid": checked.job.is_some(), "problems": problems, "notes": notes,
        "commands": commands, "ordered": ordered,
    })
}
