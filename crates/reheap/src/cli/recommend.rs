//! `reheap recommend` and `cargo reheap recommend`: a verdict in words, and the commands that apply and undo it.

mod attacked;

use reheap_allocators::target::Libc;
use reheap_bench::findings::Findings;
use reheap_bench::overview::Overview;
use reheap_bench::recommend::{self, Advice, Goal};
use reheap_bench::results::Role;
use reheap_command::choice::Choice;
use reheap_command::exit;
use reheap_command::ui::{self, Failure};
use reheap_hardening::attacking::kinds;
use reheap_report::profile::Verdict;
use reheap_static::project::Session;
use reheap_variants::bench::given::GivenProgram;
use reheap_variants::bench::linked::Project;
use reheap_variants::bench::measure::{self, Measurement};
use reheap_variants::bench::options::{Measuring, MeasuringArguments, ServerArguments};
use reheap_variants::bench::outputs::{OutputArguments, Outputs};
use reheap_variants::bench::search::{AllocatorSearch, Step};
use reheap_variants::bench::sweep;
use reheap_variants::bench::variants;
use reheap_variants::bench::write;
use reheap_variants::replaying::TraceArguments;
use reheap_workshop::workshop::{Network, Workshop};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    reheap recommend -- python3 script.py\n  \
    reheap recommend --also ./libmine.so -- python3 script.py\n  \
    reheap recommend --trace calls.rht\n  \
    reheap recommend --profile profile.json -- ./server --selftest\n  \
    reheap recommend --goal memory --budget 300 --html report.html -- ./server --selftest";
pub(crate) const CARGO_EXAMPLES: &str = "Examples:\n  \
    cargo reheap recommend -- --input data.txt\n  \
    cargo reheap recommend --goal security --bin server -- --selftest";

#[derive(Debug, clap::Args)]
pub(crate) struct RecommendArguments {
    /// The command, with work as it has every day
    #[arg(last = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    trace: TraceArguments,
    /// Begin with what this profile of the command shows, as `reheap profile -o` wrote it
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    wish: WishArguments,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CargoRecommendArguments {
    /// Any flags of `cargo build`; arguments of the program follow `--`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO FLAGS"
    )]
    cargo: Vec<OsString>,
    #[command(flatten)]
    wish: WishArguments,
}

#[derive(Debug, clap::Args)]
struct WishArguments {
    /// What counts most: speed, memory, balanced, security
    #[arg(long, value_name = "GOAL", default_value = "balanced", value_parser = goal)]
    goal: Goal,
    /// Also try this allocator, such as a file of your own: ./libmine.so
    #[arg(long, value_name = "ALLOCATOR")]
    also: Vec<String>,
    #[command(flatten)]
    measuring: MeasuringArguments,
    #[command(flatten)]
    output: OutputArguments,
}

impl WishArguments {
    fn also(&self) -> anyhow::Result<Vec<Choice>> {
        self.also
            .iter()
            .map(|name| variants::allocator(name))
            .collect()
    }
}

fn goal(text: &str) -> Result<Goal, String> {
    let names = Goal::ALL.map(Goal::name).join(", ");
    let goal = Goal::ALL.into_iter().find(|goal| goal.name() == text);
    goal.ok_or_else(|| format!("use one of: {names}"))
}

/// Recommends an allocator for a dynamic program.
pub(crate) fn run(arguments: &RecommendArguments) -> anyhow::Result<ExitCode> {
    let outputs = arguments.wish.output.check()?;
    let measuring = for_one_setting(&arguments.wish.measuring)?;
    let server = arguments.server.check()?;
    let workshop = Workshop::new(Network::AsConfigured);
    let replay = arguments.trace.prepare()?;
    let words = match (&server, &replay) {
        (Some(server), _) => server.words.clone(),
        (None, Some(replay)) => replay.words(&workshop)?,
        (None, None) => arguments.command.clone(),
    };
    if words.is_empty() {
        let failure = Failure::usage("there is no command to recommend an allocator for");
        return Err(failure.hint("reheap recommend -- COMMAND").into());
    }
    let profile = arguments.profile.as_deref();
    let verdict = profile.map(|path| verdict_of(path, &words)).transpose()?;
    let name = match &replay {
        Some(replay) => replay.name.clone(),
        None => super::bench::shown(&words, &[]),
    };
    let load = server.iter().flat_map(|server| &server.load);
    sweep::refuse_unused(&measuring.sweep, words.iter().chain(load))?;
    let measurement = Measurement::new(measuring, name, server)?;
    let program = GivenProgram::resolve(&words, &measurement, &workshop)?;
    let typed = match &replay {
        Some(replay) => of_file(&replay.plan.process.command),
        None => shell_words::join(words.iter().map(|word| word.to_string_lossy())),
    };
    let commands = Commands {
        apply: Box::new(|choice| format!("reheap run {} -- {typed}", flags(choice))),
        undo: typed.clone(),
    };
    let also = arguments.wish.also()?;
    let search = AllocatorSearch {
        source: &program,
        measurement: &measurement,
        goal: arguments.wish.goal,
        first: verdict.as_ref().and_then(to_try_first),
        also: &also,
    };
    recommend(&search, verdict.as_ref(), &commands, &outputs)
}

