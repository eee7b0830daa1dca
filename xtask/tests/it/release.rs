//! A release, from the tag to what would be published.

use crate::forge::{Forge, Run};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `make dist` makes.
fn files() -> Vec<String> {
    let names = [
        "reheap-VERSION-x86_64-linux.tar.gz",
        "reheap-VERSION-aarch64-linux.tar.gz",
        "reheap_VERSION_amd64.deb",
        "reheap-VERSION-py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
        "reheap-VERSION-py3-none-manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
        "reheap-linux-x64-VERSION.tgz",
        "reheap-linux-arm64-VERSION.tgz",
        "reheap-VERSION.tgz",
        "reheap-VERSION.cdx.json",
        "install.sh",
    ];
    names.map(|name| name.replace("VERSION", VERSION)).to_vec()
}

/// The repository as a maintainer has it ready, and this tag.
fn forge(tag: &str) -> Forge {
    let forge = Forge::new(tag, files());
    let heading = format!("## {VERSION} ");
    forge.set_line("CHANGELOG.md", &heading, "(2026-12-01)");
    let releases = "https://github.com/reheap/reheap/releases";
    forge.set_line("install.sh", "RELEASES=", releases);
    forge
}

fn calls<'a>(run: &'a Run, program: &str) -> Vec<&'a str> {
    let calls = run
        .calls
        .iter()
        .filter_map(|call| call.strip_prefix(program));
    calls.collect()
}

#[test]
fn a_tag_publishes_what_two_clones_have_made_alike() {
    let run = forge(&format!("v{VERSION}")).run("release.yml");
    assert_eq!(run.failure, None);
    assert_eq!(run.finished.len(), 10, "{:?}", run.finished);
    let [release] = calls(&run, "gh release create ")[..] else {
        panic!("no release: {:?}", run.calls);
    };
    assert!(
        release.starts_with(&format!(
            "v{VERSION} --verify-tag --title reheap {VERSION} "
        )),
        "{release}"
    );
    let published: Vec<&str> = release
        .split(' ')
        .filter_map(|word| word.strip_prefix("dist/"))
        .collect();
    let mut expected = files();
    expected.extend([
        "SHA256SUMS".to_owned(),
        format!("reheap-{VERSION}.sigstore.json"),
    ]);
    expected.sort();
    let mut sorted = published.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(
        calls(&run, "npm publish --access public dist/"),
        [
            format!("reheap-linux-arm64-{VERSION}.tgz"),
            format!("reheap-linux-x64-{VERSION}.tgz"),
            format!("reheap-{VERSION}.tgz"),
        ]
    );
    let [wheels] = calls(&run, "pypi ")[..] else {
        panic!("no wheels: {:?}", run.calls);
    };
    assert_eq!(
        wheels
            .split(' ')
            .filter(|name| name.ends_with(".whl"))
            .count(),
        2
    );
    assert_eq!(wheels.split(' ').count(), 2, "{wheels}");
    let token = "--workspace --locked --no-verify, token for-an-hour";
    assert_eq!(calls(&run, "cargo publish "), [token]);
}

#[test]
fn two_clones_that_differ_publish_nothing() {
    let mut forge = forge(&format!("v{VERSION}"));
    forge.difference = "another byte";
    let run = forge.run("release.yml");
    let failure = run.failure.unwrap();
    assert!(
        failure.starts_with("compare: diff ") && failure.contains("install.sh"),
        "{failure}"
    );
    assert!(!run.finished.contains("sign") && !run.finished.contains("forge"));
}

#[test]
fn a_tag_that_is_not_the_version_builds_nothing() {
    let run = forge("v9.9.9").run("release.yml");
    let failure = run.failure.unwrap();
    assert!(
        failure.contains(&format!("the tag `v9.9.9` is not `v{VERSION}`")),
        "{failure}"
    );
    assert!(run.finished.is_empty() && !run.calls.iter().any(|call| call.starts_with("make")));
}

/// A signature only says what is so, and the job that writes it publishes nothing.
#[test]
fn only_jobs_that_an_environment_guards_may_publish() {
    let workflow =
        crate::workflows::read(&crate::workflows::root().join(".github/workflows/release.yml"));
    for (name, job) in workflow["jobs"].as_object().unwrap() {
        let rights = job["permissions"].as_object().into_iter().flatten();
        let may_publish = rights.filter(|(_, right)| *right == "write").count() > 0;
        assert!(
            !may_publish || name == "sign" || job["environment"].is_string(),
            "{name}"
        );
    }
}
