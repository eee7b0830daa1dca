//! Reads what the user's Cargo configuration says about linking and output directories (Cargo book, "Configuration").
//!
//! `cargo config get` would tell, but is not stable. `cargo_config2` reads the files and the environment. It knows
//! neither `--config` flags, which win over both and are read here, nor `install.root`, nor files that others include.

use anyhow::Context as _;
use reheap_allocators::target::Target;
use reheap_command::env_vars;
use reheap_command::ui::Failure;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The configuration for a command.
pub(super) struct Config {
    /// The user's `--config` flags, the last first.
    given: Vec<Source>,
    /// The files and the environment.
    configured: cargo_config2::Config,
    /// The files that these include, the strongest first. What includes a file wins over it.
    included: Vec<Source>,
    /// The directory that the files are looked for from.
    directory: PathBuf,
}

/// A part of the configuration, and the directory that its paths are relative to.
struct Source {
    table: toml::Table,
    base: PathBuf,
}

impl Config {
    /// The configuration as seen from a directory, with the values of these `--config` flags.
    pub(super) fn read(directory: &Path, given: &[String]) -> anyhow::Result<Self> {
        let here = std::env::current_dir().context("cannot find the current directory")?;
        let mut of_flags = Vec::new();
        for value in given.iter().rev() {
            let file = here.join(value);
            if file.is_file() {
                of_flags.extend(Source::of_file(&file)?)
            } else {
                of_flags.push(Source {
                    // Cargo refuses anything else.
                    table: value.parse().unwrap_or_default(),
                    base: here.clone(),
                })
            }
        }
        let configured = cargo_config2::Config::load_with_cwd(directory)
            .context("cannot read the configuration of Cargo")?;
        let mut included = Vec::new();
        for file in cargo_config2::Walk::new(directory) {
            included.extend(Source::of_file(&file)?.into_iter().skip(1));
        }
        Ok(Self {
            given: of_flags,
            configured,
            included,
            directory: directory.to_owned(),
        })
    }

    /// The compiler that Cargo calls, unless it is the one on PATH.
    pub(super) fn rustc(&self) -> Option<PathBuf> {
        let variable = env_vars::variable("RUSTC").map(PathBuf::from);
        let given = || self.given.iter().find_map(Source::rustc);
        let configured = || self.configured.build.rustc.clone();
        variable.or_else(given).or_else(configured)
    }

    /// The linker that the user configured for the target.
    ///
    /// # Errors
    /// If the configuration is wrong, or what is read here names a linker in a way that is not understood.
    pub(super) fn linker(&self, target: &Target) -> anyhow::Result<Option<PathBuf>> {
        let mut given = self.given.iter();
        if let Some(linker) = given.find_map(|source| source.linker(target)) {
            return Ok(Some(linker));
        }
        refuse_linker_by_cfg("`--config`", &self.given, target)?;
        let linker = self.configured.linker(target.triple());
        if let Some(linker) = linker.context("cannot read the configuration of Cargo")? {
            return Ok(Some(linker));
        }
        let mut included = self.included.iter();
        let linker = included.find_map(|source| source.linker(target));
        if linker.is_none() {
            refuse_linker_by_cfg("a file in `include`", &self.included, target)?;
        }
        Ok(linker)
    }

    /// The user's Rust flags with the one that makes static programs, encoded as in `CARGO_ENCODED_RUSTFLAGS`. `None`
    /// where rustc makes them by itself, or where the flags say what they want.
    ///
    /// # Errors
    /// If the configuration is wrong, or what only Cargo merges has Rust flags, which the variable would replace.
    pub(super) fn flags_for_static_programs(
        &self,
        target: &Target,
    ) -> anyhow::Result<Option<String>> {
        const FLAGS: [&str; 2] = ["-C", "target-feature=+crt-static"];
        if target.is_static_by_default() {
            return Ok(None);
        }
        let configured = self.configured.rustflags(target.triple());
        let configured = configured.context("cannot read the configuration of Cargo")?;
        let mut flags = configured.map_or_else(Vec::new, |configured| configured.flags);
        let sources = self.given.iter().chain(&self.included);
        let given: Vec<String> = sources.flat_map(Source::rust_flags).collect();
        let given = given.join(" ");
        if given.contains("crt-static") || flags.iter().any(|flag| flag.contains("crt-static")) {
            return Ok(None);
        }
        if !given.is_empty() {
            let text = format!(
                "cannot make a static program: for `{target}`, rustc makes dynamic ones, and `--config` or a file in `include` has Rust flags that do not say otherwise"
            );
            let hint = format!("add to those flags: {}", FLAGS.join(" "));
            return Err(Failure::usage(text).hint(hint).into());
        }
        flags.extend(FLAGS.map(str::to_owned));
        Ok(Some(flags.join("\u{1f}")))
    }

    /// The triples that the user configured to build for.
    pub(super) fn build_targets(&self) -> Vec<String> {
        if let Some(targets) = self.given.iter().find_map(Source::build_targets) {
            return targets;
        }
        if let Some(targets) = &self.configured.build.target {
            let targets = targets.iter();
            return targets.map(|target| target.triple().to_owned()).collect();
        }
        let mut included = self.included.iter();
        included.find_map(Source::build_targets).unwrap_or_default()
    }

