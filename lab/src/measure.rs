//! `make bench`: everything that the README claims, with raw data, in a directory named by day and machine.
//!
//! Programs are compared by `reheap bench`, as a user would; only the baselines that reheap has nothing to do with are
//! built here.

use crate::figures;
use crate::grafts;
use crate::known::{CRATES, Known};
use crate::machine::Machine;
use crate::measurement::{self, without_places};
use crate::pages;
use crate::prerequisites;
use crate::programs::{self, Commands, Prepared, RustProgram, ServerProgram, SystemProgram};
use crate::published;
use crate::real;
use crate::scaling;
use crate::start;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// What `cargo reheap bench` compares: both libcs, preloads, the fast allocators in musl, and what each step brings.
const VARIANTS: &str = "glibc,glibc+mimalloc,glibc+jemalloc,musl,\
                        musl+mimalloc[huge_pages=allow,purge_delay=10,memory_functions=stock],\
                        musl+mimalloc[huge_pages=allow,purge_delay=10],\
                        musl+mimalloc,musl+mimalloc3,musl+jemalloc,musl+jemalloc[huge_pages=allow],\
                        musl+snmalloc,musl+rpmalloc";

/// What is preloaded into programs that nobody links again.
const PRELOADED: &str = "glibc,mimalloc,mimalloc3,mimalloc-secure,jemalloc,rpmalloc,snmalloc";

/// What protection costs: the hardened allocators beside those without, in both libcs.
const HARDENED: &str = "glibc,musl,musl+mimalloc,musl+mimalloc-secure,musl+mimalloc2-secure,\
                        musl+snmalloc-checks,musl+hardened_malloc-light,musl+hardened_malloc";
const HARDENED_PRELOADED: &str = "glibc,mimalloc,mimalloc-secure,mimalloc2-secure,snmalloc-checks,\
                                  hardened_malloc-light,hardened_malloc";
/// The programs that they are measured on.
const HARDENED_PROGRAMS: [&str; 7] = [
    "churn",
    "passwords",
    "json",
    "tokenize",
    "readers",
    "requests",
    "redis",
];

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    All,
    /// What protection costs.
    Hardened,
    /// One amount of work, on one to 32 threads.
    Scaling,
    /// What others have published, repeated.
    Published,
    /// Programs that nobody here wrote.
    Real,
    /// Released static programs, with an allocator grafted into them.
    Graft,
}

/// What takes part, and where the raw data goes.
struct Plan {
    linked: &'static str,
    crates: &'static [(&'static str, &'static str)],
    preloaded: &'static str,
    /// All, if empty.
    programs: &'static [&'static str],
    /// In the directory of the day and machine.
    directory: &'static str,
}

const ALL: Plan = Plan {
    linked: VARIANTS,
    crates: &CRATES,
    preloaded: PRELOADED,
    programs: &[],
    directory: "",
};

const ONLY_HARDENED: Plan = Plan {
    linked: HARDENED,
    crates: &[],
    preloaded: HARDENED_PRELOADED,
    programs: &HARDENED_PROGRAMS,
    directory: pages::HARDENED,
};

const ONLY_PUBLISHED: Plan = Plan {
    linked: published::LINKED,
    crates: &[],
    preloaded: published::PRELOADED,
    programs: &[],
    directory: published::DIRECTORY,
};

const ONLY_REAL: Plan = Plan {
    linked: "",
    crates: &[],
    preloaded: "",
    programs: &[],
    directory: real::DIRECTORY,
};

const ONLY_GRAFT: Plan = Plan {
    linked: "",
    crates: &[],
    preloaded: "",
    programs: &[],
    directory: grafts::DIRECTORY,
};

const ONLY_SCALING: Plan = Plan {
    linked: scaling::VARIANTS,
    crates: &[],
    preloaded: "",
    programs: &[],
    directory: scaling::DIRECTORY,
};

