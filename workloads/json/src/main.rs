//! Threads that parse a large JSON document into a tree of values and print it again, with serde_json.
//!
//! A tree of values is what programs build that do not know the shape of their documents. It is one small allocation
//! for each string, array and object, and all of them are alive at once. An operation is one document, parsed, printed
//! and dropped by the same thread.

mod document;

use std::io;
use std::num::NonZeroU64;
use std::process::ExitCode;
use workload::{Digest, Workload};

const JSON: Workload = Workload {
    name: "json",
    about: "Parses a JSON document of about a megabyte and prints it again, on several threads.",
    operations: "documents",
    amount: NonZeroU64::new(60).unwrap(),
    file: None,
};

fn main() -> ExitCode {
    workload::run(JSON, |arguments| {
        let document = document::document();
        let digests = arguments.on_threads(|documents| {
            (0..documents)
                .map(|_| parse_and_print(&document))
                .sum::<io::Result<Digest>>()
        })?;
        Ok(Some(digests.into_iter().sum()))
    })
}

fn parse_and_print(document: &str) -> io::Result<Digest> {
    let tree: serde_json::Value = serde_json::from_str(document)?;
    let printed = serde_json::to_string(&tree)?;
    Ok(Digest::of(printed.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_json_and_about_a_megabyte_long() {
        let document = document::document();
        let tree: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(tree.as_array().map(Vec::len), Some(document::RECORDS));
        assert!(
            (900_000..1_100_000).contains(&document.len()),
            "{} bytes",
            document.len()
        );
    }

    #[test]
    fn the_digest_tells_documents_apart() {
        let digest = |document| parse_and_print(document).unwrap();
        assert_eq!(digest("[1, 2]"), digest("[1,2]"));
        assert_ne!(digest("[1,2]"), digest("[2,1]"));
    }
}
