//! Leases, reasons and receipts of jobs in lines.

use std::fmt::Display;

use tg_ir::{Program, tiles};
use tg_sdk::dto::{CheckDto, JobDto, JobReceiptDto, JobWhyDto, LeaseDto, ModeDto, SettlementDto};
use tg_types::Tier;

use tg_console::outcome::{PrintedDetail, detail, say};
use tg_console::table::{Table, brief, brief_prefix, short};
use tg_sdk::clock;

/// A lease in one line.
pub(crate) fn describe_lease(lease: &LeaseDto) -> String {
    let price = short(lease.price);
    let end = lease
        .end_text
        .clone()
        .unwrap_or_else(|| lease.state.to_string());
    let follows = match lease.lead {
        Some(lead) => format!(" (follows {})", brief(lead)),
        None => String::new(),
    };
    format!(
        "{} for {price} TGRID by {}: {end}{follows}",
        brief(lease.id),
        lease.provider
    )
}

/// The reasons in lines.
pub(crate) fn describe_why(why: &JobWhyDto) -> String {
    let mut lines = vec![format!("{} {}", why.state, why.summary)];
    if let Some(position) = why.queue_position {
        lines.push(format!("{position} jobs are before it"));
    }
    let constraints = why.constraints.iter().map(|it| {
        let offers = if it.rejected == 1 { "offer" } else { "offers" };
        format!("{} {offers}: {}", it.rejected, it.constraint)
    });
    lines.extend(constraints);
    lines.extend(why.relaxations.iter().map(|it| format!("change: {it}")));
    if let (Some(priority), Some(price)) = (why.priority_to_be_next, why.price_to_be_next) {
        lines.push(format!(
            "next with priority {priority}, for {} TGRID",
            short(price)
        ));
    }
    if let (Some(earliest), Some(latest)) = (why.eta_earliest_ms, why.eta_latest_ms) {
        lines.extend(describe_eta(clock::now().get(), earliest, latest));
    }
    if !why.offers.is_empty() {
        let mut table = Table::new(&["offer", "provider", "price", "lacks"]);
        for offer in &why.offers {
            let lacks = if offer.lacks.is_empty() {
                "nothing: it fits".to_owned()
            } else {
                offer.lacks.join("; ")
            };
            let price = offer.price.map_or_else(|| "-".to_owned(), short);
            table.row(vec![
                brief(offer.offer),
                brief(offer.provider),
                price,
                lacks,
            ]);
        }
        lines.push(table.to_string());
    }
    lines.join("\n")
}

/// When a machine may be free; nothing if one is free now.
fn describe_eta(now: u64, earliest: u64, latest: u64) -> Option<String> {
    let seconds = |at: u64| at.saturating_sub(now).div_ceil(1_000);
    let (earliest, latest) = (seconds(earliest), seconds(latest));
    (latest > 0)
        .then(|| format!("a place is free in {earliest} to {latest} s, if nobody goes before it"))
}

/// How the numbers of a tier are computed, in words.
fn arithmetic(tier: &str) -> String {
    let words = match tier {
        "TGX-1" => "exact integers",
        "TGF-1" => "floats, each sum in one order",
        _ => return tier.to_owned(),
    };
    format!("{words} ({tier})")
}

/// The word before what a proof does not do.
const fn not(does: bool) -> &'static str {
    if does { "" } else { "not " }
}

/// An id or a hash, as much of it as is asked for.
fn shown(id: impl Display, detail: PrintedDetail) -> String {
    match detail {
        PrintedDetail::Brief => brief(id),
        PrintedDetail::Full => id.to_string(),
    }
}

/// How many tiles of a run of a program the committee of mode sync executes again, where it does not run it whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DrawnTiles {
    /// How many are drawn.
    drawn: u64,
    /// Of how many.
    all: u64,
}

impl DrawnTiles {
    /// Of a program that was checked here.
    pub(crate) fn of(program: &Program) -> Self {
        Self {
            drawn: tg_proof::trace::tiles_drawn(program),
            all: tiles::count(program),
        }
    }
}

/// What is known of a result that its receipt does not say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BesideReceipt {
    /// Whether its proof, which validators accepted, is in zero knowledge.
    pub(crate) zk: Option<bool>,
    /// How much of its program's run a committee executes again.
    pub(crate) tiles: Option<DrawnTiles>,
}