    /// The directory that Cargo installs in where no flag names one.
    pub(super) fn install_root(&self) -> anyhow::Result<Option<PathBuf>> {
        let variable = || env_vars::variable("CARGO_INSTALL_ROOT").map(PathBuf::from);
        let named = self.given.iter().find_map(Source::install_root);
        if let Some(root) = named.or_else(variable) {
            return Ok(Some(root));
        }
        for file in cargo_config2::Walk::new(&self.directory) {
            let sources = Source::of_file(&file)?;
            if let Some(root) = sources.iter().find_map(Source::install_root) {
                return Ok(Some(root));
            }
        }
        Ok(cargo_home(&self.directory))
    }

    /// Whether a flag, a variable or a file names the directory that Cargo builds in.
    pub(super) fn names_target_directory(&self) -> bool {
        let mut others = self.given.iter().chain(&self.included);
        self.configured.build.target_dir.is_some()
            || others.any(|source| source.of_build("target-dir").is_some())
    }
}

fn refuse_linker_by_cfg(place: &str, sources: &[Source], target: &Target) -> Result<(), Failure> {
    if !sources.iter().any(Source::has_a_linker_by_cfg) {
        return Ok(());
    }
    let text = format!("cannot tell which linker {place} configures: it names one for a `cfg(…)`");
    let hint = format!("--config 'target.{target}.linker=\"…\"'");
    Err(Failure::usage(text).hint(hint))
}

impl Source {
    /// The file and those that it includes, the strongest first.
    fn of_file(file: &Path) -> anyhow::Result<Vec<Self>> {
        let mut read = Vec::new();
        Self::read(file, &mut BTreeSet::new(), &mut read)?;
        Ok(read)
    }

    fn read(file: &Path, seen: &mut BTreeSet<PathBuf>, read: &mut Vec<Self>) -> anyhow::Result<()> {
        let cannot = || format!("cannot read `{}`", file.display());
        let text = fs::read_to_string(file).with_context(cannot)?;
        let directory = file.parent().unwrap_or(Path::new("/"));
        let source = Self {
            table: text.parse().with_context(cannot)?,
            // Paths are relative to the directory that holds the `.cargo` directory.
            base: directory.parent().unwrap_or(directory).to_owned(),
        };
        let included = source.included();
        read.push(source);
        // Of two files, the later one wins.
        for path in included.iter().rev().map(|path| directory.join(path)) {
            // Cargo refuses a cycle, and a file that is missing if it is not optional.
            if path.is_file() && seen.insert(path.clone()) {
                Self::read(&path, seen, read)?;
            }
        }
        Ok(())
    }

    /// The files that it includes: paths, or tables with a path.
    fn included(&self) -> Vec<String> {
        let list = self.table.get("include").and_then(toml::Value::as_array);
        let paths = list.into_iter().flatten();
        let paths = paths.filter_map(|entry| entry.get("path").unwrap_or(entry).as_str());
        paths.map(str::to_owned).collect()
    }

    fn linker(&self, target: &Target) -> Option<PathBuf> {
        let linker = self
            .table
            .get("target")?
            .get(target.triple())?
            .get("linker")?
            .as_str()?;
        Some(self.program(linker))
    }

    fn rustc(&self) -> Option<PathBuf> {
        Some(self.program(self.of_build("rustc")?.as_str()?))
    }

    /// A program that is configured. One without a slash is searched for in PATH.
    fn program(&self, name: &str) -> PathBuf {
        if name.contains('/') {
            self.base.join(name)
        } else {
            name.into()
        }
    }

    fn has_a_linker_by_cfg(&self) -> bool {
        let targets = self.table.get("target").and_then(toml::Value::as_table);
        let mut targets = targets.into_iter().flatten();
        targets.any(|(name, target)| name.starts_with("cfg(") && target.get("linker").is_some())
    }

    /// The Rust flags for any target, as text.
    fn rust_flags(&self) -> Vec<String> {
        let targets = self.table.get("target").and_then(toml::Value::as_table);
        let of_targets = targets.into_iter().flatten();
        let of_targets = of_targets.filter_map(|(_, target)| target.get("rustflags"));
        let all = of_targets.chain(self.of_build("rustflags"));
        all.map(toml::Value::to_string).collect()
    }

    /// One triple, or a list of them.
    fn build_targets(&self) -> Option<Vec<String>> {
        let target = self.of_build("target")?;
        let several = target.as_array().into_iter().flatten();
        let all = several.chain(target.is_str().then_some(target));
        let triples = all.filter_map(|triple| triple.as_str().map(str::to_owned));
        Some(triples.collect())
    }

    fn install_root(&self) -> Option<PathBuf> {
        let root = self.table.get("install")?.get("root")?.as_str()?;
        Some(self.base.join(root))
    }

    fn of_build(&self, key: &str) -> Option<&toml::Value> {
        self.table.get("build")?.get(key)
    }
}

/// Cargo's own directory, for a command that is given in a directory.
pub(super) fn cargo_home(directory: &Path) -> Option<PathBuf> {
    let beside_others = || Some(PathBuf::from(env_vars::variable("HOME")?).join(".cargo"));
    let named = env_vars::variable("CARGO_HOME").map(|home| directory.join(home));
    named.or_else(beside_others)
}
