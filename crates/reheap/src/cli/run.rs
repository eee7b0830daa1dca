//! `reheap run`: one dynamic program with another allocator.
//!
//! The program takes this process over, so signals, terminal, input and exit code are its own, and nothing of reheap
//! stays. Before that, reheap finds what would make the program silently ignore the allocator, or crash.

use reheap_allocators::catalogue::file::Misfit;
use reheap_allocators::link_kind::LinkKind;
use reheap_allocators::target::Libc;
use reheap_command::choice::{AllocatorArguments, Choice};
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_command::sys::handover;
use reheap_command::ui::{self, Failure};
use reheap_preload::verify::{self, Verification};
use reheap_subject::limits::{self, Shortage};
use reheap_subject::other_preloads;
use reheap_subject::program::{NotRunnable, Obstacle, Program, Remark};
use reheap_workshop::debugging;
use reheap_workshop::preloading;
use reheap_workshop::workshop::{Network, Workshop};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap run -a jemalloc -- java -jar app.jar
  reheap run -a mimalloc -t purge_delay=0 -- python3 train.py
  reheap run -a stock -t arena_max=2 -- ./server
  reheap run -a ./libmine.so -- ./server
  reheap run -a system:libtcmalloc_minimal.so.4 -- ./server
  reheap run --check -- ./server
  reheap run --verify -a jemalloc -- ./server
  reheap run --only postgres -- ./start-everything.sh";

/// Long enough for most programs to reach their real work, and short enough to wait for.
const VERIFY_FOR: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    allocator: AllocatorArguments,
    /// Run a program that has an allocator of its own
    #[arg(long)]
    force: bool,
    /// Say whether the allocator would work, and run nothing
    #[arg(long)]
    check: bool,
    /// Run the program for a few seconds, and say whether its memory comes from the allocator and whether
    /// anything crashes only with the allocator; discards its standard output
    #[arg(long, conflicts_with = "check")]
    verify: bool,
    /// Watch for this long, with --verify [default: 5]
    #[arg(long = "for", value_name = "SECONDS", requires = "verify", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Change only this program of all that the command starts: a file name or a path
    #[arg(long, value_name = "PROGRAM", conflicts_with = "verify")]
    only: Option<OsString>,
    /// Keep the flag RTLD_DEEPBIND when the program opens a library, which then uses glibc's malloc;
    /// without this option, the preload removes the flag
    #[arg(long)]
    keep_deepbind: bool,
    /// Print what --check or --verify found as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunArguments {
    /// The variable that tells the preload to keep RTLD_DEEPBIND, if the user asks for that.
    fn deepbind(&self) -> Option<(OsString, OsString)> {
        let variable = || (env_vars::KEEP_DEEPBIND.into(), "1".into());
        self.keep_deepbind.then(variable)
    }
}

/// Becomes the program, unless something is in the way.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    if arguments.json && !arguments.check && !arguments.verify {
        let text = "--json needs --check or --verify";
        return Err(Failure::usage(text).into());
    }
    let choice = arguments.allocator.check()?;
    let workshop = Workshop::new(Network::AsConfigured);
    let program = Program::to_run(&arguments.command[0])?;
    if let Some(only) = &arguments.only {
        return run_for_only(&program, &choice, only, arguments, &workshop);
    }
    let mut verdict = Verdict::of(&program, &choice, arguments.force);
    if !choice.is_stock()
        && let Some(closed) = preloading::closed_to_others(&workshop)?
    {
        verdict = verdict.with_closed_cache(&closed);
    }
    if arguments.check {
        return check(&program, &choice, verdict, arguments);
    }
    verdict.heed(&program, &choice)?;
    if arguments.verify {
        return prove(&program, &choice, arguments, &workshop);
    }
    let library = preloading::library(&choice, &program, &workshop)?;
    let mut environment = preloading::environment(&choice, library.as_deref());
    environment.extend(arguments.deepbind());
    become_program(&program, &arguments.command, &environment)
}

/// Says what would happen, for `--check`.
fn check(
    program: &Program,
    choice: &Choice,
    mut verdict: Verdict,
    arguments: &RunArguments,
) -> anyhow::Result<ExitCode> {
    if !choice.is_stock() {
        verdict.remark(program.takes_no_malloc());
    }
    ui::data(&if arguments.json {
        format!("{:#}\n", explanation_as_json(program, choice, &verdict))
    } else {
        explanation(program, choice, &verdict)
    })?;
    Ok(ExitCode::from(match verdict {
        Verdict::Works(_) | Verdict::Risky { .. } => 0,
        Verdict::Refused { .. } => exit::FAILED,
        Verdict::Unknown { .. } => exit::UNKNOWN,
    }))
}

