//! `cargo reheap bench`: a Rust project with each libc and each allocator, side by side.

use reheap_allocators::target::Libc;
use reheap_bench::outlook::TooSlow;
use reheap_bench::results::{LeftOut, Role};
use reheap_command::choice::{Choice, Hardened};
use reheap_static::project::Session;
use reheap_variants::bench::given::own_command;
use reheap_variants::bench::linked::Project;
use reheap_variants::bench::measure::{self, Measurement};
use reheap_variants::bench::options::MeasuringArguments;
use reheap_variants::bench::outputs::OutputArguments;
use reheap_variants::bench::ready::ReadyVariant;
use reheap_variants::bench::sweep;
use reheap_variants::bench::variants::{self, OfLibc, Typed};
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    cargo reheap bench -- --input data.txt\n  \
    cargo reheap bench --bin server --variant glibc,musl,musl+mimalloc,musl+jemalloc -- --selftest\n  \
    cargo reheap bench --variant glibc,musl+mimalloc -L threads=1,2,4 --html scaling.html -- {threads}";

#[derive(Debug, clap::Args)]
pub(crate) struct CargoBenchArguments {
    /// Any flags of `cargo build`; arguments of the program follow `--`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO FLAGS"
    )]
    cargo: Vec<OsString>,
    /// The variants to compare, the first being the baseline: glibc, musl, musl+jemalloc, glibc+jemalloc
    /// (preloaded), musl+mimalloc[purge_delay=0], or NAME=COMMAND [default: glibc, musl, what the
    /// project chooses, and musl with each allocator that is not hardened]
    #[arg(long, value_name = "VARIANT,…")]
    variant: Vec<String>,
    /// The name in reports [default: the program and its arguments]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    measuring: MeasuringArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Builds, links, measures and reports.
pub(crate) fn run(arguments: &CargoBenchArguments) -> anyhow::Result<ExitCode> {
    let typed = variants::parse(&arguments.variant)?;
    let outputs = arguments.output.check()?;
    let measuring = arguments.measuring.check()?;
    let mut asked = if typed.is_empty() { all()? } else { typed };
    let names: Vec<String> = asked.iter().map(shown).collect();
    variants::refuse_duplicates(&names)?;
    let session = Session::for_measuring(&arguments.cargo)?;
    let own = variants::words_of_own(&asked);
    sweep::refuse_unused(
        &measuring.sweep,
        session.program_arguments().iter().chain(&own),
    )?;
    let mut libcs: Vec<Libc> = asked.iter().filter_map(libc).collect();
    libcs.sort_unstable();
    libcs.dedup();
    let project = Project::build(&session, &libcs)?;
    if arguments.variant.is_empty() {
        add_own_choice(&mut asked, &project)?;
    }
    let name = arguments.name.clone().unwrap_or_else(|| match libcs[..] {
        [] => names.join(", "),
        _ => project.shown(session.program_arguments()),
    });
    let measurement = Measurement::new(measuring, name, None)?;
    let mut left_out = Vec::new();
    let mut ready = Vec::new();
    for variant in &asked {
        let prepared = prepare(variant, &project, &measurement);
        measurement.go_on()?;
        match prepared {
            Ok(variant) => {
                if ready.is_empty() {
                    measurement.begin_step(&variant, asked.len() - 1)?;
                }
                ready.push(variant);
            }
            // Nobody asked for this one by name, or there is no time for it.
            Err(reason)
                if !ready.is_empty()
                    && (arguments.variant.is_empty() || reason.is::<TooSlow>()) =>
            {
                left_out.push(LeftOut {
                    name: shown(variant),
                    reason: format!("{reason:#}"),
                })
            }
            Err(reason) => return Err(reason),
        }
    }
    ready[0].role = Role::Baseline;
    let results = measurement.run(&ready, &left_out)?;
    measure::finish(&results, &outputs)
}

/// Both libcs as they are, and the allocators that `recommend` tries in musl.
fn all() -> anyhow::Result<Vec<Typed>> {
    let stock = Choice::of("stock", &[])?;
    let mut variants = vec![of(Libc::Glibc, stock.clone()), of(Libc::Musl, stock)];
    let choices = Choice::to_try(Hardened::LeftOut)?;
    variants.extend(choices.into_iter().map(|choice| of(Libc::Musl, choice)));
    Ok(variants)
}

fn of(libc: Libc, choice: Choice) -> Typed {
    Typed::OfLibc(OfLibc {
        libc: Some(libc),
        choice,
    })
}

/// Adds what `cargo reheap build` makes, after the libcs, if it is not there already.
fn add_own_choice(variants: &mut Vec<Typed>, project: &Project<'_>) -> anyhow::Result<()> {
    let own = project.own_choice()?.map(|choice| of(Libc::Musl, choice));
    if let Some(own) = own.filter(|own| variants.iter().all(|v| shown(v) != shown(own))) {
        variants.insert(2, own);
    }
    Ok(())
}

/// The libc that has to be built for; an allocator alone goes into musl, where reheap puts them.
fn libc(variant: &Typed) -> Option<Libc> {
    match variant {
        Typed::OfLibc(variant) => Some(variant.libc.unwrap_or(Libc::Musl)),
        Typed::OwnCommand(_) => None,
    }
}

fn shown(variant: &Typed) -> String {
    variants::shown(variant, Libc::Musl)
}

fn prepare(
    variant: &Typed,
    project: &Project<'_>,
    measurement: &Measurement,
) -> anyhow::Result<ReadyVariant> {
    let OfLibc { libc, choice } = match variant {
        Typed::OwnCommand(command) => return Ok(own_command(command)),
        Typed::OfLibc(variant) => variant,
    };
    let libc = libc.unwrap_or(Libc::Musl);
    project.ready(libc, choice, measurement)
}
