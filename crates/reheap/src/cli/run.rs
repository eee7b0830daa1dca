//! `reheap run`: one program with another allocator.
//!
//! The program takes this process over, so signals, terminal, input and exit code are its own, and nothing of reheap
//! stays. Before that, reheap finds what would make the program silently ignore the allocator, or crash.

mod mapped;
mod verdict;

use reheap_command::choice::{AllocatorArguments, Choice};
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_command::sys::handover;
use reheap_command::ui::{self, Failure};
use reheap_preload::verify::{self, Verification};
use reheap_subject::program::{NotRunnable, Obstacle, Program};
use reheap_workshop::preloading;
use reheap_workshop::workshop::{Network, Workshop};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use verdict::{Verdict, explanation, explanation_as_json};

pub(crate) const EXAMPLES: &str = "Examples:
  reheap run -a jemalloc -- java -jar app.jar
  reheap run -a mimalloc -t purge_delay=0 -- python3 train.py
  reheap run -a stock -t arena_max=2 -- ./server
  reheap run -a mimalloc -- ./static-tool
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
    if program.is_static() && !choice.is_stock() {
        return mapped::run(&program, &choice, arguments, &workshop);
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
    if !choice.is_stock() && !program.is_static() {
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
