//! `tensorgrid completions` and `tensorgrid man`: made of the same definition as the help.

use std::io::Write as _;
use std::path::Path;

use clap::Command;
use clap_complete::{Generator, aot};

use crate::cli::{CompletingShell, CompletionsArguments, ManArguments};
use tg_console::outcome::{Exit, OrFail as _, Outcome, line, say};

/// Prints the script that completes commands in a shell.
pub(crate) fn completions(arguments: &CompletionsArguments, command: Command) -> Outcome {
    let script = match arguments.shell {
        CompletingShell::Bash => script(aot::Bash, command),
        CompletingShell::Zsh => script(aot::Zsh, command),
        CompletingShell::Fish => script(aot::Fish, command),
        CompletingShell::PowerShell => script(aot::PowerShell, command),
        CompletingShell::Elvish => script(aot::Elvish, command),
    };
    Ok(std::io::stdout().lock().write_all(&script)?)
}

fn script(shell: impl Generator, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tensorgrid", &mut script);
    script
}

/// Writes the manual pages to a folder, or prints that of the program.
pub(crate) fn manual(arguments: &ManArguments, command: Command) -> Outcome {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(folder) = &arguments.folder else {
        return Ok(std::io::stdout().lock().write_all(&page(command)?)?);
    };
    let doing = format!("make {}", folder.display());
    std::fs::create_dir_all(folder).or_fail(Exit::Failed, doing)?;
    let mut count = 0;
    write_pages(folder, command, &mut count)?;
    line(format_args!("{count} pages in {}", folder.display()))?;
    say(format_args!(
        "next: man -l {}",
        folder.join("tensorgrid.1").display()
    ));
    Ok(())
}

fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// A page for a command and one for each that it has.
fn write_pages(folder: &Path, command: Command, count: &mut u32) -> Outcome {
    for inner in command.get_subcommands() {
        write_pages(folder, inner.clone(), count)?;
    }
    let page = clap_mangen::Man::new(command);
    let doing = format!("write {}", folder.join(page.get_filename()).display());
    page.generate_to(folder).or_fail(Exit::Failed, doing)?;
    *count += 1;
    Ok(())
}
