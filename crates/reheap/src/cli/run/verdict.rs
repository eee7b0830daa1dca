//! Whether a program will have the allocator, and what `run --check` says of that.

use reheap_allocators::catalogue::file::Misfit;
use reheap_allocators::link_kind::LinkKind;
use reheap_allocators::target::Libc;
use reheap_command::choice::Choice;
use reheap_command::env_vars;
use reheap_command::ui::{self, Failure};
use reheap_subject::limits::{self, Shortage};
use reheap_subject::other_preloads;
use reheap_subject::program::{Obstacle, Program, Remark};
use reheap_workshop::debugging;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// Whether the program will have the allocator.
pub(super) enum Verdict {
    Works(Vec<Remark>),
    /// It may fail.
    Risky {
        reasons: Vec<String>,
        way_out: Option<String>,
        remarks: Vec<Remark>,
    },
    /// reheap cannot tell.
    Unknown {
        reason: String,
        way_out: Option<String>,
    },
    Refused {
        reason: String,
        way_out: Option<String>,
    },
}

impl Verdict {
    /// Warns, or is the error.
    pub(super) fn heed(self, program: &Program, choice: &Choice) -> Result<(), Failure> {
        match self {
            Self::Works(remarks) => {
                say_what_stays(&remarks);
                Ok(())
            }
            Self::Risky {
                reasons, remarks, ..
            } => {
                for reason in reasons {
                    ui::note(&format!("warning: {reason}"));
                }
                say_what_stays(&remarks);
                Ok(())
            }
            Self::Unknown { reason, way_out } => {
                let (shown, name) = (program.route.file.display(), choice.allocator.name);
                let text = format!("cannot tell whether `{shown}` works with {name}: {reason}");
                let failure = Failure::failed(ui::printable(text));
                Err(match way_out {
                    Some(way_out) => failure.hint(way_out),
                    None => failure,
                })
            }
            Self::Refused { reason, way_out } => {
                let (shown, name) = (program.route.file.display(), choice.allocator.name);
                let text = format!("cannot run `{shown}` with {name}: {reason}");
                let failure = Failure::failed(ui::printable(text));
                Err(match way_out {
                    Some(way_out) => failure.hint(way_out),
                    None => failure,
                })
            }
        }
    }

    pub(super) fn of(program: &Program, choice: &Choice, force: bool) -> Self {
        if choice.is_stock() {
            return Self::of_stock(program, choice, force);
        }
        if let Some(misfit) = misfit(program, choice) {
            return Self::Refused {
                reason: misfit.to_string(),
                way_out: None,
            };
        }
        let obstacles = program.obstacles().into_iter();
        let obstacle = obstacles.chain(other_preloads::obstacle()).next();
        Self::given(program, choice, obstacle, force)
    }

    /// The verdict on a program with this obstacle.
    pub(super) fn given(
        program: &Program,
        choice: &Choice,
        obstacle: Option<Obstacle>,
        force: bool,
    ) -> Self {
        let shortage = match program.target() {
            Some(target) if obstacle.as_ref().is_none_or(Obstacle::is_only_risky) => {
                limits::shortage(choice.allocator, program, target.libc())
            }
            _ => None,
        };
        let way_out = shortage.as_ref().map(Shortage::way_out);
        let reason = shortage.as_ref().map(Shortage::to_string);
        if let Some(reason) = reason.clone()
            && shortage.is_some_and(|shortage| shortage.prevents_start())
        {
            return Self::Refused { reason, way_out };
        }
        match obstacle {
            Some(obstacle) if !(obstacle.is_only_risky() && force) => {
                if obstacle.is_unknown() {
                    Self::Unknown {
                        reason: obstacle.to_string(),
                        way_out: obstacle.way_out().map(str::to_owned),
                    }
                } else {
                    Self::refused(&obstacle)
                }
            }
            None if reason.is_none() => Self::Works(program.remarks().to_vec()),
            obstacle => Self::Risky {
                remarks: match obstacle {
                    Some(_) => Vec::new(),
                    None => program.remarks().to_vec(),
                },
                reasons: obstacle
                    .map(|obstacle| obstacle.to_string())
                    .into_iter()
                    .chain(reason)
                    .collect(),
                way_out,
            },
        }
    }

    /// Without options, any program works. The options are glibc's, and static programs read them too.
    fn of_stock(program: &Program, choice: &Choice, force: bool) -> Self {
        if choice.tuning.is_empty() {
            return Self::Works(Vec::new());
        }
        if let Some(privilege) = program.privilege {
            return Self::refused(&Obstacle::Privileged(privilege));
        }
        match program.target().map(|target| target.libc()) {
            Some(Libc::Glibc) => match debugging::library(choice, program) {
                Ok(library) => {
                    match debugging::blocks_from_elsewhere(program, library.as_deref()) {
                        None => Self::Works(Vec::new()),
                        Some(reason) if force => Self::Risky {
                            reasons: vec![reason],
                            way_out: None,
                            remarks: Vec::new(),
                        },
                        Some(reason) => Self::Refused {
                            reason,
                            way_out: Some("to try it anyway: reheap run --force".to_owned()),
                        },
                    }
                }
                Err(why) => Self::Refused {
                    reason: why.reason.to_owned(),
                    way_out: why.way_out.map(str::to_owned),
                },
            },
            _ => Self::Refused {
                reason: "the options of `stock` are for glibc's allocator, and it has another one"
                    .to_owned(),
                way_out: None,
            },
        }
    }