/// The command itself keeps the libc's allocator, so an allocator of its own does no harm.
fn run_for_only(
    program: &Program,
    choice: &Choice,
    only: &OsStr,
    arguments: &RunArguments,
    workshop: &Workshop,
) -> anyhow::Result<ExitCode> {
    if choice.is_stock() {
        let text = "cannot use --only with `stock`: it is not a library";
        return Err(Failure::usage(text).into());
    }
    let is_in_the_way = |obstacle: &Obstacle| !obstacle.is_only_risky();
    if let Some(obstacle) = program.obstacles().into_iter().find(is_in_the_way) {
        let verdict = Verdict::refused(&obstacle);
        if arguments.check {
            return check(program, choice, verdict, arguments);
        }
        verdict.heed(program, choice)?;
    }
    let mut only = only.to_owned();
    let is_path = only.as_encoded_bytes().contains(&b'/');
    match Program::resolve(&only) {
        Ok(named) if is_path || named.route.through.is_empty() => {
            can_be_the_only_one(&named, program)?;
            let verdict = Verdict::of(&named, choice, arguments.force);
            if arguments.check {
                return check(&named, choice, verdict, arguments);
            }
            verdict.heed(&named, choice)?;
            // A process knows its file by the path without links.
            if is_path {
                only = fs::canonicalize(&named.route.file)?.into();
            }
        }
        // The command may create it first, or know a directory that PATH does not name, or the script starts it.
        unseen => {
            let reason = why_nobody_may_get_it(&only, &unseen, choice);
            if arguments.check {
                let verdict = Verdict::Unknown {
                    reason,
                    way_out: Some(NAME_ITS_PATH.to_owned()),
                };
                return check(program, choice, verdict, arguments);
            }
            ui::note(&format!("warning: {reason}"));
        }
    }
    let mut environment = preloading::environment_for_only(choice, program, &only, workshop)?;
    environment.extend(arguments.deepbind());
    become_program(program, &arguments.command, &environment)
}

const NAME_ITS_PATH: &str = "if the program already exists, give its path: --only <path>";

fn why_nobody_may_get_it(
    only: &OsStr,
    unseen: &anyhow::Result<Program>,
    choice: &Choice,
) -> String {
    let (shown, name) = (only.display(), choice.allocator.name);
    let is_path = only.as_encoded_bytes().contains(&b'/');
    let reason = match unseen {
        Ok(script) => format!("`{}` is a script", script.route.typed().display()),
        Err(error) => match error.downcast_ref() {
            Some(NotRunnable::NotFound(_)) if is_path => format!("there is no `{shown}`"),
            Some(NotRunnable::NotFound(_)) => format!("`{shown}` is not in PATH"),
            Some(NotRunnable::NotExecutable(file)) => {
                format!("`{}` is not an executable file", file.display())
            }
            _ => format!("{error:#}"),
        },
    };
    let unless = if is_path {
        "unless the command creates it"
    } else {
        "unless the command finds such a program elsewhere"
    };
    format!("{reason}, so no program will have {name} {unless}")
}

/// Refuses programs that would silently get nothing: a script, which is never a process's program, and a program with
/// another libc.
fn can_be_the_only_one(named: &Program, command: &Program) -> Result<(), Failure> {
    let file = &named.route.file;
    let shown = file.display();
    if let Some(script) = named.route.through.first() {
        let text = format!(
            "`{}` is a script, not a program: name the program that it starts",
            script.display()
        );
        let failure = Failure::usage(text);
        // Another one's name says that it only reads the script, and the program that is meant comes later.
        return Err(if file.file_name() == script.file_name() {
            failure.hint(format!("--only {shown}"))
        } else {
            failure
        });
    }
    if let (Some(of_named), Some(of_command)) = (named.target(), command.target())
        && of_named.libc() != of_command.libc()
    {
        let command = command.route.file.display();
        let text = format!("`{shown}` has another libc than `{command}`, which starts it");
        return Err(Failure::failed(text));
    }
    Ok(())
}

fn prove(
    program: &Program,
    choice: &Choice,
    arguments: &RunArguments,
    workshop: &Workshop,
) -> anyhow::Result<ExitCode> {
    if choice.is_stock() {
        let text = "cannot verify `stock`: it is not a library";
        return Err(Failure::usage(text).into());
    }
    let finding = verify::verify(&Verification {
        program,
        choice,
        workshop,
        variables: arguments.deepbind(),
        command: &arguments.command,
        time: arguments.seconds.unwrap_or(VERIFY_FOR),
    })?;
    let failure = finding.failure();
    if arguments.json {
        ui::data(&format!("{}\n", serde_json::to_string_pretty(&finding)?))?;
    } else if failure.is_none() {
        ui::data(&finding.lines())?;
    }
    failure.map_or(Ok(ExitCode::SUCCESS), |failure| Err(failure.into()))
}

/// A time on the command line.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| "it is not a number".to_owned())?;
    let time = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
    if time.is_zero() {
        Err("it must be more than 0".to_owned())
    } else {
        Ok(time)
    }
}

/// Whether the program will have the allocator.
enum Verdict {
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
    fn heed(self, program: &Program, choice: &Choice) -> Result<(), Failure> {
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

    fn of(program: &Program, choice: &Choice, force: bool) -> Self {
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
    fn with_closed_cache(self, closed: &Path) -> Self {
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

    fn remark(&mut self, remark: Option<Remark>) {
        if let Self::Works(remarks) | Self::Risky { remarks, .. } = self {
            remarks.extend(remark);
        }
    }

    fn remarks(&self) -> &[Remark] {
        match self {
            Self::Works(remarks) | Self::Risky { remarks, .. } => remarks,
            Self::Unknown { .. } | Self::Refused { .. } => &[],
        }
    }

    fn refused(obstacle: &Obstacle) -> Self {
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
fn explanation(program: &Program, choice: &Choice, verdict: &Verdict) -> String {
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

fn explanation_as_json(program: &Program, choice: &Choice, verdict: &Verdict) -> serde_json::Value {
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

fn become_program(
    program: &Program,
    command: &[OsString],
    environment: &[(OsString, OsString)],
) -> anyhow::Result<ExitCode> {
    let (file, arguments) = program.route.words(command);
    let error = handover::become_program(file, &arguments, environment);
    let code = match error.kind() {
        io::ErrorKind::NotFound => 127, // the interpreter that the file names
        _ => 126,
    };
    let text = format!("cannot run `{}`: {error}", file.display());
    Err(Failure::failed(ui::printable(text)).code(code).into())
}
