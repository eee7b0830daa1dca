//! Makes the attacked program ready under each variant.

use crate::attacking::attacker::ATTACKER;
use crate::bench::ready::command_line;
use crate::bench::sweep::Parameters;
use crate::bench::variants::{self, OfLibc, OwnCommand, Typed};
use crate::choice::{Choice, Hardened};
use crate::own_program;
use crate::preloading;
use crate::ui::{self, Failure};
use crate::workshop::Workshop;
use anyhow::Context as _;
use reheap_allocators::target::Libc;
use reheap_bench::results::{AllocatorVersion, LeftOut};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The attacked program under a variant.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) allocator: Option<AllocatorVersion>,
    pub(crate) tuning: BTreeMap<String, String>,
    /// The program, and the arguments before the attack's name.
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The file name of what malloc must be in; `None` if anything will do.
    pub(crate) malloc_in: Option<OsString>,
}

/// Where figures are for those who cannot attack.
const WITHOUT_COMPILER: &str =
    "see what attacks showed when this reheap was made: `reheap list` and docs/attacks.md";

/// All variants that the user asked for, and those that cannot take part. If the user names none: each libc and each
/// allocator, preloaded and static.
///
/// # Errors
/// If a named variant cannot be made, or none at all.
pub(crate) fn prepare(
    typed: &[Typed],
    workshop: &Workshop,
) -> anyhow::Result<(Vec<Target>, Vec<LeftOut>)> {
    let libc = preloading::libc_of_this_system()?;
    let prepared = match typed {
        [] => all(libc, workshop),
        _ => named(typed, libc, workshop),
    };
    prepared.map_err(|error| match workshop.missing_c_compiler() {
        Some(missing) => anyhow::Error::new(missing.or(WITHOUT_COMPILER))
            .context("cannot compile the attacked program"),
        None => error,
    })
}

fn named(
    typed: &[Typed],
    libc: Libc,
    workshop: &Workshop,
) -> anyhow::Result<(Vec<Target>, Vec<LeftOut>)> {
    let names: Vec<String> = typed.iter().map(|it| variants::shown(it, libc)).collect();
    variants::refuse_twins(&names)?;
    let mut targets = Vec::new();
    for variant in typed {
        targets.push(match variant {
            Typed::OfLibc(of) => of_libc(of, libc, workshop)?,
            Typed::OwnCommand(command) => own_command(command, workshop)?,
        });
    }
    Ok((targets, Vec::new()))
}

fn all(libc: Libc, workshop: &Workshop) -> anyhow::Result<(Vec<Target>, Vec<LeftOut>)> {
    let mut choices = vec![Choice::of("stock", &[])?];
    choices.extend(Choice::to_try(Hardened::LeftOut)?);
    choices.extend(Choice::to_try(Hardened::Only)?);
    // On a system of musl, what is preloaded and what is static would have the same name.
    let libcs = match libc {
        Libc::Glibc => vec![Libc::Glibc, Libc::Musl],
        Libc::Musl => vec![Libc::Musl],
    };
    let (mut targets, mut left_out) = (Vec::new(), Vec::new());
    for each in libcs {
        for choice in &choices {
            let of = OfLibc {
                libc: Some(each),
                choice: choice.clone(),
            };
            match of_libc(&of, libc, workshop) {
                Ok(target) => targets.push(target),
                Err(reason) => left_out.push(LeftOut {
                    name: variants::name(each, choice),
                    reason: ui::printable(format!("{reason:#}")),
                }),
            }
        }
    }
    match (targets.is_empty(), left_out.first()) {
        (true, Some(LeftOut { name, reason })) => {
            let text = format!("cannot make any variant ready, such as {name}: {reason}");
            Err(Failure::failed(text).into())
        }
        _ => Ok((targets, left_out)),
    }
}

/// A variant of musl is static, as in `replay`. Others are for this system's libc, and have a preload.
fn of_libc(of: &OfLibc, libc: Libc, workshop: &Workshop) -> anyhow::Result<Target> {
    let choice = &of.choice;
    let name = variants::name(of.libc.unwrap_or(libc), choice);
    let cannot = || format!("cannot attack `{name}`");
    match of.libc {
        Some(Libc::Musl) => {
            choice.check_for_static().with_context(cannot)?;
            let (program, _) =
                own_program::linked(&ATTACKER, choice, workshop).with_context(cannot)?;
            Ok(target(name, choice, program.into()))
        }
        Some(Libc::Glibc) if libc == Libc::Musl => {
            let text = format!("cannot attack `{name}`: the programs of this system have musl");
            Err(Failure::failed(text).into())
        }
        _ => {
            let preloaded =
                own_program::preloaded(&ATTACKER, choice, workshop).with_context(cannot)?;
            Ok(Target {
                environment: preloaded.environment,
                malloc_in: preloaded.malloc_in,
                ..target(name, choice, preloaded.program.into())
            })
        }
    }
}

fn target(name: String, choice: &Choice, program: OsString) -> Target {
    Target {
        name,
        allocator: Some(AllocatorVersion {
            name: choice.allocator.name.to_owned(),
            version: choice.allocator.version.to_owned(),
        }),
        tuning: choice.tuning.as_given(),
        words: vec![program],
        environment: Vec::new(),
        malloc_in: None,
    }
}

/// The user's own command starts the program, and brings whatever allocator it wants.
fn own_command(command: &OwnCommand, workshop: &Workshop) -> anyhow::Result<Target> {
    let typed: Vec<OsString> = command.words.iter().map(OsString::from).collect();
    let started = command_line(&typed, &Parameters::default())?;
    let mut words = vec![started.program.into_os_string()];
    words.extend(started.arguments);
    words.push(own_program::dynamic(&ATTACKER, workshop)?.into());
    Ok(Target {
        name: command.name.clone(),
        allocator: None,
        tuning: BTreeMap::new(),
        words,
        environment: Vec::new(),
        malloc_in: None,
    })
}