    /// Adds the risk that only root can read the cache.
    pub(super) fn with_closed_cache(self, closed: &Path) -> Self {
        let reason = format!(
            "only root can read what is in `{}`: a program that changes its user loses the allocator",
            closed.display()
        );
        let open = format!(
            "set another cache: {}=/var/cache/reheap",
            env_vars::CACHE_DIR
        );
        match self {
            Self::Works(remarks) => Self::Risky {
                reasons: vec![reason],
                way_out: Some(open),
                remarks,
            },
            Self::Risky {
                mut reasons,
                way_out,
                remarks,
            } => {
                reasons.push(reason);
                Self::Risky {
                    reasons,
                    way_out: way_out.or(Some(open)),
                    remarks,
                }
            }
            worse @ (Self::Unknown { .. } | Self::Refused { .. }) => worse,
        }
    }

    pub(super) fn remark(&mut self, remark: Option<Remark>) {
        if let Self::Works(remarks) | Self::Risky { remarks, .. } = self {
            remarks.extend(remark);
        }
    }

    pub(super) fn remarks(&self) -> &[Remark] {
        match self {
            Self::Works(remarks) | Self::Risky { remarks, .. } => remarks,
            Self::Unknown { .. } | Self::Refused { .. } => &[],
        }
    }

    pub(super) fn refused(obstacle: &Obstacle) -> Self {
        Self::Refused {
            reason: obstacle.to_string(),
            way_out: obstacle.way_out().map(|way| way.to_string()),
        }
    }
}

/// Why a file of the user's own is not for this program.
fn misfit(program: &Program, choice: &Choice) -> Option<Misfit> {
    let (file, target) = (choice.allocator.file()?, program.target()?);
    file.misfit(&target, LinkKind::Preload)
}

/// Prints only remarks that less changes than the user expects. The rest is for `--check`.
fn say_what_stays(remarks: &[Remark]) {
    for remark in remarks.iter().filter(|remark| remark.is_about_a_part()) {
        ui::note(&remark.to_string());
    }
}

/// The facts and the verdict, for `--check`.
pub(super) fn explanation(program: &Program, choice: &Choice, verdict: &Verdict) -> String {
    let identity = &program.identity;
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let value = ui::printable(value);
        let _ = writeln!(text, "{label:<10} {value}"); // writing to a String cannot fail
    };
    for script in &program.route.through {
        line("script", &script.display().to_string());
    }
    line("program", &program.route.file.display().to_string());
    line(
        "kind",
        &format!("{}, {}", identity.kind, identity.architecture),
    );
    let version = identity.libc.version.as_ref();
    let version = version.map_or_else(String::new, |version| format!(" {version}"));
    line("libc", &format!("{}{version}", identity.libc.name));
    line("malloc", &identity.malloc.reason);
    if let Some(bytes) = reserved_bytes(program, choice) {
        let reserved = limits::shown(bytes);
        let limit = limits::lowest_bytes().map_or_else(
            || "there is no limit".to_owned(),
            |limit| format!("the limit is {}", limits::shown(limit)),
        );
        line("reserves", &format!("{reserved} of address space; {limit}"));
    }
    match verdict {
        Verdict::Works(_) => line("verdict", "works"),
        Verdict::Unknown { reason, way_out } => {
            line("verdict", &format!("unknown: {reason}"));
            if let Some(way_out) = way_out {
                line("hint", way_out);
            }
        }
        Verdict::Risky {
            reasons, way_out, ..
        } => {
            line("verdict", &format!("risky: {}", reasons.join("; ")));
            if let Some(way_out) = way_out {
                line("hint", way_out);
            }
        }
        Verdict::Refused { reason, way_out } => {
            line("verdict", &format!("refused: {reason}"));
            if let Some(way_out) = way_out {
                line("hint", way_out);
            }
        }
    }
    for remark in verdict.remarks() {
        line("note", &remark.to_string());
    }
    text
}

/// The address space that the allocator would reserve in this program, where reheap has a library for it. Nobody has
/// measured that of a user's own.
fn reserved_bytes(program: &Program, choice: &Choice) -> Option<u64> {
    let libc = program.target()?.libc();
    let is_known = !choice.is_stock() && choice.allocator.file().is_none();
    Some(choice.allocator.address_space.bytes(libc)).filter(|_| is_known)
}

pub(super) fn explanation_as_json(
    program: &Program,
    choice: &Choice,
    verdict: &Verdict,
) -> serde_json::Value {
    let (word, reason, hint) = match verdict {
        Verdict::Works(_) => ("works", None, None),
        Verdict::Risky {
            reasons, way_out, ..
        } => ("risky", Some(reasons.join("; ")), way_out.clone()),
        Verdict::Unknown { reason, way_out } => ("unknown", Some(reason.clone()), way_out.clone()),
        Verdict::Refused { reason, way_out } => ("refused", Some(reason.clone()), way_out.clone()),
    };
    let identity = &program.identity;
    let notes: Vec<String> = verdict.remarks().iter().map(Remark::to_string).collect();
    json!({
        "scripts": program.route.through,
        "program": program.route.file,
        "kind": identity.kind,
        "architecture": identity.architecture,
        "libc": identity.libc.name,
        "malloc": identity.malloc.reason,
        "allocator": choice.allocator.name,
        "address_space_reserved_bytes": reserved_bytes(program, choice),
        "address_space_limit_bytes": limits::lowest_bytes(),
        "verdict": word,
        "reason": reason,
        "hint": hint,
        "notes": notes,
    })
}
