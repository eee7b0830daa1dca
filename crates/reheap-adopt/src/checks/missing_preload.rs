//! `LD_PRELOAD` with a path that is not there on that base. The dynamic linker only prints a line about it, and the
//! program runs with the allocator that it had.
//!
//! Nothing is said of an image that is not known, nor of a library that a command or a copy may have put there.

mod bases;

use crate::finding::{Finding, Rule};
use crate::project::Project;
use crate::workflows::dockerfile::{self, Dockerfile, Instruction, Stage};
use crate::workflows::{File, Kind, shell, yaml};
use bases::{Base, Contents};

/// The variable.
const VARIABLE: &str = "LD_PRELOAD";
/// Where it may be set.
const WITH_VARIABLES: &[Kind] = &[Kind::Ci, Kind::Deployment, Kind::Script];

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let repository = project.repository();
    let mut findings = Vec::new();
    for file in repository.of_kinds(&[Kind::Dockerfile]) {
        if file.text.contents.contains(VARIABLE) {
            in_dockerfile(file, &mut findings);
        }
    }
    for file in repository.of_kinds(WITH_VARIABLES) {
        if file.text.contents.contains(VARIABLE) {
            elsewhere(file, &mut findings);
        }
    }
    findings
}

fn in_dockerfile(file: &File, findings: &mut Vec<Finding>) {
    let dockerfile = Dockerfile::of(&file.text);
    for (index, stage) in dockerfile.stages.iter().enumerate() {
        for instruction in stage
            .instructions
            .iter()
            .filter(|instruction| instruction.keyword == "ENV")
        {
            let set = dockerfile::assignments("ENV", &instruction.text)
                .into_iter()
                .filter(|(name, _)| name == VARIABLE);
            let base = Base::of(dockerfile.base(index));
            let mut contents = Contents::of(dockerfile.around(index));
            contents.is_of_many_platforms = is_of_many_platforms(file, stage);
            for value in set.filter_map(|(_, value)| value) {
                let at = Place {
                    file,
                    line: instruction.line,
                };
                findings.extend(at.finding(&value, base, &contents));
            }
        }
    }
}

/// Whether the same lines make images for several kinds of processors.
fn is_of_many_platforms(file: &File, stage: &Stage) -> bool {
    let is_of_one = ["amd64", "x86"]
        .iter()
        .any(|name| stage.name.contains(name) || stage.image.contains(name));
    let arguments = ["TARGETARCH", "TARGETPLATFORM", "BUILDPLATFORM"];
    !is_of_one
        && arguments
            .iter()
            .any(|name| file.text.contents.contains(name))
}

fn elsewhere(file: &File, findings: &mut Vec<Finding>) {
    let commands = shell::commands(&file.text.contents);
    for (index, command) in commands.iter().enumerate() {
        let named_above = index > 0 && {
            let above = &commands[index - 1];
            command.word(0) == "value:" && above.words.ends_with(&["name:".into(), VARIABLE.into()])
        };
        let value = if named_above {
            Some(command.word(1))
        } else {
            assigned(&command.words)
        };
        let Some(value) = value else { continue };
        let line = file.text.line(command.at);
        let beside = match file.kind {
            Kind::Script => yaml::Container::default(),
            _ => yaml::container_of(&file.text.contents, line),
        };
        let base = match (&beside.image, beside.has_other_files) {
            (Some(image), false) => Base::of(image),
            _ => Base::Unknown,
        };
        let contents = Contents::of(std::iter::empty::<&Instruction>());
        findings.extend(Place { file, line }.finding(value, base, &contents));
    }
}

/// The value, in `LD_PRELOAD=value`, `Environment=LD_PRELOAD=value` or `LD_PRELOAD: value`.
fn assigned(words: &[String]) -> Option<&str> {
    words.iter().enumerate().find_map(|(index, word)| {
        if word == "LD_PRELOAD:" {
            return words.get(index + 1).map(String::as_str);
        }
        let value = word.strip_prefix("Environment=").unwrap_or(word);
        value.strip_prefix(VARIABLE)?.strip_prefix('=')
    })
}

/// Where the variable is set.
struct Place<'a> {
    file: &'a File,
    line: usize,
}

impl Place<'_> {
    fn finding(&self, value: &str, base: Base, contents: &Contents) -> Option<Finding> {
        // What the shell computes is not known here.
        if value.contains(['$', '`', '(']) {
            return None;
        }
        let paths = value.split([':', ' ']).filter(|path| !path.is_empty());
        let (what, fix) = paths
            .filter_map(|path| bases::missing(path, base, contents))
            .next()?;
        Some(Finding {
            path: self.file.text.path.clone(),
            line: self.line,
            rule: Rule::MissingPreload,
            what,
            fix,
        })
    }
}
