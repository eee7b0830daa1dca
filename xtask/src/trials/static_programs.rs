use super::records::StaticTrial;
use super::static_rows::StaticRow;
use crate::progress::Progress;
use crate::workspace::Workspace;
use anyhow::{Result, bail};

pub(super) fn try_program(
    _: &Workspace,
    _: &Progress,
    _: &[&str],
    _: &StaticRow,
) -> Result<StaticTrial> {
    bail!("not yet")
}
