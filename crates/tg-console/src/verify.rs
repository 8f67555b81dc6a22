//! `--verify`: how a result is checked.

use std::ffi::OsStr;

use clap::ValueEnum as _;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use tg_sdk::dto::ModeDto;
use tg_types::resources::GANG_MEMBERS_MAX;

/// How a result is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Verify {
    /// By a proof that every validator checks, and this command again.
    Proof,
    /// By a committee of validators drawn after the answer was committed to, which runs it again if a run takes some 30 ms at
    /// most, else computes drawn parts again: much cheaper than a proof; of drawn parts one wrong one of N is found with k/N only, so that the
    /// provider puts up twenty times the price.
    Sync,
    /// By every validator, which runs the model again: cheaper than a proof, and nothing that this command could check.
    Recompute,
    /// By one validator drawn after the answer was committed to, which runs it again; then anybody may challenge it for some seconds, and all
    /// run it again: cheaper than recompute, for runs of any kind.
    Optimistic,
    /// By comparing what several providers find that are drawn with the weight of their collateral: 3, or as many as --gang or
    /// replicate:N says. Where they differ every validator runs it again.
    Replicate,
    /// By nobody; where genesis allows it (development networks, `network new --allow-unverified`).
    None,
}

/// `--verify`: how a result is checked; of replicate with how many members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyChoice {
    /// The way of checking.
    pub verify: Verify,
    members: Option<u16>,
}

impl VerifyChoice {
    /// The mode's name in the API.
    pub const fn mode(self) -> ModeDto {
        self.verify.mode()
    }

    /// How many members run it, if that was said.
    pub const fn members(self) -> Option<u16> {
        self.members
    }

    /// A choice by its name, as in job files: `sync`, `replicate:5`.
    pub fn named(text: &str) -> Option<Self> {
        let (name, members) = match text.split_once(':') {
            None => (text, None),
            Some((name, members)) => (name, Some(members.parse::<u16>().ok()?)),
        };
        let verify = <Verify as clap::ValueEnum>::from_str(name, false).ok()?;
        let fits = members
            .is_none_or(|it| verify == Verify::Replicate && (2..=GANG_MEMBERS_MAX).contains(&it));
        fits.then_some(Self { verify, members })
    }
}

/// Reads `--verify`, and lists the names that a command takes for help and completions.
#[derive(Debug, Clone, Copy)]
pub struct VerifyParser(&'static [Verify]);

impl VerifyParser {
    /// Of runs of models.
    pub const MODELS: Self = Self(&[
        Verify::Proof,
        Verify::Sync,
        Verify::Recompute,
        Verify::Optimistic,
        Verify::Replicate,
        Verify::None,
    ]);

    /// Of runs of programs, which have no proof.
    pub const PROGRAMS: Self = Self(&[
        Verify::Sync,
        Verify::Recompute,
        Verify::Optimistic,
        Verify::Replicate,
        Verify::None,
    ]);
}

impl TypedValueParser for VerifyParser {
    type Value = VerifyChoice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<VerifyChoice, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        if let Some(choice) = VerifyChoice::named(text) {
            if self.0.contains(&choice.verify) {
                return Ok(choice);
            }
            let names = self.0.iter().filter_map(Verify::to_possible_value);
            let names: Vec<String> = names.map(|it| it.get_name().to_owned()).collect();
            let names = names.join(", ");
            let text = format!("`{text}`: not one of the ways that this command takes: {names}\n");
            return Err(clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command));
        }
        if text.starts_with("replicate:") {
            let text = format!("`{text}`: replicate:N names 2 to {GANG_MEMBERS_MAX} members\n");
            return Err(clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command));
        }
        let verify = EnumValueParser::<Verify>::new().parse_ref(command, argument, value)?;
        Ok(VerifyChoice {
            verify,
            members: None,
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = self.0.iter();
        Some(Box::new(all.filter_map(Verify::to_possible_value)))
    }
}

impl Verify {
    /// The mode's name in the API.
    pub const fn mode(self) -> ModeDto {
        match self {
            Self::Proof => ModeDto::Proof,
            Self::Recompute => ModeDto::Recompute,
            Self::Sync => ModeDto::Sync,
            Self::Optimistic => ModeDto::Optimistic,
            Self::Replicate => ModeDto::Replicate,
            Self::None => ModeDto::None,
        }
    }
}
