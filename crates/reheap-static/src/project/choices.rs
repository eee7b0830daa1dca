//! Which allocator each package is linked with: what the user asks for, else what the manifests choose.

use super::request::Request;
use super::workspace::{ByPackage, Workspace};
use reheap_command::choice::{StaticChoice, Wishes};
use std::path::Path;

/// The choice for each package.
pub(super) struct Choices {
    /// The choices that win over the manifests, the strongest first.
    asked: Vec<Wishes>,
    /// `None` for what Cargo installs from elsewhere.
    pub(super) workspace: Option<Workspace>,
    /// The choices for the packages that the command can mean.
    pub(super) by_package: ByPackage<StaticChoice>,
}

impl Choices {
    pub(super) fn new(request: &Request, workspace: Option<Workspace>) -> anyhow::Result<Self> {
        let asked = request.wishes.clone();
        let by_package = match &workspace {
            Some(workspace) => workspace.choices(&asked, &request.flags)?,
            None => ByPackage::same_for_all(StaticChoice::of(&asked)?),
        };
        Ok(Self {
            asked,
            workspace,
            by_package,
        })
    }

    /// The choice for the package in a directory.
    pub(super) fn of(&self, directory: &Path) -> anyhow::Result<StaticChoice> {
        match (self.by_package.of(directory), &self.workspace) {
            (Some(choice), _) => Ok(choice.clone()),
            (None, Some(workspace)) => workspace.choice_of(directory, &self.asked),
            (None, None) => Ok(self.by_package.others().clone()),
        }
    }

    /// Whether a command means the package in a directory.
    pub(super) fn means(&self, directory: &Path, request: &Request) -> bool {
        let workspace = self.workspace.as_ref();
        workspace.is_none_or(|workspace| workspace.means(directory, &request.flags))
    }
}
