//! What Cargo gets in addition to what the user gave it: a target, compilers, and the linker with its plan.

use super::request::Request;
use super::resolved::{Plans, ResolvedProject};
use super::{compilers, linker};
use reheap_command::env_vars;
use std::ffi::OsString;
use std::process::Command;

/// Variables and flags for Cargo.
pub(super) struct Additions {
    variables: Vec<(String, OsString)>,
    flags: Vec<OsString>,
}

impl Additions {
    /// What a command needs that links nothing.
    pub(super) fn without_linker(project: &ResolvedProject) -> anyhow::Result<Self> {
        let mut variables = compilers::variables(&project.workshop, &project.target)?;
        // Where rustc makes dynamic programs unless it is told.
        let rust_flags = project.config.flags_for_static_programs(&project.target)?;
        variables
            .extend(rust_flags.map(|flags| ("CARGO_ENCODED_RUSTFLAGS".to_owned(), flags.into())));
        Ok(Self {
            variables,
            flags: Vec::new(),
        })
    }

    /// What points Cargo to the linker, with the plans that it links by.
    pub(super) fn with_linker(project: &ResolvedProject, plans: &Plans) -> anyhow::Result<Self> {
        let cache = project.workshop.cache()?;
        let script = linker::write_script(cache, &plans.others().linker)?;
        let path = toml::Value::String(script.to_string_lossy().into_owned());
        let linker = format!("target.{}.linker={path}", project.target);
        let plan = serde_json::to_string(&plans.clone().shortened())?;
        let mut additions = Self::without_linker(project)?;
        let variable = (env_vars::LINK_PLAN.to_owned(), plan.into());
        additions.variables.push(variable);
        // A variable would not win over a flag of the user's, and programs that Cargo starts would inherit it: what they
        // build would be linked by this plan.
        additions.flags = vec!["--config".into(), linker.into()];
        Ok(additions)
    }

    /// A command of Cargo for a target, with these additions and with the user's flags.
    pub(super) fn cargo(&self, command: &str, request: &Request, triple: &str) -> Command {
        let mut cargo = env_vars::cargo();
        cargo.args([command, "--target", triple]);
        cargo.args(request.flags.words()).args(&self.flags);
        let variables = self.variables.iter();
        cargo.envs(variables.map(|(name, value)| (name, value)));
        cargo
    }
}
