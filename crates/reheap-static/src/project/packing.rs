//! `cargo reheap image`: builds a project for one or several targets, and says what it says about itself.

use super::built::Built;
use super::metadata::Metadata;
use super::request::Verb;
use super::session::Session;
use reheap_command::choice::Wishes;
use reheap_command::ui::Failure;
use reheap_image::sbom::Package;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a project says about itself, if the programs are of one.
#[derive(Debug, Default)]
pub struct Origin {
    /// `org.opencontainers.image.…`
    pub labels: BTreeMap<String, String>,
    /// The packages that the programs were made from.
    pub packages: BTreeSet<Package>,
}

/// A build for each target, checked before the first of them.
pub struct Packing {
    sessions: Vec<Session>,
}

impl Packing {
    /// What the user asks for. `--target` may be there several times, and the project may choose several targets.
    pub fn new(asked: &Wishes, arguments: &[OsString]) -> anyhow::Result<Self> {
        let mut sessions = Session::for_each_target(Verb::Build, asked, arguments)?;
        // Empty if the user asks for targets.
        for target in sessions[0].other_targets().to_vec() {
            sessions.push(sessions[0].for_target(&target)?);
        }
        Ok(Self { sessions })
    }

    /// Builds everything. If Cargo fails, it has said why, and this is its exit code.
    pub fn build(
        &self,
        has_entry_point: bool,
    ) -> anyhow::Result<Result<(Vec<PathBuf>, Origin), ExitCode>> {
        let mut programs = Vec::new();
        let mut origin = Origin::default();
        for session in &self.sessions {
            let mut built = match session.build_programs()? {
                Ok(built) => built,
                Err(code) => return Ok(Err(code)),
            };
            let metadata = session.metadata()?;
            let first = first_of(&mut built, &metadata, has_entry_point)?;
            origin.labels.extend(metadata.labels_of(&first));
            for program in &built {
                origin
                    .packages
                    .extend(metadata.packages_of(&program.package));
            }
            programs.extend(built.into_iter().map(|program| program.path));
        }
        Ok(Ok((programs, origin)))
    }
}

/// Puts the program in front that starts, and gives the ID of its package. Cargo names programs in the order in which
/// they were done, which is another every time.
fn first_of(
    built: &mut [Built],
    metadata: &Metadata,
    has_entry_point: bool,
) -> anyhow::Result<String> {
    built.sort_by(|one, other| one.name.cmp(&other.name));
    let is_main = |program: &Built| metadata.is_main_program(&program.package, &program.name);
    let main = built.iter().filter(|program| is_main(program)).count();
    match (built.len(), main) {
        (0, _) => {
            let text = "cannot make an image: the project has no program for this target";
            Err(Failure::failed(text).into())
        }
        (1, _) => Ok(built[0].package.clone()),
        (_, 1) => {
            built.sort_by_key(|program| !is_main(program));
            Ok(built[0].package.clone())
        }
        _ if has_entry_point => Ok(built[0].package.clone()),
        _ => {
            let names: Vec<&str> = built.iter().map(|program| program.name.as_str()).collect();
            let text = format!("cannot choose which program starts: {}", names.join(", "));
            let hint = "pack one with --bin <name>, or choose with --entrypoint <name>";
            Err(Failure::usage(text).hint(hint).into())
        }
    }
}
