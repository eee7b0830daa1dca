//! `reheap enable`: gives every dynamic program of a system another allocator, tested before and after it takes effect.

use anyhow::Context as _;
use reheap_allocators::canary;
use reheap_allocators::target::Libc;
use reheap_command::choice::{AllocatorName, Choice, TuningArguments};
use reheap_command::interrupt;
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_preload::system::canary::{BroughtBy, Canaries, DEADLINE};
use reheap_preload::system::census::{self, Census};
use reheap_preload::system::change::{self, Change, Interrupted};
use reheap_preload::system::disk::Disk;
use reheap_preload::system::libraries::{Libraries, Library};
use reheap_preload::system::root::{Linker, Root};
use reheap_preload::system::state::{self, Record, Wanted};
use reheap_preload::system::{PROFILE_DIRECTORY, PROFILE_SCRIPT};
use reheap_subject::preload_files::{LD_SO_PRELOAD, LIBRARIES};
use reheap_workshop::workshop::{Network, Workshop};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// What to use instead of a plain allocator: it stops no fewer attacks than the libc's own does.
const HARDENED: &str = "hardened_malloc-light";

pub(crate) const EXAMPLES: &str = "\
glibc: /etc/ld.so.preload names the library. musl: a script in /etc/profile.d sets LD_PRELOAD for
new login sessions. The libraries are in /usr/local/lib/reheap, with the options built in.

Examples:
  sudo reheap enable mimalloc
  sudo reheap enable jemalloc -t narenas=2
  reheap enable mimalloc --root ./image --verbose
  sudo reheap disable";

#[derive(Debug, clap::Args)]
pub(crate) struct EnableArguments {
    /// The allocator; it replaces that of an earlier `enable`
    #[arg(value_name = "ALLOCATOR", value_parser = AllocatorName::Another, hide_possible_values = true)]
    allocator: String,
    #[command(flatten)]
    tuning: TuningArguments,
    /// The root directory of another system, such as an image that you make; reheap tries the
    /// library there, with that system's programs
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Also print what reheap tried, which programs have the library, and which do not
    #[arg(short, long)]
    verbose: bool,
}

impl EnableArguments {
    /// These arguments for the running system, as the user types them after `reheap`.
    fn for_this_system(&self) -> String {
        let options = self
            .tuning
            .options
            .iter()
            .map(|option| format!(" -t {option}"));
        format!("enable {}{}", self.allocator, options.collect::<String>())
    }
}