/// A receipt in lines: what was paid and what shows that the result is right come first, hashes only with `--verbose`.
pub(crate) fn describe_receipt(receipt: &JobReceiptDto, beside: BesideReceipt) -> String {
    receipt_lines(receipt, beside, detail()).join("\n")
}

fn receipt_lines(
    receipt: &JobReceiptDto,
    beside: BesideReceipt,
    detail: PrintedDetail,
) -> Vec<String> {
    let mut lines = vec![
        format!("money      {}", describe_money(&receipt.settlement)),
        describe_evidence(receipt, beside, detail),
    ];
    if receipt.job.mode == ModeDto::Sync {
        let check = receipt.lease.check.as_ref();
        lines.extend(check.and_then(describe_committee));
    }
    let members = receipt.members.iter();
    lines.extend(members.map(|member| {
        format!(
            "member     {} TGRID to {}",
            short(member.price),
            shown(member.provider, detail)
        )
    }));
    // Commands take the beginning of a job's id.
    let job = match detail {
        PrintedDetail::Brief => brief_prefix(receipt.job.id),
        PrintedDetail::Full => receipt.job.id.to_string(),
    };
    lines.push(format!("job        {job}"));
    lines.push(format!(
        "provider   {}",
        shown(receipt.lease.provider, detail)
    ));
    lines.push(format!("arithmetic {}", arithmetic(&receipt.receipt.tier)));
    if detail == PrintedDetail::Full {
        lines.extend([
            format!("program    {}", receipt.receipt.program),
            format!("model      {}", receipt.receipt.model),
            format!("input      {}", receipt.receipt.input),
            format!("output     {}", receipt.receipt.output),
        ]);
    }
    lines
}

/// What shows that the result of a receipt is right.
fn describe_evidence(
    receipt: &JobReceiptDto,
    beside: BesideReceipt,
    detail: PrintedDetail,
) -> String {
    match receipt.evidence {
        Some(_) if receipt.job.mode == ModeDto::Recompute => {
            "evidence   the answer: validators ran it again".to_owned()
        }
        Some(_) if receipt.lease.run_whole => {
            let check = receipt.lease.check.as_ref();
            match check.map_or((0, 0), |it| (it.right, it.members)) {
                (0, _) => "evidence   the answer: validators ran it again".to_owned(),
                (right, members) => format!(
                    "evidence   the answer: {right} of {members} members of a committee ran it again; not a proof"
                ),
            }
        }
        Some(evidence) if receipt.job.mode == ModeDto::Sync => {
            let check = receipt.lease.check.as_ref();
            let (right, members) = check.map_or((0, 0), |it| (it.right, it.members));
            format!(
                "evidence   {}: drawn parts, found right by {right} of {members} members of a committee; \
                 not a proof\n{}",
                shown(evidence, detail),
                describe_parts(&receipt.receipt.tier, beside.tiles)
            )
        }
        Some(_) if receipt.job.mode == ModeDto::Replicate => {
            let members = receipt.members.len() + 1;
            format!("evidence   the answer: {members} drawn providers found the same; not a proof")
        }
        None if receipt.job.mode == ModeDto::Replicate => {
            "evidence   the answer: members differed, and every validator ran it again".to_owned()
        }
        Some(_) if receipt.job.mode == ModeDto::Sealed => {
            "evidence   none: input and answer are sealed, validators held the answer, and its requestor did not have it refused".to_owned()
        }
        Some(_) if receipt.job.mode == ModeDto::Optimistic => {
            let check = receipt.lease.check.as_ref();
            match check.map_or(0, |it| it.right) {
                0 => "evidence   the answer: validators ran it again".to_owned(),
                right => format!(
                    "evidence   the answer: {right} drawn validator(s) ran it again, and nobody showed that it is wrong; not a proof"
                ),
            }
        }
        Some(evidence) => {
            let evidence = shown(evidence, detail);
            match beside.zk {
                Some(zk) => format!("proof      {evidence}, {}in zero knowledge", not(zk)),
                None => format!("proof      {evidence}, not held here any more"),
            }
        }
        None => "proof      none: nobody checked this result".to_owned(),
    }
}

