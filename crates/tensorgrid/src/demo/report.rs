//! What the demo says at the end and leaves on disk.

use std::fmt::Write;

use super::record::{Story, VALIDATORS, conserved};
use super::screen::gallery;
use crate::bundled::Bundled;
use crate::grid::table::{self, Table};
use crate::offline::files;
use crate::outcome::Outcome;

/// Leaves receipts, proofs and digits.
pub(crate) fn leave(story: &Story) -> Outcome {
    for (index, told) in story.jobs.iter().enumerate() {
        let name = |folder: &str, end: &str| {
            story
                .folder
                .join(folder)
                .join(format!("job-{}.{end}", index + 1))
        };
        let receipt = serde_json::to_vec_pretty(&told.inference.receipt)?;
        files::write(&name("receipts", "json"), &receipt)?;
        if let Some(proof) = &told.inference.proof {
            files::write(&name("proofs", "bin"), &proof.file)?;
        }
        let image = files::grey_png(28, 28, &Bundled::Lenet.image(&told.digit))?;
        files::write(&name("digits", "png"), &image)?;
    }
    Ok(())
}

/// The whole story as data.
pub(crate) fn json(story: &Story) -> serde_json::Value {
    let jobs: Vec<_> = story
        .jobs
        .iter()
        .map(|told| {
            serde_json::json!({
                "job": told.job.id.to_string(),
                "label": told.digit.label,
                "predicted": told.inference.greatest(),
                "float_model": told.float_top,
                "output": told.inference.values,
                "proof_bytes": told.inference.proof.as_ref().map(|proof| proof.file.len()),
                "prove_ms": told.prove_ms,
                "verify_ms": told.inference.proof.as_ref().map(|proof| proof.verify_ms),
                "history": told.job.history,
                "leases": told.job.leases,
                "settlement": told.job.settlement,
            })
        })
        .collect();
    let rejections: Vec<_> = story
        .rejections()
        .map(|(index, lease)| {
            serde_json::json!({
                "job": story.jobs[index].job.id.to_string(),
                "provider": story.player(lease).map(|player| player.name.clone()),
                "lie": story.player(lease).and_then(|player| player.lie).map(super::cheats::Lie::describe),
                "rejection": lease.rejection,
                "slashed": lease.collateral.to_string(),
            })
        })
        .collect();
    let balances: Vec<_> = story
        .balances
        .iter()
        .map(|balance| {
            serde_json::json!({
                "account": balance.name, "before": balance.before.to_string(), "after": balance.after.to_string(),
            })
        })
        .collect();
    serde_json::json!({
        "network": "development", "validators": VALIDATORS, "providers": story.players.len(),
        "model": story.model, "security_bits": story.security_bits, "zk": false,
        "jobs": jobs, "rejections": rejections, "balances": balances,
        "totals": { "before": story.totals[0], "after": story.totals[1] },
        "conserved": story.totals.iter().all(conserved),
        "blocks": story.blocks, "seconds": story.elapsed, "folder": story.folder,
        "broken_promise": story.broken_promise(),
    })
}

/// The whole story for a person.
pub(crate) fn text(story: &Story) -> String {
    let mut text = String::new();
    digits(&mut text, story);
    cheats(&mut text, story);
    balances(&mut text, story);
    summary(&mut text, story);
    text
}

/// Adds a line. Writing to a string cannot fail.
fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _infallible = writeln!(text, "{arguments}");
}

fn digits(text: &mut String, story: &Story) {
    for row in story.jobs.chunks(5) {
        let pictures: Vec<_> = row
            .iter()
            .map(|told| {
                let proof = told.inference.proof.as_ref();
                let caption = vec![
                    format!(
                        "says {}, is {}",
                        told.inference.greatest(),
                        told.digit.label
                    ),
                    format!("float says {}", told.float_top),
                    format!(
                        "{} kB proof",
                        proof.map_or(0, |proof| proof.file.len() / 1_000)
                    ),
                    format!(
                        "prove {} ms",
                        told.prove_ms
                            .map_or_else(|| "?".to_owned(), |ms| ms.to_string())
                    ),
                    format!(
                        "verify {:.1} ms",
                        proof.map_or(0.0, |proof| proof.verify_ms)
                    ),
                ];
                (told.digit.levels, caption)
            })
            .collect();
        text.push('\n');
        text.push_str(&gallery(&pictures));
    }
}

