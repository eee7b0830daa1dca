//! What the tests of container images share: a directory for programs and images, and the tools that read and run these.

use super::{Outcome, reheap, run, words};
use reheap_image::blob::Blob;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const HELLO: &str =
    "#include <stdio.h>\nint main(int n, char **v) { printf(\"hello %d\\n\", n); return 0; }\n";

/// A directory with programs and images.
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn directory(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// A C program.
    pub(crate) fn compile(&self, compiler: &str, flags: &str, name: &str, source: &str) -> PathBuf {
        let source = self.write("source.c", source);
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        let mut command = Command::new(compiler);
        command.args(words(flags)).arg(source).arg("-o");
        run(command.arg(self.path(name))).succeeded();
        self.path(name)
    }

    /// A static program for this machine. glibc's, because that needs nothing to be built.
    pub(crate) fn hello(&self) -> PathBuf {
        self.compile("cc", "-static", "hello", HELLO)
    }

    /// `reheap image` in this directory, with logins only from `auth.json`.
    pub(crate) fn image(&self, line: &str) -> Command {
        let mut command = reheap(&format!("image {line}"));
        command
            .current_dir(self.directory())
            .env_remove("SOURCE_DATE_EPOCH")
            .env("REGISTRY_AUTH_FILE", self.path("auth.json"));
        command
    }

    /// What it prints with `--json`.
    #[track_caller]
    pub(crate) fn made(&self, line: &str) -> Value {
        let outcome = run(&mut self.image(&format!("{line} --json")));
        parsed(&outcome.succeeded().stdout)
    }

    /// Runs a tool in this directory.
    #[track_caller]
    pub(crate) fn tool(&self, line: &str) -> Outcome {
        let words = words(line);
        let mut command = Command::new(words[0]);
        run(command.current_dir(self.directory()).args(&words[1..])).succeeded()
    }

    /// Runs an image, with containers of its own.
    #[track_caller]
    pub(crate) fn podman(&self, flags: &str, image: &str, arguments: &str) -> Outcome {
        let storage = self.path("containers");
        let mut command = Command::new("podman");
        command
            .current_dir(self.directory())
            .args(["--storage-driver", "vfs", "--runtime", "runc", "--root"])
            .arg(storage.join("root"))
            .arg("--runroot")
            .arg(storage.join("run"))
            .args(words("run --rm --quiet --network none"))
            .args(words("--ulimit nofile=1024:1024 --ulimit nproc=1000:1000"))
            .args(words(flags))
            .arg(image)
            .args(words(arguments));
        run(&mut command)
    }

    pub(crate) fn inspected(&self, image: &str) -> Value {
        parsed(&self.tool(&format!("skopeo inspect {image}")).stdout)
    }

    pub(crate) fn configuration(&self, image: &str) -> Value {
        parsed(
            &self
                .tool(&format!("skopeo inspect --config {image}"))
                .stdout,
        )
    }

    pub(crate) fn manifest(&self, image: &str) -> Value {
        parsed(&self.tool(&format!("skopeo inspect --raw {image}")).stdout)
    }

    pub(crate) fn manifest_digest(&self, image: &str) -> String {
        let manifest = self.tool(&format!("skopeo inspect --raw {image}")).stdout;
        Blob::of_bytes(manifest.into_bytes()).digest().to_string()
    }

    /// What `docker save` would write of an image with these files and this configuration.
    pub(crate) fn docker_archive(&self, name: &str, files: &[(&str, u32, Vec<u8>)], config: Value) {
        let mut layer = tar::Builder::new(Vec::new());
        for (path, mode, contents) in files {
            append(&mut layer, path, *mode, contents);
        }
        let layer = layer.into_inner().unwrap();
        let diff_id = Blob::of_bytes(layer.clone()).digest().to_string();
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        });
        let manifest =
            json!([{"Config": "config.json", "RepoTags": ["app:1"], "Layers": ["layer.tar"]}]);
        let mut image = tar::Builder::new(Vec::new());
        append(
            &mut image,
            "config.json",
            0o644,
            config.to_string().as_bytes(),
        );
        append(&mut image, "layer.tar", 0o644, &layer);
        append(
            &mut image,
            "manifest.json",
            0o644,
            manifest.to_string().as_bytes(),
        );
        self.write(name, image.into_inner().unwrap());
    }

    /// The names of all files, to see that nothing is left.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Adds a file to an archive.
pub(crate) fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, contents: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(contents.len() as u64);
    archive.append_data(&mut header, path, contents).unwrap();
}

#[track_caller]
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