/// How many parts of how many a committee executed again, and with what chance it looked at what is wrong: of a program that is known here in
/// numbers, else as the mode has it.
fn describe_parts(tier: &str, tiles: Option<DrawnTiles>) -> String {
    let Some(DrawnTiles { drawn, all }) = tiles else {
        return format!(
            "parts      {}\n\
             integrity  one wrong part of the run is among the drawn ones with a chance of at least 1 in 20\n\
             effort     leaving out a share q of the run is found with 1 - (1 - q)^k, where k parts are drawn",
            drawn_parts(tier)
        );
    };
    if drawn >= all {
        return format!(
            "parts      all {all} tiles of 1 KiB\n\
             integrity  whatever tile of the run is wrong is among them\n\
             effort     whatever tile of the run is left out is among them"
        );
    }
    let looked_at = 100.0 * drawn as f64 / all as f64;
    let unseen = 100.0 - looked_at;
    // Drawn without replacement, which finds more.
    let tenth = 0.9_f64.powf(drawn as f64);
    format!(
        "parts      {drawn} drawn of {all} tiles of 1 KiB\n\
         integrity  one wrong tile of the run is among the drawn ones with a chance of {looked_at:.1} %, and accepted with {unseen:.1} %\n\
         effort     leaving out a share q of the run is accepted with at most (1 - q)^{drawn}, a tenth of it with {tenth:.1e}"
    )
}

/// How many parts of how many a committee executes again.
fn drawn_parts(tier: &str) -> &'static str {
    if tier == Tier::Tgx1.as_str() {
        "1 in 20 of the tiles of 1 KiB, at least 64; all if there are no more"
    } else {
        "4 of up to 80 sections of about equal work, 5 of 81; all if there are no more"
    }
}

/// How large the committee was, and with what chance one like it accepts what is wrong in the parts that it looks at; nothing if nobody was drawn,
/// or if it is not known of how many.
fn describe_committee(check: &CheckDto) -> Option<String> {
    let (members, seats) = (u64::from(check.members), u64::from(check.seats));
    if members == 0 || members > seats {
        return None;
    }
    let faulty = (seats - 1) / 3;
    let drawn = if members == seats {
        format!("committee  all {seats} validators")
    } else {
        format!("committee  {members} drawn of {seats} validators")
    };
    let chance = hostile_chance(members, seats);
    let wrong = if chance > 0.0 {
        // From the third drawing on all are asked.
        let of_two = 1.0 - (1.0 - chance).powi(2);
        format!(
            "at most {of_two:.1e}, if {faulty} of the validators lie and keep the honest ones from the chain for the whole vote"
        )
    } else if faulty == 0 {
        "whenever one validator lies: there are too few".to_owned()
    } else {
        format!("never while at most {faulty} of the validators lie")
    };
    Some(format!(
        "{drawn}, drawing {}\nrisk       that a committee accepts what is wrong: {wrong}",
        check.committees
    ))
}

/// The chance that more than two thirds of the members are among a third of the validators, drawn without replacement
/// (`docs/adr/0022-proof-of-sync.md`, *Silent members*).
fn hostile_chance(members: u64, seats: u64) -> f64 {
    let faulty = (seats - 1) / 3;
    let needed = 2 * members / 3 + 1;
    let ways = (needed..=members)
        .map(|hostile| binomial(faulty, hostile) * binomial(seats - faulty, members - hostile));
    ways.sum::<f64>() / binomial(seats, members)
}

/// How many subsets of `k` a set of `n` has.
fn binomial(n: u64, k: u64) -> f64 {
    if k > n {
        return 0.0;
    }
    let factors = (0..k).map(|it| (n - it) as f64 / (it + 1) as f64);
    factors.product()
}

/// Where the money of a job went: everything that was locked for it.
pub(crate) fn describe_money(settlement: &SettlementDto) -> String {
    let SettlementDto {
        price,
        members,
        verification_fee,
        refund,
        burned,
        bonus,
        compensation,
    } = settlement;
    let parts = [
        (*members, "to the other members"),
        (*bonus, "to it for its reputation"),
        (*verification_fee, "to the validators"),
        (*compensation, "to those who made room"),
        (*burned, "burned"),
    ];
    let parts = parts.iter().filter(|(amount, _)| !amount.is_zero());
    let parts = parts.map(|(amount, whom)| format!("{} {whom}", short(*amount)));
    let first = format!("{} TGRID to the provider", short(*price));
    let last = format!("{} refunded", short(*refund));
    let all: Vec<String> = std::iter::once(first).chain(parts).chain([last]).collect();
    all.join(", ")
}

/// What of a job was told already.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    steps: usize,
    ends: usize,
}

