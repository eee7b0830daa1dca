//! `reheap enable`: another allocator for every dynamic program of a system, proved before and after it counts.

use crate::bench::interrupt;
use crate::setup::{self, Choice};
use crate::system::canary::{By, Cage, DEADLINE};
use crate::system::census::{self, Census};
use crate::system::change::{self, Change, Interrupted};
use crate::system::disk::Disk;
use crate::system::libraries::{Libraries, Library};
use crate::system::root::{Linker, Root};
use crate::system::state::{self, Record, Wanted};
use crate::system::{LD_SO_PRELOAD, LIBRARIES, PROFILE_SCRIPT};
use crate::ui::{self, Failure};
use anyhow::Context as _;
use reheap_allocators::target::Libc;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) const EXAMPLES: &str = "\
glibc: the library is named in /etc/ld.so.preload. musl: a script in /etc/profile.d sets LD_PRELOAD
for who logs in. The libraries lie below /usr/local/lib/reheap, with the options in them.

Examples:
  sudo reheap enable mimalloc
  sudo reheap enable jemalloc -t narenas=2
  reheap enable mimalloc --root ./image
  sudo reheap disable";

/// As of a shell's command that SIGINT ended.
const INTERRUPTED: u8 = 130;

#[derive(Debug, clap::Args)]
pub(crate) struct EnableArguments {
    /// The allocator; that of an earlier `enable` gives way to it
    #[arg(value_name = "ALLOCATOR")]
    allocator: String,
    /// An allocator option, put into the library; `reheap list` shows them
    #[arg(short, long, value_name = "KEY=VALUE")]
    tuning: Vec<String>,
    /// The root folder of another system, such as an image that is being made; the canaries that
    /// prove the library run in it, with its programs
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl EnableArguments {
    /// The same for the system that runs, as it is typed behind `reheap`.
    fn for_this_system(&self) -> String {
        let options = self.tuning.iter().map(|option| format!(" -t {option}"));
        format!("enable {}{}", self.allocator, options.collect::<String>())
    }
}

/// Builds, tries out, puts in place, and looks whether it works.
pub(crate) fn run(arguments: &EnableArguments) -> anyhow::Result<ExitCode> {
    let choice = Choice::of(&arguments.allocator, &arguments.tuning)?;
    if choice.is_stock() {
        let text = "`stock` is what a system has without reheap";
        return Err(Failure::usage(text).hint("reheap disable").into());
    }
    let root = writable_root(arguments.root.as_deref(), &arguments.for_this_system())?;
    let (linkers, others) = root.linkers();
    check_linkers(&root, &linkers, &others)?;
    for folder in ["/etc", LIBRARIES] {
        root.check_entry(folder)?;
    }
    let libraries = build(&choice, &linkers)?;
    let libcs: Vec<Libc> = libraries.libcs().collect();
    let census = ui::while_showing("looking for programs with allocators of their own", || {
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
        ui::note(&format!("{name} is enabled already"));
        tell_image(arguments.root.as_deref(), &libraries)?;
        return Ok(ExitCode::SUCCESS);
    };
    let aviary = Aviary {
        root: &root,
        linkers: &linkers,
        libraries: &libraries,
    };
    let sung = make(&change, &disk, &aviary).with_context(|| format!("cannot enable {name}"))?;
    tell(&root, &libraries, &name, &sung.before, &census);
    if !sung.is_effect_seen {
        let what = "programs of that root cannot be started here with it as their root";
        ui::note(&format!(
            "warning: {what}, so it was not seen that the files have an effect"
        ));
    }
    if let Some(linker) = others.first() {
        ui::note(&format!(
            "programs for {} cannot load it: glibc's say so in a line on standard error whenever they start",
            linker.architecture
        ));
    }
    if !choice.allocator.is_hardened {
        ui::note(&format!(
            "{} finds fewer memory errors of programs than the libc's own allocator, in setuid programs too (hardening: {}); \
             mimalloc-secure is the one for where that matters",
            choice.allocator.name, choice.allocator.hardening
        ));
    }
    ui::note(&match &arguments.root {
        Some(root) => format!("to undo it: reheap disable --root {}", root.display()),
        None => "to undo it: reheap disable".to_owned(),
    });
    tell_image(arguments.root.as_deref(), &libraries)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct Sung {
    /// Who sang before anything else loaded the libraries, for each libc.
    before: Vec<String>,
    /// Whether canaries could look at what the files do.
    is_effect_seen: bool,
}

/// Ctrl-C is an error like others here: what was done is undone.
fn make(change: &Change, disk: &Disk, aviary: &Aviary) -> anyhow::Result<Sung> {
    let interrupted = interrupt::on_signals()?;
    let go_on = || match interrupted.load(Ordering::Relaxed) {
        true => Err(Failure::failed("interrupted").code(INTERRUPTED)),
        false => Ok(()),
    };
    let mut sung = Sung::default();
    let missing = disk.missing_folders(LIBRARIES);
    let cleaned = change.make(
        disk,
        || {
            missing
                .iter()
                .try_for_each(|folder| disk.make_folder(folder))?;
            aviary.libraries.write(disk)?;
            sung.before = aviary.before()?;
            Ok(go_on()?)
        },
        || {
            sung.is_effect_seen = aviary.after()?;
            aviary.libraries.delete_canaries(disk)?;
            Ok(go_on()?)
        },
    )?;
    warn(cleaned);
    Ok(sung)
}

/// The root folder, if it may be written to and what is in it can be trusted. `command` is what to type for this system,
/// behind `reheap`.
pub(crate) fn writable_root(folder: Option<&Path>, command: &str) -> anyhow::Result<Root> {
    let root = Root::of(folder, &format!("reheap {command}"))?;
    if root.is_this_system() && !rustix::process::geteuid().is_root() {
        let verb = command.split(' ').next().unwrap_or_default();
        let text =
            format!("cannot {verb}: it changes every program of this system, which needs root");
        let hint = format!("sudo reheap {command}; for an image: --root <folder>");
        return Err(Failure::failed(text).hint(hint).into());
    }
    for folder in ["/etc", LIBRARIES] {
        root.check_owners(folder)?;
    }
    Ok(root)
}

/// One command at a time; given up when this process ends, however it does.
pub(crate) fn lock(root: &Root) -> anyhow::Result<fs::File> {
    let folder = root.open_folder("/etc");
    let cannot = || format!("cannot lock `/etc` below `{}`", root.folder().display());
    let folder = folder.with_context(cannot)?;
    folder.lock().with_context(cannot)?;
    Ok(folder)
}

/// Brings what an interrupted command left to an end.
pub(crate) fn mend(disk: &Disk) -> anyhow::Result<()> {
    let found = change::recover(disk).context("cannot mend what an interrupted command left")?;
    match found {
        Ok(Some(Interrupted::Before)) => ui::note("undid a change that was interrupted"),
        Ok(Some(Interrupted::After)) => ui::note("deleted what an interrupted command left"),
        Ok(None) => {}
        Err(error) => warn(Err(error)),
    }
    Ok(())
}

/// What could not be deleted harms nobody, and is tried again.
pub(crate) fn warn(cleaned: anyhow::Result<()>) {
    if let Err(error) = cleaned {
        ui::note(&format!(
            "warning: {error:#}; nothing loads what is left, and the next `enable` or `disable` deletes it"
        ));
    }
}

fn check_linkers(root: &Root, linkers: &[Linker], others: &[Linker]) -> anyhow::Result<()> {
    if !linkers.is_empty() {
        return Ok(());
    }
    let shown = root.folder().display();
    Err(match others.first() {
        Some(other) => {
            let (theirs, ours) = (other.architecture, std::env::consts::ARCH);
            let text = format!(
                "cannot enable an allocator in `{shown}`: its programs are for {theirs} and this machine is {ours}, \
                 so it could not be seen whether they work"
            );
            Failure::failed(text).hint(format!("run reheap on a machine for {theirs}"))
        }
        None => Failure::failed(format!(
            "cannot enable an allocator in `{shown}`: there is no dynamic linker of glibc or musl, so no dynamic program"
        )),
    }
    .into())
}

fn build(choice: &Choice, linkers: &[Linker]) -> anyhow::Result<Libraries> {
    let cache = setup::cache()?;
    let mut libraries = Vec::new();
    for linker in linkers {
        let target = linker.target().context("it is for another processor")?;
        let read = |path: PathBuf| {
            fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
        };
        libraries.push(Library {
            libc: linker.libc,
            bytes: read(setup::build_tuned_preload(choice, &target, &cache)?)?,
            canary: read(setup::build_canary(&target, &cache)?)?,
        });
    }
    let allocator = choice.allocator;
    Ok(Libraries::new(allocator.name, allocator.version, libraries))
}

/// The canaries of all libcs.
struct Aviary<'a> {
    root: &'a Root,
    linkers: &'a [Linker],
    libraries: &'a Libraries,
}

impl Aviary<'_> {
    fn sing(&self, linker: Linker, by: By) -> anyhow::Result<Option<Vec<String>>> {
        let (library, own) = (
            self.libraries.file(linker.libc),
            self.libraries.canary(linker.libc),
        );
        let cage = Cage {
            root: self.root,
            linker,
            library: &library,
            own: &own,
            limit: DEADLINE,
        };
        let libc = linker.libc;
        cage.sing(by).map_err(|why| {
            let hint = "nothing was changed; one program at a time: reheap run";
            Failure::failed(format!("with {libc}, {why}"))
                .hint(hint)
                .into()
        })
    }

    /// Before anything else loads the libraries.
    fn before(&self) -> anyhow::Result<Vec<String>> {
        let mut sung = Vec::new();
        for linker in self.linkers {
            let path = self.libraries.for_variable(linker.libc);
            let of_libc = self.sing(*linker, By::Variable(&path))?;
            let of_libc = of_libc.unwrap_or_default().join(", ");
            sung.push(format!("{} ({of_libc})", linker.libc));
        }
        Ok(sung)
    }

    /// Now that every program that starts does. Says whether that could be looked at, for each libc that a file is for.
    fn after(&self) -> anyhow::Result<bool> {
        let mut is_seen = true;
        for linker in self.linkers {
            let by = match linker.libc {
                Libc::Glibc => By::File,
                Libc::Musl if self.root.open_file(PROFILE_SCRIPT).is_ok() => By::Script,
                Libc::Musl => continue,
            };
            is_seen &= self.sing(*linker, by)?.is_some();
        }
        Ok(is_seen)
    }
}

/// What was done and what it means, for each libc what is true of it.
fn tell(root: &Root, libraries: &Libraries, name: &str, sung: &[String], census: &Census) {
    ui::note(&format!(
        "enabled {name}; seen to work with {}",
        sung.join(" and ")
    ));
    for libc in libraries.libcs() {
        ui::note(&match libc {
            Libc::Glibc if !is_for_all(root, LD_SO_PRELOAD) => format!(
                "warning: glibc: not every program has it, because not everybody may read {LD_SO_PRELOAD} (it was so before): \
                 programs of those who may not start without it, and do not say so; chmod o+r gives it to all"
            ),
            Libc::Glibc => format!(
                "glibc: every dynamic program that starts from now on has it, setuid ones too, which read {LD_SO_PRELOAD} \
                 like the others; not those that run already, nor those in containers"
            ),
            Libc::Musl if root.open_file(PROFILE_SCRIPT).is_ok() => format!(
                "musl: programs have it that are started by who logs in from now on ({PROFILE_SCRIPT}); not setuid ones, \
                 services, or cron's: set LD_PRELOAD={} for those",
                libraries.for_variable(libc)
            ),
            Libc::Musl => format!(
                "musl: nothing sets it, as there is no /etc/profile.d: set LD_PRELOAD={} for a program",
                libraries.for_variable(libc)
            ),
        });
    }
    if !census.own_allocators.is_empty() {
        let count = census.own_allocators.len();
        ui::note(&format!(
            "warning: of {} programs, {count} bring an allocator of their own and may not take a second one: {} \
             (`reheap run --check <program>` says more)",
            census.programs,
            census::listed(census.own_allocators.keys()),
        ));
    }
    if !census.static_programs.is_empty() {
        ui::note(&format!(
            "static programs stay as they are ({}): {}",
            census.static_programs.len(),
            census::listed(census.static_programs.iter()),
        ));
    }
}

/// Whether everybody may read a file. glibc passes over one that it may not read without a word.
fn is_for_all(root: &Root, path: &str) -> bool {
    let metadata = root.open_file(path).and_then(|file| file.metadata());
    metadata.is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

/// Containers of musl read no profile: their variable comes from the image.
fn tell_image(root: Option<&Path>, libraries: &Libraries) -> anyhow::Result<()> {
    if root.is_some() && libraries.libcs().any(|libc| libc == Libc::Musl) {
        let path = libraries.for_variable(Libc::Musl).replace('$', "\\$");
        ui::data(&format!("ENV LD_PRELOAD={path}\n"))?;
    }
    Ok(())
}
