//! A project on the disk that is set up as `reheap adopt` does it, and taken back.

use reheap_adopt::adoption::placement::{DEFAULT, Placement};
use reheap_adopt::adoption::removal::{self, Removal};
use reheap_adopt::adoption::set_up::{self, Wanted};
use reheap_adopt::adoption::{Plan, Refusal, packages};
use reheap_adopt::findings;
use reheap_adopt::project::Project;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project on the disk.
pub(crate) struct Written {
    pub(crate) directory: tempfile::TempDir,
}

/// How it is set up.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) allocator: &'a str,
    pub(crate) targets: &'a str,
    pub(crate) feature: Option<&'a str>,
    pub(crate) is_on_by_default: bool,
}

pub(crate) const USUAL: How<'static> = How {
    allocator: "mimalloc",
    targets: DEFAULT,
    feature: None,
    is_on_by_default: false,
};

impl Written {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let written = Self { directory };
        for (path, contents) in files {
            written.write(path, contents);
        }
        written
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, contents: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    #[track_caller]
    pub(crate) fn project(&self) -> Project {
        Project::read(&Command::new("cargo"), &self.path("Cargo.toml")).unwrap()
    }

    /// Adopts as `reheap adopt` does: what is there from before goes first.
    #[track_caller]
    pub(crate) fn try_adopt(&self, how: How<'_>) -> Result<(), Refusal> {
        let project = self.project();
        let Removal {
            mut plan, packages, ..
        } = removal::of_project(&project)?;
        let placement = Placement::parse(how.targets)?;
        let packaged = packages::find(how.allocator).unwrap();
        let version = packages
            .into_iter()
            .find(|known| known.0.package == packaged.package);
        let wanted = Wanted {
            packaged,
            version: version.map(|known| known.1),
            placement: &placement,
            feature: how.feature,
            is_on_by_default: how.is_on_by_default,
            is_for_modules: false,
        };
        let members = set_up::programs(&project, None);
        set_up::plan(&mut plan, &project, &members, &wanted)?;
        apply(&plan);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn adopt(&self, how: How<'_>) {
        if let Err(refusal) = self.try_adopt(how) {
            panic!("{refusal} ({:?})", refusal.hint);
        }
    }

    /// Takes it out, and gives what stays.
    #[track_caller]
    pub(crate) fn undo(&self) -> Vec<(String, usize, String)> {
        let removal = removal::of_project(&self.project()).unwrap();
        apply(&removal.plan);
        let relative = |path: &Path| {
            let path = path.strip_prefix(self.directory.path()).unwrap();
            path.display().to_string()
        };
        let left = removal.left.iter();
        left.map(|place| (relative(&place.path), place.line, place.why.clone()))
            .collect()
    }
}

pub(crate) fn apply(plan: &Plan) {
    for change in plan.changes() {
        fs::write(&change.path, change.after.as_deref().unwrap()).unwrap();
    }
}

/// Adopts, compares with what is expected, checks, adopts again, and undoes.
#[track_caller]
pub(crate) fn there_and_back(how: How<'_>, files: &[(&str, &str)], expected: &[(&str, &str)]) {
    let written = Written::new(files);
    written.adopt(how);
    let after: Vec<String> = files.iter().map(|(path, _)| written.read(path)).collect();
    for (path, contents) in expected {
        assert_eq!(written.read(path), *contents, "{path}");
    }
    let found = findings::of(&written.project());
    assert!(found.is_empty(), "{found:#?}");
    written.adopt(how);
    for ((path, _), after) in files.iter().zip(&after) {
        assert_eq!(written.read(path), *after, "{path}, the second time");
    }
    assert_eq!(written.undo(), []);
    for (path, contents) in files {
        assert_eq!(written.read(path), *contents, "{path}, taken out");
    }
}