/// What a profile says, which must be of the program that is measured.
fn verdict_of(path: &Path, words: &[OsString]) -> anyhow::Result<Verdict> {
    let profile = super::profile::read(path)?;
    let shown = path.display();
    let file_name = |word: &OsStr| Path::new(word).file_name().map(OsStr::to_owned);
    let profiled = profile.command.first().map(OsStr::new);
    if profiled.and_then(file_name) != file_name(&words[0]) {
        let profiled = profiled.unwrap_or_default().display();
        let text = format!(
            "the profile `{shown}` is of `{profiled}`, not of `{}`",
            words[0].display()
        );
        let command = shell_words::join(words.iter().map(|word| word.to_string_lossy()));
        let hint = format!("profile the command: reheap profile -o <file> -- {command}");
        return Err(Failure::usage(text).hint(hint).into());
    }
    let is_whole_command = profile.command.iter().map(OsStr::new).eq(words);
    if !is_whole_command {
        let command = of_file(&profile.command);
        ui::note(&format!(
            "warning: the profile `{shown}` is of other arguments: {command}"
        ));
    }
    Ok(Verdict::of(&profile))
}

/// A command that a trace names: whoever made the trace chose its words.
fn of_file(command: &[String]) -> String {
    ui::printable(shell_words::join(command))
}

/// Recommends an allocator for a Rust project.
pub(crate) fn run_for_cargo(arguments: &CargoRecommendArguments) -> anyhow::Result<ExitCode> {
    let outputs = arguments.wish.output.check()?;
    let measuring = for_one_setting(&arguments.wish.measuring)?;
    let session = Session::for_measuring(&arguments.cargo)?;
    sweep::refuse_unused(&measuring.sweep, session.program_arguments().iter())?;
    let project = Project::build(&session, &[Libc::Musl, Libc::Glibc])?;
    let name = project.shown(session.program_arguments());
    let measurement = Measurement::new(measuring, name, None)?;
    let of_cargo = session.cargo_flags();
    let commands = Commands {
        apply: Box::new(|choice| format!("cargo reheap build {of_cargo} {}", flags(choice))),
        undo: format!("cargo build {of_cargo}"),
    };
    let source = project.to_recommend_for(&measurement);
    let also = arguments.wish.also()?;
    let search = AllocatorSearch {
        source: &source,
        measurement: &measurement,
        goal: arguments.wish.goal,
        first: None,
        also: &also,
    };
    recommend(&search, None, &commands, &outputs)
}

/// The flags that a user types for a choice.
fn flags(choice: &Choice) -> String {
    let mut flags = format!("-a {}", choice.allocator.name);
    for (key, value) in choice.tuning.as_given() {
        flags.push_str(&format!(" -t {key}={value}"));
    }
    flags
}

/// What a user types to apply a choice, and to undo it.
struct Commands<'a> {
    apply: Box<dyn Fn(&Choice) -> String + 'a>,
    undo: String,
}

/// The checked options. They must not ask for several comparisons.
fn for_one_setting(arguments: &MeasuringArguments) -> anyhow::Result<Measuring> {
    let measuring = arguments.check()?;
    if measuring.comparisons() > 1 {
        let failure = Failure::usage("a recommendation is for one command under one memory limit");
        return Err(failure.hint("compare several: reheap bench").into());
    }
    Ok(measuring)
}

/// snmalloc was made for blocks that other threads free: it sends them back in batches (Liétar and others, "snmalloc: A
/// Message Passing Allocator", ISMM 2019).
fn to_try_first(verdict: &Verdict) -> Option<&'static str> {
    verdict.hands_blocks_over.then_some("snmalloc")
}

