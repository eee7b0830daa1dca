//! placeholder
#[derive(Debug, Default)]
pub(crate) struct Fault;
impl Fault {
    pub(crate) fn next(&self) -> std::io::Result<()> {
        Ok(())
    }
}
