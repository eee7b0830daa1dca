//! Makes the attacked program ready under each variant.

use crate::attacking::attacker::ATTACKER;
use crate::attacking::judge::Message;
use anyhow::Context as _;
use reheap_allocators::target::Libc;
use reheap_bench::results::{AllocatorVersion, LeftOut};
use reheap_command::choice::{Choice, Hardened};
use reheap_command::ui::{self, Failure};
use reheap_subject::other_preloads;
use reheap_subject::program::Obstacle;
use reheap_variants::bench::ready::command_line;
use reheap_variants::bench::sweep::Parameters;
use reheap_variants::bench::variants::{self, OfLibc, OwnCommand, Typed};
use reheap_variants::own_program;
use reheap_workshop::preloading;
use reheap_workshop::workshop::Workshop;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The attacked program under a variant.
pub struct Target {
    pub(crate) name: String,
    pub(crate) allocator: Option<AllocatorVersion>,
    pub(crate) tuning: BTreeMap<String, String>,
    /// The program, and the arguments before the attack's name.
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) malloc_in: MallocIn,
    pub(crate) message: Message,
}

/// What malloc must be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MallocIn {
    /// A file of this name.
    File(OsString),
    /// The dynamic program's libc.
    Libc,
    /// The user's own command decides, or the program is static and was looked into.
    Anything,
}

impl MallocIn {
    /// Whether a file of this name will do.
    pub(crate) fn is(&self, file: &OsStr) -> bool {
        match self {
            Self::File(name) => name == file,
            Self::Libc => preloading::is_libc(file),
            Self::Anything => true,
        }
    }
}

/// Where figures are for those who cannot attack.
const WITHOUT_COMPILER: &str =
    "see what attacks showed when this reheap was made: `reheap list` and docs/attacks.md";

/// All variants that the user asked for, and those that cannot take part. If the user names none: each libc and each
/// allocator, preloaded and static, and glibc's own debugging.
///
/// # Errors
/// If a named variant cannot be made, or none at all.
pub fn prepare(
    typed: &[Typed],
    workshop: &Workshop,
) -> anyhow::Result<(Vec<Target>, Vec<LeftOut>)> {
    let libc = preloading::libc_of_this_system()?;
    if typed.is_empty() || typed.iter().any(is_dynamic) {
        refuse_other_preloads()?;
    }
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

fn is_dynamic(typed: &Typed) -> bool {
    matches!(typed, Typed::OfLibc(of) if of.libc != Some(Libc::Musl))
}

/// All programs would inherit a malloc in `LD_PRELOAD`, also the one that is to have the libc's own.
fn refuse_other_preloads() -> Result<(), Failure> {
    let Some(Obstacle::OtherPreload { library, .. }) = other_preloads::obstacle() else {
        return Ok(());
    };
    let library = ui::printable(library);
    let text = format!(
        "cannot attack dynamic programs: LD_PRELOAD names `{library}`, which has a malloc of its own"
    );
    let own = format!("--variant own='env LD_PRELOAD={library}'");
    let hint = format!("unset LD_PRELOAD; to attack that library: reheap attack {own}");
    Err(Failure::failed(text).hint(hint))
}

fn named(
    typed: &[Typed],
    libc: Libc,
    workshop: &Workshop,
) -> anyhow::Result<(Vec<Target>, Vec<LeftOut>)> {
    let names: Vec<String> = typed
        .iter()
        .map(|choice| variants::shown(choice, libc))
        .collect();
    variants::refuse_duplicates(&names)?;
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
        let debugging = Choice::of("stock", &["debug=full".to_owned()])?;
        let of_glibc = (each == Libc::Glibc).then_some(&debugging);
        for choice in choices.iter().chain(of_glibc) {
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
            let target = target(name, choice, preloaded.program.into());
            Ok(Target {
                malloc_in: match preloaded.malloc_in {
                    Some(file) => MallocIn::File(file),
                    None => MallocIn::Libc,
                },
                environment: [preloaded.environment, target.environment].concat(),
                ..target
            })
        }
    }
}

fn target(name: String, choice: &Choice, program: OsString) -> Target {
    let variable = choice.allocator.complaints.variable;
    Target {
        name,
        allocator: Some(AllocatorVersion {
            name: choice.allocator.name.to_owned(),
            version: choice.allocator.version.to_owned(),
        }),
        tuning: choice.tuning.as_given(),
        words: vec![program],
        environment: Vec::from_iter(variable.map(|(name, value)| (name.into(), value.into()))),
        malloc_in: MallocIn::Anything,
        message: if choice.allocator.complaints.are_last_words() {
            Message::LastWords
        } else {
            Message::Warning
        },
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
        malloc_in: MallocIn::Anything,
        message: Message::LastWords,
    })
}