fn recommend(
    search: &AllocatorSearch<'_>,
    profiled: Option<&Verdict>,
    commands: &Commands<'_>,
    outputs: &Outputs,
) -> anyhow::Result<ExitCode> {
    let found = search.run()?;
    if found.steps.is_empty() {
        return measure::finish(&found.results, outputs);
    }
    let overview = Overview::of(std::slice::from_ref(&found.results));
    write::files(&overview, outputs)?;
    // reheap drops a candidate that crashes and recommends another. If the baseline crashes, nothing is certain.
    let is_uncertain = measure::any_failed(&overview, &[Role::Baseline, Role::BaselineCopy]);
    if outputs.to_standard_output() == 0 {
        let tried = write::tried_before_last(&overview, outputs);
        let mut said = words(&overview.benchmarks, &found.steps, commands);
        if search.goal == Goal::Security {
            said.push_str(&attacked::ranking(&overview.benchmarks));
        }
        said.extend(profiled.map(of_profile));
        ui::data(&said)?;
        let last = overview.into_last();
        ui::data(&format!("\n{tried}\n{}", write::table(&last, outputs)))?;
    }
    Ok(if is_uncertain {
        ExitCode::from(exit::COMMAND_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// What the profile said, and how much there was to gain.
fn of_profile(verdict: &Verdict) -> String {
    let gain = verdict.most_to_gain().unwrap_or_default();
    let said = ui::printable(format!("{} {gain}", verdict.sentence()));
    format!("  profile    {said}\n")
}

/// The last step with enough rounds for a claim decides, because it measured again what the one before chose; if none
/// has, the last one says so.
fn decisive(benchmarks: &[Findings<'_>]) -> usize {
    let has_enough = |findings: &Findings<'_>| findings.few_rounds().is_none();
    let last = benchmarks.len() - 1;
    benchmarks.iter().rposition(has_enough).unwrap_or(last)
}

/// The verdict, what it costs, and how to apply and undo it.
fn words(benchmarks: &[Findings<'_>], steps: &[Step], commands: &Commands<'_>) -> String {
    let place = decisive(benchmarks);
    let (findings, Step { wish, choices }) = (&benchmarks[place], &steps[place]);
    let last = &benchmarks[benchmarks.len() - 1];
    let recommendation = recommend::recommend(findings, wish);
    let mut text = format!(
        "recommended for {}: {}\n",
        recommendation.goal,
        recommendation.sentence(findings.benchmark)
    );
    let mut line = |line: String| text.push_str(&format!("{line}\n"));
    for (name, failures) in &recommendation.failed {
        line(format!("  failed     {name}: {failures}"));
    }
    let undecided = last.few_rounds();
    if let Some(few) = undecided.filter(|_| place + 1 < benchmarks.len()) {
        line(format!("  tuning     {few}"));
    }
    let is_open = recommendation.lacks_data() || place + 1 < benchmarks.len();
    let more = undecided.filter(|_| is_open);
    if let Some(flag) = more.and_then(|few| few.flag_for_more(&last.results.settings)) {
        line(format!("  more data  {flag}"));
    }
    let Advice::Take(variant) = recommendation.advice else {
        return text;
    };
    let taken = &findings.benchmark.variants[variant].name;
    if let Some((_, choice)) = choices.iter().find(|(name, _)| name == taken) {
        line(format!("  hardening  {}", choice.allocator.hardening));
        if let Some(stopped) = kinds::stopped(taken) {
            line(format!("  stops      {stopped}"));
        }
        if let Some(lost) = findings
            .benchmark
            .baseline()
            .and_then(|baseline| attacked::lost(&baseline.name, taken))
        {
            line(format!("  lost       {lost}"));
        }
        line(format!("  apply      {}", (commands.apply)(choice)));
        line(format!("  undo       {}", commands.undo));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_of_others_say_does_not_reach_the_terminal() {
        let command = ["a".to_owned(), "b\u{1b}[2J\nc".to_owned()];
        assert_eq!(of_file(&command), "a 'b\\u{1b}[2J\\nc'");
        let verdict = Verdict {
            observed: vec!["in functions such as a\u{1b}[2J\nb".to_owned()],
            gain_max: None,
            is_rough: true,
            reason_to_try: None,
            replaceable_memory_functions: None,
            hands_blocks_over: false,
            advice: None,
        };
        assert_eq!(
            of_profile(&verdict),
            "  profile    In functions such as a\\u{1b}[2J\\nb. \n"
        );
    }
}
