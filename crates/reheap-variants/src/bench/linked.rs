//! Builds the variants of a Rust project: it compiles once for each libc and relinks for each allocator.

use crate::bench::given::{GivenProgram, ReadProgram};
use crate::bench::measure::Measurement;
use crate::bench::ready::ReadyVariant;
use crate::bench::search::VariantSource;
use crate::bench::variants;
use anyhow::Context as _;
use reheap_allocators::target::Libc;
use reheap_bench::results::Activity;
use reheap_command::choice::Choice;
use reheap_command::ui::{self, Failure};
use reheap_static::project::proof::{self, Hints};
use reheap_static::project::{Built, Session, records};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// An executable of a variant.
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    pub(crate) activity: Activity,
}

/// The one executable of a project, for each libc that a variant names.
pub struct Project<'a> {
    session: &'a Session,
    glibc: Option<Built>,
    musl: Option<Built>,
    /// What is in the executable for glibc, once somebody needed to know.
    dynamic: OnceCell<Rc<ReadProgram>>,
}

impl Project<'_> {
    /// Builds what the variants need.
    pub fn build<'a>(session: &'a Session, libcs: &[Libc]) -> anyhow::Result<Project<'a>> {
        let build = |libc, build: &dyn Fn() -> anyhow::Result<Vec<Built>>| {
            libcs
                .contains(&libc)
                .then(|| {
                    ui::note(&format!("building for {libc}"));
                    only_one(build()?)
                })
                .transpose()
        };
        Ok(Project {
            session,
            glibc: build(Libc::Glibc, &|| session.executables_for_glibc())?,
            musl: build(Libc::Musl, &|| session.executables())?,
            dynamic: OnceCell::new(),
        })
    }

    /// The executable for a variant. For musl, reheap links it now and reads it back. For glibc, it is as Cargo made
    /// it, and gets its allocator when it starts.
    pub(crate) fn executable(&self, libc: Libc, choice: &Choice) -> anyhow::Result<Executable> {
        let built = match libc {
            Libc::Glibc => &self.glibc,
            Libc::Musl => &self.musl,
        };
        let built = built
            .as_ref()
            .context("the project was not built for this libc")?;
        if libc == Libc::Glibc {
            return Ok(Executable {
                path: built.path.clone(),
                activity: Activity::NothingClaimed,
            });
        }
        let output = self.place(&built.path, &variants::name(libc, choice))?;
        let plan = self.session.plan_for(built, choice)?;
        let records = self.session.records(&built.path)?;
        records::link_beside(&built.path, &plan, &records, &output)?;
        let proof = proof::of_executable(&output, choice, Hints::OF_CARGO)?;
        Ok(Executable {
            path: output,
            activity: Activity::Seen(format!("in the executable: {proof}")),
        })
    }

    /// What `cargo reheap build` links the program with.
    pub fn own_choice(&self) -> anyhow::Result<Option<Choice>> {
        let choice = self
            .musl
            .as_ref()
            .map(|built| self.session.choice_for(built));
        choice.transpose()
    }

    /// The program and its arguments as a person types them.
    pub fn shown(&self, arguments: &[OsString]) -> String {
        let built = self.musl.as_ref().or(self.glibc.as_ref());
        let program = built
            .and_then(|built| built.path.file_name())
            .unwrap_or_default();
        let words = std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str));
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        shell_words::join(words)
    }

    /// The variant's own place next to Cargo's directories.
    fn place(&self, built: &Path, variant: &str) -> anyhow::Result<PathBuf> {
        let of_target = built
            .ancestors()
            .find(|directory| directory.ends_with(self.session.triple()))
            .context("Cargo built outside the directory of its target")?;
        let directory = of_target.join("reheap-bench").join(variant);
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make `{}`", directory.display()))?;
        Ok(directory.join(built.file_name().context("the executable has no name")?))
    }
}

/// The variants that `recommend` chooses from: what `cargo build` makes, and static executables with every allocator.
pub struct ToRecommendFor<'a> {
    project: &'a Project<'a>,
    measurement: &'a Measurement,
}

impl<'a> Project<'a> {
    /// The project as a source of variants to recommend.
    pub fn to_recommend_for(&'a self, measurement: &'a Measurement) -> ToRecommendFor<'a> {
        ToRecommendFor {
            project: self,
            measurement,
        }
    }

    /// A variant of the project, ready to run.
    pub fn ready(
        &self,
        libc: Libc,
        choice: &Choice,
        measurement: &Measurement,
    ) -> anyhow::Result<ReadyVariant> {
        let executable = self.executable(libc, choice)?;
        let mut words = vec![executable.path.into_os_string()];
        words.extend(self.session.program_arguments().iter().cloned());
        if libc == Libc::Glibc {
            let program = match self.dynamic.get() {
                Some(read) => Rc::clone(read),
                None => {
                    let read = ReadProgram::read(Path::new(&words[0]), measurement)?;
                    Rc::clone(self.dynamic.get_or_init(|| Rc::new(read)))
                }
            };
            return GivenProgram::with(program, &words, measurement, self.session.workshop())?
                .with_allocator(choice);
        }
        Ok(ReadyVariant {
            activity: executable.activity,
            ..ReadyVariant::new(libc, choice, words)
        })
    }
}

impl VariantSource for ToRecommendFor<'_> {
    fn baseline(&self) -> anyhow::Result<ReadyVariant> {
        let stock = Choice::of("stock", &[])?;
        self.project.ready(Libc::Glibc, &stock, self.measurement)
    }

    fn candidate(&self, choice: &Choice) -> anyhow::Result<ReadyVariant> {
        self.project.ready(Libc::Musl, choice, self.measurement)
    }

    fn baseline_libc(&self) -> Libc {
        Libc::Glibc
    }

    fn candidate_libc(&self) -> Libc {
        Libc::Musl
    }

    fn tunes_baseline(&self) -> bool {
        false
    }
}

fn only_one(mut executables: Vec<Built>) -> anyhow::Result<Built> {
    match (executables.pop(), executables.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => Err(
            Failure::usage("cannot find an executable to measure in the project")
                .hint("choose one with --bin NAME, --example NAME or -p PACKAGE")
                .into(),
        ),
        (Some(last), others) => {
            let name = |built: &Built| {
                let name = built.path.file_name();
                name.unwrap_or_default().to_string_lossy().into_owned()
            };
            let mut names: Vec<String> = others.iter().chain([&last]).map(name).collect();
            names.sort();
            let text = format!("the project has several executables: {}", names.join(", "));
            let hint = format!("cargo reheap bench --bin {}", names[0]);
            Err(Failure::usage(text).hint(hint).into())
        }
    }
}