/// Builds the libraries, tests them, puts them in place, and checks that they work.
pub(crate) fn run(arguments: &EnableArguments) -> anyhow::Result<ExitCode> {
    let choice = Choice::of(&arguments.allocator, &arguments.tuning.options)?;
    if choice.is_stock() {
        let text = "`stock` is what a system has without reheap";
        let hint = disable_command(arguments.root.as_deref());
        return Err(Failure::usage(text).hint(hint).into());
    }
    if choice.allocator.file().is_some() {
        let name = choice.allocator.name;
        let text = format!(
            "cannot enable `{name}`: a whole system gets only allocators that reheap builds"
        );
        let hint = format!("to give it to one program: reheap run -a {name}");
        return Err(Failure::usage(text).hint(hint).into());
    }
    let root = writable_root(arguments.root.as_deref(), &arguments.for_this_system())?;
    let (linkers, others) = root.linkers();
    check_linkers(&root, &linkers, &others)?;
    for directory in ["/etc", LIBRARIES] {
        root.check_entry(directory)?;
    }
    let libraries = build(&choice, &linkers)?;
    for libc in libraries.libcs() {
        root.check_entry(&libraries.directory_of(libc))?; // it may be there already
    }
    let libcs: Vec<Libc> = libraries.libcs().collect();
    let census = pulse::while_spinning("looking for programs with allocators of their own", || {
        census::take(&root, &libcs)
    });

    let _lock = lock(&root)?;
    let disk = Disk::new(&root);
    mend(&disk)?;
    let record = Record::read(&root)?;
    let wanted = Wanted {
        allocator: choice.allocator.name,
        version: choice.allocator.version,
        tuning: choice.tuning.as_given(),
        libraries: &libraries,
    };
    let name = format!("{} {}", wanted.allocator, wanted.version);
    let Some(change) = state::to_enable(&disk, record.as_ref(), &wanted)? else {
        ui::note(&format!("{name} is already enabled"));
        tell_image(arguments.root.as_deref(), &libraries)?;
        return Ok(ExitCode::SUCCESS);
    };
    let canaries = CanaryRuns {
        root: &root,
        linkers: &linkers,
        libraries: &libraries,
    };
    let seen = make(&change, &disk, &canaries).with_context(|| format!("cannot enable {name}"))?;
    let enabled = Enabled {
        root: &root,
        image: arguments.root.as_deref(),
        libraries: &libraries,
        choice: &choice,
        name,
        seen,
        census,
        others,
    };
    ui::note(&enabled.summary());
    enabled
        .warnings()
        .iter()
        .for_each(|text| ui::note(&format!("warning: {text}")));
    if arguments.verbose {
        enabled.details().iter().for_each(|text| ui::note(text));
    }
    tell_image(arguments.root.as_deref(), &libraries)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct CanaryResults {
    /// Which canaries passed before anything else loaded the libraries, for each libc.
    before: Vec<String>,
    /// Whether canaries could test what the files do.
    is_effect_seen: bool,
}

/// Ctrl-C is an error like others here: reheap undoes what it did.
fn make(change: &Change, disk: &Disk, canaries: &CanaryRuns) -> anyhow::Result<CanaryResults> {
    let interrupted = interrupt::on_signals()?;
    let go_on = || {
        if interrupted.load(Ordering::Relaxed) {
            Err(interrupt::failure("interrupted"))
        } else {
            Ok(())
        }
    };
    let mut seen = CanaryResults::default();
    let missing = disk.missing_directories(LIBRARIES);
    let cleaned = change.make(
        disk,
        || {
            missing
                .iter()
                .try_for_each(|directory| disk.make_directory(directory))?;
            canaries.libraries.write(disk)?;
            seen.before = canaries.before()?;
            Ok(go_on()?)
        },
        || {
            seen.is_effect_seen = canaries.after()?;
            canaries.libraries.delete_canaries(disk)?;
            Ok(go_on()?)
        },
    )?;
    warn(cleaned);
    Ok(seen)
}

/// The root directory, if reheap may write to it and can trust its contents. `command` is what to type after `reheap`
/// for this system.
pub(crate) fn writable_root(directory: Option<&Path>, command: &str) -> anyhow::Result<Root> {
    let root = Root::of(directory, &format!("reheap {command}"))?;
    if root.is_this_system() && !rustix::process::geteuid().is_root() {
        let verb = command.split(' ').next().unwrap_or_default();
        let text = format!("cannot {verb} without root: this changes every program of the system");
        let hint = format!("sudo reheap {command}; for an image: --root <directory>");
        return Err(Failure::failed(text).hint(hint).into());
    }
    for directory in ["/etc", LIBRARIES, PROFILE_DIRECTORY] {
        root.check_owners(directory)?;
    }
    Ok(root)
}

/// Locks out other commands. The lock ends with this process, however it ends.
pub(crate) fn lock(root: &Root) -> anyhow::Result<fs::File> {
    let directory = root.open_directory("/etc");
    let cannot = || format!("cannot lock `/etc` below `{}`", root.directory().display());
    let directory = directory.with_context(cannot)?;
    directory.lock().with_context(cannot)?;
    Ok(directory)
}

/// Cleans up after an interrupted command.
pub(crate) fn mend(disk: &Disk) -> anyhow::Result<()> {
    let found = change::recover(disk).context("cannot clean up after an interrupted command")?;
    match found {
        Ok(Some(Interrupted::Before)) => ui::note("undid an interrupted change"),
        Ok(Some(Interrupted::After)) => ui::note("deleted the files of an interrupted command"),
        Ok(None) => {}
        Err(error) => warn(Err(error)),
    }
    Ok(())
}

/// Files that reheap could not delete do no harm, and the next command tries again.
pub(crate) fn warn(cleaned: anyhow::Result<()>) {
    if let Err(error) = cleaned {
        ui::note(&format!(
            "warning: {error:#} (no program loads it; the next `enable` or `disable` deletes it)"
        ));
    }
}

fn check_linkers(root: &Root, linkers: &[Linker], others: &[Linker]) -> anyhow::Result<()> {
    if !linkers.is_empty() {
        return Ok(());
    }
    let shown = root.directory().display();
    Err(match others.first() {
        Some(other) => {
            let (theirs, ours) = (other.architecture, std::env::consts::ARCH);
            let text = format!(
                "cannot enable an allocator in `{shown}`: its programs are for {theirs}, and reheap cannot test them \
                 on {ours}"
            );
            Failure::failed(text).hint(format!("run reheap on a machine for {theirs}"))
        }
        None => Failure::failed(format!(
            "cannot enable an allocator in `{shown}`: it has no dynamic linker of glibc or musl, so it has no \
             dynamic programs"
        )),
    }
    .into())
}

fn build(choice: &Choice, linkers: &[Linker]) -> anyhow::Result<Libraries> {
    let workshop = Workshop::new(Network::AsConfigured);
    let mut libraries = Vec::new();
    for linker in linkers {
        let target = linker.target().context("it is for another processor")?;
        let read = |path: PathBuf| {
            fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
        };
        libraries.push(Library {
            libc: linker.libc,
            bytes: workshop.tuned_preload(choice, &target)?,
            canary: read(workshop.own_library(&canary::LIBRARY, &target)?)?,
        });
    }
    let allocator = choice.allocator;
    Ok(Libraries::new(allocator.name, allocator.version, libraries))
}

/// Starts the canaries of all libcs.
struct CanaryRuns<'a> {
    root: &'a Root,
    linkers: &'a [Linker],
    libraries: &'a Libraries,
}