/// Measures and writes the directory. With names, only these programs.
pub(crate) fn run(
    workspace: &Workspace,
    rounds: usize,
    machine_name: Option<String>,
    subject: Subject,
    only: &[String],
) -> Result<()> {
    let plan = match subject {
        Subject::All => &ALL,
        Subject::Hardened => &ONLY_HARDENED,
        Subject::Scaling => &ONLY_SCALING,
        Subject::Published => &ONLY_PUBLISHED,
        Subject::Real => &ONLY_REAL,
        Subject::Graft => &ONLY_GRAFT,
    };
    let progress = Progress::start();
    let machine = Machine::describe()?;
    workspace.build_reheap(&progress)?;
    prerequisites::install_missing(workspace, &progress)?;
    prerequisites::install_cxx(workspace, &progress);
    let directory = measurement::directory(workspace, &machine, machine_name);
    let raw = directory.join(plan.directory);
    files::make_directory(&raw)?;
    let known = match subject {
        Subject::All | Subject::Published | Subject::Real => Known::prepare(workspace, &progress)?,
        Subject::Hardened | Subject::Scaling | Subject::Graft => Known::default(),
    };
    let measuring = Measuring {
        workspace,
        plan,
        known: &known,
        progress: &progress,
        directory: &raw,
        rounds,
    };
    let is_chosen = |name: &str| {
        (only.is_empty() || only.iter().any(|chosen| chosen == name))
            && (plan.programs.is_empty() || plan.programs.contains(&name))
    };
    let mut prepared = match subject {
        Subject::Scaling => Prepared::of_rust(scaling::programs(workspace)),
        Subject::Published => published::prepare(workspace, &progress, &known, is_chosen)?,
        Subject::Real => real::prepare(workspace, &progress, &known, is_chosen)?,
        Subject::Graft => grafts::prepare(workspace, &progress, is_chosen)?,
        Subject::All | Subject::Hardened => programs::prepare(workspace, &progress)?,
    };
    prepared.rust.retain(|program| is_chosen(program.name));
    prepared.system.retain(|program| is_chosen(program.name));
    prepared
        .commands
        .retain(|commands| is_chosen(commands.name));
    prepared.servers.retain(|program| is_chosen(program.name));
    for program in &prepared.rust {
        measuring.rust(program)?;
    }
    for program in &prepared.system {
        measuring.system(program)?;
    }
    for commands in &prepared.commands {
        measuring.commands(commands)?;
    }
    for program in &prepared.servers {
        measuring.server(program)?;
    }
    for left_out in known.left_out.iter().chain(&prepared.left_out) {
        progress.say(format!("left out: {}: {}", left_out.name, left_out.reason));
    }
    if subject == Subject::All && is_chosen("figures") {
        let figures = figures::measure(workspace, &progress)?;
        files::write(directory.join("figures.json"), files::json(&figures)?)?;
    }
    if subject == Subject::Graft && is_chosen("start") {
        files::write(
            raw.join(start::RAW),
            start::of_grafts(workspace, &progress)?,
        )?;
    }
    pages::write(workspace, &directory)?;
    progress.say(format!("written to `{}`", directory.display()));
    Ok(())
}

struct Measuring<'a> {
    workspace: &'a Workspace,
    plan: &'a Plan,
    known: &'a Known,
    progress: &'a Progress,
    directory: &'a Path,
    rounds: usize,
}

impl Measuring<'_> {
    fn rust(&self, program: &RustProgram) -> Result<()> {
        let mut command = self.workspace.cargo_reheap();
        command.args(["bench", "--name", program.name]);
        command.args(["--variant", self.plan.linked]);
        with_values(&mut command, "--variant", program.variants);
        for (name, feature) in self.plan.crates {
            let built = program.build_with_feature(self.workspace, self.progress, feature)?;
            let words = program.arguments.join(" ");
            let variant = format!("{name}={} {words}", built.display());
            command.args(["--variant", &variant]);
        }
        let known = self.known.linked(self.workspace, self.progress, program)?;
        let words = program.arguments.join(" ");
        for (name, linked) in known {
            command.args(["--variant", &format!("{name}={linked} {words}")]);
        }
        if let Some(sweep) = program.sweep {
            command.args(["-L", sweep]);
        }
        with_values(&mut command, "--metric", program.metrics);
        command.envs(program.environment.iter().copied());
        command.args(program.cargo_flags(self.workspace));
        self.measure(program.name, &mut command, &program.arguments)
    }

    fn system(&self, program: &SystemProgram) -> Result<()> {
        let mut command = self.workspace.reheap();
        command.args(["bench", "--name", program.name]);
        command.args(["--variant", self.plan.preloaded]);
        self.with_preloads(&mut command, &program.words.join(" "));
        command.envs(program.environment.iter().cloned());
        self.measure(program.name, &mut command, &program.words)
    }

    fn commands(&self, commands: &Commands) -> Result<()> {
        let mut command = self.workspace.reheap();
        command.args(["bench", "--name", commands.name]);
        with_values(&mut command, "--variant", &commands.variants);
        if commands.output_varies {
            command.arg("--ignore-output");
        }
        command.envs(commands.environment.iter().cloned());
        self.measure(commands.name, &mut command, &[])
    }

    fn server(&self, program: &ServerProgram) -> Result<()> {
        let mut command = self.workspace.reheap();
        command.args(["bench", "--name", program.name]);
        command.args(["--variant", self.plan.preloaded]);
        command.args(["--server", program.server]);
        command.args([
            "--ready-port",
            &program.ready_port.to_string(),
            "--load",
            program.load,
        ]);
        with_values(&mut command, "--metric", program.metrics);
        self.with_preloads(&mut command, program.server);
        self.measure(program.name, &mut command, &[])
    }

    fn with_preloads(&self, command: &mut Command, words: &str) {
        for (name, words) in self.known.preloaded(words) {
            command.args(["--variant", &format!("{name}={words}")]);
        }
    }

    fn measure(&self, name: &str, command: &mut Command, words: &[String]) -> Result<()> {
        let file = self.directory.join(format!("{name}.json"));
        command.args(["--rounds", &self.rounds.to_string(), "--json"]);
        command.arg(&file);
        if !words.is_empty() {
            command.arg("--").args(words);
        }
        self.progress.step(&format!("measuring {name}"), command)?;
        let text = files::read(&file)?;
        files::write(&file, without_places(self.workspace, &text))
    }
}

/// Gives a command each value behind the flag.
fn with_values(command: &mut Command, flag: &str, values: &[impl AsRef<str>]) {
    for value in values {
        command.args([flag, value.as_ref()]);
    }
}
