//! What the demo says at the end and leaves on disk.

use std::fmt::Write;
use tg_console::files;

use super::record::{DemoRun, VALIDATORS, conserved};
use super::screen::gallery;
use tg_console::outcome::Outcome;
use tg_console::table::{self, Table};
use tg_offline::bundled::Bundled;

/// Leaves receipts, proofs and digits.
pub(crate) fn leave(run: &DemoRun) -> Outcome {
    for (index, finished) in run.jobs.iter().enumerate() {
        let name = |folder: &str, end: &str| {
            run.folder
                .join(folder)
                .join(format!("job-{}.{end}", index + 1))
        };
        let receipt = serde_json::to_vec_pretty(&finished.inference.receipt)?;
        files::write(&name("receipts", "json"), &receipt)?;
        if let Some(proof) = &finished.inference.proof {
            files::write(&name("proofs", "bin"), &proof.file)?;
        }
        let image = files::grey_png(28, 28, &Bundled::Lenet.image(&finished.digit))?;
        files::write(&name("digits", "png"), &image)?;
    }
    Ok(())
}

/// The whole run as data.
pub(crate) fn json(run: &DemoRun) -> serde_json::Value {
    let jobs: Vec<_> = run
        .jobs
        .iter()
        .map(|finished| {
            serde_json::json!({
                "job": finished.job.id.to_string(),
                "label": finished.digit.label,
                "predicted": finished.inference.greatest(),
                "float_model": finished.float_top,
                "output": finished.inference.values,
                "proof_bytes": finished.inference.proof.as_ref().map(|proof| proof.file.len()),
                "prove_ms": finished.prove_ms,
                "verify_ms": finished.inference.proof.as_ref().map(|proof| proof.verify_ms),
                "history": finished.job.history,
                "leases": finished.job.leases,
                "settlement": finished.job.settlement,
            })
        })
        .collect();
    let rejections: Vec<_> = run
        .rejections()
        .map(|(index, lease)| {
            serde_json::json!({
                "job": run.jobs[index].job.id.to_string(),
                "provider": run.player(lease).map(|player| player.name.clone()),
                "lie": run.player(lease).and_then(|player| player.lie).map(super::cheats::Lie::describe),
                "rejection": lease.rejection,
                "slashed": lease.collateral.to_string(),
            })
        })
        .collect();
    let balances: Vec<_> = run
        .balances
        .iter()
        .map(|balance| {
            serde_json::json!({
                "account": balance.name, "before": balance.before.to_string(), "after": balance.after.to_string(),
            })
        })
        .collect();
    serde_json::json!({
        "network": "development", "validators": VALIDATORS, "providers": run.players.len(),
        "model": run.model, "models": run.models, "security_bits": run.security_bits, "zk": false,
        "jobs": jobs, "rejections": rejections, "balances": balances,
        "totals": { "before": run.totals[0], "after": run.totals[1] },
        "conserved": run.totals.iter().all(conserved),
        "blocks": run.blocks, "seconds": run.elapsed, "folder": run.folder,
        "broken_promise": run.broken_promise(),
    })
}

/// The whole run for a person.
pub(crate) fn text(run: &DemoRun) -> String {
    let mut text = String::new();
    digits(&mut text, run);
    cheats(&mut text, run);
    balances(&mut text, run);
    summary(&mut text, run);
    text
}

/// Adds a line. Writing to a string cannot fail.
fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _infallible = writeln!(text, "{arguments}");
}

fn digits(text: &mut String, run: &DemoRun) {
    for row in run.jobs.chunks(5) {
        let pictures: Vec<_> = row
            .iter()
            .map(|finished| {
                let proof = finished.inference.proof.as_ref();
                let caption = vec![
                    format!(
                        "says {}, is {}",
                        finished.inference.greatest(),
                        finished.digit.label
                    ),
                    format!("float says {}", finished.float_top),
                    format!(
                        "{} kB proof",
                        proof.map_or(0, |proof| proof.file.len() / 1_000)
                    ),
                    format!(
                        "prove {} ms",
                        finished
                            .prove_ms
                            .map_or_else(|| "?".to_owned(), |ms| ms.to_string())
                    ),
                    format!(
                        "verify {:.1} ms",
                        proof.map_or(0.0, |proof| proof.verify_ms)
                    ),
                ];
                (finished.digit.levels, caption)
            })
            .collect();
        text.push('\n');
        text.push_str(&gallery(&pictures));
    }
}

fn cheats(text: &mut String, run: &DemoRun) {
    add(
        text,
        format_args!("\ncheats (each underbid everybody honest):"),
    );
    for (index, lease) in run.rejections() {
        let Some(player) = run.player(lease) else {
            continue;
        };
        let lie = player
            .lie
            .map_or("made a mistake", super::cheats::Lie::describe);
        let check = lease
            .rejection
            .as_ref()
            .map_or("", |rejection| rejection.check.as_str());
        let finisher = run.player(&run.jobs[index].inference.receipt.lease);
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

fn balances(text: &mut String, run: &DemoRun) {
    let mut rows = Table::new(&["account", "before", "after", "change"]);
    for balance in &run.balances {
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
    let [before, after] = &run.totals;
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
            if run.totals.iter().all(conserved) {
                "yes"
            } else {
                "NO"
            }
        ),
    );
}

fn summary(text: &mut String, run: &DemoRun) {
    let right = run
        .jobs
        .iter()
        .filter(|finished| finished.inference.greatest() == usize::from(finished.digit.label))
        .count();
    let agree = run
        .jobs
        .iter()
        .filter(|finished| finished.inference.greatest() == finished.float_top)
        .count();
    let all = run.jobs.len();
    let folder = run.folder.display();
    add(
        text,
        format_args!(
            "\nsummary: {all} jobs proved, verified by {VALIDATORS} validators and here, and paid; {right}/{all} right, {agree}/{all} agree \
             with the float model;\n{} cheats slashed; >= {:.1} bits, not in zero knowledge; {} blocks; {:.1} s",
            run.rejections().count(),
            run.security_bits,
            run.blocks,
            run.elapsed
        ),
    );
    add(
        text,
        format_args!("models of the grid: {}", run.models.join(", ")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use tg_sdk::dto::TotalsDto;
    use tg_types::Amount;

    #[test]
    fn the_end_names_the_models_of_the_grid() {
        let none = TotalsDto {
            minted: Amount::ZERO,
            balances: Amount::ZERO,
            escrow: Amount::ZERO,
            stake: Amount::ZERO,
            collateral: Amount::ZERO,
            burned: Amount::ZERO,
        };
        let run = DemoRun {
            players: Vec::new(),
            jobs: Vec::new(),
            balances: Vec::new(),
            totals: [none.clone(), none],
            blocks: 1,
            elapsed: 1.0,
            model: "0x01".to_owned(),
            models: vec!["lenet-digits".to_owned(), "gpt-bytes".to_owned()],
            security_bits: 100.0,
            folder: "demo".into(),
        };
        let told = text(&run);
        assert!(
            told.contains("models of the grid: lenet-digits, gpt-bytes\n"),
            "{told}"
        );
        assert_eq!(json(&run)["models"][1], "gpt-bytes");
    }
}