impl CanaryRuns<'_> {
    fn run(&self, linker: Linker, by: BroughtBy) -> anyhow::Result<Option<Vec<String>>> {
        let (library, own) = (
            self.libraries.file(linker.libc),
            self.libraries.canary(linker.libc),
        );
        let canaries = Canaries {
            root: self.root,
            linker,
            library: &library,
            own: &own,
            output_limit: DEADLINE,
            end_limit: DEADLINE,
        };
        let libc = linker.libc;
        canaries.run(by).map_err(|why| {
            let hint = "reheap changed nothing; to give it to one program: reheap run";
            Failure::failed(format!("with {libc}, {why}"))
                .hint(hint)
                .into()
        })
    }

    /// Before anything else loads the libraries.
    fn before(&self) -> anyhow::Result<Vec<String>> {
        let mut passed = Vec::new();
        for linker in self.linkers {
            let path = self.libraries.for_variable(linker.libc);
            let of_libc = self.run(*linker, BroughtBy::Variable(&path))?;
            let of_libc = of_libc.unwrap_or_default().join(", ");
            passed.push(format!("{} ({of_libc})", linker.libc));
        }
        Ok(passed)
    }

    /// After the change, when every new program loads them. Says whether reheap could test that for each libc that has
    /// a file.
    fn after(&self) -> anyhow::Result<bool> {
        let mut is_seen = true;
        for linker in self.linkers {
            let by = match linker.libc {
                Libc::Glibc => BroughtBy::File,
                Libc::Musl if self.root.open_file(PROFILE_SCRIPT).is_ok() => BroughtBy::Script,
                Libc::Musl => continue,
            };
            is_seen &= self.run(*linker, by)?.is_some();
        }
        Ok(is_seen)
    }
}

/// What to type to undo it; for the root directory that `--root` names.
fn disable_command(root: Option<&Path>) -> String {
    let command = "reheap disable";
    match root {
        Some(root) => {
            let root = root.to_string_lossy();
            format!("{command} --root {}", shell_words::quote(&root))
        }
        None => command.to_owned(),
    }
}

/// What reheap did, and what that means.
struct Enabled<'a> {
    root: &'a Root,
    /// What `--root` says.
    image: Option<&'a Path>,
    libraries: &'a Libraries,
    choice: &'a Choice,
    name: String,
    seen: CanaryResults,
    census: Census,
    /// Dynamic linkers whose programs cannot load it.
    others: Vec<Linker>,
}