impl Shown {
    /// Tells what is new: states that were entered, leases that ended badly.
    pub(crate) fn tell(&mut self, job: &JobDto) {
        let first = job.history.first().map_or(0, |step| step.at_ms);
        for step in job.history.iter().skip(self.steps) {
            let after = step.at_ms.saturating_sub(first);
            say(format_args!("  +{after:>6} ms  {}", step.state));
        }
        self.steps = job.history.len();
        let ended = job
            .leases
            .iter()
            .filter_map(|lease| Some((lease, lease.end_text.as_ref()?)));
        let ended: Vec<_> = ended.collect();
        for (lease, end) in ended.iter().skip(self.ends) {
            say(format_args!(
                "             provider {}: {end}",
                brief(lease.provider)
            ));
        }
        self.ends = ended.len();
    }
}

#[cfg(test)]
mod tests {
    use tg_sdk::dto::CheckDto;

    use super::{DrawnTiles, describe_committee, describe_parts, hostile_chance};

    fn committee(members: u16, seats: u16) -> Option<String> {
        describe_committee(&CheckDto {
            height: 7,
            seed: None,
            stage: String::new(),
            committees: 1,
            members,
            seats,
            sealed: 0,
            right: members,
            dispute: None,
        })
    }

    /// The table of ADR 22.
    #[test]
    fn chances_are_those_of_the_table() {
        for (seats, expected) in [
            (4, "0"),
            (16, "0"),
            (33, "0"),
            (34, "1.5e-5"),
            (40, "1.0e-4"),
            (46, "2.5e-4"),
            (52, "4.2e-4"),
            (58, "6.0e-4"),
            (64, "7.7e-4"),
        ] {
            let chance = hostile_chance(seats.min(16), seats);
            let text = match chance > 0.0 {
                true => format!("{chance:.1e}"),
                false => "0".to_owned(),
            };
            assert_eq!(text, expected, "{seats}");
        }
    }

    /// A wrong acceptance is told in numbers where it is known how many parts a run has.
    #[test]
    fn drawn_parts_are_told_with_the_chance_of_a_wrong_acceptance() {
        let tiles = |drawn, all| Some(DrawnTiles { drawn, all });
        let check = |tier, tiles, expected: &[&str]| {
            let text = describe_parts(tier, tiles);
            for part in expected {
                assert!(text.contains(part), "{text}");
            }
            assert_eq!(text.lines().count(), 3, "{text}");
        };
        check("TGX-1", None, &["at least 64", "at least 1 in 20"]);
        check("TGF-1", None, &["4 of up to 80 sections"]);
        check("TGX-1", tiles(9, 9), &["all 9 tiles", "whatever tile"]);
        check(
            "TGX-1",
            tiles(64, 160),
            &[
                "64 drawn of 160 tiles",
                "with a chance of 40.0 %, and accepted with 60.0 %",
                "at most (1 - q)^64, a tenth of it with 1.2e-3",
            ],
        );
        check("TGX-1", tiles(100, 2_000), &["5.0 %", "95.0 %"]);
    }

    /// What a committee draws of a program is what a receipt says.
    #[test]
    fn tiles_of_a_program_are_counted_as_they_are_drawn() {
        let (model, _) = tg_compile::suite::Architecture::LeNet.model(1);
        let DrawnTiles { drawn, all } = DrawnTiles::of(&model.program);
        let challenge = tg_types::Digest::default();
        let draw = tg_proof::trace::tiles_of(&model.program, &challenge);
        assert_eq!(draw.len() as u64, drawn);
        assert_eq!(all, tg_ir::tiles::count(&model.program));
        assert!((1..=all).contains(&drawn));
    }

    #[test]
    fn a_committee_is_told_with_the_set_that_it_is_drawn_of() {
        let check = |members, seats, expected: &[&str]| {
            let text = committee(members, seats).unwrap_or_default();
            for part in expected {
                assert!(text.contains(part), "{text}");
            }
        };
        check(4, 4, &["all 4 validators", "never while at most 1 of"]);
        check(
            16,
            20,
            &["16 drawn of 20 validators", "never while at most 6"],
        );
        check(16, 64, &["16 drawn of 64", "at most 1.5e-3, if 21 of"]);
        check(64, 64, &["all 64", "never while at most 21"]);
        check(1, 1, &["all 1 validators", "there are too few"]);
        // Of a node that does not say how many there are.
        assert_eq!(committee(16, 0), None);
        assert_eq!(committee(0, 4), None);
    }
}