fn cheats(text: &mut String, story: &Story) {
    add(
        text,
        format_args!("\ncheats (each underbid everybody honest):"),
    );
    for (index, lease) in story.rejections() {
        let Some(player) = story.player(lease) else {
            continue;
        };
        let lie = player
            .lie
            .map_or("made a mistake", super::cheats::Lie::describe);
        let check = lease
            .rejection
            .as_ref()
            .map_or("", |rejection| rejection.check.as_str());
        let finisher = story.player(&story.jobs[index].inference.receipt.lease);
        add(
            text,
            format_args!(
                "  {} {lie}: rejected, {} TGRID slashed and burned",
                player.name,
                table::short(lease.collateral)
            ),
        );
        add(text, format_args!("      check that failed: {check}"));
        add(
            text,
            format_args!(
                "      job {} was finished by {}",
                index + 1,
                finisher.map_or("nobody", |it| &it.name)
            ),
        );
    }
}

fn balances(text: &mut String, story: &Story) {
    let mut rows = Table::new(&["account", "before", "after", "change"]);
    for balance in &story.balances {
        let change = match balance.after.checked_sub(balance.before) {
            Some(gain) => format!("+{}", table::short(gain)),
            None => format!(
                "-{}",
                table::short(balance.before.saturating_sub(balance.after))
            ),
        };
        rows.row(vec![
            balance.name.clone(),
            table::short(balance.before),
            table::short(balance.after),
            change,
        ]);
    }
    let [before, after] = &story.totals;
    add(
        text,
        format_args!("\nbalances in TGRID (escrow and collateral included):\n{rows}"),
    );
    add(
        text,
        format_args!(
            "minted {} before and {} after; burned {} before and {} after; sum conserved: {}",
            table::short(before.minted),
            table::short(after.minted),
            table::short(before.burned),
            table::short(after.burned),
            if story.totals.iter().all(conserved) {
                "yes"
            } else {
                "NO"
            }
        ),
    );
}

fn summary(text: &mut String, story: &Story) {
    let right = story
        .jobs
        .iter()
        .filter(|told| told.inference.greatest() == usize::from(told.digit.label))
        .count();
    let agree = story
        .jobs
        .iter()
        .filter(|told| told.inference.greatest() == told.float_top)
        .count();
    let all = story.jobs.len();
    let folder = story.folder.display();
    add(
        text,
        format_args!(
            "\nsummary: {all} jobs proved, verified by {VALIDATORS} validators and here, and paid; {right}/{all} right, {agree}/{all} agree \
             with the float model;\n{} cheats slashed; >= {:.1} bits, zk: false; {} blocks; {:.1} s",
            story.rejections().count(),
            story.security_bits,
            story.blocks,
            story.elapsed
        ),
    );
    add(
        text,
        format_args!("receipts, proofs, digits and the public model are in {folder}. Try next:"),
    );
    add(
        text,
        format_args!(
            "  tensorgrid verify {folder}/proofs/job-1.bin --model {folder}/lenet-digits.tgv --explain"
        ),
    );
    add(
        text,
        format_args!(
            "  tensorgrid verify {folder}/proofs/job-1.bin --model {folder}/lenet-digits.tgv --flip-byte 1234"
        ),
    );
    add(
        text,
        format_args!(
            "  tensorgrid up &  then  tensorgrid infer lenet-digits {folder}/digits/job-8.png"
        ),
    );
    add(
        text,
        format_args!("(`tensorgrid` is target/release/tensorgrid, or `cargo run --release --`)"),
    );
}