impl Enabled<'_> {
    /// What most people want to know, in one line.
    fn summary(&self) -> String {
        let programs = self.libraries.libcs().map(|libc| match libc {
            Libc::Glibc => "glibc programs",
            Libc::Musl if self.has_script() => "musl programs of new login sessions",
            Libc::Musl => "musl programs started with LD_PRELOAD",
        });
        let programs = programs.collect::<Vec<_>>().join(" and ");
        let undo = disable_command(self.image);
        format!("enabled {} for {programs}; undo: {undo}", self.name)
    }

    fn has_script(&self) -> bool {
        self.root.open_file(PROFILE_SCRIPT).is_ok()
    }

    fn is_for_all(&self) -> bool {
        state::is_for_all(self.root, LD_SO_PRELOAD)
    }

    /// What may surprise users who do not read the guide.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for libc in self.libraries.libcs() {
            match libc {
                Libc::Glibc if !self.is_for_all() => warnings.push(format!(
                    "glibc: {LD_SO_PRELOAD} is not world-readable, as before: programs of users who cannot read it \
                     start without the allocator and do not say so; to give it to all: chmod o+r {LD_SO_PRELOAD}"
                )),
                // For an image, the line for its Dockerfile is printed.
                Libc::Musl if !self.has_script() && self.image.is_none() => warnings.push(format!(
                    "musl: nothing sets it, because there is no /etc/profile.d: set LD_PRELOAD={} yourself",
                    self.libraries.for_variable(libc)
                )),
                Libc::Glibc | Libc::Musl => {}
            }
        }
        let own = &self.census.own_allocators;
        if !own.is_empty() {
            warnings.push(format!(
                "of {} programs, {} have their own allocator and may not work with a second one: {} (see `reheap run \
                 --check <program>`)",
                self.census.programs,
                own.len(),
                census::listed(own.keys()),
            ));
        }
        if !self.seen.is_effect_seen {
            let what = "reheap cannot start programs with that directory as their root";
            warnings.push(format!(
                "{what}, so it did not test whether the files have an effect"
            ));
        }
        warnings.extend(self.others.first().map(|linker| {
            format!(
                "programs for {} cannot load it: those with glibc print a line on standard error whenever they start",
                linker.architecture
            )
        }));
        warnings
    }

    /// The rest: the facts for each libc.
    fn details(&self) -> Vec<String> {
        let mut details = vec![format!("tested with {}", self.seen.before.join(" and "))];
        for libc in self.libraries.libcs() {
            match libc {
                Libc::Glibc if self.is_for_all() => details.push(format!(
                    "glibc: every dynamic program that starts from now on has it, setuid programs too, because they \
                     also read {LD_SO_PRELOAD}; programs that already run and programs in containers do not"
                )),
                Libc::Musl if self.has_script() => details.push(format!(
                    "musl: programs of new login sessions have it ({PROFILE_SCRIPT}), except setuid programs; \
                     services and cron jobs do not: set LD_PRELOAD={} for those",
                    self.libraries.for_variable(libc)
                )),
                Libc::Glibc | Libc::Musl => {}
            }
        }
        let static_programs = &self.census.static_programs;
        if !static_programs.is_empty() {
            details.push(format!(
                "static programs do not change ({}): {}",
                static_programs.len(),
                census::listed(static_programs.iter()),
            ));
        }
        let allocator = self.choice.allocator;
        if !allocator.is_hardened {
            details.push(format!(
                "{} finds fewer memory errors than the libc's own allocator, in setuid programs too (hardening: {}); \
                 use {HARDENED} if that matters",
                allocator.name, allocator.hardening
            ));
        }
        details
    }
}

/// Containers with musl read no profile, so the variable must be in the image.
fn tell_image(root: Option<&Path>, libraries: &Libraries) -> anyhow::Result<()> {
    if root.is_some() && libraries.libcs().any(|libc| libc == Libc::Musl) {
        let path = libraries.for_variable(Libc::Musl).replace('$', "\\$");
        ui::data(&format!("ENV LD_PRELOAD={path}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_variants::measured_attacks::withstood;

    #[test]
    fn what_is_advised_instead_of_a_plain_allocator_stops_no_less_than_the_libc_does() {
        for libc in ["glibc", "musl"] {
            let advised = format!("{libc}+{HARDENED}");
            let of = withstood([libc, &advised].into_iter());
            assert!(of[&advised].stopped >= of[libc].stopped, "{advised}");
            assert!(of[&advised].succeeded <= of[libc].succeeded, "{advised}");
        }
    }
}
