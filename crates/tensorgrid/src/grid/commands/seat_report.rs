//! `tensorgrid seat report`: validators that signed two certificates which contradict each other.

use std::collections::BTreeSet;

use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_ledger::Genesis;
use tg_sdk::evidence::{CertificateEvidence, EVIDENCE_MAX, equivocations, read_evidence};
use tg_sdk::{Client, jobs};
use tg_types::chain::{Equivocation, TrustRoot, VoteCertificate, VoteKind};
use tg_types::{Digest, Transaction};

use super::rent::wait_until_final;
use super::{ask_to_proceed, json_of};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::ledger_args::SeatReportArguments;
use crate::network::process::read_genesis;

/// Most bytes of a file with certificates: [`EVIDENCE_MAX`] of them, of 66 KiB each, in two digits a byte.
const FILE_BYTES_MAX: u64 = (EVIDENCE_MAX as u64) * 2 * 68 * 1_024;

/// Sets of validators that are looked at: certificates of older ones convict nobody, as their bonds are returned long before so
/// many sets have followed.
const SETS_MAX: usize = 4_096;

/// Sends one report for each validator that the certificates convict and that has something at stake.
pub(super) async fn run(arguments: &SeatReportArguments, as_json: bool) -> Outcome {
    let mut evidence = evidence_of(arguments)?;
    let genesis = read_genesis(&arguments.genesis)?;
    let client = connect::client(&arguments.api)?;
    client.pin(genesis.domain).calling("ask the grid")?;
    let contradicted = skipped(&client, &evidence).await?;
    evidence.extend(contradicted);
    let found = equivocations(&evidence, &sets(&client, &genesis).await?);
    let at_stake = at_stake(&client).await?;
    let is_at_stake = |proof: &&Equivocation| at_stake.contains(&Digest::new(proof.seat));
    let proofs: Vec<Equivocation> = found.iter().filter(is_at_stake).copied().collect();
    if proofs.is_empty() {
        let text = match found.len() {
            0 => "no two of the certificates contradict each other and have a seat in common"
                .to_owned(),
            count => format!("{count} seats signed both, and none of them has anything at stake"),
        };
        return Err(Failure::new(Exit::NotFound, anyhow::anyhow!(text)));
    }
    if !arguments.yes {
        say(format_args!(
            "{} validators lose their stake; each report costs a fee, which comes back twice",
            proofs.len()
        ));
        ask_to_proceed("nothing was reported", "--yes reports without asking")?;
    }
    let wallet = connect::wallet(&client, &arguments.key).await?;
    for proof in &proofs {
        let report = Transaction::ReportEquivocation { proof: *proof };
        let signed = jobs::submit(&client, &wallet, &report, "report a validator").await;
        let signed = signed.of_job()?;
        wait_until_final(&client, signed.id(&genesis.domain)).await?;
        if !as_json {
            line(format_args!("{} lost its stake", Digest::new(proof.seat)))?;
        }
    }
    if as_json {
        let seats = proofs.iter().map(|it| Digest::new(it.seat).to_string());
        let seats: Vec<String> = seats.collect();
        return json_of(&serde_json::json!({ "reported": seats }));
    }
    Ok(())
}

/// The certificates of all files.
fn evidence_of(arguments: &SeatReportArguments) -> Result<Vec<CertificateEvidence>, Failure> {
    let mut evidence = Vec::new();
    for path in &arguments.files {
        let doing = format!("{} has no certificates", path.display());
        let text = String::from_utf8(files::read(path, FILE_BYTES_MAX)?);
        let text = text.or_fail(Exit::Usage, doing.clone())?;
        evidence.extend(read_evidence(&text).or_fail(Exit::Usage, doing)?);
    }
    if evidence.len() > EVIDENCE_MAX {
        let text = format!("there are more than {EVIDENCE_MAX} certificates in all");
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    Ok(evidence)
}

/// The certificates by which views of finalizations were skipped, as far as the API's node keeps them: one of each view. They convict by themselves,
/// as those of files do.
async fn skipped(
    client: &Client,
    evidence: &[CertificateEvidence],
) -> Result<Vec<CertificateEvidence>, Failure> {
    let certificates = evidence.iter().map(CertificateEvidence::certificate);
    let finalizations = certificates.filter(|it| it.kind() == VoteKind::Finalize);
    let rounds: BTreeSet<(u64, u64)> = finalizations.map(VoteCertificate::round).collect();
    let mut skipped = Vec::new();
    for round in rounds {
        let kept = client.skipped_view(round).await;
        let kept = kept.calling("ask whether a view was skipped")?;
        // What is no certificate is none.
        let read = kept.map(|bytes| CertificateEvidence::new(VoteKind::Nullify, bytes));
        skipped.extend(read.and_then(Result::ok));
    }
    Ok(skipped)
}

/// Who voted, set by set, since genesis. What the API hides of it convicts nobody less than it did.
async fn sets(client: &Client, genesis: &Genesis) -> Result<Vec<TrustRoot>, Failure> {
    let root = genesis.trust_root();
    let mut root = root.or_fail(Exit::Usage, "read who votes by the genesis")?;
    let mut sets = vec![root.clone()];
    let mut above = 0;
    loop {
        let changes = client.seat_changes(above).await;
        let changes = changes.calling("ask for the sets of validators")?;
        if changes.0.is_empty() || sets.len() >= SETS_MAX {
            return Ok(sets);
        }
        for change in &changes.0 {
            let next = root.after(change);
            let (next, height) = next.or_fail(Exit::Rejected, "follow who votes")?;
            if height <= above {
                let text = "the API's changes of the validators are not in order";
                return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
            }
            (root, above) = (next, height);
            sets.push(root.clone());
        }
    }
}

/// The keys whose bond answers for votes, as the API says: who signed and is not among them has lost it, or has it back.
async fn at_stake(client: &Client) -> Result<BTreeSet<Digest>, Failure> {
    let seats = client.seats().await.calling("ask for the validators")?;
    let sitting = seats.validators.iter().map(|it| &it.bond);
    let bonds = sitting.chain(seats.unbonding.iter().map(|it| &it.bond));
    let bonds = bonds.filter(|it| !it.stake.is_zero());
    Ok(bonds.map(|it| it.key).collect())
}
